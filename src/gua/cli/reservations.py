"""``gua run``, ``reserve``, ``extend``, ``release`` and ``queue``: reservations of cards, through the agent."""

import json
import os
import shlex
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Final

import typer

from gua.app import reserving
from gua.app.local_agent import places
from gua.app.output import print_line
from gua.app.reserving import become, card_choice, described, environment, parse_labels, query_agent, wait_limit_ms
from gua.cli.options import AgentStateOption, SocketOption, flag, value
from gua.core.errors import UnavailableError, UsageError
from gua.core.moments import format_duration, parse_duration_ms
from gua.core.plaintext import pad, safe
from gua.state.directory import reading_home

_SECOND_MS: Final = 1000
GpusOption = Annotated[
    int | None, value("N", "GUA_GPUS", "How many cards, all of one model; 1 if not given.", "-g", "--gpus")
]
GpuIdsOption = Annotated[
    str | None, value("IDS", "GUA_GPU_IDS", "These cards, by index or UUID, as in 0,3.", "-G", "--gpu-ids")
]
NoteOption = Annotated[str | None, value("TEXT", "GUA_NOTE", "What it is for; all users see it.", "-n", "--note")]
LabelOption = Annotated[
    list[str] | None,
    value("KEY=VALUE", "GUA_LABEL", "What runs there, for reports: kind=… or model=…; repeatable.", "--label"),
]
WaitOption = Annotated[
    str | None, value("DURATION", "GUA_WAIT", "Wait so long for cards; as long as it takes if not given.")
]
NonblockOption = Annotated[bool, flag("--nonblock", "GUA_NONBLOCK", "Do not wait: fail if there are no cards now.")]
AcceptUnknownOption = Annotated[
    bool, flag("--accept-unknown", "GUA_ACCEPT_UNKNOWN", "Also take cards whose users are unknown.")
]
BesideSchedulerOption = Annotated[
    bool, flag("--beside-scheduler", "GUA_BESIDE_SCHEDULER", "Reserve also where a scheduler gives the cards.")
]
IdsArgument = Annotated[list[str] | None, typer.Argument(metavar="[ID]...", help="Reservations by their ids.")]


