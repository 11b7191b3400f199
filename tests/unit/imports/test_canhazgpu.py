"""``gua import canhazgpu``: who reserved what, beside the records themselves; and what is no such history."""

from __future__ import annotations

import io
import json
import sys
from collections import defaultdict
from pathlib import Path
from random import Random
from typing import Any

import pytest

from gua.cli.main import main
from gua.core.tick import Origin
from gua.core.words import AllocationStatus, Relation, Source
from gua.imports.canhazgpu import HOUR_MS, read

START_S = 1_751_900_000
ORIGIN = Origin(host="node-1", source=Source.IMPORT, interval_ms=HOUR_MS)
GOOD: dict[str, Any] = {
    "user": "alice",
    "gpu_id": 1,
    "start_time": "2025-07-07T18:24:56.100193782Z",
    "end_time": "2025-07-07T20:24:56.100193782+02:00",
    "duration_seconds": 0,
    "reservation_type": "run",
}


def written(path: Path, *records: object) -> Path:
    path.write_text("".join(f"{json.dumps(record)}\n" for record in records), "utf-8")
    return path


def record(**values: object) -> dict[str, Any]:
    return {**GOOD, "start_time": START_S, "end_time": START_S + 5400.5, **values}


def test_each_millisecond_of_each_reservation_is_allocated_to_its_owner(tmp_path: Path) -> None:
    rng = Random(17)  # noqa: S311 - a simulation, no secret
    records: list[dict[str, Any]] = []
    for number in range(100):
        start = START_S + rng.randrange(0, 3 * 86_400) + rng.choice((0, 0.25))
        user, kind = rng.choice(("alice", "bob", "chen")), rng.choice(("run", "manual"))
        length = rng.choice((rng.randrange(1, 600), rng.randrange(3600, 20_000)))
        records += [
            record(user=user, gpu_id=gpu, start_time=start, end_time=start + length, reservation_type=kind)
            for gpu in rng.sample(range(4), rng.choice((1, 1, 2)))
        ]
        if number % 20 == 0:
            records.append(records[-1])
    history = read([written(tmp_path / "h.jsonl", *records)])
    assert history.repeated >= 5
    # A ms that several had at once is divided among them.
    had: defaultdict[tuple[int, int], list[str]] = defaultdict(list)
    expected: defaultdict[str, float] = defaultdict(float)
    for one in {json.dumps(each): each for each in records}.values():
        for step in range(int(one["start_time"] * 4), int(one["end_time"] * 4)):
            had[one["gpu_id"], step].append(one["user"])
    for users in had.values():
        for user in users:
            expected[user] += 250 / len(users)
    found: defaultdict[str, float] = defaultdict(float)
    covered = 0
    ends: dict[str, int] = {}
    for tick in history.ticks(ORIGIN, [f"GPU-{number}" for number in range(4)]):
        for card in tick.cards:
            start_ms = tick.ts_ms - card.duration_ms
            assert ends.get(card.uuid, 0) <= start_ms
            ends[card.uuid] = tick.ts_ms
            assert start_ms // HOUR_MS == (tick.ts_ms - 1) // HOUR_MS
            assert card.allocation is AllocationStatus.ALLOCATED
            assert (card.unallocated_gpu_time_ms, card.utilization, card.processes) == (0, None, ())
            covered += card.duration_ms
            for each in card.allocations:
                assert each.relation is Relation.UNKNOWN
                found[str(each.owner)] += each.gpu_time_ms
    assert covered == 250 * len(had)
    assert dict(found) == pytest.approx(expected, abs=len(records))
    assert sum(found.values()) == covered


def test_times_are_read_as_they_are_written(tmp_path: Path) -> None:
    path = written(tmp_path / "h", {**GOOD, "end_time": "2025-07-07T20:25:56.100+02:00"})
    (one,) = read([path]).records
    assert (one.since_ms, one.until_ms) == (1_751_912_696_100, 1_751_912_756_100)


def test_cards_of_one_reservation_are_one(tmp_path: Path) -> None:
    history = read([written(tmp_path / "h", record(gpu_id=0), record(gpu_id=3), record(gpu_id=2, user="bob"))])
    assert len({one.id for one in history.records}) == 2
    assert history.cards == [0, 2, 3]


