from dataclasses import fields
from itertools import pairwise

from fakes.full_host import full_host
from gua.core.ports import Activity
from gua.core.tick import CardReading, ProcessReading
from gua.core.words import ProcessType
from gua.sim.host import END_MS


def test_a_day_of_a_full_host_has_every_tick() -> None:
    ticks = list(full_host(days=0.5))

    assert len(ticks) == 1440
    assert ticks[-1].ts_ms == END_MS
    assert {late.ts_ms - early.ts_ms for early, late in pairwise(ticks)} == {30_000}


def test_every_point_is_there() -> None:
    tick = next(full_host(days=0.01))

    assert len(tick.cards) == 8
    for card in tick.cards:
        assert len(card.processes) == 10
        assert {process.type for process in card.processes} == set(ProcessType)
        unknown = {field.name for field in fields(CardReading) if getattr(card, field.name) is None}
        not_here = {"parent", "allocation", "unallocated_gpu_time_ms", "xid", *Activity._fields}
        assert unknown == not_here, "what an instance has, an XID event; allocation and counters are not looked at"
        for process in card.processes:
            unknown = {field.name for field in fields(ProcessReading) if getattr(process, field.name) is None}
            known_by_agents = {"idle_ms", "pod_name", "pod_namespace", "container_name"}
            known_by_agents |= {"workload_kind", "workload_model"}
            assert unknown <= {"slurm_job_id", "gpu_time_ms"} | known_by_agents


def test_attributed_time_sums_to_the_card_s() -> None:
    for tick in full_host(days=0.01):
        for card in tick.cards:
            assert sum(process.gpu_time_ms or 0 for process in card.processes) == card.gpu_time_ms


def test_the_same_seed_gives_the_same_load_and_size_is_free() -> None:
    assert list(full_host(days=0.01, seed=5)) == list(full_host(days=0.01, seed=5))
    (tick, *_) = full_host(cards=3, processes=1, days=0.01, host="other")
    assert [len(card.processes) for card in tick.cards] == [1, 1, 1]
    assert tick.origin.host == "other"
