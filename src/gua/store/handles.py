"""Several handles to one embedded engine, so that the questions of a report are asked at the same time."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Final

from gua.core.errors import UnavailableError

if TYPE_CHECKING:
    from clickhouse_connect.driver.client import Client

# A report's longest question takes nearly half of the time of all.
MOST: Final = 2


def processors() -> int:
    """Return how many processors this process may use."""
    with suppress(AttributeError):  # not every system tells
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


class Handles:
    """Lends each thread a handle of its own; opens another one while all are lent and there are fewer than ``most``."""

    def __init__(self, first: Client, another: Callable[[], Client], *, most: int | None = None) -> None:
        self._another = another
        self.most = min(MOST, processors()) if most is None else most
        self._free = [first]
        self._lent = 0
        self._waiting: list[int] = []
        self._alone = 0
        self._is_closed = False
        self._changed = threading.Condition()

    @contextmanager
    def lent(self, turn: int = 0) -> Iterator[Client]:
        """Yield a handle, once one may be had: of those who wait the lowest turn first.

        Raises UnavailableError if closed, and what opening one raises.
        """
        with self._changed:
            self._waiting.append(turn)
            try:
                self._changed.wait_for(lambda: self._may_lend(turn))
            finally:
                self._waiting.remove(turn)
                self._changed.notify_all()  # there may be another handle for who comes next
            if self._is_closed:
                raise self._closed()
            handle = self._free.pop() if self._free else None
            self._lent += 1
        try:
            if handle is None:
                handle = self._another()
            yield handle
        finally:
            self._give_back(handle)

    @contextmanager
    def alone(self) -> Iterator[Client]:
        """Yield a handle while no other one is lent."""
        handle = None
        with self._changed:
            self._alone += 1  # from now on until it is given back nobody else is lent one
            self._changed.wait_for(lambda: not self._lent)
            self._lent += 1
            if not self._is_closed:
                handle = self._free.pop()
        try:
            if handle is None:
                raise self._closed()
            yield handle
        finally:
            self._give_back(handle, were_alone=1)

    def close(self) -> None:
        """Close all, once no thread asks anything any more."""
        with self._changed:
            self._is_closed = True
            self._changed.notify_all()
            self._changed.wait_for(lambda: not self._lent)
            handles, self._free = self._free, []
        for handle in handles:
            handle.close()

    def _may_lend(self, turn: int) -> bool:
        if self._is_closed:
            return True
        return not self._alone and turn <= min(self._waiting) and (bool(self._free) or self._lent < self.most)

    @staticmethod
    def _closed() -> UnavailableError:
        return UnavailableError("the store was closed before this was asked")

    def _give_back(self, handle: Client | None, *, were_alone: int = 0) -> None:
        with self._changed:
            self._lent -= 1
            self._alone -= were_alone
            if handle is not None:
                self._free.append(handle)
            self._changed.notify_all()
