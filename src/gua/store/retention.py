"""How long rows are kept: raw points, ticks and hours, in whole days or forever."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

from gua.core.durations import parse_duration_ms
from gua.core.errors import UsageError

FOREVER: Final = "forever"
LEAST_TICKS_DAYS: Final = 2
TICKS_SETTING: Final = "keep_ticks_days"
_DAY_MS: Final = 86_400_000
_TTL_DAYS: Final = re.compile(r"\bTTL .*?\btoIntervalDay\((\d+)\)")


@dataclass(frozen=True, kw_only=True, slots=True)
class Retention:
    """Days that rows are kept; ``None`` is forever."""

    raw_days: int | None = 3
    ticks_days: int | None = None
    hours_days: int | None = None

    def changed(self, given: Mapping[str, int | None]) -> Retention:
        """Return it with what was given. Raises UsageError where the three make no sense together."""
        changed = replace(self, **given)
        if changed.ticks_days is not None and changed.ticks_days < LEAST_TICKS_DAYS:
            msg = (
                f"--keep-ticks {changed.ticks_days}d is too short: hours are made from ticks that may come a day late, "
                f"keep them {LEAST_TICKS_DAYS}d or longer"
            )
            raise UsageError(msg)
        if changed.hours_days is not None and (changed.ticks_days is None or changed.hours_days < changed.ticks_days):
            msg = (
                f"hours would go ({changed.hours_days}d) before the ticks that they are made from "
                f"({shown_days(changed.ticks_days)}): give --keep-ticks {changed.hours_days}d or less, "
                f"or --keep-hours {shown_days(changed.ticks_days)}"
            )
            raise UsageError(msg)
        return changed

    def __str__(self) -> str:
        return (
            f"raw points {shown_days(self.raw_days)}, ticks {shown_days(self.ticks_days)}, "
            f"hours {shown_days(self.hours_days)}"
        )


def parse_days(option: str, text: str) -> int | None:
    """Return whole days, ``None`` for "forever". Raises UsageError, naming the option."""
    if text.strip().lower() == FOREVER:
        return None
    try:
        days, rest = divmod(parse_duration_ms(text), _DAY_MS)
    except UsageError:
        days, rest = 0, 1
    if rest or not days:
        msg = f"{option} {text!r}: write whole days or weeks, as in 90d or 52w (at most 100 years), or forever"
        raise UsageError(msg)
    return days


def ttl_days(engine_full: str) -> int | None:
    """Return the days of a table's TTL as the engine shows it, ``None`` if it has none."""
    match = _TTL_DAYS.search(engine_full)
    return int(match[1]) if match else None


def shown_days(days: int | None) -> str:
    """Return "90d" or "forever"."""
    return FOREVER if days is None else f"{days}d"
