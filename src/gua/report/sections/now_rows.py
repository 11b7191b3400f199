"""Rows of section now: idle holders, other holders, free cards, allocations and each card's state."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import inf
from typing import Annotated, ClassVar, Final, NamedTuple

from gua.core.parameters import PRICED, READ_DAYS
from gua.core.view import Count, Moment, Named, View
from gua.core.words import AllocationStatus, Mig, Use
from gua.report.allocations import AllocationNameRow, AllocationUseRow
from gua.report.costs import OneCost
from gua.report.kit.fields import NO_OUTPUT, Hours, Ratio, Seconds, Timestamp, Unit, filled, grouped, of_card
from gua.report.model import Extent, NamedCard, Placed, Window
from gua.report.prices import PricedTime, Prices
from gua.report.sections.card_streaks import CardStreaksRow
from gua.report.states import ACTIVE, IDLE_HELD, MS_PER_DAY, MS_PER_HOUR, STATES, TRULY_IDLE, UNKNOWN

BYTES_PER_GB: Final = 10**9
SILENT: Final = "silent"
SILENT_AFTER: Final = 3
"""Number of intervals without a tick after which a card is silent, as in gua.current_cards."""


def gigabyte_hours(byte_ms: float) -> float:
    """Return bytes times milliseconds as GB-hours (10^9 bytes)."""
    return byte_ms / BYTES_PER_GB / MS_PER_HOUR


_GB_HOURS: Final = Unit(
    json=lambda byte_ms: round(gigabyte_hours(byte_ms), 6), cell=gigabyte_hours, name="wasted_gigabyte_hours"
)


@dataclass(frozen=True, kw_only=True, slots=True)
class _NamedCard(Placed):
    """A card with the driver's name."""

    card_name: Annotated[str | None, Named("name")]


@dataclass(frozen=True, kw_only=True, slots=True)
class _HeldCard(_NamedCard):
    """A card's state at its newest tick, and the time of that tick (Unix ms)."""

    card_state: Annotated[str, Named("state")]
    as_of_ms: Timestamp[int]


@dataclass(frozen=True, kw_only=True, slots=True)
class Holder(_HeldCard):
    """An idle process at a card's newest tick; times in ms, moments in Unix ms.

    ``pid`` is ``None`` for memory without a listed process on an idle-held card. ``idle_ms`` is the idle time of the
    current streak, without gaps and unknown ticks; ``is_lower_bound``: the state just before is unknown, so it may be
    longer. ``active_24h_ms``: its active time in the 24 h before ``as_of_ms``; ``None`` where its utilization is
    unknown, or the window covers neither those 24 h nor its lifetime. ``wasted_gpu_ms``: GPU time attributed to it in
    the window while the card was idle-held (without a ``pid``: the card's current streak). ``wasted_byte_ms``: its
    memory times that time, ``None`` where unknown. ``wasted_cost``: cost of that GPU time; ``None`` without prices, and
    without a ``pid`` also if the price changed in the streak. ``is_alone``: no other counted process is on the card.
    """

    owner: str | None = None
    program: str | None = None
    pid: int | None = None
    created_ms: Timestamp[int | None] = None
    memory_bytes: int | None = None
    idle_since_ms: Timestamp[int]
    idle_ms: Seconds[int]
    is_lower_bound: bool
    is_alone: bool
    active_24h_ms: Seconds[int | None] = None
    wasted_gpu_ms: Annotated[Hours[float], Named("idle_held_us")]
    wasted_byte_ms: Annotated[float | None, _GB_HOURS] = None
    wasted_cost: OneCost = None
    container_id: str | None = None
    pod_uid: str | None = None
    slurm_job_id: str | None = None
    systemd_unit: str | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class OtherHolder(_HeldCard):
    """A process at a card's newest tick that is active, or whose state is unknown.

    ``since_ms``: its first tick on the card in the window (Unix ms). Its idle time is unknown.
    """

    owner: str | None
    program: str | None
    pid: int
    created_ms: Timestamp[int | None] = None
    memory_bytes: int | None
    since_ms: Annotated[Timestamp[int], Named("first_ms")]
    container_id: str | None = None
    pod_uid: str | None = None
    slurm_job_id: str | None = None
    systemd_unit: str | None = None
    idle_ms: ClassVar[None] = None
    is_lower_bound: ClassVar[bool] = False


