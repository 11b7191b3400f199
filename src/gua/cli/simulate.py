"""``gua simulate``: a simulated host that sends ticks like a real agent, its last days first.

Its variables begin with GUA_SIMULATE_: those of a real agent must never send simulated numbers to a real fleet.
"""

import os
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Annotated, Final

import typer

from gua.agent import signals
from gua.agent.delivery import BATCH_TICKS, drain
from gua.app.output import print_error, print_line
from gua.cli.options import value
from gua.core.errors import UnavailableError
from gua.core.moments import format_duration, parse_duration_ms
from gua.core.ports import Landing, Mark
from gua.core.tick import Tick
from gua.core.words import Source
from gua.otlp.encode import encode
from gua.otlp.resource import origin_elsewhere
from gua.otlp.send import open_endpoint
from gua.sim.host import DEFAULT_CARDS, simulate_from
from gua.spool.queue import Spool
from gua.state.compression import compress


def simulate(
    *,
    endpoint: Annotated[str, value("URL", "GUA_SIMULATE_ENDPOINT", "The OTLP endpoint that gets the ticks.")],
    state: Annotated[Path, value("DIR", "GUA_SIMULATE_STATE", "Keeps what is not sent yet, and how far the host got.")],
    name: Annotated[str, value("NAME", "GUA_SIMULATE_NAME", "What the simulated host is called.")] = "simulated-host",
    history: Annotated[str, value("DURATION", "GUA_SIMULATE_HISTORY", "Begin so long before now.")] = "7d",
    interval: Annotated[str, value("DURATION", "GUA_SIMULATE_INTERVAL", "Time between ticks, 1s to 10m.")] = "1m",
    gpus: Annotated[int, value("NUMBER", "GUA_SIMULATE_GPUS", "Cards of the host, 1 to 256.")] = DEFAULT_CARDS,
    seed: Annotated[int, value("NUMBER", "GUA_SIMULATE_SEED", "Another number, other cards and people.")] = 0,
) -> None:
    """Be a simulated host: send its last days to an OTLP endpoint, then a tick at each interval until stopped.

    No GPU is needed. Ticks wait in the state directory while the endpoint is away. Started again, it goes on where
    it stopped, but not further back than --history.

    Example:
        gua simulate --endpoint http://127.0.0.1:4318 --state ./simulated-host
    """
    interval_ms = parse_duration_ms(interval)
    history_ms = parse_duration_ms(history)
    whence = origin_elsewhere(Source.SIMULATOR, name, interval_ms, instance_id=f"simulated {name}")
    signals.hold()
    with closing(open_endpoint(endpoint, environ=os.environ, patience_seconds=0)) as landing:
        # Validates the options before anything is written.
        begin_ms = now_ms() - history_ms
        simulate_from(begin_ms, seed=seed, gpus=gpus, interval_ms=interval_ms, origin=whence)
        state.mkdir(parents=True, exist_ok=True)
        with Spool(state / "spool.db", destinations=(DESTINATION,)) as spool:
            mark = spool.mark()
            if mark is not None:
                begin_ms = max(begin_ms, mark.ts_ms)
            typer.echo(
                f"simulating {whence.host}: from {format_duration(history_ms)} ago, then a tick every "
                f"{format_duration(interval_ms)}, to {landing.shown}"
            )
            ticks = simulate_from(begin_ms, seed=seed, gpus=gpus, interval_ms=interval_ms, origin=whence)
            send_when_due(ticks, spool, landing, state / ALIVE)


DESTINATION: Final = "endpoint"
ALIVE: Final = "alive"
"""File of the state directory that is touched in every turn, for health checks from outside."""
_LONGEST_WAIT_MS: Final = 10_000


def send_when_due(ticks: Iterator[Tick], spool: Spool, landing: Landing, alive: Path) -> None:
    """Spool each tick when its time has come, and deliver, until a stop signal or the end of 366 days."""
    upcoming = next(ticks, None)
    trouble: str | None = None
    while upcoming is not None and not signals.stop_requested():
        due: list[Tick] = []
        while upcoming is not None and upcoming.ts_ms <= now_ms() and len(due) < BATCH_TICKS:
            due.append(upcoming)
            upcoming = next(ticks, None)
        if due:
            raw = [(tick.ts_ms, encode(tick)) for tick in due]
            # The mark has no boot id: simulated time continues when this machine restarts.
            mark = Mark(ts_ms=due[-1].ts_ms, monotonic_ms=0, boot_id=None)
            spool.append_blobs([(ts_ms, len(request), compress(request)) for ts_ms, request in raw], mark)
        trouble = _deliver(spool, landing, trouble)
        alive.touch()
        if upcoming is not None:
            signals.wait(min(_LONGEST_WAIT_MS, upcoming.ts_ms - now_ms()) / 1000)


def _deliver(spool: Spool, landing: Landing, trouble: str | None) -> str | None:
    """Deliver the spooled ticks; return the error, ``None`` without one. Prints a message when that changes."""
    try:
        drained = drain(spool, DESTINATION, landing)
    except UnavailableError as error:
        if trouble is None:
            print_error(f"{error}; ticks wait, trying again")
        return str(error)
    if drained.refused:
        print_error(f"the endpoint refused {drained.refused} ticks for good: see its log")
    if trouble is not None:
        print_line(f"delivering again: {drained.landed} ticks")
    return None


def now_ms() -> int:
    """Return the wall clock as Unix time in ms."""
    return time.time_ns() // 1_000_000
