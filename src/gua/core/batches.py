"""Split items into batches of limited size."""

from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

T = TypeVar("T")


def in_batches(items: Iterable[T], most: int, size: Callable[[T], int]) -> Iterator[list[T]]:
    """Yield items in order in lists of at most ``most`` total ``size``; a larger item is in a list of its own."""
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