@dataclass(frozen=True, kw_only=True, slots=True)
class FreeCard(_NamedCard):
    """A truly-idle card at its newest tick that no source allocates, or whose allocation is unknown.

    ``free_since_ms`` is when it became truly-idle and unallocated, ``free_ms`` the observed time since then.
    ``previous_owner`` is the owner of the allocation that ended then, ``None`` if there is none or the owner is
    unknown. ``allocation`` is ``unallocated`` or ``unknown``; ``None`` without an allocation source.

    ``free_ratio_at_this_hour``: truly-idle share of the observed time in this hour of the day, 0 to 1; ``None`` if
    unobserved.
    """

    as_of_ms: Timestamp[int]
    free_since_ms: Timestamp[int]
    free_ms: Seconds[int]
    is_lower_bound: bool
    free_ratio_at_this_hour: Ratio[float | None]
    allocation: str | None = None
    previous_owner: str | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class AllocatedCard(_HeldCard):
    """An allocation of a card at its newest tick: owner, source and use.

    ``allocated_since_ms`` and ``allocated_until_ms`` come from the source (Unix ms). ``use_since_ms`` is the beginning
    of the current ``use``, ``in_use_ms`` the observed time since then. ``is_lower_bound``: it may have begun earlier.
    """

    source: str
    allocation_id: str
    owner: str | None
    allocation_kind: str | None
    job_name: str | None
    allocated_since_ms: Timestamp[int | None]
    allocated_until_ms: Timestamp[int | None]
    use: str
    use_since_ms: Timestamp[int]
    in_use_ms: Seconds[int]
    is_lower_bound: bool


@dataclass(frozen=True, kw_only=True, slots=True)
class CardNow(Placed):
    """A card's state at its newest tick, or :data:`SILENT`.

    For an idle-held or truly-idle card its beginning and the observed time since then; ``is_lower_bound``: the
    beginning was not observed.
    """

    state: str
    since_ms: Timestamp[int | None] = None
    in_state_ms: Seconds[int | None] = None
    is_lower_bound: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class Now:
    """The state as of ``as_of_ms``, the window's end: idle holders, free cards, other holders, allocations.

    ``holders`` are ordered by idle-held card, idle time and memory. ``cards`` counts MIG instances and unpartitioned
    GPUs by state at their newest tick, and :data:`SILENT` ones without a tick for three intervals. Only ``by_card``
    lists silent cards. ``maybe_allocated`` are truly-idle cards whose allocation is unknown. ``allocations`` are
    ordered by card. ``unobserved``, not in the output, are the last known processes of silent cards, and of cards
    whose newest tick has none while it is active or unknown.
    """

    as_of_ms: Timestamp[int]
    cards: Mapping[str, int]
    holders: tuple[Holder, ...]
    free: tuple[FreeCard, ...]
    others: tuple[OtherHolder, ...] = ()
    by_card: tuple[CardNow, ...] = ()
    maybe_allocated: tuple[FreeCard, ...] = ()
    allocations: tuple[AllocatedCard, ...] = ()
    unobserved: tuple[OtherHolder, ...] = field(default=(), metadata=NO_OUTPUT)

    @property
    def allocated_idle(self) -> tuple[AllocatedCard, ...]:
        """Return the allocations of truly-idle cards."""
        return tuple(one for one in self.allocations if one.card_state == TRULY_IDLE)

    @property
    def empty(self) -> tuple[AllocatedCard, ...]:
        """Return the empty allocations (no process of the owner or others), the longest first."""
        found = (one for one in self.allocations if one.use == Use.EMPTY)
        return tuple(sorted(found, key=lambda one: (-one.in_use_ms, one.host, one.index or 0, one.gpu)))


class Owner(NamedTuple):
    """The owner of a process, its program, and the container, pod, job or unit it runs in."""

    owner: str | None
    program: str | None
    container_id: str | None
    pod_uid: str | None
    slurm_job_id: str | None
    systemd_unit: str | None


class CardProcess(NamedTuple):
    """A process at a card's newest tick with processes; moments in Unix ms, ``created_ms`` is 0 if unknown."""

    host: str
    gpu: str
    pid: Count
    created_ms: int
    owner: Owner
    last_ms: Moment
    is_idle: bool
    memory_bytes: Count | None
    idle_since_ms: Moment | None
    idle_ms: Count | None
    idle_first_span_ms: Count | None
    known_before_ms: Count | None
    first_ms: Moment
    active_24h_ms: Count | None
    idle_held_us: Count
    idle_held_kib_ms: Count
    idle_held_known_ms: Count
    idle_held_priced: tuple[PricedTime, ...]


HOLDERS: Final = View("holders", CardProcess, (*READ_DAYS, "current_since_ms", *PRICED))
_LANDING_TICKS: Final = 1.5
_BYTES_PER_KIB: Final = 1024


def current_since_ms(extents: Iterable[Extent], window: Window, now_ms: int) -> int:
    """Return a Unix time [ms] before the newest tick of every card that is not silent.

    An agent's tick covers two intervals at most, one of a recording without an interval a day at most.
    """
    longest_ms = max((2 * (extent.interval_ms or 0) for extent in extents), default=0)
    return max(min(window.until_ms, now_ms) - SILENT_AFTER * max(MS_PER_DAY, longest_ms), 0)


