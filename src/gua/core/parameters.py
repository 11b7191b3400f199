"""Parameters of the report views: their ClickHouse types, and checks for values from untrusted clients."""

from collections.abc import Mapping
from typing import Final, NamedTuple

from gua.core.untrusted import (
    LAST_MS,
    Check,
    is_flag,
    is_host,
    is_like,
    is_list_of,
    is_moment,
    is_whole,
    is_within,
    is_word_of,
)

_MOST_HOSTS: Final = 10_000
_MOST_HOURS: Final = 100_000
_MOST_DAYS: Final = 5_000
_MOST_TICKS: Final = 10_000
_MOST_LIMITS: Final = 100
_MOST_PRICES: Final = 10_000
_BY: Final = ("identity", "owner", "program", "container", "pod", "job", "kind", "served-model", "host", "model")


class Parameter(NamedTuple):
    """A view parameter: its ClickHouse type and the check of its value."""

    type: str
    check: Check


PARAMETERS: Final[Mapping[str, Parameter]] = {
    "since_ms": Parameter("Int64", is_moment),
    "until_ms": Parameter("Int64", is_moment),
    "hosts": Parameter("Array(String)", is_list_of(is_host, most=_MOST_HOSTS)),
    "timezone": Parameter("String", is_like(r"[A-Za-z0-9_+\-/]{1,64}")),
    "tick_hours": Parameter("Array(Int64)", is_list_of(is_whole, most=_MOST_HOURS)),
    "hours": Parameter("Array(Int64)", is_list_of(is_whole, most=_MOST_HOURS)),
    "use_hourly": Parameter("UInt8", is_flag),
    "days": Parameter("Array(Int64)", is_list_of(is_whole, most=_MOST_DAYS)),
    "unmerged_since_ms": Parameter("Int64", is_moment),
    "host": Parameter("String", is_host),
    "gpu": Parameter("String", is_host),
    "at_ms": Parameter("Int64", is_moment),
    "current_since_ms": Parameter("Int64", is_moment),
    "limit": Parameter("UInt32", is_within(1, _MOST_TICKS)),
    "by": Parameter("String", is_word_of(*_BY)),
    "long_streak_ms": Parameter("Int64", is_moment),
    "stuck_ms": Parameter("Int64", is_moment),
    "false_alarm_ms": Parameter("Int64", is_moment),
    "cell_ms": Parameter("Int64", is_within(1, LAST_MS)),
    "price_models": Parameter("Array(String)", is_list_of(is_host, most=_MOST_PRICES)),
    "price_starts": Parameter("Array(Int64)", is_list_of(is_moment, most=_MOST_PRICES)),
    "in_parts": Parameter("UInt8", is_flag),
    "limits_ms": Parameter("Array(Int64)", is_list_of(is_moment, most=_MOST_LIMITS)),
}
BOUNDS: Final = ("since_ms", "until_ms", "hosts")
"""The time window [Unix ms] and the hosts; an empty list of hosts selects all."""
READ: Final = (*BOUNDS, "tick_hours", "use_hourly")
"""The bounds, the hours to read from ticks, and whether the other hours come from the hourly rollup."""
READ_DAYS: Final = (*READ, "days", "unmerged_since_ms")
"""The same, the UTC days since 1970 whose process intervals are read merged (``gua.process_days``), and the start of
the first other hour with a rollup [Unix ms]."""
PRICED: Final = ("price_models", "price_starts")
"""Price list for GPU time: model names and the start of each price [Unix ms], earliest first."""
