"""One tick of the real host: cards and processes read, spans set, GPU time attributed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Final

from gua.agent.coverage import Outcome, TickCoverage, coverage
from gua.agent.idle_counters import Idling
from gua.agent.utilization import cover
from gua.core.attribution import split_gpu_time
from gua.core.ports import CardReader, Clock, Mark, ProcessFacts, RawCard, RawProcess
from gua.core.tick import (
    AgentReading,
    CardReading,
    ErrorCount,
    Origin,
    ProcessList,
    ReadError,
    Tick,
)


@dataclass(frozen=True, kw_only=True, slots=True)
class Sample:
    """A tick and the mark to store with it; without a tick, the outcome says why there is none."""

    tick: Tick | None
    mark: Mark
    outcome: Outcome


@dataclass(frozen=True, kw_only=True, slots=True)
class QueueHealth:
    """What the agent knows of its own queue; ``None`` is unknown. Dropped ticks are counted since the agent started."""

    spool_ticks: int | None = None
    spool_bytes: int | None = None
    dropped_ticks: int | None = None


_CLOCK_FAULTS: Final = frozenset({Outcome.WAITING, Outcome.RESTARTED})
_UNKNOWN_HEALTH: Final = QueueHealth()
# Calls and codes are NVML's, so they are few; a driver that invents codes must not fill the memory.
_MOST_ERRORS: Final = 200


class Sampler:
    """Makes ticks for as long as the agent lives.

    ``initial_pid_namespace`` is whether the agent sees the host's processes as the driver does; where it
    does not, or that is not known, no list of processes is believed, nor what any process used. ``besides`` returns
    what else failed since it was last asked, to be counted.
    """

    def __init__(  # noqa: PLR0913 - by keyword only, one for each thing that a tick is made of
        self,
        *,
        cards: CardReader,
        processes: ProcessFacts,
        clock: Clock,
        origin: Origin,
        initial_pid_namespace: bool,
        besides: Callable[[], Sequence[ReadError]] = tuple,
    ) -> None:
        self._cards = cards
        self._processes = processes
        self._clock = clock
        self._origin = origin
        self._initial_pid_namespace = initial_pid_namespace
        self._besides = besides
        self._started = self._now()
        self._errors: Counter[tuple[str, str]] = Counter()
        self._energy: dict[str, int] = {}
        self._energy_mark: Mark | None = None
        self._is_first = True

    def sample(
        self, mark: Mark | None, *, lateness_ms: int | None = None, health: QueueHealth = _UNKNOWN_HEALTH
    ) -> Sample:
        """Read every card and return the tick that follows ``mark``, the last one that was spooled.

        ``lateness_ms`` is how long after its time the tick was begun. The tick's time is the wall clock just
        after the cards were read. Raises UnavailableError if no card can be read.
        """
        before_ms = self._clock.monotonic_ms()
        raw_cards, errors = self._cards.read()
        now = self._now()
        self._count(errors)
        self._count(self._besides())
        covered = coverage(
            now,
            mark,
            interval_ms=self._origin.interval_ms,
            uptime_ms=now.monotonic_ms - self._started.monotonic_ms,
        )
        if covered.outcome in _CLOCK_FAULTS:
            self._count([ReadError(call="clock", code=covered.outcome.value)])
        if covered.duration_ms == 0:
            return Sample(tick=None, mark=now, outcome=covered.outcome)
        energy_known = covered.outcome is Outcome.CONTINUED and mark == self._energy_mark
        idling = Idling.after(mark, now, interval_ms=self._origin.interval_ms, is_restart=self._is_first)
        cards = tuple(self._card(raw, now, covered, idling, energy_known=energy_known) for raw in raw_cards)
        now = replace(now, clocks=idling.clocks())
        self._is_first = False
        self._energy = {card.uuid: card.energy_total_mj for card in cards if card.energy_total_mj is not None}
        self._energy_mark = now
        return Sample(
            tick=Tick(
                ts_ms=now.ts_ms,
                origin=self._origin,
                cards=cards,
                agent=self._agent(self._clock.monotonic_ms() - before_ms, lateness_ms, health),
                errors=tuple[ReadError, ...](errors),
            ),
            mark=now,
            outcome=covered.outcome,
        )

    def _now(self) -> Mark:
        return Mark(ts_ms=self._clock.wall_ms(), monotonic_ms=self._clock.monotonic_ms(), boot_id=self._clock.boot_id())

    def _card(
        self, raw: RawCard, now: Mark, covered: TickCoverage, idling: Idling, *, energy_known: bool
    ) -> CardReading:
        slices, all_slices = raw.gpu_fraction
        reading = raw.reading
        used = cover(raw.samples, reading.utilization, start_ms=now.ts_ms - covered.duration_ms, end_ms=now.ts_ms)
        gpu_time_ms = covered.duration_ms * slices // all_slices
        return replace(
            reading,
            duration_ms=covered.duration_ms,
            gpu_time_ms=gpu_time_ms,
            process_list=self._believed(reading.process_list),
            utilization=used.mean,
            utilization_max=used.largest,
            utilization_coverage_ms=used.coverage_ms,
            energy_mj=self._energy_spent(reading) if energy_known else None,
            processes=split_gpu_time(
                gpu_time_ms,
                [
                    idling.timed(reading.uuid, self._processes.identify(process), covered.duration_ms)
                    for process in self._told(raw.processes)
                ],
            ),
        )

    def _believed(self, listed: ProcessList) -> ProcessList:
        if self._initial_pid_namespace or listed is ProcessList.ABSENT:
            return listed
        return ProcessList.PID_NAMESPACE

    def _told(self, processes: Sequence[RawProcess]) -> Sequence[RawProcess]:
        """Return the processes, in another PID namespace without their utilization.

        There the driver may list them by the container's pids and answer who used the card by the host's, so that
        each of them seems to have used nothing (driver 560: https://github.com/Project-HAMi/HAMi-core/issues/112).
        """
        if self._initial_pid_namespace:
            return processes
        return [replace(process, utilization=None) for process in processes]

    def _energy_spent(self, reading: CardReading) -> int | None:
        """Return what the counter gained since the last tick, ``None`` across a reset of it."""
        before = self._energy.get(reading.uuid)
        if before is None or reading.energy_total_mj is None or reading.energy_total_mj < before:
            return None
        return reading.energy_total_mj - before

    def _count(self, errors: Sequence[ReadError]) -> None:
        for error in errors:
            key = (error.call, error.code)
            self._errors[key if key in self._errors or len(self._errors) < _MOST_ERRORS else ("other", "other")] += 1

    def _agent(self, took_ms: int, lateness_ms: int | None, health: QueueHealth) -> AgentReading:
        return AgentReading(
            started_ms=self._started.ts_ms,
            tick_duration_seconds=took_ms / 1000,
            tick_lateness_seconds=None if lateness_ms is None else lateness_ms / 1000,
            spool_ticks=health.spool_ticks,
            spool_bytes=health.spool_bytes,
            dropped_ticks=health.dropped_ticks,
            errors=tuple(
                ErrorCount(call=call, code=code, count=count) for (call, code), count in sorted(self._errors.items())
            ),
        )