def run(
    *,
    gpus: GpusOption = None,
    gpu_ids: GpuIdsOption = None,
    timeout: Annotated[
        str | None,
        value("DURATION", "GUA_TIMEOUT", "End the command after so long: SIGINT, 20 s later SIGTERM, 30 s SIGKILL."),
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
    if visible not in {"index", "uuid"}:
        raise UsageError(f"--visible is {visible!r}: give index or uuid")
    timeout_ms = None if timeout is None else parse_duration_ms(timeout)
    request = {
        "kind": "run",
        **card_choice(gpus, gpu_ids),
        "note": note,
        "labels": parse_labels(label or ()),
        "wait_ms": wait_limit_ms(wait, nonblock=nonblock),
        "accept_unknown": accept_unknown,
        "beside_scheduler": beside_scheduler,
    }
    grant = reserving.reserve(_tried(socket, state_dir), request, progress=_note)
    _note(f"reserved {described(grant.reservation)}")
    become(program, grant, environment(grant, os.environ, by_uuid=visible == "uuid"), timeout_ms=timeout_ms)


_VALUED: Final = ("-g", "--gpus", "-G", "--gpu-ids", "-n", "--note", "--label", "--timeout", "--wait", "--visible")
_WITH_VALUE: Final = frozenset((*_VALUED, "--socket", "--state-dir"))


def check_run(arguments: Sequence[str], *, command: str = "gua run") -> None:
    """Raise UsageError, with the line as it should be, where the two dashes before the command are missing."""
    if "--" in arguments or {"-h", "--help"} & set(arguments):
        return
    at = 0
    while at < len(arguments) and arguments[at].startswith("-"):
        at += 2 if arguments[at] in _WITH_VALUE else 1
    line = shlex.join([*command.split(), *arguments[:at]])
    rest = shlex.join(arguments[at:]) or "COMMAND"
    raise UsageError(f"put -- before the command: {line} -- {rest}")


CHECKS: Final = {"run": check_run}


def reserve(
    *,
    gpus: GpusOption = None,
    gpu_ids: GpuIdsOption = None,
    lasts: Annotated[str, value("DURATION", "GUA_FOR", "For how long, as in 30m, 2h or 1d.", "--for")] = "8h",
    note: NoteOption = None,
    label: LabelOption = None,
    short: Annotated[bool, flag("--short", "GUA_SHORT", "Print the indices alone, as in 0,3.")] = False,
    wait: WaitOption = None,
    nonblock: NonblockOption = False,
    accept_unknown: AcceptUnknownOption = False,
    beside_scheduler: BesideSchedulerOption = False,
    socket: SocketOption = None,
    state_dir: AgentStateOption = None,
) -> None:
    """Reserve cards for a time: they are yours until then, or until gua release.

    Nothing is enforced: it holds among those who ask gua for cards. Exit codes: 69 no agent answers, 75 no cards,
    77 not allowed.

    Example:
        gua reserve --for 2h
        gua reserve -g 2 --for 1d --note paper
        gua reserve -g 2 --short
    """
    request = {
        "kind": "manual",
        **card_choice(gpus, gpu_ids),
        "for_ms": parse_duration_ms(lasts),
        "note": note,
        "labels": parse_labels(label or ()),
        "wait_ms": wait_limit_ms(wait, nonblock=nonblock),
        "accept_unknown": accept_unknown,
        "beside_scheduler": beside_scheduler,
    }
    grant = reserving.reserve(_tried(socket, state_dir), request, progress=_note)
    if short:
        sys.stdout.write(grant.gpus)
        return
    typer.echo(f"reserved {described(grant.reservation)}")
    typer.echo(f"export CUDA_DEVICE_ORDER=PCI_BUS_ID CUDA_VISIBLE_DEVICES={grant.gpus}")


def extend(
    *,
    ids: IdsArgument = None,
    lasts: Annotated[str, value("DURATION", "GUA_FOR", "For how long from now on, as in 2h.", "--for")],
    gpu_ids: GpuIdsOption = None,
    socket: SocketOption = None,
    state_dir: AgentStateOption = None,
) -> None:
    """Keep cards that you reserved by hand until so long from now.

    Example:
        gua extend --for 2h
    """
    request = {"ask": "extend", "for_ms": parse_duration_ms(lasts), **_named(ids, gpu_ids)}
    longer = query_agent(_tried(socket, state_dir), request).get("extended") or ()
    if not longer:
        raise UnavailableError("you have no reservation without a command: gua reserve makes one")
    for reservation in longer:
        typer.echo(f"reserved {described(reservation)}")


def release(
    *,
    ids: IdsArgument = None,
    gpu_ids: GpuIdsOption = None,
    socket: SocketOption = None,
    state_dir: AgentStateOption = None,
) -> None:
    """Give back cards of gua reserve: all of yours, or those of the named reservations or --gpu-ids.

    A command that runs on a card is not stopped. root and the group gua-admin may give back others' cards; the record
    names who did.

    Example:
        gua release
        gua release --gpu-ids 0,3
    """
    released = query_agent(_tried(socket, state_dir), {"ask": "release", **_named(ids, gpu_ids)}).get("released") or ()
    for reservation in released:
        typer.echo(f"released {described({**reservation, 'until_ms': None})}")
    if not released:
        typer.echo("nothing to release")


def queue(
    *,
    as_json: Annotated[bool, flag("--json", "GUA_JSON", 'One JSON object, schema "gua.queue/1".')] = False,
    socket: SocketOption = None,
    state_dir: AgentStateOption = None,
) -> None:
    """Show who waits for cards, in the order in which they get them.

    Example:
        gua queue
    """
    waiting = query_agent(_tried(socket, state_dir), {"ask": "queue"}).get("queue") or []
    if as_json:
        typer.echo(json.dumps({"schema": "gua.queue/1", "queue": waiting}))
        return
    if not waiting:
        typer.echo("nobody waits")
        return
    now_ms = time.time_ns() // 1_000_000
    for each in waiting:
        cards = ",".join(map(str, each["gpus"]))
        what = f"GPU {cards}" if cards else f"{each['count']} GPU{'' if each['count'] == 1 else 's'}"
        since = format_duration(max(0, (now_ms - each["requested_ms"]) // _SECOND_MS * _SECOND_MS))
        owner, note = safe(each["owner"], 16), safe(each["note"] or "", 60)
        typer.echo(f"{each['position']:>3}  {pad(owner, 16)}  {pad(what, 10)}  {since:>8}  {note}".rstrip())


def _note(line: str) -> None:
    print_line(f"gua: {line}", to_stderr=True)


def _tried(socket: Path | None, state_dir: Path | None) -> list[Path]:
    return places(socket, reading_home(state_dir, os.environ))


def _named(ids: Sequence[str] | None, gpu_ids: str | None) -> dict[str, object]:
    """Return the part of a request that names reservations; without any it means all of the user's own by hand."""
    if gpu_ids is not None:
        return card_choice(None, gpu_ids)
    return {"ids": list(ids)} if ids else {}
