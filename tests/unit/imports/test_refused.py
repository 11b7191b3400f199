"""Bad recordings: each is refused as a whole in one line that names file, line and remedy."""

from __future__ import annotations

import json
from datetime import UTC
from pathlib import Path

import pytest

from fakes.patience import at_most
from gua.core.errors import DataError, UnavailableError, UsageError
from gua.imports.recording import Recording
from gua.imports.rows import Reading, program
from gua.imports.values import parse_size

HEADER = b"timestamp, uuid, memory.used [MiB], utilization.gpu [%]\n"
ROW = b"2026/03/25 04:47:19.043, GPU-a, 4 MiB, 0 %\n"
LATER = b"2026/03/25 04:47:49.043, GPU-a, 4 MiB, 0 %"
JSON = b'{"timestamp": "2026-03-25T04:47:19Z", "uuid": "GPU-a", "mem_used_mb": 4}\n'


LONG = 100_000
OPEN = b"[" * LONG


def survey(path: Path) -> tuple[int, tuple[str, ...]]:
    recording = Recording([path], reading=Reading(timezone=UTC))
    return recording.survey(30_000).card_ticks, recording.left_out


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "is empty"),
        (b"\n \n", "is empty"),
        (HEADER, "has no rows"),
        (b"\x1f\x8b\x08\x00", "gunzip"),
        (b"\x7fELF\0\0\0", "is binary"),
        (b"\xff\xfet\0i\0", "UTF-16"),
        (b"<?xml version='1.0'?>", "is XML"),
        (b'[\n {"timestamp": 1}]', "one JSON array"),
        (b"Hello world\n", "1: there is no header"),
        (ROW, "1: there is no header"),
        (b"uuid, memory.used [MiB]\nGPU-a, 4\n", "1: there is no column timestamp"),
        (b"timestamp, uuid\n", "1: there is no column memory.used"),
        (b"timestamp, memory.used [MiB]\n", "1: there is no column uuid or index"),
        (HEADER + ROW + b"2026/03/25 04:47:49, GPU-a\n", "3: the row has 2 fields, 4 are expected"),
        (HEADER + ROW + b"2026/03/25 04:47:49, GPU-a, 4 MiB, 0 %, 7\n", "3: the row has 5 fields"),
        (HEADER + b"yesterday, GPU-a, 4 MiB, 0 %\n" + ROW, "2: timestamp is 'yesterday'"),
        (HEADER + b"2026/13/25 04:47:49, GPU-a, 4 MiB, 0 %\n" + ROW, "2: timestamp .*is not a date"),
        (HEADER + b"[N/A], GPU-a, 4 MiB, 0 %\n" + ROW, "2: timestamp is missing"),
        (HEADER + b"2026/03/25 04:47:49, GPU-a, four, 0 %\n" + ROW, "2: memory.used is 'four'"),
        (HEADER + b"2026/03/25 04:47:49, GPU-a, -4 MiB, 0 %\n" + ROW, "2: memory.used is -"),
        (HEADER + b"2026/03/25 04:47:49, GPU-a, 4 apples, 0 %\n" + ROW, "2: memory.used has the unit 'apples'"),
        (HEADER + b"2026/03/25 04:47:49, GPU-a, 4 MiB, 101 %\n" + ROW, "2: utilization.gpu is 101"),
        (HEADER + b"2026/03/25 04:47:49, [N/A], 4 MiB, 0 %\n" + ROW, "2: the row has neither uuid nor index"),
        (HEADER + b"2026/03/25 04:47:49, GPU-\x1b[2J, 4 MiB, 0 %\n" + ROW, "2: uuid holds characters"),
        (HEADER + b'2026/03/25 04:47:49, "GPU-a, 4 MiB, 0 %\n' + ROW, "2: the quoting is wrong"),
        (HEADER + b"2026/03/25 04:47:49, GPU-\xff, 4 MiB, 0 %\n" + ROW, "2: the line is not UTF-8"),
        (HEADER + b"x" * (2**20 + 1) + b"\n", "2: the line is longer than 1 MiB"),
        (JSON + b"not json\n" + JSON, "2: the line is not a JSON object"),
        (JSON + b"[1, 2]\n", "2: .* not an object"),
        (JSON + b"[" * 100_000 + b"\n", "2: the line is not a JSON object"),
        (b'{"timestamp": "2026-03-25T04:47:19Z", "uuid": "GPU-a"}\n', "1: there is no column memory.used"),
        (JSON.replace(b"4}", b'"much"}'), "1: memory.used is 'much'"),
        (JSON.replace(b"4}", b"[4]}"), "1: a field holds a list"),
        (JSON.replace(b"4}", b"true}"), "1: memory.used is True"),
        (JSON.replace(b"4}", b"1e999}"), "1: memory.used is inf"),
    ],
)
def test_a_bad_recording_is_refused_with_its_place_and_reason(tmp_path: Path, data: bytes, reason: str) -> None:
    path = tmp_path / "recording"
    path.write_bytes(data)
    with pytest.raises(DataError, match=reason) as refused:
        survey(path)
    assert str(refused.value).startswith(str(path))


@pytest.mark.parametrize(
    "cut",
    [
        LATER[:10],
        LATER[:-4],
        LATER[:-1].rstrip(),
        b"2026/03/25 04:47:4",
        b"2026/03/25 04:47:49.043, GPU-\xc3",
    ],
)
def test_a_last_line_that_was_cut_off_is_named_and_left_out(tmp_path: Path, cut: bytes) -> None:
    path = tmp_path / "recording"
    path.write_bytes(HEADER + ROW + cut)
    assert survey(path) == (1, (f"{path}:3: the last line is cut off",))


