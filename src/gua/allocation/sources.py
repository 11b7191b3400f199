"""Allocation sources: interface of a reader, and their combination (:class:`gua.core.ports.AllocationSources`)."""

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
    """Result of a reader: allocations that cover any time since the last look, each (source, id) once.

    ``reason`` is why the source could not be read completely, ``None`` if it could. ``unknown_cards`` are UUIDs of
    cards with unknown allocation. ``notes`` are warnings for ``gua doctor`` and ``gua status``. Texts may contain
    untrusted input; ``Sources`` makes them safe for terminals.
    """

    allocations: tuple[Allocation, ...] = ()
    reason: str | None = None
    unknown_cards: frozenset[str] = frozenset()
    notes: tuple[str, ...] = ()


class SourceReader(Protocol):
    """Interface of a reader of one allocation source."""

    @property
    def name(self) -> str:
        """The name of the source: files, slurm, kubernetes or gua."""

    def look(self, since_ms: int, now_ms: int, cards: Sequence[CardKey]) -> ReaderLook:
        """Return every allocation that covers any time within (since_ms, now_ms], Unix ms.

        Takes no longer than reading some small files: blocking calls belong in a background thread.
        """

    def close(self) -> None:
        """Stop background threads, within one second. Never raises."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Opener:
    """Detection and construction of a reader.

    ``detect`` returns the evidence of the source on this host, in a few words for ``gua doctor``, or ``None``; ``auto``
    opens the detected sources. ``open`` returns the reader; it may raise GuaError for a wrong setting.
    """

    name: str
    detect: Callable[[], str | None]
    open: Callable[[], SourceReader]


class Sources:
    """Combination of readers. If two report the same (source, id), the first reader takes precedence.

    For one thread. ``notes`` are those of the newest look, at most 20, safe for terminals.
    """

    def __init__(self, readers: Sequence[SourceReader]) -> None:
        self._readers = tuple(readers)
        self.names = tuple(reader.name for reader in readers)
        self.notes: tuple[str, ...] = ()

    def look(self, since_ms: int, now_ms: int, cards: Sequence[CardKey]) -> AllocationLook:
        """Return all allocations within (since_ms, now_ms], Unix ms, and the health of each reader; never raises."""
        allocations: dict[tuple[str, str], Allocation] = {}
        sources: list[SourceHealth] = []
        notes: list[str] = []
        for reader in self._readers:
            try:
                look = reader.look(since_ms, now_ms, cards)
            except Exception as error:  # noqa: BLE001 - a source's error must not stop the sampling of cards
                look = ReaderLook(reason=f"unexpected {type(error).__name__}")
            for allocation in look.allocations:
                allocations.setdefault(allocation.key, allocation)
            reason = None if look.reason is None else _plain(look.reason)
            sources.append(SourceHealth(source=reader.name, reason=reason, unknown_cards=look.unknown_cards))
            notes += map(_plain, look.notes)
        self.notes = tuple(notes[:_MOST_NOTES])
        return AllocationLook(allocations=tuple(allocations.values()), sources=tuple(sources))

    def close(self) -> None:
        """Close all readers. Never raises."""
        for reader in self._readers:
            with contextlib.suppress(Exception):
                reader.close()


def open_sources(names: Sequence[str], openers: Sequence[Opener]) -> Sources | None:
    """Open the named sources, with ``auto`` also the detected ones; return ``None`` if none is selected.

    Raises UsageError for a name without an opener.
    """
    by_name = {opener.name: opener for opener in openers}
    unknown = [name for name in names if name != AUTO and name not in by_name]
    if unknown:
        raise UsageError(f"{unknown[0]!r} is no source of allocations: take one of {', '.join([*by_name, AUTO])}")
    detected = dict(detect_sources(openers)) if AUTO in names else {}
    chosen = [opener for opener in openers if opener.name in names or opener.name in detected]
    return Sources([opener.open() for opener in chosen]) if chosen else None


def detect_sources(openers: Sequence[Opener]) -> list[tuple[str, str]]:
    """Return the name and evidence of each source detected on this host."""
    present: list[tuple[str, str]] = []
    for opener in openers:
        with contextlib.suppress(OSError):
            evidence = opener.detect()
            if evidence is not None:
                present.append((opener.name, evidence))
    return present


def _plain(text: str) -> str:
    """Return a text safe for terminals, cut in the middle to 160 characters: the end explains a path's error."""
    plain = safe(text)
    if len(plain) <= _LONGEST_REASON:
        return plain
    half = (_LONGEST_REASON - len(_CUT)) // 2
    return f"{plain[:half]}{_CUT}{plain[-half:]}"
