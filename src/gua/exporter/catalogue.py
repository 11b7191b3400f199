"""A tick as the catalogue's metrics, and the states that our rules give cards and processes."""

from __future__ import annotations

import math
import re
from collections import defaultdict
from typing import Final

from prometheus_client.core import Metric as Family

from gua.core import fields, metrics
from gua.core.facts import busiest, card_facts, ratio, totals_by_type
from gua.core.fields import Field, PointForm
from gua.core.metrics import Metric
from gua.core.rules import Rules, State, classify, process_state
from gua.core.tick import AgentReading, CardReading, Origin, ProcessReading, Tick
from gua.core.words import Mig, ProcessList, ProcessType
from gua.exporter import allocations
from gua.exporter.families import (
    Counters,
    Labels,
    Series,
    Sums,
    add,
    clean,
    family_name,
    is_counter,
    labels_of,
    new_family,
)

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
_PROCESS_DURATION: Final = Field(name="duration_ms", metric=metrics.PROCESS_SAMPLE_DURATION, form=PointForm.MILLI)
_RESERVED: Final = "__"
"""Labels of Prometheus' own begin so; a page with a second ``__name__`` is none that anybody can read."""
_STATE_HELP: Final = {
    "gua_gpu_state": "1 for the state that the card was in over the last tick, 0 for the others.",
    "gua_gpu_unknown": "1 for the reason why the state of the card is unknown; no sample where it is known.",
    "gua_process_state": "1 for the state that the process was in over the last tick; no sample for others, "
    "nor for ignored processes.",
}


class Catalogue:
    """Makes families of ticks, one after the other: amounts of ticks are summed up from the first one on.

    A sum goes on through ticks that cannot tell its amount, and ends with the card or process.
    """

    def __init__(self) -> None:
        self._sums: dict[str, Sums] = {}
        self._sources: Sums = {}
        self._allocations = allocations.AllocationSeries()

    def families(self, tick: Tick) -> list[Family]:
        """Return the families of a tick: cards, processes, agent, and what they come from.

        What is unknown has no sample, and what is not in this tick has none any more.
        """
        made = {
            each.name: new_family(family_name(each), each.description, is_counter=is_counter(each))
            for each in metrics.CATALOGUE
        }
        made |= {name: new_family(name, text) for name, text in _STATE_HELP.items()}
        made |= allocations.new_families()
        after: dict[str, Sums] = {}
        for card in tick.cards:
            uuid = clean(card.uuid)
            if uuid not in after:  # a series may stand on a page once only
                counters = Counters(self._sums.get(uuid, {}))
                self._add_card(made, card, counters, tick)
                after[uuid] = counters.after
        self._allocations.forget(ts_ms=tick.ts_ms, interval_ms=tick.origin.interval_ms)
        sources = Counters(self._sources)
        for source in {clean(each.source): each for each in tick.allocation_sources}.values():
            allocations.add_source(made, source, sources)
        if tick.agent is not None:
            _add_agent(made, tick.agent)
        self._sums, self._sources = after, sources.after
        return [*made.values(), target_info(tick.origin)]

    def _add_card(self, made: dict[str, Family], card: CardReading, counters: Counters, tick: Tick) -> None:
        series = counters.series(labels_of([("hw.id", card.uuid)]))
        for each in fields.CARD_FIELDS:
            series.add_field(made, each, getattr(card, each.name))
        if card.failed is not None:
            _add(made, metrics.STATUS, int(not card.failed), series.labels | labels_of(fields.STATUS_OK))
        info = labels_of((key, _text(getattr(card, name))) for key, name in fields.CARD_INFO.items())
        _add(made, metrics.INFO, 1, series.labels | info)
        _add(made, metrics.PROCESS_UTILIZATION_MAX, busiest(card.processes), series.labels)
        if card.process_list is ProcessList.KNOWN:
            for kind, of_type in totals_by_type(card.processes).items():
                labels = series.labels | {"gua_process_type": kind.value}
                _add(made, metrics.PROCESS_COUNT, of_type.count, labels)
                _add(made, metrics.PROCESS_MEMORY, of_type.memory_bytes, labels)
                _add(made, metrics.PROCESS_MEMORY_UNKNOWN, of_type.unknown, labels)
        state = _add_state(made, card, series.labels)
        self._allocations.add_card(made, card, state, counters, ts_ms=tick.ts_ms, interval_ms=tick.origin.interval_ms)
        for process in card.processes:
            labels = _process_labels(card.uuid, process)
            if not counters.has(labels):
                _add_process(made, card.duration_ms, process, counters.series(labels))
        if card.process_list is not ProcessList.KNOWN and not card.processes:
            counters.after = counters.before | counters.after  # nobody has seen the processes go, either


