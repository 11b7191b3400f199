"""Other words for parts of a report: what they were called before, and what the report calls them in its own text."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

SECTIONS: Final = {
    "who": "usage",
    "identities": "usage",
    "parties": "usage",
    "owners": "usage",
    "before": "previous",
    "rollups": "groups",
}
KEYS: Final = {"user": "owner", "identity": "owner", "party": "owner", "who": "owner"}
METRICS: Final = {"episode": "streak", "not-told": "unknown"}


def split(words: Iterable[str]) -> Iterator[str]:
    """Yield the words of an option that may be repeated or have commas, as in ``now,usage``."""
    for several in words:
        yield from filter(None, map(str.strip, several.split(",")))
