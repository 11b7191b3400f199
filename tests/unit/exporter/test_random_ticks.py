"""Pages of random ticks: whatever is in a tick, its page can be read and holds no series twice."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from dataclasses import replace
from typing import TypeVar

import pytest

from fakes.cards import GIB, INTERVAL_MS, START_MS
from fakes.clock import FakeClock
from fakes.pages import ask, read
from gua.core.idleness import IdleCounter, Key
from gua.core.tick import (
    AgentReading,
    AllocationReading,
    AllocationSourceReading,
    CardReading,
    ErrorCount,
    Origin,
    ProcessReading,
    Tick,
)
from gua.core.words import AllocationStatus, Mig, ProcessList, ProcessType, Relation, Source
from gua.exporter.address import Address, Serving
from gua.exporter.endpoint import PrometheusEndpoint

TICKS = 200
ACCEPT = ("text/plain", "application/openmetrics-text")
UUIDS = [f"GPU-{number:08x}-0000-4000-8000-000000000000" for number in range(4)]
NAMES = ["python3", 'a"b', "a\nb", "\udcff", "\x00", "", None, "é" * 300, "é" * 301, '"} 1\nfake{a="']
FAILED = [True, False, None]
ATTRIBUTES = ["team", "__name__", "a.b", "a_b", "host.name", "1", "", "é"]


T = TypeVar("T")


class Chance:
    """Makes ticks by a seed: anything that the types allow, also what no reader would make."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)  # noqa: S311 - the same ticks every time
        self.clocks: dict[Key, IdleCounter] = {}

    def tick(self, number: int) -> Tick:
        agent = AgentReading(started_ms=START_MS, errors=tuple(self._error() for _ in range(self._below(6))))
        return Tick(
            ts_ms=START_MS + number * INTERVAL_MS,
            origin=replace(origin(), attributes=tuple((one, "x") for one in self._some(ATTRIBUTES))),
            cards=tuple(self._card() for _ in range(self._below(7))),
            agent=self._either(agent, None),
            allocation_sources=tuple(self._source() for _ in range(self._below(4))),
        )

    def _card(self) -> CardReading:
        uuid = self._either(*UUIDS)
        mig = self._either(*Mig, None)
        processes = tuple(self._process(uuid) for _ in range(self._below(5)))
        return CardReading(
            uuid=uuid,
            duration_ms=INTERVAL_MS,
            gpu_time_ms=self._either(0, INTERVAL_MS),
            process_list=self._either(*ProcessList),
            index=self._either(0, 1, None),
            name=self._either(*NAMES),
            pci=self._either(*NAMES),
            mig=mig,
            parent=self._either(*UUIDS) if mig is Mig.INSTANCE else None,
            utilization=self._either(0.0, 0.5, None),
            memory_used_bytes=self._either(0, GIB, None),
            memory_limit_bytes=self._either(GIB, None),
            power_watts=self._either(0.0, 120.5, math.inf, None),
            energy_total_mj=self._either(0, 2**63, None),
            energy_mj=self._either(0, 5, None),
            failed=self._either(*FAILED),
            processes=processes + processes[: self._below(2)],
            allocation=self._either(*AllocationStatus, None),
            unallocated_gpu_time_ms=self._either(0, 7, None),
            allocations=tuple(self._allocation() for _ in range(self._below(4))),
        )

    def _allocation(self) -> AllocationReading:
        return AllocationReading(
            source=self._either(*NAMES) or "",
            id=self._either(*NAMES) or "",
            relation=self._either(*Relation),
            duration_ms=self._either(0, INTERVAL_MS),
            gpu_time_ms=self._either(0, INTERVAL_MS),
            since_ms=self._either(0, -1, 2**62, None),
            until_ms=self._either(0, 2**62, None),
            owner=self._either(*NAMES),
            uid=self._either(0, None),
            job_name=self._either(*NAMES),
            pod_name=self._either(*NAMES),
        )

    def _source(self) -> AllocationSourceReading:
        return AllocationSourceReading(
            source=self._either(*NAMES) or "", duration_ms=self._either(0, INTERVAL_MS), reason=self._either(*NAMES)
        )

    def _process(self, uuid: str) -> ProcessReading:
        process = ProcessReading(
            pid=self._either(0, 1, 2),
            type=self._either(*ProcessType),
            created_ms=self._either(5, -1, 2**62, None),
            owner=self._either(*NAMES),
            comm=self._either(*NAMES),
            memory_bytes=self._either(0, GIB, None),
            utilization=self._either(0.0, 0.5, None),
            gpu_time_ms=self._either(0, 7, None),
            idle_ms=self._either(0, 9, None),
            pod_name=self._either(*NAMES),
        )
        clock = IdleCounter(
            seen_ms=START_MS, covered_ms=INTERVAL_MS, zero_polls=self._below(3), zero_ms=self._below(100_000)
        )
        if self._below(2):
            self.clocks[uuid, process.pid, process.created_ms] = clock
        return process

    def _error(self) -> ErrorCount:
        return ErrorCount(call="nvml", code=self._either("\x00", "\udcff", "\ufffd", "e"), count=self._below(3))

    def _below(self, number: int) -> int:
        return self._random.randrange(number)

    def _either(self, *values: T) -> T:
        return self._random.choice(values)

    def _some(self, values: Sequence[T]) -> list[T]:
        return [value for value in values if self._random.random() < 0.5]


def origin() -> Origin:
    return Origin(host="gpu-1", source=Source.AGENT, interval_ms=INTERVAL_MS)


@pytest.mark.parametrize("seed", range(3))
def test_no_page_has_a_series_twice_and_every_page_can_be_read(seed: int) -> None:
    chance = Chance(seed)
    serving = Serving(address=Address(port=0), constant={"node": "n1"})
    shown = 0
    with PrometheusEndpoint(serving, clock=FakeClock(), origin=origin(), clocks=lambda: chance.clocks) as endpoint:
        for number in range(TICKS):
            endpoint.ticked(chance.tick(number), lateness_ms=0)
            texts = [ask(endpoint, HTTP_ACCEPT=accept).text for accept in ACCEPT]
            found = read(*texts)
            shown += len(found)
            assert found["gua_agent_stale", ()] == 0, ask(endpoint, "/healthz").body
            assert found["gua_agent_tick_timestamp_seconds", ()] == (START_MS + number * INTERVAL_MS) / 1000
    assert shown > 50 * TICKS
