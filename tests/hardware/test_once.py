"""On a real card: what ``gua daemon --once`` lands is what nvidia-smi says. Run with ``pytest -m gpu``."""

from __future__ import annotations

import os
import subprocess
import sys
import uuid
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from gua.core.ports import RawCard
from gua.core.words import Mig, ProcessList
from gua.nvml.reader import NvmlReader
from gua.procfs.reader import ProcFs, SystemClock
from hardware.smi import ask

pytestmark = pytest.mark.gpu
MIB = 2**20


def smi(query: str, fields: str) -> Sequence[Mapping[str, str]]:
    return ask(query, fields.split(","))


@pytest.fixture
def cards() -> dict[str, RawCard]:
    reader = NvmlReader(SystemClock(ProcFs()))
    try:
        found, errors = reader.read()
    finally:
        reader.close()
    print(*errors, sep="\n")  # noqa: T201 - shown when a comparison fails
    return {raw.reading.uuid: raw for raw in found}


def test_cards_are_those_of_nvidia_smi(cards: dict[str, RawCard]) -> None:
    rows = smi("gpu", "uuid,index,name,driver_version,memory.total,memory.used,temperature.gpu")
    whole = {uuid for uuid, raw in cards.items() if raw.reading.mig is not Mig.INSTANCE}
    assert whole == {row["uuid"] for row in rows}
    for row in rows:
        card = cards[row["uuid"]].reading
        assert (str(card.index), card.name, card.driver_version) == (row["index"], row["name"], row["driver_version"])
        assert card.failed is False
        if card.mig is Mig.PARENT or card.memory_limit_bytes is None or card.memory_used_bytes is None:
            continue
        assert card.memory_limit_bytes // MIB == int(row["memory.total"])
        # Other processes may come and go between the two readings.
        assert abs(card.memory_used_bytes / MIB - int(row["memory.used"])) < 64
        assert card.temperature_celsius is not None
        assert abs(card.temperature_celsius - int(row["temperature.gpu"])) <= 5


def test_compute_processes_are_those_of_nvidia_smi(cards: dict[str, RawCard]) -> None:
    for row in smi("compute-apps", "gpu_uuid,pid,used_gpu_memory"):
        raw = cards[row["gpu_uuid"]]
        assert raw.reading.process_list is ProcessList.KNOWN
        listed = {process.pid: process for process in raw.processes}
        assert int(row["pid"]) in listed
        memory_bytes = listed[int(row["pid"])].memory_bytes
        assert memory_bytes is None or abs(memory_bytes / MIB - int(row["used_gpu_memory"])) < 64


def test_one_tick_lands_in_the_store(tmp_path: Path) -> None:
    done = subprocess.run(
        [Path(sys.executable).with_name("gua"), "daemon", "--once", "--store", f"chdb://{tmp_path}/store"],
        check=False,
        capture_output=True,
        text=True,
        # A lock of its own: an agent may be at work on this host.
        env={**os.environ, "GUA_HOME": str(tmp_path / "home"), "GUA_HOST_LOCK": f"gua-test-{uuid.uuid4()}"},
    )
    assert done.returncode == 0, done.stderr
    assert f"{len(smi('gpu', 'uuid'))} card" in done.stdout
