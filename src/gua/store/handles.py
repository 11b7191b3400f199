"""Several handles to one embedded engine, so that a report's queries run in parallel."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from gua.core.errors import UnavailableError

if TYPE_CHECKING:
    from clickhouse_connect.driver.client import Client

# A report's longest query takes nearly half of the total time: more handles would not help.
MOST: Final = 2
ALONE: Final = -1
"""Turn number of an exclusive request: served before all others."""


class Handles:
    """Pool that lends each thread its own handle. Opens another while all are lent, up to ``most`` handles."""

    def __init__(self, first: Client, another: Callable[[], Client], *, most: int | None = None) -> None:
        self._another = another
        self.most = min(MOST, len(os.sched_getaffinity(0))) if most is None else most
        self._free = [first]
        self._lent = 0
        self._waiting: list[int] = []
        self._is_alone = False
        self._is_closed = False
        self._changed = threading.Condition()

    @contextmanager
    def lent(self, turn: int = 0) -> Iterator[Client]:
        """Yield a handle as soon as one is available, for :data:`ALONE` while no other is lent.

        The lowest ``turn`` is served first.

        Raises UnavailableError if the pool is closed, and the errors of opening a handle.
        """
        with self._changed:
            self._waiting.append(turn)
            try:
                self._changed.wait_for(lambda: self._may_lend(turn))
            finally:
                self._waiting.remove(turn)
                self._changed.notify_all()  # another handle may be available to the next in line
            if self._is_closed:
                raise UnavailableError("the store was closed before this query")
            handle = self._free.pop() if self._free else None
            self._lent += 1
            self._is_alone = turn == ALONE
        try:
            if handle is None:
                handle = self._another()
            yield handle
        finally:
            with self._changed:
                self._lent -= 1
                self._is_alone = False
                if handle is not None:
                    self._free.append(handle)
                self._changed.notify_all()

    def close(self) -> None:
        """Reject waiting and new requests, wait for lent handles, and close all."""
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
        has_room = not self._lent if turn == ALONE else bool(self._free) or self._lent < self.most
        return has_room and not self._is_alone and turn <= min(self._waiting)
