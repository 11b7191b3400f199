"""Sources of allocations: what a reader of one is, and all of them (:class:`gua.core.ports.AllocationSources`)."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

from gua.core.allocation import Allocation, AllocationLook, CardKey, SourceHealth
from gua.core.errors import UsageError
from gua.core.plaintext import safe

AUTO: Final = "auto"
_LONGEST_REASON: Final = 160
_CUT: Final = "..."
_MOST_NOTES: Final = 20


@dataclass(frozen=True, kw_only=True, slots=True)
class ReaderLook:
    """What a reader found: allocations that cover any time since the look before, each (source, id) once.

    ``reason`` is why the source could not be read as a whole, ``None`` if it could; ``unknown_cards`` are UUIDs of
    cards about which it cannot tell. ``notes`` are sentences for ``gua doctor`` and ``gua status`` about what works and
    yet is not as it should be. All of it may hold what others wrote: it is made safe for terminals where it is put
    together (:mod:`gua.allocation.sources`).
    """

    allocations: tuple[Allocation, ...] = ()
    reason: str | None = None
    unknown_cards: frozenset[str] = frozenset()
    notes: tuple[str, ...] = ()


class SourceReader(Protocol):
    """One source of allocations."""

    @property
    def name(self) -> str:
        """By what name its health is told: files, slurm, kubernetes or gua."""
        ...

    def look(self, since_ms: int, now_ms: int, cards: Sequence[CardKey]) -> ReaderLook:
        """Return every allocation that covers any time within (since_ms, now_ms], Unix ms.

        Takes no longer than reading some small files: what may block is asked in the background.
        """
        ...

    def close(self) -> None:
        """End what goes on in the background. Never raises, takes a second at most."""
        ...


@dataclass(frozen=True, kw_only=True, slots=True)
class Opener:
    """How a reader is found and made.

    ``found`` returns what of the source this host has, in a few words for ``gua doctor``, or ``None``: ``auto`` opens
    those that have something. ``open`` makes the reader; it may raise GuaError where a setting is wrong.
    """

    name: str
    found: Callable[[], str | None]
    open: Callable[[], SourceReader]


class Sources:
    """What readers tell, put together. Where two tell of the same (source, id), the reader that is named first counts.

    To be used from one thread. ``notes`` are those of the newest look, safe for terminals.
    """

    def __init__(self, readers: Sequence[SourceReader]) -> None:
        self._readers = tuple(readers)
        self.names = tuple(reader.name for reader in readers)
        self.notes: tuple[str, ...] = ()

    def look(self, since_ms: int, now_ms: int, cards: Sequence[CardKey]) -> AllocationLook:
        """Return all allocations that cover any time within (since_ms, now_ms], and the health of each reader."""
        looks = [(reader.name, _look(reader, since_ms, now_ms, cards)) for reader in self._readers]
        allocations: dict[tuple[str, str], Allocation] = {}
        for _, look in looks:
            for allocation in look.allocations:
                allocations.setdefault(allocation.key, allocation)
        self.notes = tuple(_plain(note) for _, look in looks for note in look.notes)[:_MOST_NOTES]
        return AllocationLook(
            allocations=tuple(allocations.values()),
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
        raise UsageError(f"{unknown[0]!r} is no source of allocations: take one of {', '.join([*by_name, AUTO])}")
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