def now_of(  # noqa: PLR0913 - the rows of six queries
    card_rows: Sequence[CardStreaksRow],
    listed: Iterable[CardProcess],
    allocation_rows: Iterable[AllocationUseRow] = (),
    name_rows: Iterable[AllocationNameRow] = (),
    *,
    cards: Sequence[NamedCard],
    extents: Sequence[Extent],
    window: Window,
    now_ms: int,
    prices: Prices,
) -> Now:
    """Return holders and free cards as of the window's end, or of ``now_ms`` (Unix ms) if that is earlier."""
    as_of_ms = min(window.until_ms, now_ms)
    # Unallocated MIG slices have no holder and cannot be used without a new instance.
    known = {(card.host, card.gpu): card for card in cards if card.mig != Mig.PARENT}
    interval_ms: dict[str, int] = {}
    for extent in extents:
        interval_ms[extent.host] = max(interval_ms.get(extent.host, 0), extent.interval_ms or 0)
    every = {(row.host, row.gpu): row for row in card_rows}
    newest = {
        key: row
        for key, row in every.items()
        if key in known
        and row.as_of_ms
        and as_of_ms - row.as_of_ms <= SILENT_AFTER * max(interval_ms.get(row.host, 0), row.newest_span_ms)
    }
    processes = grouped(listed, of_card)
    holders = sorted(
        (
            one
            for key, row in newest.items()
            for one in _holders(known[key], row, processes.get(key, []), window.since_ms, prices)
        ),
        key=_worst_first,
    )
    others = (
        filled(OtherHolder, process.owner, process, row, known[key], created_ms=process.created_ms or None)
        for key, row in newest.items()
        for process in _present(row, processes.get(key, []))
        if row.state != TRULY_IDLE and not process.is_idle
    )
    # After a source was removed, its last allocations no longer describe the present.
    landed_ms = {key: _landed_since_ms(row) for key, row in newest.items()}
    present = (
        part for part in allocation_rows if not part.is_total and part.last_ms >= landed_ms.get(of_card(part), inf)
    )
    parts = grouped(present, of_card)
    idle = [_free(known[key], row, parts.get(key, ())) for key, row in newest.items() if row.state == TRULY_IDLE]
    idle.sort(key=lambda one: (-one.free_ms, one.host, one.index or 0, one.gpu))
    names = {(name.host, name.gpu, name.source, name.allocation_id): name for name in name_rows}
    allocations = (
        _allocated(known[key], row, part, names.get((*key, part.source, part.allocation_id)))
        for key, row in newest.items()
        for part in parts.get(key, ())
        if part.source
    )
    unobserved = (
        filled(
            OtherHolder,
            process.owner,
            process,
            card,
            card_state=newest[key].state if key in newest else SILENT,
            as_of_ms=process.last_ms,
            created_ms=process.created_ms or None,
        )
        for key, card in known.items()
        for process in _unobserved(every.get(key), processes.get(key, []), is_silent=key not in newest)
    )
    states = [row.state for row in newest.values()]
    return Now(
        as_of_ms=as_of_ms,
        holders=tuple(holders),
        free=tuple(one for one in idle if one.allocation in {None, AllocationStatus.UNALLOCATED}),
        maybe_allocated=tuple(one for one in idle if one.allocation == AllocationStatus.UNKNOWN),
        allocations=tuple(
            sorted(allocations, key=lambda one: (one.host, one.index or 0, one.gpu, one.source, one.allocation_id))
        ),
        unobserved=tuple(unobserved),
        others=tuple(sorted(others, key=lambda one: (one.host, one.index or 0, one.gpu, one.pid))),
        by_card=tuple(
            filled(CardNow, card, newest[key]) if key in newest else filled(CardNow, card, state=SILENT)
            for key, card in known.items()
        ),
        cards={**{state: states.count(state) for state in STATES}, SILENT: len(known) - len(newest)},
    )


def _worst_first(holder: Holder) -> tuple[bool, int, int, str, str, int]:
    """Return the sort key of holders: those on idle-held cards first, then by idle time and memory, descending."""
    return (
        holder.card_state != IDLE_HELD,
        -holder.idle_ms,
        -(holder.memory_bytes or 0),
        holder.host,
        holder.gpu,
        holder.pid or 0,
    )


