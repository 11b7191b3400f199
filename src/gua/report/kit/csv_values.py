"""What cells of a CSV are: full precision, unknown as nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Final

from gua.report.model import Report
from gua.report.states import MS_PER_HOUR, STATES, States

Cell = str | float | None
Section = tuple[Sequence[str], Callable[[Report], Iterable[Sequence[Cell]]]]
_SECOND_MS: Final = 1000


def hours_of(milliseconds: float | None) -> float | None:
    """Return milliseconds as hours, unrounded."""
    return None if milliseconds is None else milliseconds / MS_PER_HOUR


def seconds_of(milliseconds: float | None) -> float | None:
    """Return milliseconds as seconds, unrounded."""
    return None if milliseconds is None else milliseconds / _SECOND_MS


def of_states(states: States) -> tuple[float | None, ...]:
    """Return the GPU-hours of each state."""
    return tuple(hours_of(states[state].gpu_ms) for state in STATES)


def state_columns(unit: str) -> tuple[str, ...]:
    """Return a column's title for each state."""
    return tuple(f"{state.replace('-', '_')}_{unit}" for state in STATES)
