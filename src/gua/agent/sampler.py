"""Sampling of a real host: read cards and processes, set spans, attribute GPU time, advance idle counters.

A tick covers (ts - duration, ts] of the wall clock. The duration follows from the last spooled tick's mark, the clocks
and the agent's uptime. The spans of one agent never overlap, despite restarts, stalls, suspends and clock steps,
except after a counted set-back of more than 10 minutes. Their sum never exceeds the real elapsed time.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, field, replace
from enum import StrEnum
from typing import Any, Final, NamedTuple, Self

from gua.core import idleness
from gua.core.allocation import AllocationLook, AllocationMatcher, CardKey, SourceHealth
from gua.core.facts import split_gpu_time
from gua.core.idleness import GAP_MS, RESTART_GAP_MS, IdleCounter, IdleCounters, Key, advance, idle_ms, with_absent
from gua.core.ports import AllocationSources, CardReader, Clock, Mark, ProcessFacts, RawCard, UtilizationSample
from gua.core.rules import SHIPPED
from gua.core.tick import (
    AgentReading,
    AllocationSourceReading,
    CardReading,
    ErrorCount,
    Origin,
    ProcessReading,
    ReadError,
    Tick,
)
from gua.core.words import AllocationStatus, ProcessList, ProcessType

SET_BACK_LIMIT_MS: Final = 10 * 60 * 1000
BREAK_INTERVALS: Final = 2


class Outcome(StrEnum):
    """How the clocks and the mark determine a tick."""

    CONTINUED = "continued"
    """The tick follows the mark: it covers the time since then."""
    RESUMED = "resumed"
    """No mark, another boot or a break: it covers one interval at most, and no more than the agent's uptime."""
    RESTARTED = "restarted"
    """The clock was set back by more than 10 minutes: the mark is dropped. Counted and shown."""
    MARK_AHEAD = "mark_ahead"
    """The mark has a later monotonic time than its own boot has reached: it is dropped. Counted and shown."""
    WAITING = "waiting"
    """The clock is at or before the mark: no tick until it passes the mark. Counted and shown."""
    TOO_SOON = "too_soon"
    """Less than a millisecond has passed: the tick would cover nothing."""


class TickCoverage(NamedTuple):
    """Coverage of a tick [ms], 0 without a tick, and its outcome."""

    duration_ms: int
    outcome: Outcome


def coverage(now: Mark, mark: Mark | None, *, interval_ms: int, uptime_ms: int) -> TickCoverage:
    """Return the coverage of a tick read at ``now``.

    ``mark`` is the last spooled tick, ``uptime_ms`` the agent's uptime. The span is the time since the mark, by the
    clock that advanced less; on another boot only the wall clock counts. Without a mark, on another boot or after a
    break it is also at most one interval and at most the uptime. A break is more than two intervals since the mark, by
    the clock that advanced more.
    """
    bounds_ms, outcome = [interval_ms, uptime_ms], Outcome.RESUMED
    if mark is not None:
        wall_ms, monotonic_ms = now.ts_ms - mark.ts_ms, now.monotonic_ms - mark.monotonic_ms
        # On a system without boot ids, a monotonic clock that advanced counts as the same boot. After a reboot that
        # only makes the bound tighter than needed.
        is_same_boot = now.boot_id == mark.boot_id
        passed_ms = [monotonic_ms] if is_same_boot and monotonic_ms >= 0 else []
        if wall_ms < -SET_BACK_LIMIT_MS:
            bounds_ms, outcome = [*bounds_ms, *passed_ms], Outcome.RESTARTED
        elif wall_ms <= 0:
            return TickCoverage(0, Outcome.WAITING)
        elif passed_ms and max(wall_ms, monotonic_ms) <= BREAK_INTERVALS * interval_ms:
            bounds_ms, outcome = [wall_ms, monotonic_ms], Outcome.CONTINUED
        else:
            bounds_ms = [*bounds_ms, wall_ms, *passed_ms]
            if is_same_boot and now.boot_id is not None and not passed_ms:
                outcome = Outcome.MARK_AHEAD
    duration_ms = min(bounds_ms)
    return TickCoverage(duration_ms, outcome) if duration_ms > 0 else TickCoverage(0, Outcome.TOO_SOON)


