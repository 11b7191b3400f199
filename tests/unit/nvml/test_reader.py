from __future__ import annotations

import subprocess
import sys

import pytest

from fakes.clock import FakeClock
from fakes.nvml import GIB, GPU_IS_LOST, MIB, NO_PERMISSION, NOT_SUPPORTED, RESET_REQUIRED, Card, FakeDriver, Use
from gua.core.errors import UnavailableError
from gua.core.ports import RawCard
from gua.core.tick import ReadError
from gua.core.words import Mig, ProcessList
from gua.nvml.driver import code_name, load
from gua.nvml.reader import NvmlReader


def read(*cards: Card) -> tuple[list[RawCard], list[ReadError]]:
    found, errors = NvmlReader(FakeClock(), FakeDriver(*cards)).read()
    return list(found), list(errors)


def test_a_card_is_read_with_everything_the_driver_reports() -> None:
    (raw,), errors = read(Card("GPU-a", used=3 * GIB, gpu=42, encoder=5, decoder=0))
    card = raw.reading
    assert errors == []
    assert raw.gpu_fraction == (1, 1)
    assert (card.uuid, card.index, card.name, card.vendor) == ("GPU-a", 0, "NVIDIA H100 80GB HBM3", "NVIDIA")
    assert (card.driver_version, card.pci, card.mig) == ("570.86.15", "00000000:3b:00.0", Mig.NONE)
    assert (card.memory_used_bytes, card.memory_limit_bytes, card.memory_reserved_bytes) == (
        3 * GIB,
        80 * GIB,
        600 * MIB,
    )
    assert (card.utilization, card.utilization_encoder, card.utilization_decoder) == (0.42, 0.05, 0.0)
    assert (card.power_watts, card.temperature_celsius, card.energy_total_mj) == (71.8, 34, 1_000_000)
    assert (card.failed, card.memory_shared, card.process_list) == (False, False, ProcessList.KNOWN)


@pytest.mark.parametrize(
    ("call", "field"),
    [
        ("nvmlDeviceGetName", "name"),
        ("nvmlDeviceGetPciInfo", "pci"),
        ("nvmlDeviceGetUtilizationRates", "utilization"),
        ("nvmlDeviceGetEncoderUtilization", "utilization_encoder"),
        ("nvmlDeviceGetDecoderUtilization", "utilization_decoder"),
        ("nvmlDeviceGetPowerUsage", "power_watts"),
        ("nvmlDeviceGetTemperature", "temperature_celsius"),
        ("nvmlDeviceGetTotalEnergyConsumption", "energy_total_mj"),
    ],
)
def test_a_call_that_fails_leaves_its_value_unknown_and_is_named(call: str, field: str) -> None:
    (raw, other), errors = read(Card("GPU-a", faults={call: NO_PERMISSION}), Card("GPU-b"))
    assert getattr(raw.reading, field) is None
    assert getattr(other.reading, field) is not None
    assert errors == [ReadError(call=call, code="NO_PERMISSION", uuid="GPU-a")]


READINGS = (
    "nvmlDeviceGetMemoryInfo",
    "nvmlDeviceGetComputeRunningProcesses_v3",
    "nvmlDeviceGetUtilizationRates",
    "nvmlDeviceGetEncoderUtilization",
    "nvmlDeviceGetSamples",
    "nvmlDeviceGetProcessUtilization",
    "nvmlDeviceGetPowerUsage",
    "nvmlDeviceGetTemperature",
    "nvmlDeviceGetTotalEnergyConsumption",
)
FURTHER = (
    "nvmlDeviceGetMemoryInfo_v2",
    "nvmlDeviceGetGraphicsRunningProcesses_v3",
    "nvmlDeviceGetMPSComputeRunningProcesses_v3",
    "nvmlDeviceGetDecoderUtilization",
)


@pytest.mark.parametrize("code", [NO_PERMISSION, NOT_SUPPORTED, 999])
def test_a_card_that_reports_only_its_identity_may_have_failed_or_not(code: int) -> None:
    (raw, other), _ = read(Card("GPU-a", faults=dict.fromkeys(READINGS + FURTHER, code)), Card("GPU-b"))
    assert (raw.reading.name, raw.reading.mig, raw.reading.failed) == ("NVIDIA H100 80GB HBM3", Mig.NONE, None)
    assert other.reading.failed is False


@pytest.mark.parametrize("call", READINGS)
def test_a_single_reading_shows_that_a_card_has_not_failed(call: str) -> None:
    card = Card("GPU-a", faults=dict.fromkeys(set(READINGS + FURTHER) - {call}, 999))
    card.ring = [(FakeClock().wall_ms() * 1000 - 5, 0)]
    card.uses = [Use(7, FakeClock().wall_ms() * 1000 - 5, 10)]
    (raw,), _ = read(card)
    assert raw.reading.failed is False


def test_a_driver_without_the_second_memory_call_counts_the_reserve_as_used() -> None:
    (raw,), errors = read(Card("GPU-a", used=GIB, faults={"nvmlDeviceGetMemoryInfo_v2": 13}))
    assert raw.reading.memory_used_bytes == GIB + 600 * MIB
    assert raw.reading.memory_reserved_bytes is None
    assert errors == []


def test_a_card_that_reports_no_memory_has_unknown_memory() -> None:
    faults = {"nvmlDeviceGetMemoryInfo_v2": NOT_SUPPORTED, "nvmlDeviceGetMemoryInfo": NOT_SUPPORTED}
    (raw,), errors = read(Card("GPU-a", name="NVIDIA GB10", faults=faults))
    assert (raw.reading.memory_used_bytes, raw.reading.memory_limit_bytes) == (None, None)
    assert raw.reading.memory_shared is True
    assert [error.code for error in errors] == ["NOT_SUPPORTED"]


