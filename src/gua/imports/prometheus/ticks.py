"""Card ticks from the samples of a span of time: durations, holes, allocations, processes; one source per card."""

from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import pairwise, repeat
from math import inf
from operator import sub
from statistics import median_low
from typing import Final

from gua.core.tick import ProcessReading
from gua.core.words import Mig, ProcessList, ProcessType
from gua.imports.prometheus.card_ticks import CardTicks, Processes, one_source, within
from gua.imports.prometheus.cards import Labels, Target, first, program_of, whole_number
from gua.imports.prometheus.exporters import FREE, Exporter, Measure
from gua.imports.prometheus.samples import SampleReader, Samples
from gua.imports.prometheus.series import Numbers, Parser, Piece, Scrapes, Stream, column
from gua.imports.prometheus.survey import Inventory, all_series

LEAD_MS: Final = 600_000
"""Raw samples are also read for this time before a span, to know when a card was read last."""
_TRAIL_MS: Final = 300_000
"""And for this time after it, to know whether a tick of a preferred source overlaps the span's last ones."""
_DEFAULT_INTERVAL_MS: Final = 30_000
_MOST_INTERVAL_MS: Final = 3_600_000
_MEAN: Final = "avg_over_time"
_STEP_FUNCTIONS: Final = {"energy_total_mj": "max_over_time", "xid": "last_over_time"}
_CONSTANT: Final = (FREE, "memory_limit_bytes")
"""Columns with one value for a span of steps: they change only with the card."""
_PARTS_OF_LIMIT: Final = ("memory_used_bytes", "memory_reserved_bytes")
_MAXIMUM: Final = Measure("utilization_max", "", 1, 10_000)
_LARGEST: Final = {*_STEP_FUNCTIONS, _MAXIMUM.column}
"""Of several series of a card in a step, the largest value counts for these columns, not the mean."""