def target_info(origin: Origin) -> Family:
    """Return the OTLP resource as the one sample that OpenTelemetry has for it."""
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
    family = new_family("target_info", "What the agent's OTLP resource says of it.")
    add(family, labels_of((further | own).items()), 1)
    return family


def _add(made: dict[str, Family], metric: Metric, value: float | None, labels: Labels) -> None:
    if value is not None and math.isfinite(value):
        add(made[metric.name], labels, value)


def _process_labels(uuid: str, process: ProcessReading) -> Labels:
    values = [
        ("hw.id", uuid),
        ("process.pid", process.pid),
        ("process.creation.time", fields.moment(process.created_ms)),
        ("process.owner", process.owner),
        ("gua.process.comm", process.comm),
        *((name, getattr(process, fields.PROCESS_INFO[name])) for name in _HOLDER),
    ]
    return labels_of(values)


def _add_process(made: dict[str, Family], duration_ms: int, process: ProcessReading, series: Series) -> None:
    series.add_field(made, _PROCESS_DURATION, duration_ms)
    for each in fields.PROCESS_FIELDS:
        series.add_field(made, each, getattr(process, each.name))
    info = labels_of((key, getattr(process, name)) for key, name in fields.PROCESS_INFO.items() if key not in _HOLDER)
    _add(made, metrics.PROCESS_INFO, 1, series.labels | info)
    if process.type is not ProcessType.IGNORED:
        state = process_state(ratio(process.utilization), _SHIPPED)
        add(made["gua_process_state"], series.labels | {"state": str(state)}, 1)


def _add_state(made: dict[str, Family], card: CardReading, labels: Labels) -> State:
    verdict = classify(card_facts(card), _SHIPPED)
    if card.mig is Mig.PARENT and card.gpu_time_ms == 0:
        return verdict.state  # all of it is its instances'; whoever counts states would count it as one more card
    for state in State:
        add(made["gua_gpu_state"], labels | {"state": str(state)}, int(state is verdict.state))
    if verdict.reason is not None:
        add(made["gua_gpu_unknown"], labels | {"reason": str(verdict.reason)}, 1)
    return verdict.state


def _add_agent(made: dict[str, Family], agent: AgentReading) -> None:
    for each in fields.AGENT_FIELDS:
        Series().add_field(made, each, getattr(agent, each.name))
    # Two codes may be one text once they are cleaned, and a series may stand on a page once only.
    errors: defaultdict[tuple[str, str], int] = defaultdict(int)
    for error in agent.errors:
        errors[clean(error.call), clean(error.code)] += error.count
    for (call, code), count in errors.items():
        _add(made, metrics.AGENT_ERRORS, count, labels_of([("call", call), ("code", code)]))


def _text(value: object) -> object:
    return str(value).lower() if isinstance(value, bool) else value


def _legal(name: str) -> str:
    """Return a user's attribute name as a label: every other character than letters, digits and _ becomes _."""
    legal = re.sub(r"[^a-zA-Z0-9_]", "_", name)
    return f"_{legal}" if legal[:1].isdigit() else legal or "_"
