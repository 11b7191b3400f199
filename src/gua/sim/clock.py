"""When a simulated agent ticks and what each tick covers, with the holes that real agents have.

The spans follow the rule of the real agent (docs: how it works, time): a tick covers what passed since
the last one; the first one, and one after a break of more than two intervals, covers one interval at
most and no more than the agent's age.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from random import Random

from gua.sim.calendar import Stretch

_BREAK_INTERVALS = 2
_SHORTEST_MS = 1
_LARGEST_PHASE_MS = 500


@dataclass(frozen=True, slots=True)
class Absence:
    """A stretch without ticks; where it ``restarts`` the agent, a new process begins at its end."""

    stretch: Stretch
    restarts: bool


@dataclass(frozen=True, kw_only=True, slots=True)
class TickSpan:
    """One tick's time. ``continued``: it covers everything since the tick before it."""

    ts_ms: int
    duration_ms: int
    lateness_ms: int
    started_ms: int
    continued: bool


def spans(*, end_ms: int, ticks: int, interval_ms: int, absences: Sequence[Absence], rng: Random) -> Iterator[TickSpan]:
    """Yield the spans of ``ticks`` grid points, the last one just before ``end_ms``, oldest first.

    A tick is a few ms late, as on a real host. Grid points inside an absence yield nothing.
    """
    jitter_ms = min(40, interval_ms // 20)  # invented: what a scheduler on a busy host does
    last_grid_ms = end_ms - rng.randint(jitter_ms, _LARGEST_PHASE_MS)
    first_grid_ms = last_grid_ms - (ticks - 1) * interval_ms
    started_ms = first_grid_ms - round(interval_ms * rng.uniform(0.2, 0.9))
    mark_ms: int | None = None
    for grid_ms in range(first_grid_ms, last_grid_ms + 1, interval_ms):
        lateness_ms = rng.randint(1, jitter_ms)
        ts_ms = grid_ms + lateness_ms
        absent = False
        for absence in absences:
            begun_ms = absence.stretch.begun_ms(ts_ms)
            if begun_ms is not None:
                absent = True
                if absence.restarts:
                    started_ms = begun_ms + absence.stretch.length_ms
        if absent:
            continue
        since_ms = None if mark_ms is None else ts_ms - mark_ms
        continued = since_ms is not None and since_ms <= _BREAK_INTERVALS * interval_ms
        terms_ms = [since_ms] if continued else [interval_ms, ts_ms - started_ms, since_ms]
        yield TickSpan(
            ts_ms=ts_ms,
            duration_ms=max(_SHORTEST_MS, min(term for term in terms_ms if term is not None)),
            lateness_ms=lateness_ms,
            started_ms=started_ms,
            continued=continued,
        )
        mark_ms = ts_ms
