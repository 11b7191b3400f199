"""Process lists beside the cards: joined by uuid to the nearest list within half an interval."""

from __future__ import annotations

from datetime import UTC
from pathlib import Path

import pytest

from gua.core.errors import DataError
from gua.core.tick import CardReading, Origin
from gua.core.words import ProcessList, ProcessType, Source
from gua.imports.recording import Recording
from gua.imports.rows import Reading, program

MIB = 2**20
ORIGIN = Origin(host="imported", source=Source.IMPORT, interval_ms=1000, instance_id="import")
APPS = "timestamp, gpu_uuid, pid, process_name, used_gpu_memory [MiB]\n"
DAY = "2026/03/25 "


def cards_of(tmp_path: Path, times: list[str], apps: str, ignored: tuple[str, ...] = ()) -> list[CardReading]:
    gpu, processes = tmp_path / "gpu.csv", tmp_path / "apps.csv"
    rows = "".join(f"{DAY}{time}, GPU-a, 4 MiB\n" for time in times)
    gpu.write_text(f"timestamp, uuid, memory.used [MiB]\n{rows}", encoding="utf-8")
    processes.write_text(apps, encoding="utf-8")
    recording = Recording([gpu], [processes], reading=Reading(timezone=UTC), ignored=ignored)
    return [card for tick in recording.ticks(recording.survey(30_000), ORIGIN) for card in tick.cards]


def test_a_list_within_half_an_interval_is_the_cards_and_shares_its_time(tmp_path: Path) -> None:
    (card,) = cards_of(
        tmp_path,
        ["04:00:00"],
        f"{APPS}{DAY}04:00:15.000, GPU-a, 11, /usr/bin/python3, 100 MiB\n"
        f"{DAY}04:00:15.003, GPU-a, 12, ./llama-server, [N/A]\n"
        f"{DAY}04:00:15.004, GPU-b, 13, other, 1 MiB\n",
    )
    assert card.process_list is ProcessList.KNOWN
    assert [
        (process.pid, process.comm, process.memory_bytes, process.owner, process.gpu_time_ms)
        for process in card.processes
    ] == [(11, "python3", 100 * MIB, None, 15_000), (12, "llama-server", None, None, 15_000)]


def test_a_list_farther_away_or_of_another_card_leaves_the_list_unknown(tmp_path: Path) -> None:
    cards = cards_of(
        tmp_path,
        ["04:00:00", "04:00:30"],
        f"{APPS}{DAY}04:00:00, GPU-b, 11, python, 100 MiB\n{DAY}04:00:45.001, GPU-a, 11, python, 100 MiB\n",
    )
    assert [(card.process_list, card.processes) for card in cards] == [(ProcessList.ABSENT, ())] * 2


def test_the_nearest_of_several_lists_is_taken(tmp_path: Path) -> None:
    cards = cards_of(
        tmp_path,
        ["04:00:00", "04:00:30"],
        APPS + "".join(f"{DAY}04:00:{second:02d}, GPU-a, {second}, python, 1 MiB\n" for second in range(0, 60, 4)),
    )
    assert [[process.pid for process in card.processes] for card in cards] == [[0], [28]]


def test_ignored_programs_are_no_users(tmp_path: Path) -> None:
    (card,) = cards_of(
        tmp_path, ["04:00:00"], f"{APPS}{DAY}04:00:00, GPU-a, 11, /usr/lib/xorg/Xorg, 100 MiB\n", ignored=("Xorg",)
    )
    assert [(process.type, process.gpu_time_ms) for process in card.processes] == [(ProcessType.IGNORED, None)]


def test_a_file_with_only_a_header_leaves_process_lists_absent(tmp_path: Path) -> None:
    (card,) = cards_of(tmp_path, ["04:00:00"], APPS)
    assert card.process_list is ProcessList.ABSENT


def test_a_name_with_commas_is_one_name(tmp_path: Path) -> None:
    (card,) = cards_of(tmp_path, ["04:00:00"], f"{APPS}{DAY}04:00:00, GPU-a, 11, /opt/a, b/run, 100 MiB\n")
    assert [(process.comm, process.memory_bytes) for process in card.processes] == [("run", 100 * MIB)]


@pytest.mark.parametrize(
    ("apps", "reason"),
    [
        ("timestamp, pid\n", "no column uuid"),
        ("timestamp, gpu_uuid, process_name\n", "no column pid"),
        (f"{APPS}{DAY}04:00:00, GPU-a, x, python, 1 MiB\n", r"apps\.csv:2: pid is"),
        (f"{APPS}{DAY}04:00:00, GPU-a, 1, p, 1 MiB\n{DAY}03:59:59, GPU-a, 1, p, 1 MiB\n", r"apps\.csv:3: the time"),
    ],
)
def test_a_process_file_that_cannot_be_joined_is_refused(tmp_path: Path, apps: str, reason: str) -> None:
    with pytest.raises(DataError, match=reason):
        cards_of(tmp_path, ["04:00:00"], apps)


def test_cards_out_of_order_cannot_be_joined(tmp_path: Path) -> None:
    gpu, apps = tmp_path / "gpu.csv", tmp_path / "apps.csv"
    gpu.write_text(
        f"timestamp,uuid,memory.used\n{DAY}04:00:30,GPU-a,4\n{DAY}04:00:00,GPU-b,4\n",
        encoding="utf-8",
    )
    apps.write_text(APPS, encoding="utf-8")
    with pytest.raises(DataError, match=r"gpu\.csv:3: .*sort the rows of all cards"):
        Recording([gpu], [apps], reading=Reading(timezone=UTC)).survey(30_000)


@pytest.mark.parametrize(
    ("cell", "name"),
    [
        ("/usr/bin/python3", "python3"),
        ("python3", "python3"),
        ("./build/bin/llama-server", "llama-server"),
        (r"C:\Program Files\Blender\blender.exe", "blender.exe"),
        ("/opt/google/chrome/chrome --type=gpu-process --secret=/x/y", "chrome"),
        ("/usr/bin/python /data/patient-7/train.py", "python"),
        ("VLLM::EngineCore", "VLLM::EngineCore"),
        ("[Not Found]", None),
        ("\x1b[31mred\u202e", "[31mred"),
    ],
)
def test_a_program_is_the_base_name_without_arguments(cell: str, name: str | None) -> None:
    assert program(cell) == name
