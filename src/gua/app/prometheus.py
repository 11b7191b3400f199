"""Import of a Prometheus' past into a store: in spans of time; finished days are not read again."""

import gc
import hashlib
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from typing import Final

from gua.app import delivery
from gua.app.opening import open_writer, store_address
from gua.app.prometheus_rows import table_lines, ticks_of
from gua.core.errors import DataError, GuaError, UsageError
from gua.core.moments import DAY_MS, HOUR_MS
from gua.core.words import Mig
from gua.identity.process import DEFAULT_IGNORED
from gua.imports.prometheus.card_ticks import CardTicks, joined, outside
from gua.imports.prometheus.client import Client
from gua.imports.prometheus.samples import MOST_POINTS, SampleReader
from gua.imports.prometheus.survey import Inventory, survey
from gua.imports.prometheus.ticks import TickMaker
from gua.store.database import Store
from gua.store.directory import ignore
from gua.store.dsn import EmbeddedDsn, parse_dsn
from gua.store.tick_rows import TickRows

RAW_UP_TO_MS: Final = 10 * 86_400_000
"""Up to this length an import reads raw samples, unless another resolution is given."""
STEP_MS: Final = 300_000
# Samples of a span, about 20 bytes of JSON each; all of them are in memory.
_MOST_SAMPLES: Final = 200_000
# Card ticks, with 100 bytes each in memory. The store is locked for others while they are landed, for about a second.
_MOST_PENDING: Final = 200_000
_FIRST_SPAN_MS: Final = HOUR_MS
_LEAST_SPAN_MS: Final = 600_000
_STEPS_SPAN_MS: Final = 4 * DAY_MS
# Hours of hosts: of 8 cards each 2 s.
_ROLLED_UP_AT_ONCE: Final = 300
# VictoriaMetrics hides the samples of the last 30 s (search.latencyOffset).
UNFINISHED_MS: Final = 30_000
_STORED_TICKS: Final = """
SELECT
    toString(gpu) AS gpu,
    toUnixTimestamp64Milli(ts) AS ts_ms,
    duration_ms,
    ifNull(source = 'agent', false) AS is_agents
FROM gua.card_ticks FINAL
WHERE gpu IN {gpus:Array(String)} AND duration_ms IS NOT NULL
    AND ts > fromUnixTimestamp64Milli({since_ms:Int64}, 'UTC')
    AND ts <= fromUnixTimestamp64Milli({until_ms:Int64} + 3600000, 'UTC')
ORDER BY gpu, ts_ms
"""
_AGENTS_CARDS: Final = (
    "SELECT DISTINCT toString(gpu) AS gpu, toString(host) AS host FROM gua.card_info FINAL WHERE source = 'agent'"
)


@dataclass(frozen=True, kw_only=True, slots=True)
class Span:
    """A span of time [Unix ms] to read at once; ``days`` are the UTC days that are complete after it."""

    since_ms: int
    until_ms: int
    days: tuple[date, ...] = ()


@dataclass(kw_only=True, slots=True)
class Imported:
    """What an import did. ``first_ms`` and ``last_ms`` are the first and last tick [Unix ms], 0 without any.

    ``without_slices`` are MIG instances of unknown size, whose GPU time is 0. ``stored_before`` are card ticks at times
    with other ticks in the store.
    """

    card_ticks: int = 0
    cards: set[str] = field(default_factory=set)
    without_slices: set[str] = field(default_factory=set)
    hosts: set[str] = field(default_factory=set)
    exporters: set[str] = field(default_factory=set)
    first_ms: int = 0
    last_ms: int = 0
    days_before: int = 0
    stored_before: int = 0
    left_out: Counter[str] = field(default_factory=Counter)

    def add(self, made: Sequence[CardTicks]) -> None:
        """Add the ticks of a span."""
        for ticks in made:
            self.card_ticks += len(ticks.ts_ms)
            self.cards.add(ticks.card.uuid)
            if not ticks.card.slices:
                self.without_slices.add(ticks.card.uuid)
            self.hosts.add(ticks.card.host)
            self.exporters.add(ticks.exporter.name)
            begin = ticks.ts_ms[0] - ticks.duration_ms[0]
            self.first_ms = min(self.first_ms or begin, begin)
            self.last_ms = max(self.last_ms, ticks.ts_ms[-1])


