"""Asynchronous instruments of one MeterProvider: the catalogue's metrics, from the points of a tick.

The SDK never forgets an attribute set of an asynchronous instrument, and from 2,000 sets on it merges new ones into its
overflow set. Instruments are therefore created in batches. A card or process belongs to one batch for its life, and a
batch takes few enough of them. A process is reported from its second reading on, so short ones create no set.

A callback cannot know which reader collects, and readings are shared. A delta sum counts a reading only if the provider
collects it, and only while one thread beside the main one collects, as each of the SDK's periodic readers has its own.
So gauges cover all time that is exported with them.
"""

import threading
from collections import Counter, defaultdict
from collections.abc import Sequence
from functools import lru_cache, partial
from importlib.metadata import version
from typing import Any, Final

from opentelemetry.metrics import CallbackOptions, MeterProvider, Observation
from opentelemetry.proto.metrics.v1.metrics_pb2 import NumberDataPoint

from gua.core import metrics
from gua.core.metrics import Metric, MetricKind, Subject
from gua.instrumentation.options import guarded, warn_once
from gua.instrumentation.readings import Reading, SharedReadings
from gua.otlp.decode import plain_attributes
from gua.otlp.encode import points

# A card has up to four sets of a metric; a process has one, and one more of gua.process.info when a fact changes.
MOST_MEMBERS: Final = {Subject.CARD: 200, Subject.PROCESS: 1_000}
_CREATE: Final = {MetricKind.GAUGE: "gauge", MetricKind.AMOUNT: "up_down_counter"}
_METRICS: Final = {kind: [one for one in metrics.CATALOGUE if one.subject is kind] for kind in MOST_MEMBERS}
Member = tuple[Any, ...]


@lru_cache(maxsize=4096)
def _point(raw: bytes) -> tuple[dict[str, Any], Member]:
    """Return the attributes of a point, and those that identify its card or process."""
    attributes = plain_attributes(NumberDataPoint.FromString(raw).attributes)
    return attributes, tuple(attributes.get(key) for key in metrics.PROCESS_ATTRIBUTES)


class _Batch:
    """Instruments of some members, and the totals of their counters since they were first reported."""

    def __init__(self) -> None:
        self.size = 0
        self.totals: dict[tuple[str, bytes], float] = {}

    def value(self, metric: Metric, raw: bytes, value: float, *, is_new: bool) -> float:
        """Return what the instrument reports. A delta sum's first value is 0: it covers a time before the member."""
        key = (metric.name, raw)
        if metric.kind is MetricKind.DELTA:
            value = self.totals[key] = self.totals.get(key, 0) + (0 if is_new else value)
        elif metric.kind is MetricKind.COUNTER:
            value = max(0, value - self.totals.setdefault(key, value))
        return value


class Instruments:
    """The instruments of one provider. They report the values of the last :meth:`feed`, until :meth:`forget`."""

    _reading: Reading | None = None

    def __init__(self, provider: MeterProvider, source: SharedReadings) -> None:
        self.provider = provider
        self._source = source
        self._newest: dict[Subject, _Batch] = {}
        self._batches: dict[Member, _Batch] = {}
        self._seen: set[Member] = set()
        self.collecting: set[int] = set()
        self._observations: dict[tuple[_Batch, str], list[Observation]] = {}
        self._created: Counter[Subject] = Counter()
        self._creating: threading.Thread | None = None
        for subject in MOST_MEMBERS:
            self._create(subject)
        self._first = self._newest[Subject.CARD]

    def feed(self, reading: Reading | None) -> None:
        """Report the values of a reading, none without one; count it once."""
        if reading is None:
            self.forget()
        if reading is None or reading is self._reading:
            return
        has_sums = self._has_one_thread()
        observations: defaultdict[tuple[_Batch, str], list[Observation]] = defaultdict(list)
        seen: set[Member] = set()
        tick, pids = reading
        of_metric = points(tick)
        for metric in (*_METRICS[Subject.CARD], *_METRICS[Subject.PROCESS]):
            is_reported = has_sums or metric.kind is not MetricKind.DELTA
            for message, _, value in of_metric[metric.name] if is_reported else ():
                raw = message.SerializeToString()
                attributes, member = _point(raw)
                pid = attributes.get("process.pid")
                if pid is not None and pids is not None and pid not in pids:
                    continue
                lasting = member[:3]  # without names, which may change at each reading
                seen.add(lasting)
                is_new = lasting not in self._seen
                batch = None if pid is not None and is_new else self._batch(metric.subject, member)
                if batch is not None:
                    reported = batch.value(metric, raw, value, is_new=is_new)
                    observations[batch, metric.name].append(Observation(reported, attributes))
        self._reading, self._seen, self._observations = reading, seen, observations
        live = {batch for batch, _ in observations} | set(self._newest.values())
        for batch in set(self._batches.values()) - live:  # no member lives, and it takes no more
            batch.totals.clear()
        self._batches = {member: batch for member, batch in self._batches.items() if batch in live}

    def forget(self) -> None:
        """Report nothing until the next reading, whose delta sums count nothing."""
        self._reading, self._seen, self._observations = None, set(), {}

    def _has_one_thread(self) -> bool:
        """Return whether no second thread has collected, beside the main one; else there may be several readers."""
        if threading.current_thread() is not threading.main_thread():
            self.collecting.add(threading.get_ident())
        if len(self.collecting) <= 1:
            return True
        reason = "several threads collect from the MeterProvider"
        warn_once(reason, f"no durations, GPU times and other delta sums: {reason}. Give each reader its own")
        return False

    def _batch(self, subject: Subject, member: Member) -> _Batch | None:
        """Return the batch of a member, ``None`` until there is room: then a later reading reports it."""
        batch = self._batches.get(member)
        if batch is None and self._newest[subject].size < MOST_MEMBERS[subject]:
            batch = self._batches[member] = self._newest[subject]
            batch.size += 1
        elif batch is None and (self._creating is None or not self._creating.is_alive()):
            # In a thread: the SDK holds a lock during a collection that creating instruments needs.
            self._creating = threading.Thread(target=self._create, args=[subject], name="gua-instruments", daemon=True)
            with guarded():
                self._creating.start()
        return batch

    def _create(self, subject: Subject) -> None:
        batch, number = _Batch(), self._created[subject]
        self._created[subject] += 1
        # The SDK returns an existing instrument of the same name and scope.
        attributes = {"gua.instrumentation.batch": number} if number else None
        meter = self.provider.get_meter(metrics.SCOPE, version("gua-otel"), attributes=attributes)
        for metric in _METRICS[subject]:
            callback = partial(self._observe, batch, metric)
            create = getattr(meter, f"create_observable_{_CREATE.get(metric.kind, 'counter')}")
            create(metric.name, [callback], metric.unit, metric.description)
        self._newest[subject] = batch

    def _observe(self, batch: _Batch, metric: Metric, _options: CallbackOptions) -> Sequence[Observation]:
        """Return the points of one instrument. The SDK collects in the order of creation: the first one reads."""
        if metric is _METRICS[Subject.CARD][0] and batch is self._first:
            with guarded(self.forget):
                self.feed(self._source.refresh(self))
        return self._observations.get((batch, metric.name), ())