class Covered(NamedTuple):
    """Utilization over a span as ratios, and the time [ms] that samples cover; ``None`` is unknown.

    ``idle_ms`` is the sampled time below active, ``idle_mj`` the energy of ``powered_ms`` of it.
    """

    mean: float | None
    largest: float | None
    coverage_ms: int | None
    idle_ms: int | None = None
    idle_mj: int | None = None
    powered_ms: int | None = None


def cover(samples: Iterable[UtilizationSample], instant: float | None, *, start_ms: int, end_ms: int) -> Covered:
    """Return the utilization over (start_ms, end_ms], both Unix time.

    The mean weights each sample by its part inside the span. Time without a sample counts with the instant value, or
    is left out if that is unknown. Samples must be sorted, oldest first. Where they overlap, the time belongs to the
    earlier one, so that coverage never exceeds the span.
    """
    coverage_ms = idle_ms = powered_ms = 0
    weighted = idle_mj = 0.0
    largest = instant
    covered_until_ms = start_ms
    is_idle_known = True
    for sample in samples:
        sample_start_ms, sample_end_ms, utilization, sample_largest, sample_idle_ms, sample_powered_ms, sample_mj = (
            sample
        )
        until_ms = min(sample_end_ms, end_ms)
        length_ms = until_ms - max(sample_start_ms, covered_until_ms)
        if length_ms <= 0:
            continue
        coverage_ms += length_ms
        weighted += length_ms * utilization
        covered_until_ms = until_ms
        if largest is None or sample_largest > largest:
            largest = sample_largest
        if sample_idle_ms is None:
            is_idle_known = False
        elif sample_idle_ms:
            whole_ms = sample_end_ms - sample_start_ms
            if length_ms == whole_ms:
                idle_ms += sample_idle_ms
                powered_ms += sample_powered_ms
                idle_mj += sample_mj
            else:
                part = length_ms / whole_ms
                idle_ms += round(sample_idle_ms * part)
                powered_ms += round(sample_powered_ms * part)
                idle_mj += sample_mj * part
    if instant is not None:
        mean = (weighted + (end_ms - start_ms - coverage_ms) * instant) / (end_ms - start_ms)
    elif coverage_ms:
        mean = weighted / coverage_ms
    else:
        return Covered(mean=None, largest=None, coverage_ms=None)
    is_powered = is_idle_known and powered_ms > 0
    return Covered(
        mean=mean,
        largest=largest,
        coverage_ms=coverage_ms,
        idle_ms=idle_ms if coverage_ms and is_idle_known else None,
        idle_mj=round(idle_mj) if is_powered else None,
        powered_ms=powered_ms if is_powered else None,
    )


_DRIFT_MS: Final = 1_000