def test_more_memory_used_than_there_is_is_not_believed() -> None:
    (raw,), errors = read(Card("GPU-a", used=90 * GIB))
    assert (raw.reading.memory_used_bytes, raw.reading.memory_limit_bytes) == (None, None)
    assert len(errors) == 2


def test_a_card_without_any_memory_is_not_believed_to_be_empty() -> None:
    (raw,), errors = read(Card("GPU-a", total=0, used=0, reserved=0))
    assert (raw.reading.memory_used_bytes, raw.reading.memory_limit_bytes) == (None, None)
    assert [error.code for error in errors] == ["total is 0"] * 2


@pytest.mark.parametrize(("code", "name"), [(GPU_IS_LOST, "GPU_IS_LOST"), (RESET_REQUIRED, "RESET_REQUIRED")])
def test_a_lost_card_is_a_failed_reading_and_the_others_go_on(code: int, name: str) -> None:
    (lost, good), errors = read(Card("GPU-a", faults={"nvmlDeviceGetMemoryInfo_v2": code}), Card("GPU-b"))
    assert (lost.reading.uuid, lost.reading.name, lost.reading.failed) == ("GPU-a", "NVIDIA H100 80GB HBM3", True)
    assert (lost.reading.process_list, lost.reading.memory_used_bytes) == (ProcessList.FAILED, None)
    assert good.reading.failed is False
    assert errors == [ReadError(call="nvmlDeviceGetMemoryInfo", code=name, uuid="GPU-a")]


def test_a_card_lost_later_keeps_the_name_by_which_it_was_known() -> None:
    card = Card("GPU-a")
    reader = NvmlReader(FakeClock(), FakeDriver(card, Card("GPU-b")))
    reader.read()
    card.faults["nvmlDeviceGetUUID"] = GPU_IS_LOST
    cards, errors = reader.read()
    assert [(one.reading.uuid, one.reading.failed) for one in cards] == [("GPU-a", True), ("GPU-b", False)]
    assert errors[0].uuid == "GPU-a"


def test_a_card_that_cannot_even_be_opened_hides_no_other() -> None:
    cards, errors = read(Card("GPU-a", faults={"nvmlDeviceGetHandleByIndex": NO_PERMISSION}), Card("GPU-b"))
    assert [one.reading.uuid for one in cards] == ["GPU-b"]
    assert errors == [ReadError(call="nvmlDeviceGetHandleByIndex", code="NO_PERMISSION")]


def test_another_card_at_the_same_index_gets_its_own_name() -> None:
    driver = FakeDriver(Card("GPU-a", name="old"))
    reader = NvmlReader(FakeClock(), driver)
    reader.read()
    driver.cards = [Card("GPU-b", name="new")]
    cards, _ = reader.read()
    assert (cards[0].reading.uuid, cards[0].reading.name) == ("GPU-b", "new")


@pytest.mark.parametrize(
    ("code", "remedy"),
    [(12, "install the NVIDIA driver"), (9, "modprobe nvidia"), (4, "/dev/nvidiactl"), (18, "reload"), (999, "nvidia")],
)
def test_without_a_driver_one_line_says_what_to_do(code: int, remedy: str) -> None:
    with pytest.raises(UnavailableError, match=remedy) as refused:
        NvmlReader(FakeClock(), FakeDriver(faults={"nvmlInit": code})).read()
    assert "\n" not in str(refused.value)


def test_a_host_without_cards_is_refused() -> None:
    driver = FakeDriver()
    with pytest.raises(UnavailableError, match="lists no card"):
        NvmlReader(FakeClock(), driver).read()
    assert driver.open == 0


def test_a_host_whose_every_card_fails_is_refused_with_the_first_error() -> None:
    driver = FakeDriver(Card("GPU-a", faults={"nvmlDeviceGetUUID": NO_PERMISSION}))
    with pytest.raises(UnavailableError, match="nvmlDeviceGetUUID: NO_PERMISSION"):
        NvmlReader(FakeClock(), driver).read()


def test_a_driver_that_failed_as_a_whole_is_opened_anew() -> None:
    clock = FakeClock()
    driver = FakeDriver(Card("GPU-a"))
    reader = NvmlReader(clock, driver)
    reader.read()
    driver.faults = {"nvmlDeviceGetCount": 9}
    (unknown,), errors = reader.read()
    assert (unknown.reading.uuid, unknown.reading.failed, unknown.reading.utilization) == ("GPU-a", None, None)
    assert set(errors) == {ReadError(call="nvmlDeviceGetCount", code="DRIVER_NOT_LOADED")}
    driver.faults = {}
    clock.advance(1000)
    (known,), errors = reader.read()
    assert (known.reading.failed, errors) == (False, [])
    reader.close()
    reader.close()
    assert driver.open == 0


def test_closing_a_driver_that_is_gone_is_no_error() -> None:
    driver = FakeDriver(Card("GPU-a"))
    reader = NvmlReader(FakeClock(), driver)
    reader.read()
    driver.faults = {"nvmlShutdown": 9}
    reader.close()


def test_importing_the_reader_does_not_import_the_vendor_library() -> None:
    code = "import sys, gua.nvml.reader; raise SystemExit('pynvml' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_the_vendor_library_has_every_function_that_is_called() -> None:
    pynvml = load()
    names = [name for name in dir(FakeDriver) if name.startswith("nvml")]
    assert len(names) > 25
    assert [name for name in names if not hasattr(pynvml, name)] == []
    assert [name for name in names if callable(getattr(pynvml, name)) and getattr(pynvml, name).__name__ != name] == []
    assert code_name(15) == "GPU_IS_LOST"
    assert code_name(4711) == "4711"
