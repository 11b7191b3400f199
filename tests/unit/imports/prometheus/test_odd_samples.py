"""Ticks of samples with odd values: drivers before 510, Slurm jobs of number 0, MIG of a part, processes, NaN."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest

from fakes.prometheus import FakePrometheus, card
from gua.core.words import Mig
from gua.imports.prometheus.client import Access, Client
from gua.imports.prometheus.samples import SampleReader
from gua.imports.prometheus.survey import survey
from gua.imports.prometheus.ticks import CardTicks, TickMaker

BEGIN_MS = 1_700_006_400_000
END_MS = BEGIN_MS + 120_000
TIMES = [BEGIN_MS + 30_000 * place for place in range(1, 5)]
TARGET = {"job": "gpu", "instance": "n1:9445"}
Made = Callable[[Sequence[Any]], tuple[list[CardTicks], TickMaker]]


@pytest.fixture
def made() -> Iterator[Made]:
    running: list[FakePrometheus] = []

    def of(series: Sequence[Any]) -> tuple[list[CardTicks], TickMaker]:
        running.append(FakePrometheus(series).__enter__())
        client = Client(Access.of(running[-1].url))
        maker = TickMaker(reader=SampleReader(client), found=survey(client, BEGIN_MS, END_MS))
        return maker.ticks(BEGIN_MS, END_MS), maker

    yield of
    for one in running:
        one.__exit__()


def series(name: str, *values: str, **labels: str) -> tuple[dict[str, str], list[tuple[int, str]]]:
    return {"__name__": name, **TARGET, **labels}, list(zip(TIMES, values, strict=False))


@pytest.mark.parametrize(
    ("driver", "reserved"), [("470.57.02", None), ("535.54.03", [0, 0, 0, 0])], ids=["before-510", "newer"]
)
def test_the_reserve_is_unknown_before_driver_510(driver: str, reserved: list[int] | None, made: Made) -> None:
    [ticks], _ = made(card(begin_ms=BEGIN_MS, count=4, DCGM_FI_DRIVER_VERSION=driver))
    assert ticks.columns.get("memory_reserved_bytes") == reserved


def test_job_0_is_none_and_odd_users_are_unknown(made: Made) -> None:
    [ticks], _ = made(
        [
            series("nvidia_gpu_duty_cycle", "1", "2", "3", "4", uuid="GPU-a"),
            series("nvidia_gpu_memory_used_bytes", "1", "2", "3", "4", uuid="GPU-a"),
            series("nvidia_gpu_jobId", "0", "4711", "4712", "+Inf", uuid="GPU-a"),
            series("nvidia_gpu_jobUid", "0", "1001", "+Inf", "NaN", uuid="GPU-a"),
        ]
    )
    jobs = [next(iter(scrapes)) for scrapes in ticks.scrapes]
    assert [job and (job.id, job.uid) for job in jobs] == [None, ("4711", 1001), ("4712", None), None]
    assert ticks.is_mapped


@pytest.mark.parametrize(("model", "profile", "free"), [("NVIDIA A30", "1g.6gb", 3), ("NVIDIA H100", "3g.40gb", 4)])
def test_slices_without_an_instance_are_a_card_of_their_own(model: str, profile: str, free: int, made: Made) -> None:
    labels = {"UUID": "GPU-a", "GPU_I_ID": "1", "GPU_I_PROFILE": profile, "modelName": model}
    ticks, _ = made([series("DCGM_FI_DEV_FB_USED", "1", "2", "3", "4", **labels)])
    rest = [one.card for one in ticks if one.card.mig is Mig.PARENT]
    assert [(one.uuid, one.slices, one.total) for one in rest] == [("GPU-a", free, 4 if free == 3 else 7)]


def test_pids_that_are_none_are_left_out(made: Made) -> None:
    pids = ("42", "9" * 5000, "-1", "\u0664\u0662", "", "4294967296")
    processes = [series("process_gpu_memory_MiB", "1", "1", "NaN", "-1", uuid="GPU-a", pid=pid) for pid in pids]
    [ticks], _ = made([series("gpu_memory_used_MiB", "1", "1", "1", "1", uuid="GPU-a", index="0"), *processes])
    assert ticks.processes is not None
    found = [[(one.pid, one.memory_bytes) for one in ticks.processes[at]] for at in TIMES]
    assert found == [[(42, 2**20)], [(42, 2**20)], [(42, None)], [(42, None)]]


def test_values_out_of_range_are_unknown_and_counted(made: Made) -> None:
    [ticks], maker = made(
        [
            series("DCGM_FI_DEV_GPU_UTIL", "101", "-1", "NaN", "100", UUID="GPU-a"),
            series("DCGM_FI_DEV_FB_USED", "+Inf", "1e300", "-Inf", "1", UUID="GPU-a"),
        ]
    )
    assert ticks.columns["utilization"] == [None, None, None, 10_000]
    assert ticks.columns["memory_used_bytes"] == [None, None, None, 2**20]
    assert maker.left_out == {"different values out of range: unknown": 5}
