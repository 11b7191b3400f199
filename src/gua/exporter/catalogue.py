"""A tick as the catalogue's metrics, and the states that our rules give cards and processes."""

from __future__ import annotations

import math
from collections import defaultdict
from typing import Final

from gua.core import fields, metrics
from gua.core.facts import busiest, card_facts, ratio, totals_by_type
from gua.core.fields import Field, PointForm
from gua.core.metrics import Metric, MetricKind
from gua.core.rules import Rules, State, classify, process_state
from gua.core.tick import AgentReading, CardReading, ErrorCount, Origin, ProcessReading, Tick
from gua.core.words import Mig, ProcessList, ProcessType
from gua.exporter import allocations
from gua.exporter.counters import Counters, Sums
from gua.exporter.families import Family, Labels, braced, escaped, inside
from gua.exporter.names import family_name, is_counter, label_name

_SHIPPED: Final = Rules()
# What names a process and who holds the card through it, on each of its series: alerts need no join.
_HOLDER: Final = (
    "container.id",
    "k8s.pod.uid",
    "slurm.job.id",
    "k8s.pod.name",
    "k8s.namespace.name",
    "k8s.container.name",
)
_STATES: Final = tuple(State)
_PROCESS_DURATION: Final = Field(name="duration_ms", metric=metrics.PROCESS_SAMPLE_DURATION, form=PointForm.MILLI)
_RESERVED: Final = "__"
"""Labels of Prometheus' own begin so; a page with a second ``__name__`` is none that anybody can read."""


class Catalogue:
    """Makes families of ticks, one after the other: amounts of ticks are summed up from the first one on.

    A sum goes on through ticks that cannot tell its amount, and ends with the card or process.
    """

    def __init__(self) -> None:
        self._sums: dict[str, Sums] = {}
        self._next: dict[str, Sums] = {}
        self._processes: dict[tuple[object, ...], str] = {}
        self._known: dict[tuple[object, ...], str] = {}
        self._allocations = allocations.AllocationSeries()

    def families(self, tick: Tick) -> list[Family]:
        """Return the families of a tick: cards, processes, agent, and what they come from.

        What is unknown has no sample, and what is not in this tick has none any more.
        """
        made = {metric.name: Family(family_name(metric), metric.description, is_counter(metric)) for metric in _ALL}
        made |= {name: Family(name, text) for name, text in _STATE_HELP.items()}
        made |= {name: Family(name, text, name in allocations.COUNTERS) for name, text in allocations.HELP.items()}
        self._next, self._known = {}, {}
        for card in tick.cards:
            self._add_card(made, card, tick)
        self._add_sources(made, tick)
        if tick.agent is not None:
            self._add_agent(made, tick.agent)
        self._sums, self._processes = self._next, self._known
        return [*made.values(), target_info(tick.origin)]

    def _add_sources(self, made: dict[str, Family], tick: Tick) -> None:
        self._allocations.forget(ts_ms=tick.ts_ms, interval_ms=tick.origin.interval_ms)
        counters = Counters(before=self._sums.get("", {}))
        self._next[""] = counters.after
        sources = {escaped(each.source): each for each in tick.allocation_sources}.values()
        there = {allocations.add_source(made, source, counters) for source in sources}
        counters.carry(lambda labels: labels in there)

    def _add_card(self, made: dict[str, Family], card: CardReading, tick: Tick) -> None:
        identity = inside([("hw_id", card.uuid)])
        if identity in self._next:  # a series may stand on a page once only
            return
        counters = Counters(before=self._sums.get(identity, {}))
        self._next[identity] = counters.after
        for field in fields.CARD_FIELDS:
            _add_field(made, field, getattr(card, field.name), identity, counters)
        if card.failed is not None:
            _add(made, metrics.STATUS, int(not card.failed), _with(identity, fields.STATUS_OK))
        info = [(key, _text(getattr(card, name))) for key, name in fields.CARD_INFO.items()]
        _add(made, metrics.INFO, 1, _with(identity, info))
        _add(made, metrics.PROCESS_UTILIZATION_MAX, busiest(card.processes), f"{{{identity}}}")
        if card.process_list is ProcessList.KNOWN:
            for kind, of_type in totals_by_type(card.processes).items():
                labels = _with(identity, [("gua.process.type", kind.value)])
                _add(made, metrics.PROCESS_COUNT, of_type.count, labels)
                _add(made, metrics.PROCESS_MEMORY, of_type.memory_bytes, labels)
                _add(made, metrics.PROCESS_MEMORY_UNKNOWN, of_type.unknown, labels)
        state = _add_state(made, card, identity)
        there = {identity}
        there |= self._allocations.add_card(
            made, card, state, identity, counters, ts_ms=tick.ts_ms, interval_ms=tick.origin.interval_ms
        )
        for process in card.processes:
            labels = self._identity(card.uuid, process)
            if labels not in there:
                there.add(labels)
                _add_process(made, card.duration_ms, process, labels, counters)
        is_unseen = card.process_list is not ProcessList.KNOWN and not card.processes
        counters.carry(lambda labels: is_unseen or labels in there)  # nobody has seen the processes go, either

    def _identity(self, uuid: str, process: ProcessReading) -> str:
        """Return a process's labels; they are seldom other ones than a tick ago."""
        key = (
            uuid,
            process.pid,
            process.created_ms,
            process.owner,
            process.comm,
            process.container_id,
            process.pod_uid,
            process.slurm_job_id,
            process.pod_name,
            process.pod_namespace,
            process.container_name,
        )
        labels = self._processes.get(key)
        if labels is None:
            named = [
                ("hw.id", uuid),
                ("process.pid", process.pid),
                ("process.creation.time", fields.moment(process.created_ms)),
                ("process.owner", process.owner),
                ("gua.process.comm", process.comm),
                *((name, getattr(process, fields.PROCESS_INFO[name])) for name in _HOLDER),
            ]
            labels = inside([(label_name(name), value) for name, value in named])
        self._known[key] = labels
        return labels

    def _add_agent(self, made: dict[str, Family], agent: AgentReading) -> None:
        for field in fields.AGENT_FIELDS:
            _add(made, field.metric, field.form.to_wire(getattr(agent, field.name)), "")
        # Two codes may be one text once they are cleaned, and a series may stand on a page once only.
        errors: defaultdict[str, int] = defaultdict(int)
        for error in agent.errors:
            errors[_error_labels(error)] += error.count
        for labels, count in errors.items():
            _add(made, metrics.AGENT_ERRORS, count, labels)


