"""``canhazgpu``: gua with the commands of its predecessor, for existing scripts and habits.

``ln -s $(command -v gua) ~/bin/canhazgpu`` installs it; ``gua canhazgpu`` is the same. All its own errors exit with
code 1, as in canhazgpu.
"""

import json
import os
import sys
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Final

import typer

from gua.app.local_agent import first_response, places
from gua.app.output import print_error
from gua.app.reserving import Grant, become, card_choice, clock, environment, query_agent, reserve, wait_limit_ms
from gua.canhazgpu import status as of_status
from gua.cli.reservations import check_run
from gua.core.errors import GuaError, NotNowError, UsageError
from gua.core.moments import parse_duration_ms, to_rfc3339
from gua.core.plaintext import safe
from gua.local_socket.client import query_status
from gua.state.directory import reading_home

NAME: Final = "canhazgpu"
_FAILED: Final = 1
_MS_PER_NS: Final = 1_000_000

app = typer.Typer(add_completion=False)


@app.callback()
def callback() -> None:
    """Reserve cards and see who has them, in the words of canhazgpu."""


GpusOption = Annotated[int | None, typer.Option("-g", "--gpus", help="How many GPUs.")]
IdsOption = Annotated[str | None, typer.Option("-G", "--gpu-ids", help="These GPUs, as in 0,3.")]
NoteOption = Annotated[str | None, typer.Option("-n", "--note", help="What it is for.")]
UserOption = Annotated[str | None, typer.Option("-u", "--user", help="A name to show beside yours.")]
WaitOption = Annotated[str | None, typer.Option("-w", "--wait", help="Wait so long.")]
NonblockOption = Annotated[bool, typer.Option("--nonblock", help="Do not wait.")]
ThresholdOption = Annotated[int, typer.Option("--memory-threshold", help="MB above which a GPU counts as used.")]


@app.command("status")
def status(
    *,
    as_json: Annotated[bool, typer.Option("-j", "--json", help="As JSON.")] = False,
    summary: Annotated[bool, typer.Option("-s", "--summary", help="Counts alone.")] = False,
    no_color: Annotated[bool, typer.Option("--no-color", help="There is no colour.")] = False,  # noqa: ARG001 - option of canhazgpu
    memory_threshold: ThresholdOption = of_status.HELD_MB,
    every_host: Annotated[bool, typer.Option("--all", help="Not here: gua status --all asks the store.")] = False,
    remote: Annotated[str | None, typer.Option("-r", "--remote", help="Not here.")] = None,
) -> None:
    """Show each GPU, who has it and who uses it."""
    if every_host or remote is not None:
        msg = "other hosts cannot be shown: run it there, or see all of a store with gua status --all --store ADDRESS"
        raise UsageError(msg)
    cards = _rows(memory_threshold)
    if as_json:
        typer.echo(json.dumps(cards, indent=2))
    elif summary:
        count = Counter(str(row["status"]) for row in cards)
        typer.echo(f"Available GPUs: {count['AVAILABLE']} out of {len(cards)}")
        typer.echo(f"In use with reservations: {count['IN_USE']} GPUs")
        typer.echo(f"Unreserved usage: {count['UNRESERVED']} GPUs")
    else:
        typer.echo(of_status.table(cards), nl=False)


@app.command("run")
def run(
    *,
    gpus: GpusOption = None,
    gpu_ids: IdsOption = None,
    timeout: Annotated[str | None, typer.Option("-t", "--timeout", help="End the command after so long.")] = None,
    note: NoteOption = None,
    user: UserOption = None,
    wait: WaitOption = None,
    nonblock: NonblockOption = False,
    memory_threshold: ThresholdOption = of_status.HELD_MB,  # noqa: ARG001 - a card with a process is never reserved
    program: Annotated[list[str], typer.Argument(metavar="-- COMMAND...")],
) -> None:
    """Run a command with GPUs of its own."""
    timeout_ms = None if timeout is None else parse_duration_ms(timeout)
    grant = _reserved("run", gpus, gpu_ids, wait, nonblock, {"note": _label(note, user)})
    numbers = grant.reservation["gpus"]
    ended = f" (timeout: {timeout})" if timeout_ms is not None else ""
    typer.echo(f"Reserved {len(numbers)} GPU(s): {_bracketed(numbers)} for command execution{ended}")
    sys.stdout.flush()
    become(program, grant, environment(grant, os.environ, by_uuid=False), timeout_ms=timeout_ms)


