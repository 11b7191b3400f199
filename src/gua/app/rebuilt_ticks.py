"""Stored rows back to the ticks that they were made of, so that one encoder sends both.

A card whose rows do not tell all that its tick told is left out and counted: sent in parts it would look whole.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Any, Final

from gua.core import fields
from gua.core.facts import busiest, ratio, type_totals
from gua.core.fields import Field, PointForm
from gua.core.tick import AllocationReading, AllocationSourceReading, CardReading, Origin, ProcessReading, Tick
from gua.core.words import AllocationStatus, Mig, ProcessList, ProcessType, Relation, Source
from gua.store.history import AllocationRow, AllocationSourceRow, CardInfo, CardRow, ProcessRow

_NO_INFO: Final = CardInfo(gpu="")
_CALLED: Final = ("name", "model", "vendor", "driver_version", "pci", "parent")


@dataclass(slots=True)
class Rebuilt:
    """Makes ticks of one host from rows, and counts: ``card_ticks`` made, ``left_out`` those not wholly stored."""

    origin: Origin
    infos: Mapping[str, CardInfo]
    card_ticks: int = 0
    left_out: int = 0

    def ticks(
        self,
        cards: Iterable[CardRow],
        processes: Sequence[ProcessRow],
        allocations: Sequence[AllocationRow] = (),
        sources: Sequence[AllocationSourceRow] = (),
    ) -> Iterator[Tick]:
        """Return the ticks of these card rows, which come by time, and of the processes and allocations on them.

        Rows are those of :mod:`gua.store.history`. Who recorded them, and how often, is the rows' own;
        the rest of the origin is today's, and so is what a card is called.
        """
        of_card = defaultdict(list)
        for process in processes:
            of_card[process.ts_ms, process.gpu].append(process)
        promised = defaultdict(list)
        for allocation in allocations:
            promised[allocation.ts_ms, allocation.gpu].append(allocation)
        looked_at = defaultdict(list)
        for looked in sources:
            looked_at[looked.ts_ms].append(looked)
        for (ts_ms, source, interval_ms), rows in groupby(
            sorted(cards, key=lambda row: (row.ts_ms, row.source or "", row.interval_ms or 0)),
            key=lambda row: (row.ts_ms, row.source, row.interval_ms),
        ):
            readings = []
            for row in rows:
                reading = self._card(row, of_card[ts_ms, row.gpu], promised[ts_ms, row.gpu])
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
                    # Of one moment once, whoever recorded cards at it.
                    allocation_sources=tuple(map(_source, looked_at.pop(ts_ms, ()))),
                )

    def _card(
        self, row: CardRow, processes: Sequence[ProcessRow], allocations: Sequence[AllocationRow]
    ) -> CardReading | None:
        if row.duration_ms is None or row.gpu_time_ms is None:
            return None
        info = self.infos.get(row.gpu, _NO_INFO)
        try:
            reading = CardReading(
                uuid=row.gpu,
                process_list=ProcessList(row.process_list or ""),
                index=info.gpu_index,
                mig=None if row.mig is None else Mig(row.mig),
                memory_shared=row.memory_shared,
                allocation=None if row.allocation is None else AllocationStatus(row.allocation),
                processes=tuple(_process(process) for process in processes),
                allocations=tuple(_allocation(allocation) for allocation in allocations),
                **{name: getattr(info, name) for name in _CALLED},
                **{**_numbers(row, fields.CARD_FIELDS), "failed": None if row.failed is None else bool(row.failed)},
            )
            Source(row.source or "")
        except ValueError:  # a part of the tick is missing: its list, a process's span or type
            return None
        stored = (row.process_utilization_max, *(value for totals in row.totals.values() for value in totals))
        return reading if _derived(reading) == stored else None


def _process(row: ProcessRow) -> ProcessReading:
    if row.duration_ms is None:
        raise ValueError("the span of this process is not stored")
    return ProcessReading(
        pid=row.pid,
        created_ms=row.created_ms or None,
        owner=row.owner,
        comm=row.program,
        **{**_facts(row, fields.PROCESS_INFO), "type": ProcessType(row.type or "")},
        **_numbers(row, fields.PROCESS_FIELDS),
    )


def _allocation(row: AllocationRow) -> AllocationReading:
    if row.duration_ms is None or row.gpu_time_ms is None:
        raise ValueError("the time of this allocation is not stored")
    return AllocationReading(
        source=row.source,
        id=row.allocation_id,
        **{**_facts(row, fields.ALLOCATION_INFO), "relation": Relation(row.relation or "")},
        **_numbers(row, fields.ALLOCATION_FIELDS),
    )


def _source(row: AllocationSourceRow) -> AllocationSourceReading:
    return AllocationSourceReading(
        source=row.source,
        duration_ms=row.duration_ms or 0,
        reason=None if row.status == "ok" else row.reason or "",
        **_numbers(row, fields.SOURCE_FIELDS),
    )


def _facts(row: object, names: Mapping[str, str]) -> dict[str, Any]:
    """Return those of these facts that are stored."""
    return {name: getattr(row, name) for name in names.values() if hasattr(row, name)}


def _numbers(row: object, every: Iterable[Field]) -> dict[str, Any]:
    """Return the stored numbers as a reading has them: of ratios the ratio, of all others the stored integer."""
    return {
        field.name: stored / column.scale if stored is not None and field.form is PointForm.DOUBLE else stored
        for field, column in ((field, field.column) for field in every)
        if column is not None
        for stored in [getattr(row, column.name)]
    }


def _derived(card: CardReading) -> tuple[int | None, ...]:
    """Return what the encoder will derive from the processes, as it is stored."""
    busy = ratio(busiest(card.processes))
    if card.process_list is not ProcessList.KNOWN:
        return (busy, *[None] * (3 * len(ProcessType)))
    return (busy, *type_totals(card.processes))
