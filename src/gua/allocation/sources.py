"""All sources of allocations as one: :class:`gua.core.ports.AllocationSources`."""

from __future__ import annotations

import contextlib
import operator
from collections.abc import Sequence
from itertools import chain
from typing import Final

from gua.allocation.reader import Opener, ReaderLook, SourceReader
from gua.core.allocation import Allocation, AllocationLook, CardKey, SourceHealth
from gua.core.errors import UsageError
from gua.core.plaintext import safe

AUTO: Final = "auto"
_LONGEST_REASON: Final = 160
_CUT: Final = "..."
_MOST_NOTES: Final = 20


class Sources:
    """What readers tell, put together. Where two tell of the same (source, id), the reader that is named first counts.

    To be used from one thread. ``notes`` are those of the newest look, safe for terminals.
    """

    def __init__(self, readers: Sequence[SourceReader]) -> None:
        self._readers = tuple(readers)
        self.notes: tuple[str, ...] = ()
        self._told: Sequence[Sequence[Allocation] | None] = [None] * len(self._readers)
        self._together: tuple[Allocation, ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        """The readers by name."""
        return tuple(reader.name for reader in self._readers)

    def look(self, since_ms: int, now_ms: int, cards: Sequence[CardKey]) -> AllocationLook:
        """Return all allocations that cover any time within (since_ms, now_ms], and the health of each reader."""
        looks = [(reader.name, _look(reader, since_ms, now_ms, cards)) for reader in self._readers]
        told = [look.allocations for _, look in looks]
        # While nothing changes readers tell the same objects, look after look, and what they make together stays, too.
        if not all(map(operator.is_, told, self._told)):
            allocations: dict[tuple[str, str], Allocation] = {}
            for allocation in chain.from_iterable(told):
                allocations.setdefault(allocation.key, allocation)
            self._told, self._together = told, tuple(allocations.values())
        self.notes = tuple(_plain(note) for _, look in looks for note in look.notes)[:_MOST_NOTES]
        return AllocationLook(
            allocations=self._together,
            sources=tuple(
                SourceHealth(
                    source=name,
                    reason=None if look.reason is None else _plain(look.reason),
                    unknown_cards=look.unknown_cards,
                )
                for name, look in looks
            ),
        )

    def close(self) -> None:
        """End what goes on in the background. Never raises."""
        for reader in self._readers:
            with contextlib.suppress(Exception):
                reader.close()


def open_sources(names: Sequence[str], openers: Sequence[Opener]) -> Sources | None:
    """Return the named sources, for ``auto`` those that are found; ``None`` where nothing is to be looked at.

    Raises UsageError for a name that no opener has.
    """
    by_name = {opener.name: opener for opener in openers}
    unknown = [name for name in names if name != AUTO and name not in by_name]
    if unknown:
        msg = f"{unknown[0]!r} is no source of allocations: take one of {', '.join([*by_name, AUTO])}"
        raise UsageError(msg)
    found = dict(look_around(openers)) if AUTO in names else {}
    chosen = [opener for opener in openers if opener.name in names or opener.name in found]
    return Sources([opener.open() for opener in chosen]) if chosen else None


def look_around(openers: Sequence[Opener]) -> list[tuple[str, str]]:
    """Return the name of each source that this host has, and what of it was found."""
    present: list[tuple[str, str]] = []
    for opener in openers:
        with contextlib.suppress(OSError):
            what = opener.found()
            if what is not None:
                present.append((opener.name, what))
    return present


def _look(reader: SourceReader, since_ms: int, now_ms: int, cards: Sequence[CardKey]) -> ReaderLook:
    try:
        return reader.look(since_ms, now_ms, cards)
    except Exception as error:  # noqa: BLE001 - whatever a source does, the cards are measured on
        return ReaderLook(reason=f"unexpected {type(error).__name__}")


def _plain(text: str) -> str:
    """Return a reason without its middle where it is long: at the end stands what is wrong with a path."""
    plain = safe(text)
    if len(plain) <= _LONGEST_REASON:
        return plain
    half = (_LONGEST_REASON - len(_CUT)) // 2
    return f"{plain[:half]}{_CUT}{plain[-half:]}"