@dataclass(kw_only=True, slots=True)
class Idling:
    """Idle counters ``before`` a tick at ``ts_ms``; those after it are computed process by process."""

    before: IdleCounters
    ts_ms: int
    gap_ms: int
    longest_covered_ms: int
    now: dict[Key, IdleCounter] = field(default_factory=dict)

    @classmethod
    def after(cls, mark: Mark | None, now: Mark, *, interval_ms: int, is_restart: bool) -> Self:
        """Return the idle counters of a mark, empty if they belong to another boot.

        On a system without boot ids an agent that starts cannot know and starts with none. The same holds if the mark's
        monotonic time is later than the boot has reached.
        """
        known = (
            mark is not None
            and mark.boot_id == now.boot_id
            and mark.monotonic_ms <= now.monotonic_ms
            and (now.boot_id is not None or not is_restart)
        )
        before: IdleCounters = {}
        if mark is not None and known:
            # Shift the counters by how far the wall clock was set since, as the monotonic clock shows. A set-back while
            # the agent ran is not corrected: no tick was made, but the agent was not absent either.
            set_ms = now.ts_ms - mark.ts_ms - (now.monotonic_ms - mark.monotonic_ms)
            if -_DRIFT_MS < set_ms < _DRIFT_MS or (set_ms < 0 and not is_restart):
                set_ms = 0
            before = {key: clock._replace(seen_ms=clock.seen_ms + set_ms) for key, clock in mark.clocks.items()}
        return cls(
            before=before,
            ts_ms=now.ts_ms,
            gap_ms=RESTART_GAP_MS if is_restart else GAP_MS,
            longest_covered_ms=2 * interval_ms,
        )

    def idle_ms(self, uuid: str, processes: Iterable[ProcessReading], covered_ms: int) -> list[int | None]:
        """Advance the counters of a card's processes and return how long each has been idle [ms]."""
        # One counter for all processes of a card, because a host has hundreds of processes in each tick.
        now = IdleCounter(self.ts_ms, covered_ms)
        idle: list[int | None] = []
        for process in processes:
            if process.type is ProcessType.IGNORED:
                idle.append(None)
                continue
            key = (uuid, process.pid, process.created_ms)
            self.now[key] = clock = advance(self.before.get(key), process, now, SHIPPED, gap_ms=self.gap_ms)
            idle.append(idle_ms(clock, process))
        return idle

    def clocks(self) -> IdleCounters:
        """Return the idle counters after the tick."""
        gap_ms = max(self.gap_ms, self.longest_covered_ms) + self.longest_covered_ms
        return with_absent(self.before, self.now, self.ts_ms, gap_ms)


@dataclass(frozen=True, kw_only=True, slots=True)
class Sample:
    """A tick and the mark to store with it; without a tick, the outcome is the reason."""

    tick: Tick | None
    mark: Mark
    outcome: Outcome


@dataclass(frozen=True, kw_only=True, slots=True)
class QueueHealth:
    """Metrics of the agent's queue; ``None`` is unknown. Dropped ticks are counted since the agent started."""

    spool_ticks: int | None = None
    spool_bytes: int | None = None
    dropped_ticks: int | None = None


_CLOCK_FAULTS: Final = frozenset({Outcome.WAITING, Outcome.RESTARTED, Outcome.MARK_AHEAD})
_UNKNOWN_HEALTH: Final = QueueHealth()
_NOT_LOOKED_AT: Final = AllocationLook()
_NO_SOURCE_YET: Final = "sources"  # the name if no source was ever read
_SPAN_SLACK_MS: Final = 250
# NVML defines few calls and codes; a driver with invented codes must not exhaust memory.
_MOST_ERRORS: Final = 200


