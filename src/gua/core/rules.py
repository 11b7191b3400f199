"""State rules for a card and for a process in one tick, in Python, for code that runs without a ClickHouse engine.

``clickhouse/20_rules`` has the same rules in SQL, and docs/rules.md describes them. The cases in
``tests/cases/rules`` test both. All arithmetic is on integers in stored units (bytes, 1/10,000), so that
both implementations agree exactly.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Final, NamedTuple

from gua.core.errors import UsageError
from gua.core.facts import RATIO_SCALE, CardFacts, TypeTotals
from gua.core.words import ProcessList, ProcessType

MIB: Final = 2**20
UNKNOWN_RESERVE_BYTES: Final = 1024 * MIB
"""Upper bound of the driver's reserve where NVML does not report it; current cards reserve less."""


class State(StrEnum):
    """State of a card in one tick."""

    ACTIVE = "active"
    IDLE_HELD = "idle-held"
    TRULY_IDLE = "truly-idle"
    UNKNOWN = "unknown"


class Reason(StrEnum):
    """Cause of an unknown card state: the first unreadable value that applies."""

    LOST = "lost"
    UTILIZATION = "utilization"
    PID_NAMESPACE = "pid_namespace"
    PROCESSES = "processes"
    MEMORY = "memory"


class Why(StrEnum):
    """Why a rule line fits or not: a comparison of two values, or the condition that rules it out."""

    STATUS = "status"
    COMPARED = "compared"
    UTILIZATION_UNKNOWN = "utilization_unknown"
    HELD_UPPER_KNOWN = "held_upper_known"
    HELD_UPPER_UNKNOWN = "held_upper_unknown"
    RESERVE_KNOWN = "reserve_known"
    RESERVE_UNKNOWN = "reserve_unknown"
    LIST_KNOWN = "list_known"
    LIST_UNKNOWN = "list_unknown"
    COUNTED_MEMORY_KNOWN = "counted_memory_known"
    COUNTED_MEMORY_UNKNOWN = "counted_memory_unknown"
    IGNORED_MEMORY_UNKNOWN = "ignored_memory_unknown"


class ProcessState(StrEnum):
    """State of a process on its card in one tick."""

    ACTIVE = "active"
    IDLE = "idle"
    UNKNOWN = "unknown"


@dataclass(frozen=True, kw_only=True, slots=True)
class Rules:
    """User settings of the rules.

    ``active_utilization`` is a ratio from 0.0001 to 1. ``held_memory_ratio`` is a ratio of the card's memory from 0
    to 1. Both have steps of 1/10,000, the resolution of stored utilization. ``active_from`` is
    ``active_utilization`` in these steps. Raises :class:`UsageError` for any other value.
    """

    active_utilization: float = 0.10
    held_memory_bytes: int = 100 * MIB
    held_memory_ratio: float = 0.0
    # Derived from active_utilization; a field, because it is compared with each process of each tick.
    active_from: int = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        # Written so that NaN, whose comparisons are all false, raises too.
        if not (self.active_utilization <= 1 and self.active_utilization * RATIO_SCALE >= 1):
            msg = f"active_utilization is {self.active_utilization}: set a ratio from 0.0001 to 1, as in 0.1 for 10 %"
            raise UsageError(msg)
        if not self.held_memory_bytes >= 0:
            raise UsageError(f"held_memory_bytes is {self.held_memory_bytes}: set a number of bytes, 0 or more")
        if not 0 <= self.held_memory_ratio <= 1:
            msg = f"held_memory_ratio is {self.held_memory_ratio}: set a ratio of the card's memory from 0 to 1"
            raise UsageError(msg)
        object.__setattr__(self, "active_from", round(self.active_utilization * RATIO_SCALE))


SHIPPED: Final = Rules()
"""The rules as gua ships them: an agent judges by no others."""


class Line(NamedTuple):
    """An evaluated line of the rules: its number in docs/rules.md, the state it yields, whether it fits and why.

    ``limit`` is what ``value`` was compared with: utilization in 1/10,000 on line 2, bytes on the others. Without a
    limit, ``value`` is the number of processes of unknown memory. ``reason`` is set if the state is unknown.
    """

    number: str
    state: State
    why: Why
    fits: bool = False
    value: int | None = None
    limit: int | None = None
    reason: Reason | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Verdict:
    """State of a card in one tick and the values behind it.

    ``reason`` is set exactly if the state is unknown. ``utilization`` is the largest known one in 1/10,000.
    The numbers are set in every state, also for a lost card. At least ``held_lower_bytes`` and at most
    ``held_upper_bytes`` are held; the latter is ``None`` if unknown. ``lines`` are the evaluated lines in order:
    the last one fits and decides, the others do not fit.
    """

    state: State
    reason: Reason | None
    utilization: int | None
    threshold_bytes: int
    held_lower_bytes: int
    held_upper_bytes: int | None
    lines: tuple[Line, ...]


