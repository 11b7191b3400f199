"""Rows of allocations and their use, names of allocations, queue waits, and reservations."""

from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from gua.core.parameters import BOUNDS, PRICED, READ
from gua.core.ports import ViewReader
from gua.core.view import Count, Moment, View
from gua.report.kit.fields import filled
from gua.report.model import ReportedSource
from gua.report.states import MS_PER_HOUR
from gua.report.uses import UseName

COUNTED: Final = frozenset(("gua", "canhazgpu"))
"""Sources whose allocations are reservations, counted by kind."""
TICKS_DELETED: Final = ""


class AllocationUseRow(NamedTuple):
    """Total GPU time [us] of an owner, source (``""``: unallocated or unknown), use and price.

    Or (not ``is_total``) a part of a card's newest tick: its allocation and use, since when (Unix ms). ``is_shared``:
    processes of other users ran besides the owner's. For unallocated parts ``allocated_until_ms`` is the end of the
    card's last allocation in the window (0: none), ``allocated_to`` its owner.
    """

    is_total: bool
    host: str
    gpu: str
    source: str
    allocation_id: str
    owner: str | None
    use: UseName
    is_shared: bool
    price: Count
    gpu_us: Count
    last_ms: Moment
    use_since_ms: Moment
    in_use_ms: Count
    use_since_is_lower_bound: bool
    allocated_until_ms: Moment
    allocated_to: str | None


class AllocationNameRow(NamedTuple):
    """The names of a card's allocation, and its beginning and end (Unix ms)."""

    host: str
    gpu: str
    source: str
    allocation_id: str
    kind: str | None
    job_name: str | None
    since_ms: Moment | None
    until_ms: Moment | None


class AllocatedWorkRow(NamedTuple):
    """Allocated GPU time [us] of a kind of work or served model, by use; no name where unknown."""

    name: str | None
    use: UseName
    gpu_us: Count


class WaitsRow(NamedTuple):
    """A host with a queue: the maximum ``waiting`` at once, and GPU time [us] by use while requests waited.

    ``wait_ms`` adds up all requests, ``waited_ms`` is time with any. ``unknown_ms``: time in which gua managed cards,
    without a stored queue.
    """

    host: str
    waiting: Count
    wait_ms: Count
    waited_ms: Count
    unknown_ms: Count
    held_us: Count
    used_by_others_us: Count
    empty_us: Count
    free_us: Count
    unknown_us: Count


class ReservationsRow(NamedTuple):
    """The number of an owner's reservations of one kind that covered a tick of the window.

    Kind :data:`TICKS_DELETED` are reservations whose ticks are no longer stored.
    """

    source: str
    owner: str | None
    kind: str
    reservations: Count


ALLOCATION_NAMES: Final = View("allocation_names", AllocationNameRow, BOUNDS)
ALLOCATED_WORK: Final = View("allocated_work", AllocatedWorkRow, (*READ, "by"))
ALLOCATIONS: Final = View("allocations", AllocationUseRow, (*READ, *PRICED))
WAITS: Final = View("waits", WaitsRow, READ)
RESERVATIONS: Final = View("reservations", ReservationsRow, READ)


_NEWEST_MS: Final = 15 * 60_000


class SourceRow(NamedTuple):
    """How long [ms] a source on a host was readable or not; ``reason`` is the latest failure. Times are Unix ms."""

    host: str
    source: str
    ok_ms: Count
    failed_ms: Count
    reason: str | None
    last_ms: Moment
    last_failed_ms: Moment | None


SOURCES: Final = View("allocation_sources", SourceRow, READ)


def newest_sources(reader: ViewReader, now_ms: int, hosts: Sequence[str] = ()) -> tuple[ReportedSource, ...]:
    """Return the sources read in the 15 minutes before ``now_ms`` (Unix ms), from ticks instead of hourly rollups."""
    since_ms = now_ms - _NEWEST_MS
    hours = sorted({since_ms // MS_PER_HOUR, now_ms // MS_PER_HOUR})
    bounds = {"since_ms": since_ms, "until_ms": now_ms, "hosts": list(hosts)}
    return sources_of(SOURCES.rows(reader, {**bounds, "tick_hours": hours, "use_hourly": 0}))


def sources_of(rows: Iterable[SourceRow]) -> tuple[ReportedSource, ...]:
    """Return the sources by host and name; ``ok`` is false where the newest reading failed."""
    return tuple(
        filled(ReportedSource, row, ok=row.last_failed_ms is None or row.last_failed_ms < row.last_ms)
        for row in sorted(rows, key=lambda row: (row.host, row.source))
    )
