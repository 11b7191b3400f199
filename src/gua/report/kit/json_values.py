"""Numbers and times as the JSON and the CSV of a report have them: in hours and seconds, unknown as ``None``."""

from __future__ import annotations

from typing import Final, overload

from gua.core.durations import to_rfc3339
from gua.report.states import MS_PER_HOUR, STATES, States, share

DECIMALS: Final = 6
Json = dict[str, object]


def hours(milliseconds: float) -> float:
    """Return milliseconds as hours."""
    return round(milliseconds / MS_PER_HOUR, DECIMALS)


def ratio(value: float | None) -> float | None:
    """Return a ratio or a figure that may not be known."""
    return None if value is None else round(value, DECIMALS)


def number(value: float) -> float:
    """Return a number, a whole one without a fraction."""
    return int(value) if value == int(value) else round(value, DECIMALS)


@overload
def seconds(milliseconds: float) -> float: ...
@overload
def seconds(milliseconds: float | None) -> float | None: ...
def seconds(milliseconds: float | None) -> float | None:
    """Return milliseconds as seconds."""
    return None if milliseconds is None else milliseconds / 1000


def time(unix_ms: int | None) -> str | None:
    """Return a moment as RFC 3339 in UTC."""
    return None if unix_ms is None else to_rfc3339(unix_ms)


def states_of(states: States) -> Json:
    """Return all four states; ticks are left out where several share them."""
    return {
        state: {
            **({} if states[state].card_ticks is None else {"card_ticks": states[state].card_ticks}),
            "gpu_hours": hours(states[state].gpu_ms),
            "share": ratio(share(states, state)),
        }
        for state in STATES
    }
