"""Slurm's way to write many names in one: ``n[01-03,07],login1``."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import islice
from typing import Final

_MOST: Final = 65_536
_RANGE: Final = re.compile(r"([0-9]{1,9})(?:-([0-9]{1,9}))?")


def expand(text: str) -> list[str]:
    """Return the names, 65,536 at most; what is not of this form stays as it is."""
    return list(islice((name for part in _parts(text) for name in _names(part)), _MOST))


def matches(text: str, name: str) -> bool:
    """Return whether a name is one of these; ``ALL`` are all."""
    return text.upper() == "ALL" or name in expand(text)


def _parts(text: str) -> Iterator[str]:
    """Yield what stands between commas outside of brackets."""
    depth = start = 0
    for place, character in enumerate(text):
        if character == "[":
            depth += 1
        elif character == "]":
            depth -= 1
        elif character == "," and depth <= 0:
            yield text[start:place]
            start = place + 1
    yield text[start:]


def _names(part: str) -> Iterator[str]:
    before, bracket, rest = part.partition("[")
    inside, closed, after = rest.partition("]")
    if not bracket or not closed:
        yield part
        return
    for each in inside.split(","):
        match = _RANGE.fullmatch(each)
        if match is None:
            continue
        first, last = match[1], match[2] or match[1]
        for number in range(int(first), int(last) + 1):
            for end in _names(after):
                yield f"{before}{number:0{len(first)}d}{end}"