BAD: list[tuple[object, str]] = [
    ([], "not a JSON object"),
    ({}, "user is not a name"),
    ({**GOOD, "user": " "}, "user is not a name"),
    ({**GOOD, "gpu_id": -1}, "gpu_id"),
    ({**GOOD, "gpu_id": True}, "gpu_id"),
    ({**GOOD, "gpu_id": "0"}, "gpu_id"),
    ({**GOOD, "reservation_type": "lease"}, "neither run nor manual"),
    ({**GOOD, "start_time": "yesterday"}, "start_time is no time"),
    ({**GOOD, "start_time": "2025-07-07T18:24:56"}, "start_time is no time"),
    ({**GOOD, "end_time": 12}, "end_time is no time"),
    ({**GOOD, "end_time": float("nan")}, "end_time is no time"),
    ({**GOOD, "end_time": GOOD["start_time"]}, "end_time is not after start_time"),
    ({**GOOD, "start_time": "2001-01-01T00:00:00Z"}, "longer than a year"),
]


@pytest.mark.parametrize(("bad", "words"), BAD)
def test_what_is_no_record_is_one_line_and_nothing_is_delivered(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], bad: object, words: str
) -> None:
    path = written(tmp_path / "h.jsonl", record(), bad)
    store = tmp_path / "store"
    assert main(["import", "canhazgpu", str(path), "--store", f"chdb://{store}"]) == 4
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.count("\n") == 1
    assert f"{path}:2: " in printed.err
    assert words in printed.err
    assert not store.exists()


@pytest.mark.parametrize(
    ("content", "code", "words"),
    [
        (b"", 4, "has no record"),
        (b"\n\n", 4, "has no record"),
        (b"\xff\xfe", 4, "is not UTF-8"),
        (b"(empty array)\n", 4, "not a JSON object"),
        (b"[" * 100_000 + b"\n", 4, "not a JSON object"),
        (None, 2, "does not exist"),
    ],
)
def test_what_is_no_history_is_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], content: bytes | None, code: int, words: str
) -> None:
    path = tmp_path / "h"
    if content is not None:
        path.write_bytes(content)
    assert main(["import", "canhazgpu", str(path)]) == code
    printed = capsys.readouterr().err
    assert (printed.count("\n"), words in printed) == (1, True), printed


@pytest.mark.parametrize(
    ("cards", "words"), [("a", "names 1 card"), ("a,a,b", "twice or not at all"), ("a,,b", "twice")]
)
def test_cards_that_are_not_enough_are_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], cards: str, words: str
) -> None:
    path = written(tmp_path / "h", record(gpu_id=2))
    assert main(["import", "canhazgpu", str(path), "--cards", cards]) == 2
    assert words in capsys.readouterr().err


@pytest.mark.engine
def test_imported_twice_it_counts_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = written(tmp_path / "h", record(), record(user="bob", gpu_id=0, reservation_type="manual"), record(gpu_id=2))
    cut = whole.read_bytes() + b'{"user": "chen"'
    store = ("--store", f"chdb://{tmp_path / 'store'}")
    for path in (str(whole), "-"):
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(cut)))
        assert main(["import", "canhazgpu", path, "--host", "node-1", *store]) == 0
        printed = capsys.readouterr().out
        assert "imported  2 reservations of 2 users: 4.5 GPU-hours of 3 cards on host node-1" in printed
        assert "GPU ids are in the order of the PCI bus: 0 is canhazgpu-node-1-0, 1 is " in printed
    window = ("--since", "2025-07-01T00:00Z", "--until", "2025-07-31T00:00Z")
    assert main(["report", "--json", *window, *store]) == 0
    found = json.loads(capsys.readouterr().out)["allocation"]
    assert "left out  1 last line that was cut off" in printed
    assert [(one["owner"], one["source"], one["runs"], one["manuals"]) for one in found["owners"]] == [
        ("alice", "canhazgpu", 1, 0),
        ("bob", "canhazgpu", 0, 1),
    ]
    assert [round(one["uses"]["unknown"]["gpu_hours"], 2) for one in found["owners"]] == [3.0, 1.5]
