"""Drivers that answer wrong, by version: what is not believed of them."""

from __future__ import annotations

import pytest

from fakes.clock import FakeClock
from fakes.nvml import ALL_ONES_32, FUNCTION_NOT_FOUND, NOT_SUPPORTED, Card, FakeDriver, Process
from gua.core.words import ProcessList
from gua.nvml.quirks import has_wide_lists, ratio
from gua.nvml.reader import NvmlReader

LISTS = ("Compute", "Graphics", "MPSCompute")


@pytest.mark.parametrize(
    ("version", "believed"),
    [
        ("530.41.03", True),
        ("535.43.02", False),
        ("535.54.03", False),
        ("535.86.10", False),
        ("535.98", True),
        ("535.104.05", True),
        ("570.86.15", True),
        (None, True),
        ("", True),
        ("garbage", True),
        ("535.x", True),
    ],
)
def test_the_wide_process_lists_of_the_first_535_drivers_are_not_used(version: str | None, *, believed: bool) -> None:
    assert (not has_wide_lists(version)) is believed


def read(card: Card, version: str = "570.86.15") -> tuple[list[int], ProcessList, list[str]]:
    (raw,), errors = NvmlReader(FakeClock(), FakeDriver(card, version=version)).read()
    return [process.pid for process in raw.processes], raw.reading.process_list, [error.code for error in errors]


def test_a_driver_with_wide_lists_is_called_with_version_2() -> None:
    faults = {f"nvmlDeviceGet{kind}RunningProcesses_v3": 999 for kind in LISTS}
    card = Card("GPU-a", compute=[Process(7)], faults=faults)
    assert read(card, "535.54.03") == ([7], ProcessList.KNOWN, [])


def test_a_driver_without_version_3_is_called_with_version_2() -> None:
    faults = {f"nvmlDeviceGet{kind}RunningProcesses_v3": FUNCTION_NOT_FOUND for kind in LISTS}
    assert read(Card("GPU-a", compute=[Process(7)], faults=faults)) == ([7], ProcessList.KNOWN, [])


def test_a_driver_with_neither_version_has_no_known_list() -> None:
    faults = {
        f"nvmlDeviceGet{kind}RunningProcesses_v{version}": FUNCTION_NOT_FOUND for kind in LISTS for version in (2, 3)
    }
    assert read(Card("GPU-a", compute=[Process(7)], faults=faults)) == (
        [],
        ProcessList.FAILED,
        ["FUNCTION_NOT_FOUND"] * 2,
    )


def test_an_error_other_than_a_missing_function_tries_no_older_version() -> None:
    faults = {"nvmlDeviceGetComputeRunningProcesses_v3": NOT_SUPPORTED}
    assert read(Card("GPU-a", compute=[Process(7)], faults=faults)) == ([], ProcessList.FAILED, ["NOT_SUPPORTED"])


@pytest.mark.parametrize(("instance", "believed"), [(ALL_ONES_32, True), (0, True), (13, True), (4711, False)])
def test_a_process_in_a_gpu_instance_that_cannot_be_is_a_struct_misread(instance: int, *, believed: bool) -> None:
    pids, known, errors = read(Card("GPU-a", compute=[Process(7, gpuInstanceId=instance)]))
    assert (pids, known, errors) == (
        ([7], ProcessList.KNOWN, []) if believed else ([], ProcessList.FAILED, ["unknown layout"])
    )


@pytest.mark.parametrize(
    ("percent", "expected"),
    [(0, 0.0), (42, 0.42), (100, 1.0), (130, 1.0), (1001, None), (-1, None), (float("nan"), None), (2**32 - 1, None)],
)
def test_a_little_over_100_percent_is_always_and_far_more_is_nothing(percent: float, expected: float | None) -> None:
    assert ratio(percent) == expected


@pytest.mark.parametrize(
    ("field", "call"),
    [
        ("gpu", "nvmlDeviceGetUtilizationRates"),
        ("encoder", "nvmlDeviceGetEncoderUtilization"),
        ("decoder", "nvmlDeviceGetDecoderUtilization"),
    ],
)
def test_an_instant_value_that_is_no_percentage_is_unknown_with_an_error(field: str, call: str) -> None:
    card = Card("GPU-a")
    setattr(card, field, 808_334_905)
    (raw,), errors = NvmlReader(FakeClock(), FakeDriver(card)).read()
    names = {"gpu": "utilization", "encoder": "utilization_encoder", "decoder": "utilization_decoder"}
    assert getattr(raw.reading, names[field]) is None
    assert [(error.call, error.code) for error in errors] == [(call, "not a percentage")]
