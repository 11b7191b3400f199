"""``gua daemon``: the agent of this host, or a single tick of it."""

from __future__ import annotations

import os
import platform
import uuid
from collections import Counter
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Annotated

import typer

from gpu_usage_audit.agent.background import Launched, Ready, detach
from gpu_usage_audit.agent.home import Home, home_path, prepare_home
from gpu_usage_audit.agent.sampler import Sampler
from gpu_usage_audit.agent.spans import Outcome
from gpu_usage_audit.cli import agent, wiring
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
    foreground: Annotated[
        bool,
        typer.Option("--foreground", envvar="GUA_FOREGROUND", help="Stay in the foreground, as under systemd."),
    ] = False,
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
    pid_file: Annotated[
        Path | None,
        typer.Option(metavar="FILE", envvar="GUA_PID_FILE", help="agent.pid in the state directory if not given."),
    ] = None,
    log_file: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            envvar="GUA_LOG_FILE",
            help="agent.log in the state directory if not given; stderr in the foreground.",
        ),
    ] = None,
    socket: Annotated[
        Path | None,
        typer.Option(
            metavar="PATH",
            envvar="GUA_SOCKET",
            help="Answer gua status and gua report of all users of this host here, as at /run/gua/agent.sock.",
        ),
    ] = None,
) -> None:
    """Sample this host's cards and who holds them, until gua stop.

    Goes into the background once the first tick is made; gua start is another name for it. Ticks go to an OTLP
    endpoint, to a store, or to both. Needs the NVIDIA driver. Reads no command lines and no environments.

    Example:
        gua daemon
        gua daemon --interval 10s --endpoint https://collector.example:4318
        gua daemon --once
    """
    interval_ms = parse_interval_ms(interval)
    home = home_path(state_dir, os.environ)
    destinations = wiring.agent_destinations(store, endpoint, home)
    if not ProcFs(procfs).is_there():
        msg = f"cannot read {procfs}/stat: mount the host's /proc there, or name the place with --procfs"
        raise UnavailableError(msg)
    prepared = prepare_home(home)

    def open_host() -> agent.Host:
        return _open_host(procfs, interval_ms=interval_ms, home=prepared, ignored=ignore_process or [])

    if once:
        _tick_once(open_host, destinations, prepared)
        return
    log = log_file.absolute() if log_file else None if foreground else prepared.log_file
    places = agent.Places(
        home=prepared,
        pid_file=pid_file.absolute() if pid_file else prepared.pid_file,
        log_file=log,
        public_socket=socket.absolute() if socket else None,
    )
    launched = Ready() if foreground or log is None else detach(log)
    if isinstance(launched, Launched):
        typer.echo(launched.text)
        return
    agent.run(open_host, places=places, destinations=destinations, ready=launched, version=version("gpu-usage-audit"))


def _open_host(procfs: Path, *, interval_ms: int, home: Home, ignored: list[str]) -> agent.Host:
    host = ProcFs(procfs)
    clock = SystemClock(host)
    seen_by_host = host.in_initial_pid_namespace()
    return agent.Host(
        cards=NvmlReader(clock),
        processes=ProcessIdentity(
            host if seen_by_host else NoProcesses(),
            Owners(),
            boot_time_ms=stored_boot_time_ms(host, home.boot_file),
            ignored=(*DEFAULT_IGNORED, *ignored),
        ),
        clock=clock,
        origin=agent_origin(interval_ms=interval_ms, home=home.path),
        seen_by_host=seen_by_host,
    )


def _tick_once(open_host: Callable[[], agent.Host], destinations: list[wiring.Destination], home: Home) -> None:
    host = open_host()
    ticks: list[Tick] = []

    def sample(mark: Mark | None) -> tuple[Tick, Mark]:
        sampler = Sampler(
            cards=host.cards,
            processes=host.processes,
            clock=host.clock,
            origin=host.origin,
            initial_pid_namespace=host.seen_by_host,
        )
        tick, now = tick_after(sampler, mark)
        ticks.append(tick)
        return tick, now

    try:
        drained = wiring.deliver_agent_tick(sample, destinations=destinations, spool_path=home.spool)
    finally:
        host.cards.close()
    if drained.refused:
        typer.echo(f"note: {drained.refused} ticks were refused for good and are kept in {home.spool}", err=True)
    for tick in ticks:
        typer.echo(summary(tick))
        for line in notes(tick, seen_by_host=host.seen_by_host):
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
