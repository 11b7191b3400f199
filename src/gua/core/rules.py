"""Which state a card is in for one tick, and a process: the rules in Python, for where there is no engine.

The same rules stand as SQL in ``clickhouse/20_rules``; the cases in ``tests/cases/rules`` run through
both and docs/rules.md tells them in plain words. Everything is integer arithmetic on the stored units
(bytes, 1/10,000), so that both give the same to the last bit.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from gua.core.errors import UsageError
from gua.core.facts import RATIO_SCALE, CardFacts, TypeTotals
from gua.core.tick import ProcessList, ProcessType

MIB: Final = 2**20
UNKNOWN_RESERVE_BYTES: Final = 1024 * MIB
"""What a driver may keep for itself where it does not tell; the reserve of current cards is below it."""

COUNTED: Final = (ProcessType.COMPUTE, ProcessType.GRAPHICS, ProcessType.MPS)


class State(StrEnum):
    """What a card did in one tick."""

    ACTIVE = "active"
    IDLE_HELD = "idle-held"
    TRULY_IDLE = "truly-idle"
    UNKNOWN = "unknown"


class Reason(StrEnum):
    """Why a card's state is unknown: what could not be read, the first that applies."""

    LOST = "lost"
    UTILIZATION = "utilization"
    PID_NAMESPACE = "pid_namespace"
    PROCESSES = "processes"
    MEMORY = "memory"


class ProcessState(StrEnum):
    """What a process did on its card in one tick."""

    ACTIVE = "active"
    IDLE = "idle"
    UNKNOWN = "unknown"


@dataclass(frozen=True, kw_only=True, slots=True)
class Rules:
    """The settings, as users give them.

    ``active_utilization`` is a ratio of 0.0001 to 1, ``held_memory_ratio`` one of 0 to 1 of the card's
    memory. Both count in steps of 1/10,000, the resolution in which utilization is stored.
    Raises :class:`UsageError` for anything else.
    """

    active_utilization: float = 0.10
    held_memory_bytes: int = 100 * MIB
    held_memory_ratio: float = 0.0

    def __post_init__(self) -> None:
        # Written so that a NaN, which compares as false with everything, is refused too.
        if not (self.active_utilization <= 1 and self.active_utilization * RATIO_SCALE >= 1):
            msg = f"active_utilization is {self.active_utilization}: set a ratio from 0.0001 to 1, as in 0.1 for 10 %"
            raise UsageError(msg)
        if not self.held_memory_bytes >= 0:
            msg = f"held_memory_bytes is {self.held_memory_bytes}: set a number of bytes, 0 or more"
            raise UsageError(msg)
        if not 0 <= self.held_memory_ratio <= 1:
            msg = f"held_memory_ratio is {self.held_memory_ratio}: set a ratio of the card's memory from 0 to 1"
            raise UsageError(msg)

    @property
    def active_from(self) -> int:
        """The utilization from which a card or process is active, in 1/10,000."""
        return round(self.active_utilization * RATIO_SCALE)


@dataclass(frozen=True, kw_only=True, slots=True)
class Bounds:
    """What is held on a card, as a range in bytes; an upper bound of ``None`` is unknown.

    ``device_*`` is what the card's own usage says, ``held_*`` the larger of that and the counted
    processes' known memory, ``unattributed_*`` the part of it that no listed process owns.
    """

    device_lower_bytes: int
    device_upper_bytes: int | None
    held_lower_bytes: int
    held_upper_bytes: int | None
    unattributed_lower_bytes: int
    unattributed_upper_bytes: int | None


@dataclass(frozen=True, kw_only=True, slots=True)
class Verdict:
    """A card's state in one tick and what it rests on.

    ``reason`` is set exactly if the state is unknown. ``utilization`` is the largest known one in
    1/10,000. The numbers are given in every state, also for a lost card.
    """

    state: State
    reason: Reason | None
    utilization: int | None
    threshold_bytes: int
    bounds: Bounds

    @property
    def held_lower_bytes(self) -> int:
        """At least this much is held."""
        return self.bounds.held_lower_bytes

    @property
    def held_upper_bytes(self) -> int | None:
        """At most this much is held; ``None`` where that cannot be told."""
        return self.bounds.held_upper_bytes


def threshold_bytes(facts: CardFacts, rules: Rules) -> int:
    """Return the memory above which a card is held: the larger of the fixed and the relative setting.

    The relative one is ``limit * round(held_memory_ratio * 10,000) // 10,000``, rounded down; where
    the card's limit is unknown there is none and the fixed one alone counts.
    """
    if facts.memory_limit_bytes is None:
        return rules.held_memory_bytes
    relative = facts.memory_limit_bytes * round(rules.held_memory_ratio * RATIO_SCALE) // RATIO_SCALE
    return max(rules.held_memory_bytes, relative)


def utilization(facts: CardFacts) -> int | None:
    """Return the largest known utilization of general, encoder, decoder and any process, in 1/10,000."""
    engines = (
        facts.utilization,
        facts.utilization_encoder,
        facts.utilization_decoder,
        facts.process_utilization_max,
    )
    return max((known for known in engines if known is not None), default=None)


def counted(facts: CardFacts) -> TypeTotals:
    """Return the totals of all processes that are not ignored; all 0 where the list is not known."""
    processes = facts.processes or {}
    totals = [processes.get(kind, TypeTotals()) for kind in COUNTED]
    return TypeTotals(
        count=sum(total.count for total in totals),
        memory_bytes=sum(total.memory_bytes for total in totals),
        unknown=sum(total.unknown for total in totals),
    )


def ignored(facts: CardFacts) -> TypeTotals:
    """Return the totals of the ignored processes; all 0 where the list is not known."""
    return (facts.processes or {}).get(ProcessType.IGNORED, TypeTotals())