@dataclass(kw_only=True, slots=True)
class TickMaker:
    """Makes the ticks of spans of time. ``step_ms`` is the resolution, 0 for raw samples.

    ``interval_ms`` is the scrape interval, found from the samples if ``None``. ``ignored`` are programs that do not
    count as holders. ``end_ms`` is the end of the whole import [Unix ms]. ``left_out`` counts what was not imported, by
    reason.
    """

    reader: SampleReader
    found: Inventory
    step_ms: int = 0
    interval_ms: int | None = None
    ignored: Sequence[str] = ()
    end_ms: int = 0
    parser: Parser = field(default_factory=Parser)
    samples: int = 0

    @property
    def left_out(self) -> Counter[str]:
        """Return what was left out, by reason."""
        counts = Counter(self.found.directory.left_out)
        if self.parser.out_of_range:
            counts["different values out of range: unknown"] = self.parser.out_of_range
        return counts

    def ticks(self, since_ms: int, until_ms: int) -> list[CardTicks]:
        """Return the ticks that end after ``since_ms`` and up to ``until_ms``, of each card at most one at a time.

        At the import's end also those that begin before it: they are observed up to the end.
        """
        made: list[CardTicks] = []
        for exporter in self.found.exporters:
            made += self._of_exporter(exporter, since_ms, until_ms if self.step_ms else until_ms + _TRAIL_MS)
        # Which source a card has must not depend on where spans begin and end.
        cut = (within(ticks, since_ms, until_ms, self.end_ms) for ticks in one_source(made))
        return [ticks for ticks in cut if ticks.ts_ms]

    def _of_exporter(self, exporter: Exporter, since_ms: int, until_ms: int) -> Iterator[CardTicks]:
        streams: dict[tuple[Target, str], Stream] = {}
        here = self.found.metrics
        constant = _CONSTANT if self.step_ms else ()
        measures = [one for one in exporter.measures if one.metric in here and one.column not in constant]
        read = partial(self._read, since_ms=since_ms, until_ms=until_ms)
        reads: list[tuple[Callable[[Stream, Labels, Samples], None], Callable[[], list[Samples]]]] = [
            (partial(self._add_values, measure), read(measure.selector, _STEP_FUNCTIONS.get(measure.column, _MEAN)))
            for measure in measures
        ]
        counted = [metric for metric in exporter.first if metric in here]
        if self.step_ms and not self.found.has_instances:
            counted = counted[:1]
        for metric in counted:
            is_read = any(one.metric == metric and not one.matchers for one in measures)
            if self.step_ms or not is_read:
                reads.append((partial(self._add_presence, metric), read(metric, "count_over_time")))
        if self.step_ms and exporter.measures[0] in measures:
            maximum = exporter.measures[0]._replace(column=_MAXIMUM.column)
            reads.append((partial(self._add_values, maximum), read(maximum.selector, "max_over_time")))
        for (add, _), series in zip(reads, self.reader.every([each for _, each in reads]), strict=True):
            for samples in series:
                self.samples += len(samples.times) - bisect_right(samples.times, since_ms)
                stream = self._stream(streams, exporter, samples.labels)
                if stream is not None:
                    add(stream, samples.labels, samples)
        self._add_jobs(streams, exporter, since_ms, until_ms)
        if self.step_ms:
            self._add_limits(list(streams.values()), exporter, since_ms, until_ms)
        processes = self._processes(exporter, since_ms, until_ms)
        ordered = sorted(streams.values(), key=lambda stream: stream.target)
        return self._made(ordered, processes)

    def _read(self, selector: str, function: str, since_ms: int, until_ms: int) -> Callable[[], list[Samples]]:
        """Return the read of a selector's raw samples, or of ``function`` of each step, from before the span on."""
        if not self.step_ms:
            return partial(self.reader.raw, selector, since_ms - LEAD_MS, until_ms)
        return partial(self.reader.steps, function, selector, since_ms - self.step_ms, until_ms, self.step_ms)

    def _stream(self, streams: dict[tuple[Target, str], Stream], exporter: Exporter, labels: Labels) -> Stream | None:
        directory = self.found.directory
        card = directory.card(exporter, labels)
        if card is None:
            return None
        target = directory.target(exporter, labels)
        stream = streams.get((target, card.uuid))
        if stream is None:
            job = (exporter.name, labels.get("job", ""))
            stream = streams[target, card.uuid] = Stream(exporter, target, card, job)
        return stream

    def _add_values(self, measure: Measure, stream: Stream, labels: Labels, samples: Samples) -> None:
        if measure.whole_only and stream.card.mig is Mig.INSTANCE:
            return
        attribution = self.found.directory.attribution(stream.exporter, labels)
        stream.pieces[measure].append(Piece(attribution, samples.times, self.parser.values(measure, samples.values)))
        if not self.step_ms and measure.metric in stream.exporter.first and not measure.matchers:
            stream.add_presence(measure.metric, attribution, samples, counts=False)

    def _add_presence(self, metric: str, stream: Stream, labels: Labels, samples: Samples) -> None:
        if stream.card.mig is Mig.INSTANCE and any(
            one.whole_only for one in stream.exporter.measures if one.metric == metric
        ):
            return
        attribution = self.found.directory.attribution(stream.exporter, labels)
        stream.add_presence(metric, attribution, samples, counts=bool(self.step_ms))

    def _add_jobs(
        self, streams: dict[tuple[Target, str], Stream], exporter: Exporter, since_ms: int, until_ms: int
    ) -> None:
        """Add the Slurm jobs that metrics have as their value; those of a step are the ones at its end."""
        metrics = [name for name in exporter.job_metrics or () if name in self.found.metrics]
        if not metrics:
            return
        reads = [self._read(name, "last_over_time", since_ms, until_ms) for name in metrics]
        values: list[dict[tuple[Target, str], dict[int, str]]] = []
        for series in self.reader.every(reads):
            of_metric: dict[tuple[Target, str], dict[int, str]] = defaultdict(dict)
            for samples in series:
                card = self.found.directory.card(exporter, samples.labels)
                if card is not None:
                    key = self.found.directory.target(exporter, samples.labels), card.uuid
                    of_metric[key].update(zip(samples.times, samples.values, strict=True))
            values.append(of_metric)
        users = values[1] if len(values) > 1 else {}
        for key, jobs in values[0].items():
            if key not in streams:
                continue
            for at, job in jobs.items():
                if 0 < float(job) < inf:
                    uid = whole_number(f"{float(users.get(key, {}).get(at, 'nan')):.0f}")
                    streams[key].jobs[at] = self.found.directory.of_job(f"{float(job):.0f}", uid)

    def _add_limits(self, streams: Sequence[Stream], exporter: Exporter, since_ms: int, until_ms: int) -> None:
        """Add each card's memory size, the same for all steps of the span: the newest total, else used + free."""
        sizes: dict[str, dict[str, int | None]] = defaultdict(dict)
        for measure in exporter.measures:
            if measure.metric in self.found.metrics and measure.column in {*_CONSTANT, *_PARTS_OF_LIMIT}:
                for samples in self.reader.newest(measure.selector, since_ms, until_ms):
                    card = self.found.directory.card(exporter, samples.labels)
                    if card is not None:
                        (value,) = self.parser.values(measure, samples.values[-1:])
                        sizes[card.uuid][measure.column] = value
        for stream in streams:
            of_card = sizes[stream.card.uuid]
            used, free = of_card.get("memory_used_bytes"), of_card.get(FREE)
            stream.limit_bytes = of_card.get("memory_limit_bytes")
            if stream.limit_bytes is None and used is not None and free is not None:
                stream.limit_bytes = used + free + (of_card.get("memory_reserved_bytes") or 0)

    def _processes(self, exporter: Exporter, since_ms: int, until_ms: int) -> dict[str, Processes]:
        """Return the processes by UUID and time [Unix ms]. Of a command line only the program's name is read."""
        measures = [one for one in exporter.processes if one.metric in self.found.metrics]
        if not measures:
            return {}
        reads = [self._read(one.metric, _MEAN, since_ms, until_ms) for one in measures]
        programs = self._programs(exporter, since_ms, until_ms)
        made: dict[str, dict[int, dict[str, ProcessReading]]] = defaultdict(lambda: defaultdict(dict))
        for measure, series in zip(measures, self.reader.every(reads), strict=True):
            for samples in series:
                card = self.found.directory.card(exporter, samples.labels)
                pid = samples.labels.get(exporter.pid, "")
                if card is None or (process_id := whole_number(pid)) is None:
                    continue
                user = first(samples.labels, (exporter.user,))
                comm = programs.get((card.uuid, pid)) or program_of(exporter, samples.labels)
                kind = ProcessType.IGNORED if comm in self.ignored else ProcessType.COMPUTE
                base = ProcessReading(pid=process_id, owner=user, comm=comm, type=kind)
                of_card = made[card.uuid]
                for at, text in zip(samples.times, samples.values, strict=True):
                    process = of_card[at].setdefault(pid, base)
                    number = float(text) * measure.scale
                    if not 0 <= number <= measure.most:
                        continue
                    if measure.field == "utilization":
                        of_card[at][pid] = replace(process, utilization=number)
                    else:
                        of_card[at][pid] = replace(process, memory_bytes=round(number))
        return {
            uuid: {at: tuple(of_time.values()) for at, of_time in of_card.items()} for uuid, of_card in made.items()
        }

    def _programs(self, exporter: Exporter, since_ms: int, until_ms: int) -> dict[tuple[str, str], str]:
        """Return the name of each program by UUID and pid; the rest of a command line is dropped here."""
        if exporter.program_info not in self.found.metrics:
            return {}
        named: dict[tuple[str, str], str] = {}
        for labels in all_series(self.reader.client, [exporter.program_info], since_ms, until_ms):
            card = self.found.directory.card(exporter, labels)
            name = program_of(exporter, labels)
            if card is not None and name is not None:
                named[card.uuid, labels.get(exporter.pid, "")] = name
        return named

    def _made(self, streams: Sequence[Stream], processes: Mapping[str, Processes]) -> Iterator[CardTicks]:
        """Yield the ticks of each stream of an exporter, and of each GPU's unallocated MIG slices."""
        by_job: defaultdict[tuple[str, str], list[Stream]] = defaultdict(list)
        for stream in streams:
            by_job[stream.job].append(stream)
        intervals = {job: self._interval(of_job) for job, of_job in by_job.items()}
        by_parent: defaultdict[tuple[object, str], list[CardTicks]] = defaultdict(list)
        parents = {(stream.target[1:3], stream.card.gpu_index) for stream in streams if stream.card.mig is Mig.INSTANCE}
        for stream in streams:
            card = stream.card
            is_parent = card.mig is not Mig.INSTANCE and (stream.target[1:3], card.gpu_index) in parents
            if is_parent or card.mig is Mig.PARENT:
                continue
            lists = processes.get(card.uuid, {}) if self._lists_processes(stream) else None
            made = self._ticks(stream, *intervals[stream.job], lists)
            if made is None:
                continue
            yield made
            if card.mig is Mig.INSTANCE and card.parent is not None:
                by_parent[stream.target, card.parent].append(made)
        for (_, parent), instances in by_parent.items():
            slices = _unallocated_slices(parent, instances)
            if slices is not None:
                yield slices

    def _interval(self, streams: Sequence[Stream]) -> tuple[int, int]:
        """Return the scrapes in a whole step (1 for raw samples) and the scrape interval [ms] of a job's streams."""
        if not self.step_ms:
            return 1, self.interval_ms or _usual_interval_ms(streams)
        full = _usual_count(streams)
        return full, self.interval_ms or max(round(self.step_ms / full / 1000), 1) * 1000

    def _lists_processes(self, stream: Stream) -> bool:
        """Return whether a card without process series had no process."""
        exporter, here = stream.exporter, self.found.metrics
        if exporter.info == "gua_gpu_info":
            facts = self.found.directory.facts.get((exporter.name, stream.card.uuid), {})
            return facts.get("gua_gpu_process_list") == ProcessList.KNOWN
        if exporter.program_info:
            return exporter.processes[0].metric in here
        return "nvidia_smi_compute_apps" in here and bool(exporter.processes)

    def _ticks(
        self,
        stream: Stream,
        full: int,
        interval_ms: int,
        processes: Processes | None,
    ) -> CardTicks | None:
        """Return the ticks of a stream, ``None`` without any."""
        times, scrapes = stream.readings()
        if not times:
            return None
        durations = (
            _step_durations(scrapes, full, interval_ms, self.step_ms)
            if self.step_ms
            else _durations(times, interval_ms)
        )
        columns = _columns(stream, times, scrapes, full)
        _add_changes(columns, times, durations)
        if stream.exporter.measures[0].column in columns:
            sampled = [one * 1000 for one in _numbers(scrapes, full)] if self.step_ms else [0] * len(times)
            columns["utilization_coverage_ms"] = [
                None if value is None else coverage
                for value, coverage in zip(columns["utilization"], map(min, sampled, durations), strict=True)
            ]
        return CardTicks(
            card=stream.card,
            exporter=stream.exporter,
            interval_ms=self.step_ms or interval_ms,
            step_ms=self.step_ms,
            full=full,
            is_mapped=stream.job in self.found.directory.mapped,
            ts_ms=times,
            duration_ms=durations,
            columns=columns,
            scrapes=scrapes,
            processes=processes,
        )


