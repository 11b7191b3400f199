"""GPU time by state, the unit of every report. In milliseconds, unknown as ``None``."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

ACTIVE: Final = "active"
IDLE_HELD: Final = "idle-held"
TRULY_IDLE: Final = "truly-idle"
UNKNOWN: Final = "unknown"
UNOBSERVED: Final = "unobserved"
STATES: Final = (ACTIVE, IDLE_HELD, TRULY_IDLE, UNKNOWN)

MS_PER_HOUR: Final = 3_600_000
MS_PER_DAY: Final = 24 * MS_PER_HOUR


@dataclass(frozen=True, kw_only=True, slots=True)
class StateTime:
    """One state's GPU time [ms] and card ticks (``None`` where ticks are shared)."""

    gpu_ms: float = 0
    card_ticks: int | None = None


States = Mapping[str, StateTime]


def times(states: States) -> list[float]:
    """Return the GPU time of each state [ms], in the order of ``STATES``."""
    return [states[state].gpu_ms for state in STATES]


def observed_ms(states: States) -> float:
    """Return the GPU time of all states together [ms]."""
    return sum(times(states))


def share(states: States, state: str) -> float | None:
    """Return a state's share of the observed time, 0 to 1; ``None`` if nothing was observed."""
    total = observed_ms(states)
    return states[state].gpu_ms / total if total else None
