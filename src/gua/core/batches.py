"""Many things in batches that are not too large."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

T = TypeVar("T")


def in_batches(items: Iterable[T], most: int, size: Callable[[T], int]) -> Iterator[list[T]]:
    """Yield items in their order in lists of no more than ``most`` in size; one that is larger is alone."""
    batch: list[T] = []
    total = 0
    for item in items:
        if batch and total + size(item) > most:
            yield batch
            batch, total = [], 0
        batch.append(item)
        total += size(item)
    if batch:
        yield batch
