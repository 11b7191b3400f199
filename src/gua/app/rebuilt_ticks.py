"""Rebuild ticks from stored rows, so that one encoder sends both live and historical ticks.

A card tick whose rows are incomplete is left out and counted: a partial one would look whole to the receiver.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import groupby
from operator import itemgetter
from typing import Any, Final

from gua.core import fields, metrics
from gua.core.facts import busiest, ratio, type_totals
from gua.core.fields import Field, PointForm
from gua.core.ports import Row
from gua.core.tick import AllocationReading, AllocationSourceReading, CardReading, Origin, ProcessReading, Tick
from gua.core.words import AllocationStatus, Mig, ProcessList, ProcessType, Relation, Source

_DESCRIPTION: Final = ("name", "model", "vendor", "driver_version", "pci", "parent")

_DERIVED: Final = (
    "process_utilization_max",
    *(
        column
        for kind in ProcessType
        for column in (f"process_count_{kind}", f"process_memory_{kind}_bytes", f"process_unknown_{kind}")
    ),
)
"""Columns that the encoder derives from the processes."""


@dataclass(slots=True)
class Rebuilt:
    """Rebuilds one host's ticks from rows; counts ``card_ticks`` rebuilt and incomplete ones ``left_out``."""

    origin: Origin
    infos: Mapping[str, Row]
    card_ticks: int = 0
    left_out: int = 0

    def ticks(
        self,
        cards: Iterable[Row],
        processes: Iterable[Row] = (),
        allocations: Iterable[Row] = (),
        sources: Iterable[Row] = (),
    ) -> Iterator[Tick]:
        """Yield the ticks of the card rows, in order of time, with their processes and allocations.

        Rows are those of :mod:`gua.store.history`. Source and interval come from the rows; the rest of the origin and
        the cards' names are today's.
        """
        processes_by_card = defaultdict(list)
        for process in processes:
            processes_by_card[process["ts_ms"], process["gpu"]].append(process)
        allocations_by_card = defaultdict(list)
        for allocation in allocations:
            allocations_by_card[allocation["ts_ms"], allocation["gpu"]].append(allocation)
        by_time = defaultdict(list)
        for source_row in sources:
            by_time[source_row["ts_ms"]].append(source_row)
        for (ts_ms, source, interval_ms), rows in groupby(
            sorted(cards, key=lambda row: (row["ts_ms"], row["source"] or "", row["interval_ms"] or 0)),
            key=itemgetter("ts_ms", "source", "interval_ms"),
        ):
            readings = []
            for row in rows:
                key = ts_ms, row["gpu"]
                reading = self._card(row, processes_by_card[key], allocations_by_card[key])
                if reading is None:
                    self.left_out += 1
                else:
                    readings.append(reading)
            self.card_ticks += len(readings)
            if readings:
                yield Tick(
                    ts_ms=ts_ms,
                    origin=replace(
                        self.origin,
                        source=Source(source),
                        interval_ms=self.origin.interval_ms if interval_ms is None else interval_ms,
                    ),
                    cards=tuple(readings),
                    # Once for each time, even if several sources recorded it.
                    allocation_sources=tuple(map(_source, by_time.pop(ts_ms, ()))),
                )

    def _card(self, row: Row, processes: Iterable[Row], allocations: Iterable[Row]) -> CardReading | None:
        if row["duration_ms"] is None or row["gpu_time_ms"] is None:
            return None
        info = self.infos.get(row["gpu"], {})
        values = _numbers(row, fields.CARD_FIELDS) | {name: info.get(name) for name in _DESCRIPTION}
        values["failed"] = None if row["failed"] is None else bool(row["failed"])
        try:
            reading = CardReading(
                uuid=row["gpu"],
                process_list=ProcessList(row["process_list"] or ""),
                index=info.get("gpu_index"),
                mig=None if row["mig"] is None else Mig(row["mig"]),
                memory_shared=row["memory_shared"],
                allocation=None if row["allocation"] is None else AllocationStatus(row["allocation"]),
                processes=tuple(_process(process) for process in processes),
                allocations=tuple(_allocation(allocation) for allocation in allocations),
                **values,
            )
            Source(row["source"] or "")
        except ValueError:  # a required value is not stored: the list, a process's duration or type
            return None
        return reading if _derived(reading) == tuple(row[name] for name in _DERIVED) else None


def _process(row: Row) -> ProcessReading:
    if row["duration_ms"] is None:
        raise ValueError("the span of this process is not stored")
    return ProcessReading(
        pid=row["pid"],
        created_ms=row["created_ms"] or None,
        owner=row["owner"],
        comm=row["program"],
        **{**_facts(row, metrics.PROCESS_FACTS), "type": ProcessType(row["type"] or "")},
        **_numbers(row, fields.PROCESS_FIELDS),
    )


def _allocation(row: Row) -> AllocationReading:
    if row["duration_ms"] is None or row["gpu_time_ms"] is None:
        raise ValueError("the time of this allocation is not stored")
    return AllocationReading(
        source=row["source"],
        id=row["allocation_id"],
        **{**_facts(row, metrics.ALLOCATION_FACTS), "relation": Relation(row["relation"] or "")},
        **_numbers(row, fields.ALLOCATION_FIELDS),
    )


def _source(row: Row) -> AllocationSourceReading:
    return AllocationSourceReading(
        source=row["source"],
        duration_ms=row["duration_ms"] or 0,
        reason=None if row["status"] == "ok" else row["reason"] or "",
        **_numbers(row, fields.SOURCE_FIELDS),
    )


def _facts(row: Row, names: Mapping[str, str]) -> dict[str, Any]:
    """Return the named facts that the row has."""
    return {name: row[name] for name in names.values() if name in row}


def _numbers(row: Row, every: Iterable[Field]) -> dict[str, Any]:
    """Return a row's numbers as readings have them: ratios as floats, all others as the stored integers."""
    return {
        field.name: stored / column.scale if stored is not None and field.form is PointForm.DOUBLE else stored
        for field, column in ((field, field.column) for field in every)
        if column is not None
        for stored in [row[column.name]]
    }


def _derived(card: CardReading) -> tuple[int | None, ...]:
    """Return the values of the columns :data:`_DERIVED` for a reading."""
    busy = ratio(busiest(card.processes))
    if card.process_list is not ProcessList.KNOWN:
        return (busy, *[None] * (3 * len(ProcessType)))
    return (busy, *type_totals(card.processes))
