"""The page's metrics of allocations: their use, for how long they are empty, and the state of their sources."""

from __future__ import annotations

from dataclasses import replace

import pytest

from fakes.cards import GIB, INTERVAL_MS, START_MS, allocated, allocation, card, process, tick
from fakes.pages import Series, read_families
from gua.core.tick import CardReading
from gua.core.words import AllocationStatus, Mig, ProcessType, Relation, Use
from gua.exporter.catalogue import Catalogue

EMPTY = "gua_gpu_allocation_empty_duration_seconds"
JOB = allocation(relation=Relation.NOBODY)
IDLE = card(**allocated(JOB))
USED = card(busy=0.9, held=GIB, **allocated(replace(JOB, relation=Relation.OWNER)))
UNKNOWN_RELATION = card(**allocated(replace(JOB, relation=Relation.UNKNOWN)))
FREE = card(**allocated())
FAILED = card(allocation=AllocationStatus.UNKNOWN)


def values(found: Series, name: str, **labels: str) -> list[float]:
    return [value for (one, has), value in found.items() if one == name and labels.items() <= dict(has).items()]


def pages(*cards: CardReading | None, step_ms: int = INTERVAL_MS) -> list[Series]:
    """Return the pages of one card's ticks in a row; ``None`` is a tick without it."""
    catalogue = Catalogue()
    return [
        read_families(catalogue.families(tick(START_MS + number * step_ms, *([] if one is None else [one]))))
        for number, one in enumerate(cards)
    ]


def empties(*cards: CardReading | None, step_ms: int = INTERVAL_MS) -> list[float | None]:
    return [next(iter(values(page, EMPTY)), None) for page in pages(*cards, step_ms=step_ms)]


def test_without_an_allocation_source_a_page_has_no_allocation_metrics() -> None:
    (found,) = pages(card())
    assert [name for name, _ in found if "alloc" in name or "use_time" in name] == []
    assert "gua_gpu_allocation" not in dict(next(has for name, has in found if name == "gua_gpu_info"))


def test_an_allocation_has_its_owner_on_each_series() -> None:
    (found,) = pages(IDLE)
    named = {
        "hw_id": "GPU-1",
        "gua_allocation_source": "slurm",
        "gua_allocation_id": "77",
        "gua_allocation_owner": "ana",
        "slurm_job_name": "train",
    }
    of_allocations = [name for name, has in found if "gua_allocation_id" in dict(has)]
    assert sorted(of_allocations) == [
        "gua_gpu_allocation_duration_seconds_total",
        "gua_gpu_allocation_empty_duration_seconds",
        "gua_gpu_allocation_info",
        "gua_gpu_allocation_time_seconds_total",
        "gua_gpu_allocation_use",
    ]
    for name in of_allocations:
        assert values(found, name, **named), name
    (info,) = (dict(has) for name, has in found if name == "gua_gpu_allocation_info")
    assert info == {
        **named,
        "gua_allocation_relation": "nobody",
        "gua_allocation_user_id": "1000",
        "gua_allocation_since": "2026-03-25T00:00:00.000Z",
    }
    assert values(found, "gua_gpu_info", gua_gpu_allocation="allocated") == [1]


def test_a_pod_is_named_as_its_processes_are() -> None:
    pod = allocation("u", source="kubernetes", owner=None, uid=None, job_name=None, pod_name="a", pod_namespace="lab")
    (found,) = pages(card(**allocated(replace(pod, pod_uid="u"))))
    assert values(found, EMPTY, k8s_pod_name="a", k8s_namespace_name="lab") == [0]
    assert values(found, "gua_gpu_allocation_info", k8s_pod_uid="u") == [1]


def test_gpu_time_is_exported_by_use_and_adds_up_to_the_total() -> None:
    shared = card(
        busy=0.9,
        allocation=AllocationStatus.ALLOCATED,
        allocations=(
            allocation("a", gpu_time_ms=10_000),
            allocation("b", Relation.CO_OWNERS, gpu_time_ms=10_000),
        ),
        unallocated_gpu_time_ms=5_000,
    )
    *_, found = pages(shared, shared, FAILED)
    uses = {use: values(found, "gua_gpu_use_time_seconds_total", use=use) for use in Use}
    assert uses == {
        Use.USED: [20],
        Use.HELD: [0],
        Use.USED_BY_OTHERS: [0],
        Use.EMPTY: [20],
        Use.UNALLOCATED_USE: [10],
        Use.FREE: [0],
        Use.UNKNOWN: [40],
    }
    assert sum(value for (value,) in uses.values()) == values(found, "gua_gpu_time_seconds_total")[0] == 90


def test_gpu_time_by_use_goes_on_after_instances_had_all_of_the_gpu() -> None:
    nothing_left = replace(FREE, mig=Mig.PARENT, gpu_time_ms=0, unallocated_gpu_time_ms=0)
    for found, expected in zip(pages(nothing_left, FREE, nothing_left, FREE), (None, 30, 30, 60), strict=True):
        uses = values(found, "gua_gpu_use_time_seconds_total")
        assert (sum(uses) if uses else None) == expected
        assert values(found, "gua_gpu_time_seconds_total") == [expected or 0]


def test_an_allocation_is_in_one_use_as_the_rules_have_it() -> None:
    for reading, use in ((IDLE, "empty"), (USED, "used"), (UNKNOWN_RELATION, "unknown")):
        (found,) = pages(reading)
        assert [dict(has)["use"] for name, has in found if name == "gua_gpu_allocation_use"] == [use]


