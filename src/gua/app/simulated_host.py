"""A simulated host that sends what a real agent would."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from gua.agent import signals
from gua.agent.delivery import BATCH_TICKS, drain
from gua.app.output import print_error, say
from gua.core.errors import UnavailableError
from gua.core.ports import Landing, Mark
from gua.core.tick import Tick
from gua.otlp.encode import encode
from gua.spool.queue import Spool
from gua.state.compression import compress

DESTINATION: Final = "endpoint"
ALIVE: Final = "alive"
"""The file of the state directory that is touched in every turn, for whoever checks the process from outside."""
_LONGEST_WAIT_MS: Final = 10_000


def send_when_due(ticks: Iterator[Tick], spool: Spool, landing: Landing, alive: Path) -> None:
    """Spool each tick when its time has come, and deliver, until asked to stop or 366 days are over."""
    upcoming = next(ticks, None)
    trouble: str | None = None
    while upcoming is not None and not signals.asked():
        due: list[Tick] = []
        while upcoming is not None and upcoming.ts_ms <= now_ms() and len(due) < BATCH_TICKS:
            due.append(upcoming)
            upcoming = next(ticks, None)
        if due:
            _keep(due, spool)
        trouble = _deliver(spool, landing, trouble)
        alive.touch()
        if upcoming is not None:
            signals.wait(min(_LONGEST_WAIT_MS, upcoming.ts_ms - now_ms()) / 1000)


def _keep(ticks: list[Tick], spool: Spool) -> None:
    raw = [(tick.ts_ms, encode(tick)) for tick in ticks]
    # The mark has no boot: simulated time does not stop with this machine.
    mark = Mark(ts_ms=ticks[-1].ts_ms, monotonic_ms=0, boot_id=None)
    spool.append_blobs([(ts_ms, len(request), compress(request)) for ts_ms, request in raw], mark)


def _deliver(spool: Spool, landing: Landing, trouble: str | None) -> str | None:
    """Send what waits and return what is in the way, ``None`` if nothing is; says it when that changes."""
    try:
        drained = drain(spool, DESTINATION, landing)
    except UnavailableError as error:
        if trouble is None:
            print_error(f"{error}; ticks wait, trying again")
        return str(error)
    if drained.refused:
        print_error(f"the endpoint refused {drained.refused} ticks for good: see its log")
    if trouble is not None:
        say(f"delivering again: {drained.landed} ticks")
    return None


def now_ms() -> int:
    """Return the wall clock as Unix time in ms."""
    return time.time_ns() // 1_000_000
