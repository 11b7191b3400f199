"""What a reader of one source of allocations is, and what it answers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from gua.core.allocation import Allocation, CardKey


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
