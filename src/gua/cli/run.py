"""``gua run``: runs a command with cards of its own."""

from __future__ import annotations

import os
import shlex
from collections.abc import Sequence
from typing import Annotated, Final

import typer

from gua.app.local_agent import places
from gua.app.output import say
from gua.app.reserving import become, described, environment, patience, reserve, wanted
from gua.cli.options import (
    AcceptUnknownOption,
    AgentStateOption,
    BesideSchedulerOption,
    GpuIdsOption,
    GpusOption,
    NonblockOption,
    NoteOption,
    SocketOption,
    WaitOption,
    value,
)
from gua.core.durations import parse_duration_ms
from gua.core.errors import UsageError
from gua.state.directory import asking_home

_VALUED: Final = frozenset(("-g", "--gpus", "-G", "--gpu-ids", "-n", "--note", "--timeout", "--wait", "--visible"))
_VALUED_TOO: Final = frozenset(("--socket", "--state-dir"))


def command(
    *,
    gpus: GpusOption = None,
    gpu_ids: GpuIdsOption = None,
    timeout: Annotated[
        str | None, value("DURATION", "GUA_TIMEOUT", "End the command after so long: SIGINT, 30 s later SIGKILL.")
    ] = None,
    note: NoteOption = None,
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
    if visible not in {"index", "uuid"}:
        msg = f"--visible is {visible!r}: give index or uuid"
        raise UsageError(msg)
    timeout_ms = None if timeout is None else parse_duration_ms(timeout)
    request = {
        "kind": "run",
        **wanted(gpus, gpu_ids),
        "note": note,
        "wait_ms": patience(wait, nonblock=nonblock),
        "accept_unknown": accept_unknown,
        "beside_scheduler": beside_scheduler,
    }
    tried = places(socket, asking_home(state_dir, os.environ))
    grant = reserve(tried, request, say=lambda line: say(f"gua: {line}", to_stderr=True))
    say(f"gua: reserved {described(grant.reservation)}", to_stderr=True)
    become(program, grant, environment(grant, os.environ, by_uuid=visible == "uuid"), timeout_ms=timeout_ms)


def check_arguments(arguments: Sequence[str]) -> None:
    """Raise UsageError, with the line as it should be, where the two dashes before the command are missing."""
    if "--" in arguments or {"-h", "--help"} & set(arguments):
        return
    at = 0
    while at < len(arguments) and arguments[at].startswith("-"):
        at += 2 if arguments[at] in _VALUED | _VALUED_TOO else 1
    line = shlex.join(["gua", "run", *arguments[:at]])
    rest = shlex.join(arguments[at:]) or "COMMAND"
    msg = f"put -- before the command: {line} -- {rest}"
    raise UsageError(msg)
