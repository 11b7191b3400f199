"""``gua daemon``: samples this host's cards."""

from __future__ import annotations

import os
import platform
import uuid
from collections import Counter
from importlib.metadata import version
from pathlib import Path
from typing import Annotated

import typer

from gpu_usage_audit.agent.sampler import Sampler
from gpu_usage_audit.agent.spans import Outcome
from gpu_usage_audit.cli import wiring
from gpu_usage_audit.cli.options import EndpointOption, StoreOption
from gpu_usage_audit.core.durations import parse_duration_ms
from gpu_usage_audit.core.errors import UnavailableError, UsageError
from gpu_usage_audit.core.ports import Mark
from gpu_usage_audit.core.tick import Origin, Source, Tick
from gpu_usage_audit.identity.facts import NoProcesses
from gpu_usage_audit.identity.owner import Owners
from gpu_usage_audit.identity.process import DEFAULT_IGNORED, ProcessIdentity
from gpu_usage_audit.nvml.reader import NvmlReader
from gpu_usage_audit.otlp.resource import origin
from gpu_usage_audit.procfs.boot import stored_boot_time_ms
from gpu_usage_audit.procfs.clock import SystemClock
from gpu_usage_audit.procfs.host import machine_id
from gpu_usage_audit.procfs.reader import ProcFs

SHORTEST_INTERVAL_MS = 1_000
LONGEST_INTERVAL_MS = 10 * 60 * 1_000


def command(
    *,
    once: Annotated[
        bool, typer.Option("--once", envvar="GUA_ONCE", help="Read one tick, deliver it and exit.")
    ] = False,
    interval: Annotated[
        str, typer.Option(metavar="DURATION", envvar="GUA_INTERVAL", help="Time between ticks, 1s to 10m.")
    ] = "30s",
    store: StoreOption = None,
    endpoint: EndpointOption = None,
    procfs: Annotated[
        Path, typer.Option(metavar="DIR", envvar="GUA_PROCFS", help="The host's /proc, as mounted in a container.")
    ] = Path("/proc"),
    ignore_process: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME",
            envvar="GUA_IGNORE_PROCESS",
            help="Do not count processes of this name as users of a card, besides display servers and monitors.",
        ),
    ] = None,
    state_dir: Annotated[
        Path | None, typer.Option(metavar="DIR", envvar="GUA_HOME", help="Spool and state; ~/.gua if not given.")
    ] = None,
) -> None:
    """Sample this host's cards and who holds them.

    Needs the NVIDIA driver. Reads no command lines and no environments.

    Example:
        gua daemon --once
    """
    if not once:
        msg = "only --once exists in this version, the background agent comes later: run gua daemon --once"
        raise UsageError(msg)
    interval_ms = parse_interval_ms(interval)
    home = Path.home() / ".gua" if state_dir is None else state_dir
    host = ProcFs(procfs)
    if not host.is_there():
        msg = f"cannot read {procfs}/stat: mount the host's /proc there, or name the place with --procfs"
        raise UnavailableError(msg)
    clock = SystemClock(host)
    cards = NvmlReader(clock)
    seen_by_host = host.in_initial_pid_namespace()
    ticks: list[Tick] = []

    def sample(mark: Mark | None) -> tuple[Tick, Mark]:
        processes = ProcessIdentity(
            host if seen_by_host else NoProcesses(),
            Owners(),
            boot_time_ms=stored_boot_time_ms(host, home / "boot.json"),
            ignored=(*DEFAULT_IGNORED, *(ignore_process or ())),
        )
        sampler = Sampler(
            cards=cards,
            processes=processes,
            clock=clock,
            origin=agent_origin(interval_ms=interval_ms, home=home),
            initial_pid_namespace=seen_by_host,
        )
        tick, now = tick_after(sampler, mark)
        ticks.append(tick)
        return tick, now

    try:
        drained = wiring.deliver_agent_tick(sample, store=store, endpoint=endpoint, home=home)
    finally:
        cards.close()
    if drained.refused:
        typer.echo(f"note: {drained.refused} ticks were refused for good and are kept in {home / 'spool.db'}", err=True)
    for tick in ticks:
        typer.echo(summary(tick))
        for line in notes(tick, seen_by_host=seen_by_host):
            typer.echo(line, err=True)


def parse_interval_ms(text: str) -> int:
    """Return an interval in ms. Raises UsageError if it is no duration or not within 1 s and 10 min."""
    interval_ms = parse_duration_ms(text)
    if not SHORTEST_INTERVAL_MS <= interval_ms <= LONGEST_INTERVAL_MS:
        msg = f"--interval {text!r} is not within 1s and 10m: give another, as in 30s"
        raise UsageError(msg)
    return interval_ms


def agent_origin(*, interval_ms: int, home: Path) -> Origin:
    """Return where this host's ticks come from; an installation is one state directory on one machine."""
    machine = machine_id()
    host = platform.node() or None
    return origin(
        source=Source.AGENT,
        interval_ms=interval_ms,
        environ=os.environ,
        host=host,
        host_id=machine,
        instance_id=str(uuid.uuid5(uuid.NAMESPACE_OID, f"gua:{machine or host}:{home.absolute()}")),
        service_version=version("gpu-usage-audit"),
    )


def tick_after(sampler: Sampler, mark: Mark | None) -> tuple[Tick, Mark]:
    """Return the tick that follows the mark. Raises UnavailableError where there is none yet."""
    sample = sampler.sample(mark)
    if sample.tick is not None:
        return sample.tick, sample.mark
    if sample.outcome is Outcome.WAITING and mark is not None:
        behind_s = (mark.ts_ms - sample.mark.ts_ms) / 1000
        msg = f"the clock is {behind_s:.3f} s behind the last tick (was it set back?): try again when it has passed"
        raise UnavailableError(msg)
    msg = "less than a millisecond passed since the last tick: try again"
    raise UnavailableError(msg)


def summary(tick: Tick) -> str:
    """Return one line on what the tick holds."""
    cards = _count(len(tick.cards), "card", "cards")
    processes = _count(sum(len(card.processes) for card in tick.cards), "process", "processes")
    covered_s = max((card.duration_ms for card in tick.cards), default=0) / 1000
    return f"1 tick of {tick.origin.host}: {cards}, {processes} on them, {covered_s:.3f} s covered"


def notes(tick: Tick, *, seen_by_host: bool) -> list[str]:
    """Return a line for each thing that the tick could not tell."""
    lines = []
    if not seen_by_host:
        lines.append(
            "note: gua runs outside of the host's PID namespace, so who holds a card is not known; "
            "start the container with the host's (docker --pid host, kubernetes hostPID)"
        )
    failed = Counter((error.call, error.code) for error in tick.errors)
    lines += [
        f"note: {call} failed {_count(count, 'time', 'times')}: {code}"
        for (call, code), count in sorted(failed.items())
    ]
    return lines


def _count(number: int, one: str, many: str) -> str:
    return f"{number} {one if number == 1 else many}"
