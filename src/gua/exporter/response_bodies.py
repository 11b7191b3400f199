"""Who has not read which body yet: a body lives as long as one of its readers, and each tick brings new bodies."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Final, Generic, TypeVar

NEWEST: Final = 4
"""The forms of one page. Who has not read an older one has to go, unless all that is unread is little."""
MOST_BYTES: Final = 8 * 2**20
LITTLE_BYTES: Final = 16 * 2**10
"""So little is not counted: what probes are told is made for each of them."""

Reader = TypeVar("Reader", bound=Hashable)


class ResponseBodies(Generic[Reader]):
    """Bodies in the order in which they were first asked for, each with its readers."""

    def __init__(self) -> None:
        self._readers: dict[int, set[Reader]] = {}
        self._sizes: dict[int, int] = {}
        self._body: dict[Reader, int] = {}

    def begun(self, reader: Reader, body: bytes) -> None:
        """Take note that a reader holds a body."""
        if len(body) > LITTLE_BYTES:
            self._readers.setdefault(id(body), set()).add(reader)
            self._sizes[id(body)] = len(body)
            self._body[reader] = id(body)

    def ended(self, reader: Reader) -> None:
        """Take note that a reader holds no body any more."""
        body = self._body.pop(reader, None)
        if body is None:
            return
        self._readers[body].discard(reader)
        if not self._readers[body]:
            del self._readers[body], self._sizes[body]

    def too_old(self) -> list[Reader]:
        """Return the readers of the oldest bodies, as far as those are too many."""
        left, held = len(self._sizes), sum(self._sizes.values())
        late_readers: list[Reader] = []
        for body, size in self._sizes.items():
            if left <= NEWEST or held <= MOST_BYTES:
                break
            late_readers += self._readers[body]
            left, held = left - 1, held - size
        return late_readers