def threshold_bytes(facts: CardFacts, rules: Rules) -> int:
    """Return the memory [bytes] above which a card is held: the larger of the fixed and the relative setting.

    The relative one is ``limit * round(held_memory_ratio * 10,000) // 10,000``, rounded down. If the card's
    memory limit is unknown, only the fixed setting counts.
    """
    if facts.memory_limit_bytes is None:
        return rules.held_memory_bytes
    relative = facts.memory_limit_bytes * round(rules.held_memory_ratio * RATIO_SCALE) // RATIO_SCALE
    return max(rules.held_memory_bytes, relative)


def utilization(facts: CardFacts) -> int | None:
    """Return the largest known utilization of the general engine, encoder, decoder and any process, in 1/10,000."""
    engines = (
        facts.utilization,
        facts.utilization_encoder,
        facts.utilization_decoder,
        facts.process_utilization_max,
    )
    return max((known for known in engines if known is not None), default=None)


def counted(facts: CardFacts) -> TypeTotals:
    """Return the totals of all processes that are not ignored; all 0 if the process list is unknown."""
    count = memory_bytes = unknown = 0
    for kind, total in (facts.processes or {}).items():
        if kind is not ProcessType.IGNORED:
            count += total.count
            memory_bytes += total.memory_bytes
            unknown += total.unknown
    return TypeTotals(count=count, memory_bytes=memory_bytes, unknown=unknown)


def ignored(facts: CardFacts) -> TypeTotals:
    """Return the totals of the ignored processes; all 0 if the process list is unknown."""
    return (facts.processes or {}).get(ProcessType.IGNORED, TypeTotals())


def _held(facts: CardFacts, by_processes: TypeTotals, left_out: TypeTotals) -> tuple[int, int | None]:
    """Return the lower and upper bound of held memory [bytes], with or without a listed process.

    The upper bound is usage less the ignored processes' known memory, ``None`` if usage is unknown or shared. The
    lower bound is the same less an unknown reserve, and at least the memory of the counted processes. If the list or
    an ignored process's memory is unknown, that memory alone is the lower bound.
    """
    known = by_processes.memory_bytes
    if facts.memory_used_bytes is None or facts.memory_shared:
        return known, None
    upper = max(0, facts.memory_used_bytes - left_out.memory_bytes)
    lower = 0
    if facts.process_list is ProcessList.KNOWN and left_out.unknown == 0:
        lower = upper - (UNKNOWN_RESERVE_BYTES if facts.memory_reserved_bytes is None else 0)
    return max(known, lower), max(known, upper)


def classify(facts: CardFacts, rules: Rules) -> Verdict:
    """Return the state of a card for one tick by the first line of docs/rules.md that fits; the last always fits."""
    totals = counted(facts)
    card = _Card(facts, totals, *_held(facts, totals, ignored(facts)), threshold_bytes(facts, rules))
    busiest = utilization(facts)
    evaluated = []
    for line in _lines(card, busiest, rules.active_from):
        evaluated.append(line)
        if line.fits:
            break
    return Verdict(
        state=line.state,
        reason=line.reason,
        utilization=busiest,
        threshold_bytes=card.threshold_bytes,
        held_lower_bytes=card.held_lower_bytes,
        held_upper_bytes=card.held_upper_bytes,
        lines=tuple(evaluated),
    )


def without_process(facts: CardFacts, rules: Rules) -> bool | None:
    """Return whether a card was active without a process and without held memory in one tick.

    ``None`` if it was not active, or if its processes are not known for the whole tick. It holds no memory if it would
    be truly-idle without its utilization. The source is docs/rules.md, "Active without a process".
    """
    seen = facts.processes_seen if facts.process_list is ProcessList.KNOWN else None
    if seen is None or classify(facts, rules).state is not State.ACTIVE:
        return None
    general = None if facts.utilization is None else 0
    unused = replace(
        facts, utilization=general, utilization_encoder=None, utilization_decoder=None, process_utilization_max=None
    )
    return seen == 0 and classify(unused, rules).state is State.TRULY_IDLE


def process_state(utilization: int | None, rules: Rules) -> ProcessState:
    """Return the state of a process for one tick by its utilization in 1/10,000; ``None`` is unknown."""
    if utilization is None:
        return ProcessState.UNKNOWN
    return ProcessState.ACTIVE if utilization >= rules.active_from else ProcessState.IDLE


class _Card(NamedTuple):
    """Input of the rule lines; ``counted`` are the totals of the counted processes."""

    facts: CardFacts
    counted: TypeTotals
    held_lower_bytes: int
    held_upper_bytes: int | None
    threshold_bytes: int

    @property
    def is_listed(self) -> bool:
        return self.facts.process_list is ProcessList.KNOWN


