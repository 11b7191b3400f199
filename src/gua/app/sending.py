"""Send messages in batches: each is recorded as started before it is sent, and with its result after."""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Final, TypeVar

from gua.notices.channels import SendResult
from gua.notices.held import NoticeResult
from gua.notices.record import Inserter, Lease

T = TypeVar("T")
Stores = Callable[[], AbstractContextManager[Inserter]]
"""Opens the store: while it is read or written, not while messages are sent."""
RowsOf = Callable[[T, SendResult, str, int], list[dict[str, object]]]
"""Returns the rows of ``gua.notices`` of a delivery: its result, the id of its message, and when written (Unix ms)."""
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
    order = (NoticeResult.STARTED, NoticeResult.FAILED, UNREACHABLE, NoticeResult.SENT, DUE)
    return next((str(each) for each in order if each in results), None)


def send_all(
    deliveries: Sequence[T], lease: Lease, *, stores: Stores, send: Callable[[T], SendResult], rows: RowsOf[T]
) -> list[SendResult]:
    """Send and record messages in at most about 20 batches, and return their results."""
    size = max(_SMALLEST_BATCH, len(deliveries) // _BATCHES)
    batches = (deliveries[first : first + size] for first in range(0, len(deliveries), size))
    return [result for batch in batches for result in _send_batch(batch, lease, stores, send, rows)]


def _send_batch(
    batch: Sequence[T], lease: Lease, stores: Stores, send: Callable[[T], SendResult], rows: RowsOf[T]
) -> list[SendResult]:
    """Record that sending begins, send, and record the results; a kill in between leaves them unknown."""
    message = secrets.token_hex(8)

    def record(results: Sequence[SendResult], written_ms: int) -> list[dict[str, object]]:
        every = enumerate(zip(batch, results, strict=True))
        return [row for place, one in every for row in rows(*one, f"{message}-{place}", written_ms)]

    started_ms = now_ms()
    with stores() as store:
        lease.renew(store)
        store.insert_json("notices", record([SendResult(result=NoticeResult.STARTED)] * len(batch), started_ms))
    results = [send(delivery) for delivery in batch]
    # Later than the start, also where the clock is set back meanwhile.
    written_ms = max(now_ms(), started_ms + 1)
    with stores() as store:
        store.insert_json("notices", record(results, written_ms))
    return results


def now_ms() -> int:
    """Return the time (Unix ms)."""
    return time.time_ns() // 1_000_000
