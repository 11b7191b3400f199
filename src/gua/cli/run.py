"""``gua run``: runs a command with cards of its own."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from typing import Annotated

import typer

from gua.app.running import RunOptions, run_with_cards
from gua.cli.options import (
    AcceptUnknownOption,
    AgentStateOption,
    BesideSchedulerOption,
    GpuIdsOption,
    GpusOption,
    LabelOption,
    NonblockOption,
    NoteOption,
    SocketOption,
    WaitOption,
    value,
)
from gua.cli.plain_run import VALUED
from gua.core.errors import UsageError


def command(
    *,
    gpus: GpusOption = None,
    gpu_ids: GpuIdsOption = None,
    timeout: Annotated[
        str | None, value("DURATION", "GUA_TIMEOUT", "End the command after so long: SIGINT, 30 s later SIGKILL.")
    ] = None,
    note: NoteOption = None,
    label: LabelOption = None,
    wait: WaitOption = None,
    nonblock: NonblockOption = False,
    visible: Annotated[str, value("index|uuid", "GUA_VISIBLE", "How CUDA_VISIBLE_DEVICES names the cards.")] = "index",
    accept_unknown: AcceptUnknownOption = False,
    beside_scheduler: BesideSchedulerOption = False,
    socket: SocketOption = None,
    state_dir: AgentStateOption = None,
    program: Annotated[list[str], typer.Argument(metavar="-- COMMAND...", help="The command, after two dashes.")],
) -> None:
    """Run a command with cards of its own: wait for them in order, and free them when it has ended.

    Terminal, signals and exit code are the command's; nothing of gua stays beside it. The cards are freed with the
    last process that it started. Exit codes of gua itself: 2 wrong usage, 69 no agent answers, 75 no cards, 77 not
    allowed, 126 and 127 as of a shell.

    Example:
        gua run -g 2 -- python train.py
        gua run --wait 1h --timeout 8h -- ./job.sh
    """
    run_with_cards(
        RunOptions(
            program=tuple(program),
            gpus=gpus,
            gpu_ids=gpu_ids,
            timeout=timeout,
            note=note,
            label=None if label is None else tuple(label),
            wait=wait,
            nonblock=nonblock,
            visible=visible,
            accept_unknown=accept_unknown,
            beside_scheduler=beside_scheduler,
            socket=socket,
            state_dir=state_dir,
        )
    )


def check_arguments(arguments: Sequence[str]) -> None:
    """Raise UsageError, with the line as it should be, where the two dashes before the command are missing."""
    if "--" in arguments or {"-h", "--help"} & set(arguments):
        return
    at = 0
    while at < len(arguments) and arguments[at].startswith("-"):
        at += 2 if arguments[at] in VALUED else 1
    line = shlex.join(["gua", "run", *arguments[:at]])
    rest = shlex.join(arguments[at:]) or "COMMAND"
    msg = f"put -- before the command: {line} -- {rest}"
    raise UsageError(msg)