def _durations(times: Sequence[int], interval_ms: int) -> list[int]:
    """Return what each raw sample covers: the interval before it, at most back to the sample before it."""
    return [interval_ms, *map(min, repeat(interval_ms), map(sub, times[1:], times))]


def _step_durations(scrapes: Sequence[Scrapes], full: int, interval_ms: int, step_ms: int) -> list[int]:
    """Return what each step covers: its scrapes times their interval; all of it if less than one scrape is missing."""
    numbers = _numbers(scrapes, full)
    return [step_ms if number * interval_ms > step_ms - interval_ms else number * interval_ms for number in numbers]


def _numbers(scrapes: Sequence[Scrapes], full: int) -> list[int]:
    """Return the number of scrapes in each step; equal ones are one object."""
    known = {id(of): of for of in scrapes}
    numbers = {key: min(sum(of.values()), full) for key, of in known.items()}
    return [numbers[id(of)] for of in scrapes]


def _usual_count(streams: Iterable[Stream]) -> int:
    """Return the most frequent number of scrapes in a step."""
    counts: Counter[int] = Counter()
    for stream in streams:
        for every in stream.presence.values():
            for _, _, numbers in every:
                counts.update(numbers or ())
    return max(counts.most_common(1)[0][0] if counts else 1, 1)


