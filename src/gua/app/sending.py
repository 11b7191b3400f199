"""Send messages in batches: each is recorded as started before it is sent, and with its result after."""

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import Final, TypeVar

from gua.notices.channels import SendResult
from gua.notices.held import NoticeResult
from gua.notices.record import Inserter, Lease

T = TypeVar("T")
Stores = Callable[[], AbstractContextManager[Inserter]]
"""Opens the store: while it is read or written, not while messages are sent."""
RowsOf = Callable[[T, SendResult, int], list[dict[str, object]]]
"""Returns the rows of ``gua.notices`` of a delivery, for its result and the rows' version (Unix ms)."""
MOST_DETAIL: Final = 200
UNREACHABLE: Final = "unreachable"
"""The result of a channel that cannot be reached: not recorded, and tried at the next run."""
DUE: Final = "due"
_SMALLEST_BATCH: Final = 16
_BATCHES: Final = 20


@dataclass(frozen=True, kw_only=True, slots=True)
class ChannelOutcome:
    """A channel of a notice or digest (number, scheme and host), its result, and why it failed.

    ``result`` is that of the record; in a dry run ``due``; or ``unreachable``: not recorded, tried at the next run.
    """

    channel: str
    result: str
    detail: str = ""


def worst(outcomes: Iterable[ChannelOutcome]) -> str | None:
    """Return the worst result of some channels, ``None`` without any."""
    results = {each.result for each in outcomes}
    order = (NoticeResult.STARTED, NoticeResult.FAILED, UNREACHABLE, NoticeResult.ACCEPTED, NoticeResult.SENT, DUE)
    return next((str(each) for each in order if each in results), None)


@contextmanager
def giving_back(stores: Stores) -> Iterator[Lease]:
    """Yield a lease that is not taken yet; at the end give it back if it was taken."""
    lease = Lease(now_ms=now_ms, sleep=time.sleep)
    try:
        yield lease
    finally:
        if lease.is_held:
            with stores() as store:
                lease.give_back(store)


def send_all(
    deliveries: Sequence[T],
    lease: Lease,
    *,
    stores: Stores,
    send: Callable[[T], SendResult],
    rows: RowsOf[T],
    written_ms: Callable[[], int],
) -> list[SendResult]:
    """Send and record messages in at most about 20 batches, and return their results.

    A kill while a batch is sent leaves its results unknown. ``written_ms`` returns a later version of rows each time.
    """
    size = max(_SMALLEST_BATCH, len(deliveries) // _BATCHES)
    sent: list[SendResult] = []
    for first in range(0, len(deliveries), size):
        batch = deliveries[first : first + size]
        results = [SendResult(result=NoticeResult.STARTED)] * len(batch)
        for is_sent in (False, True):
            if is_sent:
                results = [_sent(delivery, send, lease, stores) for delivery in batch]
            version_ms = written_ms()
            with stores() as store:
                if not is_sent:
                    lease.renew(store)
                both = zip(batch, results, strict=True)
                store.insert_json("notices", [row for one in both for row in rows(*one, version_ms)])
        sent += results
    return sent


def _sent(delivery: T, send: Callable[[T], SendResult], lease: Lease, stores: Stores) -> SendResult:
    """Send one message, after the lease was renewed if that is due: a slow channel takes half a minute."""
    if lease.is_held and lease.is_renewal_due:
        with stores() as store:
            lease.renew(store)
    return send(delivery)


def now_ms() -> int:
    """Return the time (Unix ms)."""
    return time.time_ns() // 1_000_000


class Versions:
    """Versions of rows (Unix ms), all later than ``newest_ms``."""

    def __init__(self, newest_ms: int = 0) -> None:
        self._newest_ms = newest_ms

    def next_ms(self) -> int:
        """Return the time, but later than the version before, also where the clock was set back."""
        self._newest_ms = max(now_ms(), self._newest_ms + 1)
        return self._newest_ms