@app.command("reserve")
def reserve_by_hand(
    *,
    gpus: GpusOption = None,
    gpu_ids: IdsOption = None,
    duration: Annotated[str, typer.Option("-d", "--duration", help="For how long; 8h if empty.")] = "8h",
    note: NoteOption = None,
    user: UserOption = None,
    wait: WaitOption = None,
    nonblock: NonblockOption = False,
    force: Annotated[bool, typer.Option("-f", "--force", help="Also cards whose use is unknown.")] = False,
    short: Annotated[bool, typer.Option("-s", "--short", help="The indices alone.")] = False,
    memory_threshold: ThresholdOption = of_status.HELD_MB,  # noqa: ARG001 - as in run
) -> None:
    """Reserve GPUs for a time."""
    more = {"note": _label(note, user), "for_ms": parse_duration_ms(duration or "8h"), "accept_unknown": force}
    grant = _reserved("manual", gpus, gpu_ids, wait, nonblock, more)
    if short:
        sys.stdout.write(grant.gpus)
        return
    numbers = grant.reservation["gpus"]
    typer.echo(f"Reserved {len(numbers)} GPU(s): {_bracketed(numbers)} until {clock(grant.reservation['until_ms'])}")
    typer.echo(f"export CUDA_VISIBLE_DEVICES={grant.gpus}")


@app.command("release")
def release(*, gpu_ids: IdsOption = None) -> None:
    """Release the GPUs reserved by hand, or those named."""
    answer = query_agent(_tried(), {"ask": "release", **(card_choice(None, gpu_ids) if gpu_ids else {})})
    numbers = sorted(number for each in answer.get("released") or () for number in each["gpus"])
    if numbers:
        typer.echo(f"Released {len(numbers)} GPU(s): {_bracketed(numbers)}")
    else:
        typer.echo("No manually reserved GPUs found for current user")