@dataclass(eq=False, kw_only=True)
class Sampler:
    """Producer of an agent's ticks.

    ``initial_pid_namespace`` is whether the agent sees the host's processes as the driver does. If not, or if that is
    unknown, all process lists and process utilizations are unknown. ``besides`` returns further errors since its last
    call, to be counted. ``allocations`` reads the allocation sources, ``None`` without a configured one.
    """

    cards: CardReader
    processes: ProcessFacts
    clock: Clock
    origin: Origin
    initial_pid_namespace: bool
    besides: Callable[[], Sequence[ReadError]] = tuple
    allocations: AllocationSources | None = None

    def __post_init__(self) -> None:
        self._matcher = AllocationMatcher()
        self._last_look = _NOT_LOOKED_AT
        self._started = self._now()
        self._errors: Counter[tuple[str, str]] = Counter()
        self._energy: dict[str, int] = {}
        self._listed: dict[str, frozenset[int]] = {}
        self._last: Mark | None = None
        self._is_first = True

    def sample(
        self, mark: Mark | None, *, lateness_ms: int | None = None, health: QueueHealth = _UNKNOWN_HEALTH
    ) -> Sample:
        """Read every card and return the tick that follows ``mark``, the last spooled one.

        ``lateness_ms`` is the delay of its start after the grid point. The tick's time is the wall clock just after the
        cards were read. Raises UnavailableError if no card can be read.
        """
        before_ms = self.clock.monotonic_ms()
        raw_cards, errors = self.cards.read()
        now = self._now()
        self._count(errors)
        self._count(self.besides())
        covered = coverage(
            now,
            mark,
            interval_ms=self.origin.interval_ms,
            uptime_ms=now.monotonic_ms - self._started.monotonic_ms,
        )
        if covered.outcome in _CLOCK_FAULTS:
            self._count([ReadError(call="clock", code=covered.outcome.value)])
        if covered.duration_ms == 0:
            return Sample(tick=None, mark=now, outcome=covered.outcome)
        is_continued = covered.outcome is Outcome.CONTINUED and mark == self._last
        idling = Idling.after(mark, now, interval_ms=self.origin.interval_ms, is_restart=self._is_first)
        cards = tuple(self._card(raw, covered.duration_ms, idling, is_continued=is_continued) for raw in raw_cards)
        look = self._look(raw_cards, cards, now.ts_ms - covered.duration_ms, now.ts_ms)
        self._allocate(cards, look, now.ts_ms)
        now = replace(now, clocks=idling.clocks())
        self._is_first = False
        self._energy = {card.uuid: card.energy_total_mj for card in cards if card.energy_total_mj is not None}
        self._listed = {
            card.uuid: frozenset(process.pid for process in raw.processes)
            for raw, card in zip(raw_cards, cards, strict=True)
            if card.process_list is ProcessList.KNOWN
        }
        self._last = now
        return Sample(
            tick=Tick(
                ts_ms=now.ts_ms,
                origin=self.origin,
                cards=cards,
                agent=self._agent(self.clock.monotonic_ms() - before_ms, lateness_ms, health),
                errors=tuple[ReadError, ...](errors),
                allocation_sources=tuple(_source(source, covered.duration_ms) for source in look.sources),
            ),
            mark=now,
            outcome=covered.outcome,
        )

    def _look(
        self, raw_cards: Sequence[RawCard], cards: Sequence[CardReading], since_ms: int, now_ms: int
    ) -> AllocationLook:
        """Return the allocations from all sources; an unexpected exception makes all sources failed ones."""
        if self.allocations is None:
            return _NOT_LOOKED_AT
        try:
            keys = [
                CardKey(
                    uuid=card.uuid,
                    gpu_index=card.index,
                    minor=raw.minor,
                    pci=card.pci,
                    parent=card.parent,
                    gpu_instance_id=raw.gpu_instance_id,
                    compute_instance_id=raw.compute_instance_id,
                    pods=frozenset([process.pod_uid for process in card.processes if process.pod_uid is not None]),
                )
                for raw, card in zip(raw_cards, cards, strict=True)
            ]
            self._last_look = self.allocations.look(since_ms, now_ms, keys)
        except Exception as error:  # noqa: BLE001 - no error of a source may stop the sampling of cards
            reason = f"unexpected {type(error).__name__}"
            self._count([ReadError(call="allocation", code=type(error).__name__)])
            names = [each.source for each in self._last_look.sources] or [_NO_SOURCE_YET]
            self._last_look = AllocationLook(sources=tuple(SourceHealth(source=name, reason=reason) for name in names))
        return self._last_look

    def _allocate(self, cards: Sequence[CardReading], look: AllocationLook, ts_ms: int) -> None:
        for card in cards:
            try:
                self._matcher.allocate(card, look, ts_ms=ts_ms)
            except Exception as error:  # noqa: BLE001 - as above, for an invalid allocation
                self._count([ReadError(call="allocation", code=type(error).__name__)])
                card.allocation, card.unallocated_gpu_time_ms, card.allocations = AllocationStatus.UNKNOWN, None, ()

    def _now(self) -> Mark:
        return Mark(ts_ms=self.clock.wall_ms(), monotonic_ms=self.clock.monotonic_ms(), boot_id=self.clock.boot_id())

    def _identify(self, raw: RawCard) -> tuple[ProcessList, list[ProcessReading]]:
        listed, process_list = raw.processes, raw.reading.process_list
        if not self.initial_pid_namespace:
            # In a container the driver may list container pids but report utilization by host pids, so that every
            # process seems to be idle (driver 560: https://github.com/Project-HAMi/HAMi-core/issues/112).
            listed = tuple(replace(process, utilization=None) for process in listed)
            if process_list is not ProcessList.ABSENT:
                process_list = ProcessList.PID_NAMESPACE
        return process_list, [self.processes.identify(process) for process in listed]

    def _card(self, raw: RawCard, duration_ms: int, idling: Idling, *, is_continued: bool) -> CardReading:
        """Return the reading of a card, without its allocations."""
        reading = raw.reading
        slices, all_slices = raw.gpu_fraction
        gpu_time_ms = duration_ms * slices // all_slices
        process_list, identified = self._identify(raw)
        processes = split_gpu_time(gpu_time_ms, identified, idling.idle_ms(reading.uuid, identified, duration_ms))
        used = cover(raw.samples, reading.utilization, start_ms=idling.ts_ms - duration_ms, end_ms=idling.ts_ms)
        has_idle_time = used.idle_ms is not None and idleness.counts_as_idle(
            used.mean,
            encoder=reading.utilization_encoder,
            decoder=reading.utilization_decoder,
            processes=processes,
        )
        # The counter's increase since the last tick, unknown across a reset of the counter.
        before_mj, energy_mj = self._energy.get(reading.uuid), None
        if is_continued and before_mj is not None and reading.energy_total_mj is not None:
            energy_mj = reading.energy_total_mj - before_mj if reading.energy_total_mj >= before_mj else None
        values: dict[str, Any] = {}
        before = self._listed.get(reading.uuid) if is_continued else None
        if before is not None and process_list is ProcessList.KNOWN:
            values["processes_seen"] = len(before.union(raw.unlisted, [process.pid for process in raw.processes]))
        if has_idle_time and used.idle_ms is not None:
            idle = idleness.in_steps(used.idle_ms, used.idle_mj, used.powered_ms, interval_ms=self.origin.interval_ms)
            values |= zip(("idle_time_ms", "idle_energy_mj", "idle_energy_coverage_ms"), idle, strict=True)
        # Activity over a span that differs by more than a tenth (after a pause or a break) is not the tick's.
        slack_ms = max(_SPAN_SLACK_MS, duration_ms // 10)
        if raw.activity is not None and abs(raw.activity_ms - duration_ms) <= slack_ms:
            values |= raw.activity._asdict()
        return replace(
            reading,
            duration_ms=duration_ms,
            gpu_time_ms=gpu_time_ms,
            process_list=process_list,
            utilization=used.mean,
            utilization_max=used.largest,
            utilization_coverage_ms=used.coverage_ms,
            energy_mj=energy_mj,
            processes=processes,
            **values,
        )

    def _count(self, errors: Sequence[ReadError]) -> None:
        for error in errors:
            key = (error.call, error.code)
            self._errors[key if key in self._errors or len(self._errors) < _MOST_ERRORS else ("other", "other")] += 1

    def _agent(self, took_ms: int, lateness_ms: int | None, health: QueueHealth) -> AgentReading:
        return AgentReading(
            started_ms=self._started.ts_ms,
            tick_duration_seconds=took_ms / 1000,
            tick_lateness_seconds=None if lateness_ms is None else lateness_ms / 1000,
            **asdict(health),
            errors=tuple(
                ErrorCount(call=call, code=code, count=count) for (call, code), count in sorted(self._errors.items())
            ),
        )


def _source(source: SourceHealth, duration_ms: int) -> AllocationSourceReading:
    waits, known = source.waits, dict[str, int]()
    if waits is not None:
        waited_ms = min(waits.waited_ms, duration_ms)
        known = {"waiting": waits.waiting, "wait_ms": waits.wait_ms, "waited_ms": waited_ms}
    return AllocationSourceReading(source=source.source, duration_ms=duration_ms, reason=source.reason, **known)