def bounds(facts: CardFacts) -> Bounds:
    """Return the range of what is held.

    - Upper device bound: usage less the known memory of ignored processes, not below 0. Unknown
      without a usage, and where memory is shared with the host (its usage is then everybody's).
      Where the list is not known no ignored process is either, so it is the usage.
    - Lower device bound: the upper one, less 1 GiB if the driver does not tell its reserve, not below
      0. It is 0 if the upper one is unknown, the list is not known, or an ignored process's memory is
      unknown: any of these could explain all of the usage.
    - Held: the larger of the counted processes' known memory and the bound. An unknown upper device
      bound makes the upper one unknown, even though the processes' sum is known.
    - Unattributed: the device bound less the counted processes' known memory, not below 0; its lower
      end is 0 if a counted process's memory is unknown, as that process may own it all.
    """
    by_processes = counted(facts)
    left_out = ignored(facts)
    listed = facts.process_list is ProcessList.KNOWN

    upper = None
    if facts.memory_used_bytes is not None and not facts.memory_shared:
        upper = max(0, facts.memory_used_bytes - left_out.memory_bytes)
    lower = 0
    if upper is not None and listed and left_out.unknown == 0:
        lower = max(0, upper - (UNKNOWN_RESERVE_BYTES if facts.memory_reserved_bytes is None else 0))
    return Bounds(
        device_lower_bytes=lower,
        device_upper_bytes=upper,
        held_lower_bytes=max(by_processes.memory_bytes, lower),
        held_upper_bytes=None if upper is None else max(by_processes.memory_bytes, upper),
        unattributed_lower_bytes=0 if by_processes.unknown else max(0, lower - by_processes.memory_bytes),
        unattributed_upper_bytes=None if upper is None else max(0, upper - by_processes.memory_bytes),
    )


def classify(facts: CardFacts, rules: Rules) -> Verdict:
    """Return the state of a card for one tick: the first of these lines that fits.

    1. ``unknown``, ``lost``: hw.status says failed. A status that was not sent is not a failure.
    2. ``active``: the largest known utilization is at least ``active_utilization``.
    3. ``truly-idle``: no counted process of unknown memory, and one of

       a. held upper known and <= threshold (whatever the list, the reserve and the utilization are);
       b. reserve unknown, list known, upper bound known, no ignored process of unknown memory, and
          held lower <= threshold (what is above it may be the reserve; utilization need not be known);
       c. no upper bound, list known, the counted processes' known memory <= threshold, and *general*
          utilization known (low, else line 2 had fit).

    4. ``idle-held``: *general* utilization known (and low, as above), and one of: held lower >
       threshold; a counted process of unknown memory; list not known and reserve known and held
       upper known and > threshold. A known encoder, decoder or process utilization does not
       stand in for the general one here: a low codec says nothing of the rest of the card.
    5. ``unknown``, first of: ``utilization`` if the general one is unknown (lines 3 and 4 did not fit,
       so something may be held); ``pid_namespace`` if the list is in that state; ``processes`` if it
       failed or is absent; else ``memory`` (an ignored process of unknown memory may own what is
       above the threshold).

    "Exactly the threshold" is not held. A MIG instance or parent follows the same lines. Total and
    deterministic: any facts have exactly one state.
    """
    limits = bounds(facts)
    threshold = threshold_bytes(facts, rules)
    busiest = utilization(facts)
    state, reason = _state(facts, limits, threshold, active=busiest is not None and busiest >= rules.active_from)
    return Verdict(state=state, reason=reason, utilization=busiest, threshold_bytes=threshold, bounds=limits)


def process_state(utilization: int | None, rules: Rules) -> ProcessState:
    """Return the state of a process for one tick from its own utilization in 1/10,000."""
    if utilization is None:
        return ProcessState.UNKNOWN
    return ProcessState.ACTIVE if utilization >= rules.active_from else ProcessState.IDLE


def _state(facts: CardFacts, limits: Bounds, threshold: int, *, active: bool) -> tuple[State, Reason | None]:
    if facts.failed:
        return State.UNKNOWN, Reason.LOST
    if active:
        return State.ACTIVE, None
    if _nobody_holds(facts, limits, threshold):
        return State.TRULY_IDLE, None
    if facts.utilization is not None and _somebody_holds(facts, limits, threshold):
        return State.IDLE_HELD, None
    return State.UNKNOWN, _reason(facts)


def _nobody_holds(facts: CardFacts, limits: Bounds, threshold: int) -> bool:
    by_processes = counted(facts)
    if by_processes.unknown:
        return False
    if limits.held_upper_bytes is not None and limits.held_upper_bytes <= threshold:
        return True
    if facts.process_list is not ProcessList.KNOWN:
        return False
    if limits.held_upper_bytes is None:
        return by_processes.memory_bytes <= threshold and facts.utilization is not None
    return facts.memory_reserved_bytes is None and ignored(facts).unknown == 0 and limits.held_lower_bytes <= threshold


def _somebody_holds(facts: CardFacts, limits: Bounds, threshold: int) -> bool:
    if limits.held_lower_bytes > threshold or counted(facts).unknown:
        return True
    return (
        facts.process_list is not ProcessList.KNOWN
        and facts.memory_reserved_bytes is not None
        and limits.held_upper_bytes is not None
        and limits.held_upper_bytes > threshold
    )


def _reason(facts: CardFacts) -> Reason:
    if facts.utilization is None:
        return Reason.UTILIZATION
    if facts.process_list is ProcessList.PID_NAMESPACE:
        return Reason.PID_NAMESPACE
    if facts.process_list is not ProcessList.KNOWN:
        return Reason.PROCESSES
    return Reason.MEMORY