def _usual_interval_ms(streams: Sequence[Stream]) -> int:
    """Return the median distance of readings [ms] in whole seconds, at least 1 s; 30 s without two readings."""
    medians: list[int] = []
    for stream in streams:
        times, _ = stream.readings()
        if len(times) > 1:
            medians.append(median_low(map(sub, times[1:], times)))
    usual = median_low(medians) if medians else _DEFAULT_INTERVAL_MS
    return min(max(round(usual / 1000), 1) * 1000, _MOST_INTERVAL_MS)


def _columns(stream: Stream, times: list[int], scrapes: Sequence[Scrapes], full: int) -> dict[str, Numbers]:
    """Return the stored columns of a stream; of several measures for a column the first with a value counts."""
    columns: dict[str, Numbers] = {}
    for measure, pieces in stream.pieces.items():
        values = column(pieces, times, scrapes, full, largest=measure.column in _LARGEST)
        before = columns.get(measure.column)
        if before is not None:
            values = [new if old is None else old for old, new in zip(before, values, strict=True)]
        columns[measure.column] = values
    used, free = columns.get("memory_used_bytes"), columns.pop(FREE, None)
    reserved = columns.get("memory_reserved_bytes")
    if used is None:
        return columns
    if stream.limit_bytes is not None:
        columns["memory_limit_bytes"] = [stream.limit_bytes] * len(used)
    if "memory_limit_bytes" not in columns and free is not None:
        parts = zip(used, free, reserved or [0] * len(used), strict=True)
        columns["memory_limit_bytes"] = [
            None if of_used is None or of_free is None else of_used + of_free + (of_reserved or 0)
            for of_used, of_free, of_reserved in parts
        ]
    if reserved is None and stream.exporter.reserve_excluded and not stream.card.has_old_driver:
        columns["memory_reserved_bytes"] = [0] * len(used)
    return columns


