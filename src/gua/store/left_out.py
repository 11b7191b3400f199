"""What a query is asked without: blocks of the shipped SQL that tell nothing of what is asked for.

Planning takes longer than reading, and it takes as long for what turns out empty. A block stands between two comments,
and what stands in its place, if anything, behind a third::

    -- ONLY with prices
    sum(priced_us) AS priced
    -- OTHERWISE 0 AS priced
    -- END

With all its blocks a query answers everything, and so it is kept as a view; without these its rows are the same.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Final

_BLOCK: Final = re.compile(
    r"^[ ]*-- ONLY with (?P<name>[a-z ]+)\n.*?"
    r"^(?P<indent>[ ]*)(?:-- OTHERWISE (?P<otherwise>[^\n]+)\n\s*)?-- END(?:\n|$)",
    re.MULTILINE | re.DOTALL,
)
_OWNERS: Final = ("identity", "owner")
_TOLD: Final = ("kind", "served-model")

Parameters = Mapping[str, object]
# Of a block, whether a question with these parameters needs none of it; one that is not given needs it.
BLOCKS: Final[Mapping[str, Callable[[Parameters], bool]]] = {
    "counted hours": lambda given: given.get("use_hourly") == 0,
    # A report asks for them of hours that are counted; from ticks each of its views reads them by itself.
    "measurements": lambda given: "tick_hours" in given,
    "prices": lambda given: given.get("price_models") == [],
    "prices or models": lambda given: given.get("price_models") == [] and given.get("by", "model") != "model",
    "what was told": lambda given: given.get("by", _TOLD[0]) not in _TOLD,
    "other keys": lambda given: given.get("by") in _OWNERS,
}


def needless(parameters: Parameters) -> frozenset[str]:
    """Return the names of the blocks that a question with these parameters needs nothing of."""
    return frozenset(name for name, is_needless in BLOCKS.items() if is_needless(parameters))


def without(sql: str, names: frozenset[str]) -> str:
    """Return SQL without the blocks of these names, with what stands in their place."""

    def kept(block: re.Match[str]) -> str:
        if block["name"] not in names:
            return block[0]
        return f"{block['indent']}{block['otherwise']}\n" if block["otherwise"] else ""

    return _BLOCK.sub(kept, sql)
