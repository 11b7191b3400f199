"""Stored rows back to the ticks that they were made of, so that one encoder sends both.

A card whose rows do not tell all that its tick told is left out and counted: sent in parts it would look whole.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Final

from gua.core.facts import RATIO_SCALE, busiest, ratio, totals_by_type
from gua.core.metrics import ACTIVITY_SCALE
from gua.core.tick import AllocationReading, AllocationSourceReading, CardReading, Origin, ProcessReading, Tick
from gua.core.words import AllocationStatus, Mig, ProcessList, ProcessType, Relation, Source
from gua.store.history import AllocationRow, AllocationSourceRow, CardInfo, CardRow, ProcessRow

_NO_INFO: Final = CardInfo(gpu="")


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
            sorted(cards, key=_sender), key=lambda row: (row.ts_ms, row.source, row.interval_ms)
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
                duration_ms=row.duration_ms,
                gpu_time_ms=row.gpu_time_ms,
                process_list=ProcessList(row.process_list or ""),
                index=info.gpu_index,
                name=info.name,
                model=info.model,
                vendor=info.vendor,
                driver_version=info.driver_version,
                pci=info.pci,
                mig=None if row.mig is None else Mig(row.mig),
                parent=info.parent,
                memory_shared=row.memory_shared,
                utilization=_ratio(row.utilization),
                utilization_encoder=_ratio(row.utilization_encoder),
                utilization_decoder=_ratio(row.utilization_decoder),
                utilization_max=_ratio(row.utilization_max),
                utilization_coverage_ms=row.utilization_coverage_ms,
                idle_time_ms=row.idle_time_ms,
                idle_energy_mj=row.idle_energy_mj,
                idle_energy_coverage_ms=row.idle_energy_coverage_ms,
                clock_reasons=row.clock_reasons,
                xid_errors=row.xid_errors,
                ecc_errors=row.ecc_errors,
                xid=row.xid,
                row_remap=row.row_remap,
                sm_utilization=_activity(row.sm_utilization),
                sm_occupancy=_activity(row.sm_occupancy),
                tensor_utilization=_activity(row.tensor_utilization),
                memory_bandwidth_utilization=_activity(row.memory_bandwidth_utilization),
                memory_used_bytes=row.memory_used_bytes,
                memory_limit_bytes=row.memory_limit_bytes,
                memory_reserved_bytes=row.memory_reserved_bytes,
                power_watts=_thousandth(row.power_mw),
                temperature_celsius=row.temperature_celsius,
                energy_total_mj=row.energy_total_mj,
                energy_mj=row.energy_mj,
                failed=None if row.failed is None else bool(row.failed),
                allocation=None if row.allocation is None else AllocationStatus(row.allocation),
                unallocated_gpu_time_ms=row.unallocated_gpu_time_ms,
                processes=tuple(_process(process) for process in processes),
                allocations=tuple(_allocation(allocation) for allocation in allocations),
            )
            Source(row.source or "")
        except ValueError:  # a part of the tick is missing: its list, a process's span or type
            return None
        return reading if _derived(reading) == _stored(row) else None


def _sender(row: CardRow) -> tuple[int, str, int]:
    return row.ts_ms, row.source or "", row.interval_ms or 0


def _process(row: ProcessRow) -> ProcessReading:
    if row.duration_ms is None:
        msg = "the span of this process is not stored"
        raise ValueError(msg)
    return ProcessReading(
        pid=row.pid,
        type=ProcessType(row.type or ""),
        created_ms=row.created_ms or None,
        owner=row.owner,
        uid=row.uid,
        comm=row.program,
        memory_bytes=row.memory_bytes,
        utilization=_ratio(row.utilization),
        gpu_time_ms=row.gpu_time_ms,
        container_id=row.container_id,
        pod_uid=row.pod_uid,
        slurm_job_id=row.slurm_job_id,
        systemd_unit=row.systemd_unit,
        workload_kind=row.workload_kind,
        workload_model=row.workload_model,
    )


def _allocation(row: AllocationRow) -> AllocationReading:
    if row.duration_ms is None or row.gpu_time_ms is None:
        msg = "the time of this allocation is not stored"
        raise ValueError(msg)
    return AllocationReading(
        source=row.source,
        id=row.allocation_id,
        relation=Relation(row.relation or ""),
        duration_ms=row.duration_ms,
        gpu_time_ms=row.gpu_time_ms,
        since_ms=row.since_ms,
        until_ms=row.until_ms,
        owner=row.owner,
        uid=row.uid,
        kind=row.kind,
        job_name=row.job_name,
        pod_uid=row.pod_uid,
        pod_name=row.pod_name,
        pod_namespace=row.pod_namespace,
        workload_kind=row.workload_kind,
        workload_model=row.workload_model,
    )


def _source(row: AllocationSourceRow) -> AllocationSourceReading:
    return AllocationSourceReading(
        source=row.source,
        duration_ms=row.duration_ms or 0,
        reason=None if row.status == "ok" else row.reason or "",
        waiting=row.waiting,
        wait_ms=row.wait_ms,
        waited_ms=row.waited_ms,
    )


def _derived(card: CardReading) -> tuple[int | None, ...]:
    """Return what the encoder will derive from the processes, as it is stored."""
    busy = ratio(busiest(card.processes))
    if card.process_list is not ProcessList.KNOWN:
        return (busy, *[None] * (3 * len(ProcessType)))
    totals = totals_by_type(card.processes)
    ordered = [totals[kind] for kind in ProcessType]
    return (busy, *(value for one in ordered for value in (one.count, one.memory_bytes, one.unknown)))


def _stored(row: CardRow) -> tuple[int | None, ...]:
    return (row.process_utilization_max, *(value for totals in row.totals.values() for value in totals))


def _ratio(stored: int | None) -> float | None:
    return None if stored is None else stored / RATIO_SCALE


def _activity(stored: int | None) -> float | None:
    return None if stored is None else stored / ACTIVITY_SCALE


def _thousandth(stored: int | None) -> float | None:
    return None if stored is None else stored / 1000