def test_a_last_json_line_that_was_cut_off_is_named_and_left_out(tmp_path: Path) -> None:
    path = tmp_path / "recording"
    path.write_bytes(JSON + JSON[:-10])
    assert survey(path) == (1, (f"{path}:2: the last line is cut off",))


UNITS = b"2026/03/25 04:47:%02d.043, GPU-5e1b, 0, NVIDIA H100, 40123 MiB, 45 %%, 121.73 W\n"
BARE = UNITS.replace(b" MiB", b"").replace(b" %%", b"").replace(b" W", b"")
NAMES = b"timestamp, uuid, index, name, memory.used [MiB], utilization.gpu [%], power.draw [W]\n"


@pytest.mark.parametrize("row", [UNITS, BARE])
@pytest.mark.parametrize("rows", [2, 3])
def test_wherever_the_last_line_is_cut_nothing_of_it_is_taken(tmp_path: Path, row: bytes, rows: int) -> None:
    path = tmp_path / "recording"
    whole = NAMES + b"".join(row % (10 + number) for number in range(rows))
    begin = len(whole) - len(row % 10)
    for end in range(begin + 1, len(whole)):
        path.write_bytes(whole[:end])
        assert survey(path) == (rows - 1, (f"{path}:{rows + 1}: the last line is cut off",))
    path.write_bytes(whole + NAMES[:-9])
    assert survey(path) == (rows, (f"{path}:{rows + 2}: the last line is cut off",))


def test_a_last_json_line_is_whole_without_its_newline(tmp_path: Path) -> None:
    path = tmp_path / "recording"
    path.write_bytes(JSON + JSON.replace(b"04:47:19", b"04:47:49").rstrip())
    assert survey(path) == (2, ())


def test_rows_that_are_written_while_the_file_is_read_wait_for_the_next_import(tmp_path: Path) -> None:
    path = tmp_path / "recording"
    path.write_bytes(HEADER + ROW)
    recording = Recording([path], reading=Reading(timezone=UTC))
    with path.open("ab") as file:
        file.write(LATER)
    assert recording.survey(30_000).card_ticks == 1


def test_a_path_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="does not exist"):
        survey(tmp_path / "nothing")
    with pytest.raises(UsageError, match="not a regular file"):
        survey(tmp_path)
    with pytest.raises(UnavailableError, match="cannot be read"):
        survey(tmp_path / ("x" * 5000))


@pytest.mark.parametrize(("text", "size"), [("600MiB", 600 * 2**20), ("1.5 GiB", 3 * 2**29), ("0 B", 0)])
def test_a_size_has_a_unit(text: str, size: int) -> None:
    assert parse_size(text) == size


@pytest.mark.parametrize("text", ["", "600", "-1MiB", "1e3MiB", "6 parsecs", "9999999TiB"])
def test_what_is_no_size_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="600MiB"):
        parse_size(text)


def test_strange_json_keys_do_no_harm(tmp_path: Path) -> None:
    path = tmp_path / "recording"
    rows = [{**json.loads(JSON), "": 7, f"k{n}": n} for n in range(3)]
    path.write_text("".join(f"{json.dumps({**row, 'timestamp': 1774414039 + n})}\n" for n, row in enumerate(rows)))
    assert survey(path) == (3, ())


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (OPEN + b"\n" + ROW, "1: there is no header"),
        (HEADER + OPEN + b"\n" + ROW, "2: the row has 1 fields"),
        (HEADER + OPEN + b"]]\n" + ROW, "2: the row has 1 fields"),
        (HEADER + b"()" * LONG + b"\n" + ROW, "2: the row has 1 fields"),
        (HEADER + b"," * LONG + b"\n" + ROW, "2: the row has 100001 fields"),
        (HEADER + b'"' * LONG + b"\n" + ROW, "2: "),
        (HEADER + b"a" + b" " * LONG + b"[\n" + ROW, "2: the row has 1 fields"),
        (HEADER + b"2026/03/25 04:47:49, GPU-a, " + b"1" * LONG + b"!, 0 %\n" + ROW, "2: memory.used is '1"),
        (HEADER + b"2026/03/25 04:47:49, GPU-a, 4" + b" " * LONG + b"!, 0 %\n" + ROW, "2: memory.used is '4"),
        (HEADER + b"2026/03/25 04:47:49" + b" " * LONG + b"x, GPU-a, 4, 0 %\n" + ROW, "2: timestamp is '2026"),
        (b'{"' + OPEN + b'": 1}\n', "1: there is no column timestamp"),
        (JSON + JSON.replace(b"4}", b'"' + b"1" * LONG + b'x"}'), "2: memory.used is '1"),
    ],
)
def test_a_line_made_to_be_read_for_ever_is_refused_like_any_other(tmp_path: Path, data: bytes, reason: str) -> None:
    path = tmp_path / "gpu.csv"
    path.write_bytes(data)
    with at_most(20), pytest.raises(DataError, match=reason):
        survey(path)


def test_a_name_made_to_be_read_for_ever_is_a_name() -> None:
    with at_most(20):
        assert program("python" + " " * LONG + "x") == "python"
        assert program("/" * LONG + "x") is None