def _holders(
    card: NamedCard, row: CardStreaksRow, listed: Sequence[CardProcess], since_ms: int, prices: Prices
) -> Iterator[Holder]:
    if row.state == TRULY_IDLE:  # processes too small to hold a card are not reported
        return
    present = _present(row, listed)
    for process in present:
        if process.is_idle and process.idle_ms is not None and process.idle_since_ms is not None:
            # Whether the window covers the process's time in the 24 hours before the card's newest tick.
            is_whole_day = max(row.as_of_ms - MS_PER_DAY, process.created_ms) >= since_ms
            # A process that was just created, or that came to a card observed before, was not idle there earlier.
            near_ms = 2 * (process.idle_first_span_ms or 0)
            known_ms = process.known_before_ms or 0
            if not known_ms and max(process.created_ms + near_ms, process.first_ms - near_ms) > row.watched_since_ms:
                known_ms = process.first_ms
            yield filled(
                Holder,
                process.owner,
                process,
                row,
                card,
                created_ms=process.created_ms or None,
                is_lower_bound=(process.idle_since_ms or 0) - known_ms > near_ms,
                is_alone=len(present) == 1,
                active_24h_ms=process.active_24h_ms if is_whole_day else None,
                wasted_byte_ms=float(process.idle_held_kib_ms * _BYTES_PER_KIB) if process.idle_held_known_ms else None,
                wasted_cost=prices.cost(process.idle_held_us, process.idle_held_priced),
            )
    if row.state == IDLE_HELD and not present:
        yield filled(
            Holder,
            card,
            row,
            idle_since_ms=row.since_ms or 0,
            idle_ms=row.in_state_ms or 0,
            is_alone=True,
            wasted_gpu_ms=(row.in_state_us or 0) / 1000,
            wasted_cost=prices.cost_throughout(
                row.in_state_us or 0, card.model or card.name, row.since_ms or 0, row.as_of_ms
            ),
        )


def _present(row: CardStreaksRow, listed: Sequence[CardProcess]) -> list[CardProcess]:
    """Return the processes of the newest tick, or of the one before if the newest has none.

    A tick may land with its card before its processes. Memory therefore counts as unlisted only on a card without
    processes for longer than a tick.
    """
    newest_ms = max((process.last_ms for process in listed), default=0)
    return [process for process in listed if process.last_ms == newest_ms >= _landed_since_ms(row)]


def _unobserved(row: CardStreaksRow | None, listed: Sequence[CardProcess], *, is_silent: bool) -> Sequence[CardProcess]:
    """Return the processes that may still be on a card whose newest ticks do not say so."""
    if row is None or not row.as_of_ms:
        return listed
    present = _present(row, listed)
    if is_silent:
        return present
    return listed if row.state in {ACTIVE, UNKNOWN} and not present else ()


def _landed_since_ms(row: CardStreaksRow) -> float:
    """Return the time (Unix ms) from which rows belong to the newest tick or the one before."""
    return row.as_of_ms - _LANDING_TICKS * row.newest_span_ms


def _status(parts: Sequence[AllocationUseRow]) -> AllocationStatus | None:
    """Return the allocation status of a card at its newest tick, ``None`` without an allocation source."""
    if not parts:
        return None
    if any(part.source for part in parts):
        return AllocationStatus.ALLOCATED
    is_known = all(part.use in {Use.FREE, Use.UNALLOCATED_USE} for part in parts)
    return AllocationStatus.UNALLOCATED if is_known else AllocationStatus.UNKNOWN


def _allocated(
    card: NamedCard, row: CardStreaksRow, part: AllocationUseRow, name: AllocationNameRow | None
) -> AllocatedCard:
    return filled(
        AllocatedCard,
        part,
        row,
        card,
        allocation_kind=name and name.kind,
        job_name=name and name.job_name,
        allocated_since_ms=name and name.since_ms,
        allocated_until_ms=name and name.until_ms,
        is_lower_bound=part.use_since_is_lower_bound,
    )


def _free(card: NamedCard, row: CardStreaksRow, parts: Sequence[AllocationUseRow]) -> FreeCard:
    """Return a truly-idle card; with an allocation source it is free from the end of its last allocation."""
    begins = [(row.since_ms or 0, row.is_lower_bound)]
    observed_ms = [row.in_state_ms or 0]
    owners: dict[int, str | None] = {}
    for part in parts:
        if part.use == Use.FREE:
            begins += [(part.use_since_ms, part.use_since_is_lower_bound), (part.allocated_until_ms, False)]
            observed_ms.append(part.in_use_ms)
            owners[part.allocated_until_ms] = part.allocated_to
    since_ms = max(begin_ms for begin_ms, _ in begins)
    observed_ms.append(max(row.as_of_ms - since_ms, 0))  # a later query may include a newer tick
    return filled(
        FreeCard,
        card,
        row,
        free_since_ms=since_ms,
        free_ms=min(observed_ms),
        is_lower_bound=all(is_lower_bound for begin_ms, is_lower_bound in begins if begin_ms == since_ms),
        allocation=_status(parts),
        previous_owner=owners.get(since_ms),
    )