_ALL: Final = metrics.CATALOGUE
_STATE_HELP: Final = {
    "gua_gpu_state": "1 for the state that the card was in over the last tick, 0 for the others.",
    "gua_gpu_unknown": "1 for the reason why the state of the card is unknown; no sample where it is known.",
    "gua_process_state": "1 for the state that the process was in over the last tick; no sample for others, "
    "nor for ignored processes.",
}


def target_info(origin: Origin) -> Family:
    """Return the OTLP resource as the one sample that OpenTelemetry has for it."""
    family = Family("target_info", "What the agent's OTLP resource says of it.")
    own = {
        "host_name": origin.host,
        "host_id": origin.host_id,
        "service_name": origin.service_name,
        "service_version": origin.service_version,
        "service_instance_id": origin.instance_id,
        "gua_sample_interval": f"{origin.interval_ms / 1000:g}",
        "gua_source": str(origin.source),
    }
    further = {_legal(key): value for key, value in origin.attributes if not _legal(key).startswith(_RESERVED)}
    family.add(braced({**further, **own}.items()), 1)
    return family


def _add(made: dict[str, Family], metric: Metric, value: float | None, labels: str) -> None:
    if value is not None and math.isfinite(value):
        made[metric.name].add(labels, value)


def _add_field(made: dict[str, Family], field: Field, value: float | None, identity: str, counters: Counters) -> None:
    """Add a card's or process's field, an amount of the tick as the sum of all."""
    number = field.form.to_wire(value)
    if number is not None and math.isfinite(number):
        if field.metric.kind is MetricKind.DELTA:
            # By the field: a metric may have several that differ in attributes.
            number = counters.added(f"{field.metric.name} {field.name}", identity, number)
        labels = _with(identity, field.attributes) if field.attributes else f"{{{identity}}}"
        made[field.metric.name].add(labels, number)


def _add_process(
    made: dict[str, Family], duration_ms: int, process: ProcessReading, labels: str, counters: Counters
) -> None:
    _add_field(made, _PROCESS_DURATION, duration_ms, labels, counters)
    for field in fields.PROCESS_FIELDS:
        _add_field(made, field, getattr(process, field.name), labels, counters)
    info = [(key, getattr(process, fields.PROCESS_INFO[key])) for key in fields.PROCESS_INFO if key not in _HOLDER]
    _add(made, metrics.PROCESS_INFO, 1, _with(labels, info))
    if process.type is not ProcessType.IGNORED:
        state = process_state(ratio(process.utilization), _SHIPPED)
        made["gua_process_state"].add(f'{{{labels},state="{state}"}}', 1)


def _add_state(made: dict[str, Family], card: CardReading, identity: str) -> State:
    verdict = classify(card_facts(card), _SHIPPED)
    if card.mig is Mig.PARENT and card.gpu_time_ms == 0:
        return verdict.state  # all of it is its instances'; whoever counts states would count it as one more card
    for state in _STATES:
        made["gua_gpu_state"].add(f'{{{identity},state="{state}"}}', int(state is verdict.state))
    if verdict.reason is not None:
        made["gua_gpu_unknown"].add(f'{{{identity},reason="{verdict.reason}"}}', 1)
    return verdict.state


def _with(identity: str, attributes: Labels) -> str:
    more = inside([(label_name(name), value) for name, value in attributes])
    return f"{{{identity},{more}}}" if more else f"{{{identity}}}"


def _text(value: object) -> str | None:
    if isinstance(value, bool):
        return "true" if value else "false"
    return None if value is None else str(value)


def _error_labels(error: ErrorCount) -> str:
    return braced([("call", error.call), ("code", error.code)])


def _legal(name: str) -> str:
    """Return a user's attribute name as a label: every other character than letters, digits and _ becomes _."""
    legal = "".join(letter if letter.isascii() and (letter.isalnum() or letter == "_") else "_" for letter in name)
    return f"_{legal}" if legal[:1].isdigit() else legal or "_"