@dataclass(frozen=True, kw_only=True, slots=True)
class Probe:
    """One hour of raw samples: card ticks, samples, scrape interval [ms], unobserved share, time of reading [s]."""

    card_ticks: int
    samples: int
    interval_ms: int
    holes: float
    seconds: float


@dataclass(kw_only=True, slots=True)
class PrometheusImport:
    """An import of the time after ``since_ms`` up to ``until_ms`` [Unix ms]; ``step_ms`` is 0 for raw samples.

    ``again`` also reads days that an earlier import finished. ``progress`` receives the imported time [ms] and the
    number of card ticks so far.
    """

    client: Client
    since_ms: int
    until_ms: int
    step_ms: int
    interval_ms: int | None = None
    owner_label: str | None = None
    exporter: str | None = None
    store: str | None = None
    endpoint: str | None = None
    again: bool = False

    def survey(self) -> Inventory:
        """Return what the Prometheus has in this time. Raises DataError without GPU metrics."""
        window = self.since_ms, self.until_ms
        return survey(self.client, *window, owner_label=self.owner_label, exporter=self.exporter)

    def run(self, found: Inventory, progress: Callable[[int, int], None]) -> Imported:
        """Import all spans in order and return what was imported. A span is either landed as a whole or not at all."""
        result = Imported()
        done = set[date]() if self.again or self.endpoint else self._finished(found)
        maker = self.maker(found)
        # Answers are millions of lists without cycles: looking for these takes a third of the time.
        gc.disable()
        try:
            self._import(maker, done, result, progress)
            result.left_out = maker.left_out
        finally:
            gc.enable()
            maker.reader.close()
        if not (result.card_ticks or result.days_before or result.stored_before):
            raise DataError(f"{self.client.url} has series of GPUs in this time, but no samples: nothing was imported")
        return result

    def roll_up(self) -> None:
        """Roll up the hours of an embedded store, so that later reports are fast; a server does so by itself.

        Others can open the store between two batches of hours.
        """
        written = -1
        while self._is_embedded and written:
            with open_writer(self.store, warn=ignore) as store:
                written = store.count_hours(most=_ROLLED_UP_AT_ONCE)
                if 0 < written < _ROLLED_UP_AT_ONCE:  # the last hours: what is left takes little time
                    written = store.count_hours(most=_ROLLED_UP_AT_ONCE)

    def newest_hour(self, found: Inventory) -> Probe | None:
        """Return what the last hour of the import has, or the newest of whole days earlier; ``None`` without any."""
        maker = self.maker(found)
        try:
            for end_ms in range(self.until_ms, self.since_ms, -DAY_MS):
                begin, before = time.monotonic(), maker.samples
                ticks = maker.ticks(end_ms - HOUR_MS, end_ms)
                if ticks:
                    observed = sum(sum(one.duration_ms) for one in ticks)
                    cards = len({one.card.uuid for one in ticks})
                    return Probe(
                        card_ticks=sum(len(one.ts_ms) for one in ticks),
                        samples=maker.samples - before,
                        interval_ms=min(one.interval_ms for one in ticks),
                        holes=max(0.0, 1 - observed / (cards * HOUR_MS)),
                        seconds=time.monotonic() - begin,
                    )
        finally:
            maker.reader.close()
        return None

    def maker(self, found: Inventory) -> TickMaker:
        """Return what reads spans; it has found out how this server treats the left edge of a range."""
        reader = SampleReader(self.client)
        maker = TickMaker(
            reader=reader,
            found=found,
            step_ms=self.step_ms,
            interval_ms=self.interval_ms,
            ignored=DEFAULT_IGNORED,
            end_ms=self.until_ms,
        )
        if self.step_ms:
            metric = next(one for one in found.exporters[0].first if one in found.metrics)
            end_ms = self.until_ms
            while end_ms > self.since_ms:
                recent = reader.raw(metric, max(end_ms - HOUR_MS, self.since_ms), end_ms)
                if recent:
                    reader.find_edge(metric, recent[0])
                    break
                end_ms -= DAY_MS
        return maker

    def _import(
        self, maker: TickMaker, done: set[date], result: Imported, progress: Callable[[int, int], None]
    ) -> None:
        """Read the next spans while those before are landed: opening a store takes as long as landing many ticks."""
        pending: list[tuple[Span, list[CardTicks]]] = []

        def land_pending() -> None:
            several = pending[:]
            del pending[: len(several)]
            if several:
                days = tuple(day for span, _ in several for day in span.days)
                span = Span(since_ms=several[0][0].since_ms, until_ms=several[-1][0].until_ms, days=days)
                self._land(maker.found, [ticks for _, made in several for ticks in made], span, result)

        card_ticks = 0
        with ThreadPoolExecutor(max_workers=1) as worker:
            landings: list[Future[None]] = []
            for span in spans(self.since_ms, self.until_ms, self.step_ms, done, lambda: maker.samples):
                made = maker.ticks(span.since_ms, span.until_ms)
                pending.append((span, made))
                landings.append(worker.submit(land_pending))
                while landings and (landings[0].done() or _count(pending) >= _MOST_PENDING):
                    landings.pop(0).result()
                card_ticks += _count([(span, made)])
                progress(span.until_ms, card_ticks)
            for landing in landings:
                landing.result()
        result.days_before = len(done)

    def _land(self, found: Inventory, made: list[CardTicks], span: Span, result: Imported) -> None:
        if not made and not span.days:
            return
        if self.endpoint:
            delivery.deliver(ticks_of(made, found), store=self.store, endpoint=self.endpoint)
        else:
            with open_writer(self.store, warn=ignore) as store:
                made = without_stored(store, made, span, result)
                if store.is_embedded:
                    land(store, made, found)
                    store.flush()
                else:
                    delivery.deliver(ticks_of(made, found), store=self.store)
                self._mark(store, span)
        result.add(made)

    @property
    def _is_embedded(self) -> bool:
        return isinstance(parse_dsn(store_address(self.store)), EmbeddedDsn)

    @property
    def name(self) -> str:
        """Return the name under which finished days are kept: of the address and of all that changes the ticks."""
        settings = f"{self.client.url} {self.step_ms} {self.interval_ms} {self.owner_label} {self.exporter}"
        return f"prometheus {hashlib.sha256(settings.encode()).hexdigest()[:16]}"

    def _mark(self, store: Store, span: Span) -> None:
        """Keep that days are finished; without the right to write the next import reads them again."""
        if span.days:
            with suppress(GuaError):
                store.insert_json("backfilled_days", [{"landing": self.name, "day": str(day)} for day in span.days])

    def _finished(self, found: Inventory) -> set[date]:
        """Return the finished days of earlier imports; also set the hosts under which the store's agents have cards."""
        with open_writer(self.store) as store, suppress(GuaError):
            found.directory.known_hosts = {row["gpu"]: row["host"] for row in store.select(_AGENTS_CARDS)}
            rows = store.select(
                "SELECT DISTINCT day FROM gua.backfilled_days WHERE landing = {name:String}", {"name": self.name}
            )
            return {row["day"] for row in rows}
        return set()