def _add_changes(columns: dict[str, Numbers], times: Sequence[int], durations: Sequence[int]) -> None:
    """Add the energy of each tick, and its XID event: a new number of the newest one since the reading before."""
    totals, xids = columns.get("energy_total_mj"), columns.pop("xid", None)
    if totals is not None:
        energy: Numbers = [None]
        for place, (before, after) in enumerate(pairwise(totals), start=1):
            # Scrapes come some ms early or late.
            is_next = (times[place] - times[place - 1]) * 10 <= durations[place] * 11
            known = is_next and before is not None and after is not None and after >= before
            energy.append(after - before if known and before is not None and after is not None else None)
        columns["energy_mj"] = energy
    if xids is not None:
        events = [
            after if before is not None and after not in {None, 0, before} else None for before, after in pairwise(xids)
        ]
        columns["xid"] = [None, *events]
        columns["xid_errors"] = [
            None,
            *(
                None if None in {before, after} else int(event is not None)
                for (before, after), event in zip(pairwise(xids), events, strict=True)
            ),
        ]


def _unallocated_slices(parent: str, instances: Sequence[CardTicks]) -> CardTicks | None:
    """Return the ticks of a GPU's slices without an instance, at the readings of its instances; ``None`` without any.

    An instance counts for the whole span: slices that it left within the span are unobserved, not free.
    """
    total = instances[0].card.total
    slices = total - sum({one.card.uuid: one.card.slices for one in instances}.values())
    if slices <= 0 or any(one.card.slices == 0 for one in instances):
        return None
    longest = max(instances, key=lambda one: len(one.ts_ms))
    card = longest.card._replace(
        uuid=parent, name=longest.card.model, mig=Mig.PARENT, parent=None, slices=slices, total=total
    )
    count = len(longest.ts_ms)
    return replace(
        longest,
        card=card,
        columns={"memory_used_bytes": [0] * count, "memory_reserved_bytes": [0] * count, "utilization": [0] * count},
        scrapes=[{None: 1}] * count,
        full=1,
        processes={},
    )
