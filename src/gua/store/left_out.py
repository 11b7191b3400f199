"""What a query is asked without: blocks of the shipped SQL that tell nothing of what is asked for.

Planning takes longer than reading, and it takes as long for what turns out empty. A block stands between two comments,
and what stands in its place, if anything, each line behind one of its own::

    -- ONLY with prices
    sum(priced_us) AS priced
    -- OTHERWISE 0 AS priced
    -- END

With all its blocks a query answers everything, and so it is kept as a view; without these its rows are the same.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from gua.core.parameters import NOW_HOURS

_BLOCK: Final = re.compile(
    r"^[ ]*-- ONLY with (?P<name>[a-z ]+)\n.*?"
    r"(?P<otherwise>(?:^[ ]*-- OTHERWISE [^\n]+\n)*)[ ]*-- END(?:\n|$)",
    re.MULTILINE | re.DOTALL,
)
_OTHERWISE: Final = re.compile(r"^([ ]*)-- OTHERWISE ", re.MULTILINE)
_HOUR_MS: Final = 3_600_000
_OWNERS: Final = ("identity", "owner")
_TOLD: Final = ("kind", "served-model")

Parameters = Mapping[str, object]


def _tells_holders_apart(given: Parameters) -> bool:
    """Return whether usage is asked of days that hardly end before its window: who is there now is asked besides."""
    days, until_ms = given.get("days"), given.get("until_ms")
    if not isinstance(days, Sequence) or not days or not isinstance(until_ms, int):
        return False
    ends_ms: int = (max(days) + 1) * 24 * _HOUR_MS
    return ends_ms > until_ms - NOW_HOURS * _HOUR_MS


# Of a block, whether a question with these parameters needs none of it; one that is not given needs it.
BLOCKS: Final[Mapping[str, Callable[[Parameters], bool]]] = {
    "counted hours": lambda given: given.get("use_hourly") == 0,
    # A report asks for them of hours that are counted; from ticks each of its views reads them by itself.
    "measurements": lambda given: "tick_hours" in given,
    "prices": lambda given: given.get("price_models") == [],
    "prices or models": lambda given: given.get("price_models") == [] and given.get("by", "model") != "model",
    "hosts or models": lambda given: given.get("price_models") == [] and given.get("by") in _OWNERS,
    "instances": lambda given: given.get("has_instances") == 0,
    "what was told": lambda given: given.get("by", _TOLD[0]) not in _TOLD,
    "other keys": lambda given: given.get("by") in _OWNERS,
    "who is there": _tells_holders_apart,
    # Of a large fleet: what idle-held time is made of is asked besides.
    "split and hours of cards": lambda given: given.get("long_streak_ms") == 0,
    "days of cards": lambda given: bool(given.get("long_streak_ms")),
}


def needless(parameters: Parameters) -> frozenset[str]:
    """Return the names of the blocks that a question with these parameters needs nothing of."""
    return frozenset(name for name, is_needless in BLOCKS.items() if is_needless(parameters))


def without(sql: str, names: frozenset[str]) -> str:
    """Return SQL without the blocks of these names, with what stands in their place."""

    def kept(block: re.Match[str]) -> str:
        if block["name"] not in names:
            return block[0]
        return _OTHERWISE.sub(r"\1", block["otherwise"])

    return _BLOCK.sub(kept, sql)
