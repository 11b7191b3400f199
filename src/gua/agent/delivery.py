"""Delivery: spooled ticks to where they end, at least once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from gua.core.ports import Landing, SpooledTick

BATCH_TICKS = 480


class Queue(Protocol):
    """The spool as the delivery sees it."""

    def peek(self, destination: str, limit: int, *, after: int = 0) -> Sequence[SpooledTick]:
        """Return up to ``limit`` of the oldest ticks not acknowledged by ``destination``, after id ``after``."""
        ...

    def acknowledge(self, destination: str, up_to_id: int) -> None:
        """Note that ``destination`` has every tick up to that id."""
        ...

    def refuse(self, destination: str, ticks: Sequence[SpooledTick], reason: str) -> None:
        """Keep and count ticks that ``destination`` refused for good."""
        ...


@dataclass(frozen=True, kw_only=True, slots=True)
class DrainResult:
    """How many ticks arrived, and how many were refused for good (they are kept in the spool's ``refused``)."""

    landed: int = 0
    refused: int = 0


def _nothing() -> None:
    """Make nothing durable: the landing's answer already is the promise."""


def _nobody(_ticks: int, _refused: int) -> None:
    """Tell nobody."""


def drain(  # noqa: PLR0913 - the three ends of the way, and what a caller may watch or set
    queue: Queue,
    destination: str,
    landing: Landing,
    *,
    batch_ticks: int = BATCH_TICKS,
    on_batch: Callable[[int, int], None] = _nobody,
    flush: Callable[[], None] = _nothing,
) -> DrainResult:
    """Deliver everything that waits for ``destination``, oldest first, and return the counts.

    A batch is acknowledged only when the next one has landed, the last one after ``flush``: a store that has
    accepted an insert has not necessarily written it to the disk, so the ticks stay in the spool a batch longer.
    What is delivered twice after a crash changes nothing, storage is idempotent. ``flush`` makes durable what has
    landed; ``on_batch`` is called after each batch with how many of its ticks arrived and how many were refused.

    Whatever the landing raises ends the drain and is raised again, after ``flush`` and the acknowledgement of
    what had landed before; the batch that failed stays in the spool.
    """
    landed = refused = last = 0
    try:
        while batch := queue.peek(destination, batch_ticks, after=last):
            rejected = landing.land(batch)
            if rejected:
                queue.refuse(destination, rejected, "refused by the destination")
            if last:
                queue.acknowledge(destination, last)
            last = batch[-1].id
            refused += len(rejected)
            landed += len(batch) - len(rejected)
            on_batch(len(batch) - len(rejected), len(rejected))
    finally:
        if last:
            flush()
            queue.acknowledge(destination, last)
    return DrainResult(landed=landed, refused=refused)