@app.command("queue")
def queue(*, as_json: Annotated[bool, typer.Option("-j", "--json", help="As JSON.")] = False) -> None:
    """Show who waits."""
    waiting = query_agent(_tried(), {"ask": "queue"}).get("queue") or []
    if as_json:
        entries = [
            {
                "id": str(each["position"]),
                "user": each["owner"],
                "actual_user": each["owner"],
                "requested_count": each["count"],
                "requested_ids": each["gpus"],
                "allocated_gpus": [],
                "reservation_type": each["kind"],
                "expiry_duration": None if each["for_ms"] is None else each["for_ms"] * _MS_PER_NS,
                "note": each["note"] or "",
                "enqueue_time": to_rfc3339(each["requested_ms"]),
                "last_heartbeat": to_rfc3339(time.time_ns() // 1_000_000),
                "wait_timeout": None,
            }
            for each in waiting
        ]
        cards = sum(each["count"] for each in waiting)
        totals = {"total_waiting": len(waiting), "total_gpus_requested": cards, "total_gpus_allocated": 0}
        typer.echo(json.dumps({"entries": entries, **totals}, indent=2))
    elif not waiting:
        typer.echo("Queue is empty")
    else:
        for each in waiting:
            typer.echo(safe(f"{each['position']:>3}  {each['owner']:<16}  {each['count']} GPU(s)  {each['kind']}", 200))


@app.command("report")
def report(
    *,
    days: Annotated[int, typer.Option("-d", "--days", min=1, max=90, help="The last days.")] = 30,
    as_json: Annotated[bool, typer.Option("-j", "--json", help="As JSON.")] = False,
) -> None:
    """Show reserved hours by user."""
    now_ms = time.time_ns() // 1_000_000
    answer = query_agent(_tried(), {"ask": "reservations", "since_ms": now_ms - days * 24 * 3_600_000})
    usage = of_status.usage(answer.get("reservations") or [], days=days, now_ms=now_ms)
    typer.echo(json.dumps(usage, indent=2) if as_json else of_status.usage_table(usage), nl=as_json)


@app.command("admin", context_settings={"ignore_unknown_options": True, "allow_extra_args": True})
def admin() -> None:
    """Set up nothing: that was for Redis."""
    raise GuaError("gua needs none: the agent is started with gua daemon")


@app.command("web", context_settings={"ignore_unknown_options": True, "allow_extra_args": True})
def web() -> None:
    """Serve nothing: gua daemon --prometheus and gua report --html do."""
    msg = "there is no web page here: gua daemon --prometheus serves metrics, gua report --html FILE writes a page"
    raise GuaError(msg)


def main(arguments: Sequence[str]) -> int:
    """Run canhazgpu with these arguments and return its exit code; prints errors as it does."""
    from typer.exceptions import Abort, TyperException  # noqa: PLC0415 - only needed here

    try:
        if arguments[:1] == ["run"]:
            check_run(arguments[1:], command=f"{NAME} run")
        typer.main.get_command(app).main(args=list(arguments), prog_name=NAME, standalone_mode=False)
    except TyperException as error:
        return _failed(error.format_message())
    except GuaError as error:
        return _failed(str(error))
    except (Abort, KeyboardInterrupt):
        return _failed("interrupted")
    sys.stdout.flush()
    return 0


def _failed(words: str) -> int:
    sys.stdout.flush()
    sys.stderr.write(f"Error: {safe(words, 400)}\n")
    return _FAILED


def _tried() -> list[Path]:
    named = os.environ.get("GUA_SOCKET")
    return places(Path(named) if named else None, reading_home(None, os.environ))


def _reserved(  # noqa: PLR0917 - parts of a request
    kind: str,
    gpus: int | None,
    gpu_ids: str | None,
    wait: str | None,
    nonblock: bool,
    more: Mapping[str, object],
) -> Grant:
    request = {"kind": kind, **card_choice(gpus, gpu_ids), "wait_ms": wait_limit_ms(wait, nonblock=nonblock), **more}
    try:
        return reserve(_tried(), request, progress=print_error)
    except NotNowError as error:
        if gpu_ids is not None:
            raise
        requested = 1 if gpus is None else gpus
        count = Counter(str(row["status"]) for row in _rows(of_status.HELD_MB))
        if count["AVAILABLE"] >= requested:  # there are enough by now
            raise NotNowError(str(error)) from None
        unreserved = count["UNRESERVED"]
        who = f" ({unreserved} GPUs in use without reservation - run '{NAME} status' for details)" if unreserved else ""
        msg = f"Not enough GPUs available. Requested: {requested}, Available: {count['AVAILABLE']}{who}"
        raise NotNowError(msg) from None


def _rows(threshold_mb: int) -> list[of_status.Row]:
    reported = first_response(_tried(), query_status)
    return of_status.rows(
        reported,
        now_ms=time.time_ns() // 1_000_000,
        last_ends_ms=reported.get("reservations_ended_ms") or {},
        threshold_mb=threshold_mb,
    )


def _label(note: str | None, user: str | None) -> str | None:
    """Return the note after the entered name, which is only shown: the owner is the user of the socket's peer."""
    return ": ".join(part for part in (user, note) if part) or None


def _bracketed(numbers: Sequence[int]) -> str:
    return f"[{' '.join(map(str, numbers))}]"