def test_the_empty_duration_counts_ticks_without_an_owners_process() -> None:
    assert empties(IDLE, IDLE, IDLE) == [30, 60, 90]
    assert empties(IDLE, USED, IDLE, IDLE) == [30, 0, 30, 60]
    began = card(**allocated(replace(JOB, duration_ms=12_345)))
    assert empties(began, IDLE) == [12.345, 42.345]


def test_unknown_ticks_neither_end_nor_lengthen_the_empty_duration() -> None:
    assert empties(IDLE, UNKNOWN_RELATION, UNKNOWN_RELATION, IDLE) == [30, None, None, 60]
    assert empties(IDLE, FAILED, IDLE) == [30, None, 60]
    assert empties(IDLE, FREE, IDLE) == [30, None, 30]


def test_time_without_a_tick_ends_it_after_two_intervals() -> None:
    assert empties(IDLE, None, IDLE) == [30, None, 60]
    assert empties(IDLE, IDLE, step_ms=3 * INTERVAL_MS) == [30, 60]
    assert empties(IDLE, IDLE, step_ms=3 * INTERVAL_MS + 1) == [30, 30]
    assert empties(IDLE, None, None, None, IDLE) == [30, None, None, None, 30]
    assert empties(IDLE, IDLE, step_ms=-INTERVAL_MS) == [30, 30]


def test_another_allocation_begins_at_nothing() -> None:
    other = card(**allocated(replace(JOB, id="78")))
    assert empties(IDLE, other, other, IDLE) == [30, 30, 60, 30]


def test_one_that_ended_within_the_tick_is_in_no_use_any_more() -> None:
    (found,) = pages(card(**allocated(replace(JOB, until_ms=START_MS))))
    assert values(found, "gua_gpu_allocation_use") == values(found, EMPTY) == []
    assert values(found, "gua_gpu_allocation_time_seconds_total") == [30]


def test_unallocated_mig_slices_have_no_empty_duration() -> None:
    (found,) = pages(card(mig=Mig.PARENT, **allocated(JOB)))
    assert values(found, EMPTY) == []
    assert values(found, "gua_gpu_use_time_seconds_total", use="empty") == [30]
    (found,) = pages(card(mig=Mig.PARENT, gpu_time_ms=0, **allocated(replace(JOB, gpu_time_ms=0))))
    assert values(found, "gua_gpu_use_time_seconds_total") == []


def test_an_ignored_process_does_not_end_the_empty_duration() -> None:
    xorg = process(9, 4, owner="root", type=ProcessType.IGNORED)
    assert empties(card(processes=(xorg,), **allocated(JOB))) == [30]


def test_sums_of_an_allocation_go_on_and_end_with_it() -> None:
    found = pages(IDLE, IDLE, FREE, IDLE)
    assert [values(page, "gua_gpu_allocation_time_seconds_total") for page in found] == [[30], [60], [], [30]]
    assert [values(page, "gua_gpu_unallocated_time_seconds_total") for page in found] == [[0], [0], [30], [30]]


def test_a_source_exports_whether_it_is_readable_and_for_how_long() -> None:
    catalogue = Catalogue()
    for number, reason in enumerate((None, "no answer", "late", None)):
        sources = {"files": None, "slurm": reason}
        found = read_families(catalogue.families(tick(START_MS + number, card(), sources=sources)))
        assert values(found, "gua_allocation_source_ok", gua_allocation_source="slurm") == [int(reason is None)]
    seconds = "gua_allocation_source_duration_seconds_total"
    slurm = {"gua_allocation_source": "slurm"}
    assert values(found, seconds, gua_allocation_source_status="ok", **slurm) == [60]
    assert values(found, seconds, gua_allocation_source_status="failed", **slurm) == [60]
    assert not [has for name, has in found if name == seconds and "gua_allocation_source_reason" in dict(has)]


def test_the_queue_is_exported_as_current_length_and_as_totals() -> None:
    catalogue = Catalogue()
    # A tick with an unknown queue has no sample, and the sums go on after it.
    for waiting, wait_ms, waited_ms in ((0, 0, 0), (2, 45_000, 30_000), (None, None, None), (1, 1500, 1500)):
        made = tick(START_MS + (wait_ms or 1), card(), sources={"gua": None})
        (source,) = made.allocation_sources
        source = replace(source, waiting=waiting, wait_ms=wait_ms, waited_ms=waited_ms)
        found = read_families(catalogue.families(replace(made, allocation_sources=(source,))))
    assert values(found, "gua_queue_waiting", gua_allocation_source="gua") == [1]
    assert values(found, "gua_queue_wait_time_seconds_total", gua_allocation_source="gua") == [46.5]
    assert values(found, "gua_queue_time_seconds_total", gua_allocation_source="gua") == [31.5]
    silent = read_families(Catalogue().families(tick(START_MS, card(), sources={"slurm": None})))
    assert not [name for name, _ in silent if name.startswith("gua_queue")]


@pytest.mark.parametrize("text", ['"} 1\nfake{a="', "\udcff", "\x00", "x" * 1000])
def test_a_hostile_name_is_one_label_and_nothing_else(text: str) -> None:
    hostile = replace(JOB, source=text, id=text, owner=text, job_name=text)
    twin = replace(hostile, id=f"{text}\x00"[:257], gpu_time_ms=0)
    (found,) = pages(card(**allocated(hostile, twin)))
    assert len({name for name, has in found if "gua_allocation_id" in dict(has)}) == 5