def _lines(card: _Card, busiest: int | None, active_from: int) -> Iterator[Line]:
    """Yield the rule lines in order; the last always fits. "3" replaces 3a to 3c, "4" 4a to 4c, if none can fit."""
    yield Line("1", State.UNKNOWN, Why.STATUS, bool(card.facts.failed), reason=Reason.LOST)
    if busiest is None:
        yield Line("2", State.ACTIVE, Why.UTILIZATION_UNKNOWN)
    else:
        yield Line("2", State.ACTIVE, Why.COMPARED, busiest >= active_from, busiest, active_from)
    if card.counted.unknown:
        yield Line("3", State.TRULY_IDLE, Why.COUNTED_MEMORY_UNKNOWN, value=card.counted.unknown)
    else:
        upper, threshold = card.held_upper_bytes, card.threshold_bytes
        if upper is None:
            yield Line("3a", State.TRULY_IDLE, Why.HELD_UPPER_UNKNOWN)
        else:
            yield Line("3a", State.TRULY_IDLE, Why.COMPARED, upper <= threshold, upper, threshold)
        yield _within_reserve(card)
        yield _processes_within_threshold(card)
    if card.facts.utilization is None:
        yield Line("4", State.IDLE_HELD, Why.UTILIZATION_UNKNOWN)
    else:
        lower, threshold = card.held_lower_bytes, card.threshold_bytes
        yield Line("4a", State.IDLE_HELD, Why.COMPARED, lower > threshold, lower, threshold)
        if unknown := card.counted.unknown:
            yield Line("4b", State.IDLE_HELD, Why.COUNTED_MEMORY_UNKNOWN, fits=True, value=unknown)
        else:
            yield Line("4b", State.IDLE_HELD, Why.COUNTED_MEMORY_KNOWN if card.is_listed else Why.LIST_UNKNOWN)
        yield _held_by_unlisted(card)
    yield _unknown(card)


def _within_reserve(card: _Card) -> Line:
    lower, threshold = card.held_lower_bytes, card.threshold_bytes
    if card.held_upper_bytes is None:
        return Line("3b", State.TRULY_IDLE, Why.HELD_UPPER_UNKNOWN)
    if card.facts.memory_reserved_bytes is not None:
        return Line("3b", State.TRULY_IDLE, Why.RESERVE_KNOWN)
    if not card.is_listed:
        return Line("3b", State.TRULY_IDLE, Why.LIST_UNKNOWN)
    if unknown := ignored(card.facts).unknown:
        return Line("3b", State.TRULY_IDLE, Why.IGNORED_MEMORY_UNKNOWN, value=unknown)
    return Line("3b", State.TRULY_IDLE, Why.COMPARED, lower <= threshold, lower, threshold)


def _processes_within_threshold(card: _Card) -> Line:
    known, threshold = card.counted.memory_bytes, card.threshold_bytes
    if card.held_upper_bytes is not None:
        return Line("3c", State.TRULY_IDLE, Why.HELD_UPPER_KNOWN)
    if not card.is_listed:
        return Line("3c", State.TRULY_IDLE, Why.LIST_UNKNOWN)
    if card.facts.utilization is None:
        return Line("3c", State.TRULY_IDLE, Why.UTILIZATION_UNKNOWN, value=known, limit=threshold)
    return Line("3c", State.TRULY_IDLE, Why.COMPARED, known <= threshold, known, threshold)


def _held_by_unlisted(card: _Card) -> Line:
    upper, threshold = card.held_upper_bytes, card.threshold_bytes
    if card.is_listed:
        return Line("4c", State.IDLE_HELD, Why.LIST_KNOWN)
    if card.facts.memory_reserved_bytes is None:
        return Line("4c", State.IDLE_HELD, Why.RESERVE_UNKNOWN)
    if upper is None:
        return Line("4c", State.IDLE_HELD, Why.HELD_UPPER_UNKNOWN)
    return Line("4c", State.IDLE_HELD, Why.COMPARED, upper > threshold, upper, threshold)


def _unknown(card: _Card) -> Line:
    if card.facts.utilization is None:
        return Line("5", State.UNKNOWN, Why.UTILIZATION_UNKNOWN, fits=True, reason=Reason.UTILIZATION)
    if card.is_listed:
        unknown = ignored(card.facts).unknown
        return Line("5", State.UNKNOWN, Why.IGNORED_MEMORY_UNKNOWN, fits=True, value=unknown, reason=Reason.MEMORY)
    in_namespace = card.facts.process_list is ProcessList.PID_NAMESPACE
    reason = Reason.PID_NAMESPACE if in_namespace else Reason.PROCESSES
    return Line("5", State.UNKNOWN, Why.LIST_UNKNOWN, fits=True, reason=reason)