def spans(since_ms: int, until_ms: int, step_ms: int, done: set[date], samples: Callable[[], int]) -> Iterator[Span]:
    """Yield the spans of an import in order, without finished days; ``done`` keeps those that were skipped.

    Raw samples are read in parts of a day, of a length by the number of ``samples`` that the last span had. Steps are
    read in whole days, up to eleven thousand steps at a time.
    """
    skipped: set[date] = set()
    length_ms = _FIRST_SPAN_MS if not step_ms else _STEPS_SPAN_MS
    start_ms = since_ms
    while start_ms < until_ms:
        day_ms = start_ms // DAY_MS * DAY_MS
        if _day(day_ms) in done:
            skipped.add(_day(day_ms))
            start_ms = day_ms + DAY_MS
            continue
        if step_ms:
            end_ms = day_ms + min(length_ms, MOST_POINTS * step_ms // DAY_MS * DAY_MS)
            ahead = (day_ms + one * DAY_MS for one in range(1, (end_ms - day_ms) // DAY_MS))
            end_ms = min([end_ms, *(one for one in ahead if _day(one) in done)])
        else:
            end_ms = min(start_ms + length_ms, day_ms + DAY_MS)
        end_ms = min(end_ms, until_ms)
        days = tuple(
            _day(one)
            for one in range(day_ms, end_ms, DAY_MS)
            if one >= since_ms and one + DAY_MS <= end_ms and one + DAY_MS + HOUR_MS <= time.time() * 1000
        )
        before = samples()
        yield Span(since_ms=start_ms, until_ms=end_ms, days=days)
        read = samples() - before
        if not step_ms:
            factor = _MOST_SAMPLES / read if read else 4
            length_ms = min(max(round(length_ms * factor) // HOUR_MS * HOUR_MS, _LEAST_SPAN_MS), DAY_MS)
        start_ms = end_ms
    done.intersection_update(skipped)


def land(store: Store, made: Sequence[CardTicks], found: Inventory) -> None:
    """Land ticks in an embedded store: those of cards without known processes in columns, others as ticks."""
    hosts = {one.card.host for one in made if one.processes is not None and one.card.mig is not Mig.PARENT}
    # Cards of one host at one time are one tick.
    by_ticks = [one for one in made if one.card.host in hosts]
    plain = [one for one in made if one.card.host not in hosts]
    if by_ticks:
        rows = TickRows(time.time_ns() // 1_000_000)
        for tick in ticks_of(by_ticks, found):
            if not rows.add(tick):
                raise DataError(f"a tick at {tick.ts_ms} of {tick.origin.host} cannot be stored: nothing of it was")
        store.land_lines(rows.parts())
    if plain:
        store.land_lines(table_lines(plain, found))


def without_stored(store: Store, made: list[CardTicks], span: Span, result: Imported) -> list[CardTicks]:
    """Return the ticks without those at times of other ticks in the store: an agent's, or of another import.

    An earlier import of the same samples has ticks at the same times, which are replaced.
    """
    covered: defaultdict[str, list[tuple[int, int]]] = defaultdict(list)
    replaced: defaultdict[str, set[int]] = defaultdict(set)
    bounds = {"since_ms": span.since_ms - HOUR_MS, "until_ms": span.until_ms}
    for row in store.select(_STORED_TICKS, {"gpus": [one.card.uuid for one in made], **bounds}):
        end_ms = row["ts_ms"]
        covered[row["gpu"]].append((end_ms - row["duration_ms"], end_ms))
        if not row["is_agents"]:
            replaced[row["gpu"]].add(end_ms)
    kept = [outside(one, joined(covered[one.card.uuid]), but=replaced[one.card.uuid]) for one in made]
    result.stored_before += sum(len(one.ts_ms) for one in made) - sum(len(one.ts_ms) for one in kept)
    return [one for one in kept if one.ts_ms]


def check_step(text_ms: int | None, length_ms: int) -> int:
    """Return the resolution [ms]: as given, else 0 (raw) up to ten days, else five minutes. Raises UsageError."""
    if text_ms is None:
        return 0 if length_ms <= RAW_UP_TO_MS else STEP_MS
    if text_ms and (DAY_MS % text_ms or text_ms < 60_000):
        raise UsageError("--resolution must be raw, or a part of a day from 1m on, as in 5m or 1h")
    return text_ms


def _count(pending: Sequence[tuple[Span, list[CardTicks]]]) -> int:
    return sum(len(ticks.ts_ms) for _, made in pending for ticks in made)


def _day(unix_ms: int) -> date:
    return datetime.fromtimestamp(unix_ms / 1000, UTC).date()
