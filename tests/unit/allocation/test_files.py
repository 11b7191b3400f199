"""Allocations by files: what they report, how they end, and every kind of file that is not trusted."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from gua.allocation.files import MOST_FILES, AllocationFolder, FilesReader
from gua.allocation.slurm_conf import GresConf
from gua.allocation.sources import ReaderLook
from gua.core.allocation import Allocation, AllocationLook, CardKey, SourceHealth

CARDS = (
    CardKey("GPU-a", 0, 2, "00000000:3b:00.0"),
    CardKey("GPU-b", 1, 1, "00000000:5e:00.0"),
    CardKey("GPU-m", 2, 0, "00000000:86:00.0"),
    CardKey("MIG-x", 2, 0, "00000000:86:00.0", "GPU-m", 1),
    CardKey("MIG-y", 2, 0, "00000000:86:00.0", "GPU-m", 2),
)
NOW = 1_800_000_000_000
TICK = 30_000
FOREIGN = 4242


class Folder:
    """A folder of allocations and its reader; each look is a tick of 30 s later."""

    def __init__(self, path: Path) -> None:
        self.path = path / "allocations"
        self.path.mkdir(mode=0o755)
        self.reader = FilesReader(AllocationFolder(self.path), conf=GresConf(path))
        self.now_ms = NOW

    def write(self, name: str = "one.json", **changes: object) -> Path:
        fields = {"source": "lab", "id": "42", "cards": [0], "since": (NOW - 3600_000) / 1000, **changes}
        file = self.path / name
        scratch = self.path / f".{name}"
        scratch.write_text(json.dumps({key: value for key, value in fields.items() if value is not ...}))
        scratch.chmod(0o644)
        scratch.rename(file)
        return file

    def changed(self, at_ms: int) -> None:
        os.utime(self.path, ns=(at_ms * 1_000_000, at_ms * 1_000_000))

    def look(self) -> ReaderLook:
        self.now_ms += TICK
        return self.reader.look(self.now_ms - TICK, self.now_ms, CARDS)

    def failure(self) -> str:
        look = self.look()
        assert look.reason is not None
        assert not AllocationLook(sources=(SourceHealth(source="files", reason=look.reason),)).is_known("GPU-b")
        return look.reason


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    return Folder(tmp_path)


def only(look: ReaderLook) -> Allocation:
    assert look.reason is None
    [allocation] = look.allocations
    return allocation


def test_a_file_yields_an_allocation_with_all_its_fields(folder: Folder) -> None:
    folder.write(owner="alice", uid=1000, kind="batch", job_name="train", cards=["GPU-a", 1])
    assert only(folder.look()) == Allocation(
        source="lab",
        id="42",
        cards=frozenset({"GPU-a", "GPU-b"}),
        since_ms=NOW - 3600_000,
        owner="alice",
        uid=1000,
        kind="batch",
        job_name="train",
    )


def test_a_file_or_its_jobs_name_may_declare_what_it_is_for(folder: Folder) -> None:
    folder.write(job_name="night gua.kind=training gua.model=llama", workload_model="qwen-32b")
    found = only(folder.look())
    assert (found.workload_kind, found.workload_model) == ("training", "qwen-32b")
    folder.write(job_name="night", workload_kind=["no", "text"], workload_model="\x1b[2J")
    found = only(folder.look())
    assert (found.workload_kind, found.workload_model) == (None, None)


@pytest.mark.parametrize(
    ("card", "uuid"),
    [
        ("GPU-b", "GPU-b"),
        ("MIG-y", "MIG-y"),
        (0, "GPU-a"),
        ({"index": 2}, "GPU-m"),
        ({"minor": 2}, "GPU-a"),
        ({"pci": "0000:5E:00.0"}, "GPU-b"),
        ({"pci": "5e:00.0"}, "GPU-b"),
        ({"index": 2, "instance": 1}, "MIG-x"),
        ({"minor": 0, "instance": 2}, "MIG-y"),
    ],
)
def test_a_card_has_many_names(folder: Folder, card: object, uuid: str) -> None:
    folder.write(cards=[card])
    assert only(folder.look()).cards == {uuid}


def test_no_file_is_no_allocation_and_no_failure(folder: Folder) -> None:
    (folder.path / "README").write_text("not one of them")
    (folder.path / ".half.json").write_text("{")
    assert folder.look() == ReaderLook()


def test_a_file_is_read_again_only_once_it_changed(folder: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[str] = []
    real = os.open
    monkeypatch.setattr(os, "open", lambda name, *rest, **more: (read.append(str(name)), real(name, *rest, **more))[1])
    folder.write()
    for _ in range(3):
        folder.look()
    assert read.count("one.json") == 1
    folder.write(owner="bob")
    assert only(folder.look()).owner == "bob"
    assert read.count("one.json") == 2


@pytest.mark.parametrize("change", [lambda file: file.write_text("{"), lambda file: file.chmod(0o666)])
def test_a_file_changed_in_place_or_made_writable_by_others_is_noticed_at_once(
    folder: Folder, change: Callable[[Path], object]
) -> None:
    for number in range(40):
        folder.write(f"{number:02}.json", id=str(number))
    assert len(folder.look().allocations) == 40
    change(folder.path / "33.json")
    assert "33.json" in str(folder.look().reason)


def test_an_end_in_the_file_is_exact_and_reported_once(folder: Folder) -> None:
    folder.write()
    folder.look()
    folder.write(until=(NOW + TICK + 12_345) / 1000)
    assert only(folder.look()).until_ms == NOW + TICK + 12_345
    assert folder.look() == ReaderLook()


def test_a_file_written_before_its_allocation_begins_counts_from_its_begin(folder: Folder) -> None:
    booked = folder.write("booked.json", id="7", since=(NOW + 3 * TICK) / 1000 - 1)
    os.utime(booked, (NOW / 1000, NOW / 1000))
    ticks = [{each.id for each in folder.look().allocations} for _ in range(4)]
    assert ticks == [set(), set(), {"7"}, {"7"}]


def test_a_begun_allocation_stays_reported_if_the_clock_is_set_back(folder: Folder) -> None:
    begun = folder.write(since=NOW / 1000)
    os.utime(begun, (NOW / 1000, NOW / 1000))
    folder.now_ms = NOW - 3600_000
    assert only(folder.look()).since_ms == NOW


def test_a_file_that_vanished_ended_when_the_folder_changed(folder: Folder) -> None:
    file = folder.write()
    folder.look()
    file.unlink()
    folder.changed(NOW + TICK + 20_000)
    assert only(folder.look()).until_ms == NOW + TICK + 20_000
    assert folder.look() == ReaderLook()


@pytest.mark.parametrize("change", [-100_000, 1_000_000])
def test_a_file_that_vanished_at_a_time_outside_of_the_tick_ended_at_the_last_look(folder: Folder, change: int) -> None:
    file = folder.write()
    folder.look()
    file.unlink()
    folder.changed(folder.now_ms + change)
    assert folder.look() == ReaderLook()


def test_a_file_that_went_on_under_another_name_did_not_end(folder: Folder) -> None:
    folder.write().rename(folder.path / "two.json")
    folder.look()
    (folder.path / "two.json").rename(folder.path / "one.json")
    assert only(folder.look()).until_ms is None


def test_an_allocation_that_ended_and_began_again_stands_once(folder: Folder) -> None:
    folder.write("one.ended.json", until=(NOW + 5_000) / 1000)
    folder.write("one.json", since=(NOW + 8_000) / 1000, cards=[0, 1])
    allocation = only(folder.look())
    assert (allocation.since_ms, allocation.until_ms) == (NOW - 3600_000, None)
    assert allocation.cards == {"GPU-a", "GPU-b"}
    assert only(folder.look()).since_ms == NOW + 8_000


def test_two_files_with_the_same_allocation_fail_the_source_and_are_named(folder: Folder) -> None:
    folder.write("one.json")
    folder.write("two.json", cards=[1])
    assert folder.failure() == "one.json and two.json contain the same allocation"


def test_a_time_may_be_written_with_its_zone(folder: Folder) -> None:
    folder.write(since="2026-01-02T03:04:05.5+01:00")
    assert only(folder.look()).since_ms == 1_767_319_445_500


BAD_CONTENT: list[tuple[bytes, str]] = [
    (b"", "no JSON, or torn"),
    (b'{"source": "lab", "id"', "no JSON, or torn"),
    (b"[" * 60_000, "no JSON, or torn"),
    (b'{"since": 1' + b"0" * 5000 + b"}", "no JSON, or torn"),
    (b"[]", "no JSON object"),
    (b"\xff\xfe\x00", "no JSON, or torn"),
]


@pytest.mark.parametrize(("content", "reason"), BAD_CONTENT)
def test_what_is_no_json_object_fails_the_source(folder: Folder, content: bytes, reason: str) -> None:
    (folder.path / "bad.json").write_bytes(content)
    assert folder.failure() == f"bad.json: {reason}"


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"source": ...}, "source is not"),
        ({"source": "Lab 1"}, "source is not"),
        ({"source": "a" * 33}, "source is not"),
        ({"id": ...}, "id is not"),
        ({"id": ""}, "id is not"),
        ({"id": True}, "id is not"),
        ({"id": "a\x1b[31mb"}, "id is not"),
        ({"id": "4" * 129}, "id is not"),
        ({"uid": -1}, "uid is no"),
        ({"uid": "root"}, "uid is no"),
        ({"uid": True}, "uid is no"),
        ({"owner": 7}, "owner is no text"),
        ({"since": ...}, "since is no time"),
        ({"since": NOW}, "since is no time"),
        ({"since": float("inf")}, "since is no time"),
        ({"since": "yesterday"}, "since is no time"),
        ({"since": "2026-01-02T03:04:05"}, "since is no time"),
        ({"until": "soon"}, "until is no time"),
        ({"cards": ...}, "cards is no list"),
        ({"cards": []}, "cards is no list"),
        ({"cards": "GPU-a"}, "cards is no list"),
        ({"cards": [True]}, "a card is not"),
        ({"cards": [-1]}, "a card is not"),
        ({"cards": [1.0]}, "a card is not"),
        ({"cards": ["/dev/nvidia0"]}, "a card is not"),
        ({"cards": [{"minor": 0, "index": 0}]}, "a card is not"),
        ({"cards": [{"minor": "0"}]}, "a card is not"),
        ({"cards": [{"pci": "nowhere"}]}, "a card is not"),
        ({"cards": list(range(2000))}, "more than 1024 cards"),
        ({"cards": ["GPU-elsewhere"]}, "no card GPU-elsewhere here"),
        ({"cards": [7]}, "no card index 7 here"),
        ({"cards": [{"index": 2, "instance": 6}]}, "no card index 2 instance 6 here"),
    ],
)
def test_a_value_that_cannot_be_fails_the_source(folder: Folder, changes: dict[str, Any], reason: str) -> None:
    folder.write("bad.json", **changes)
    assert folder.failure().startswith(f"bad.json: {reason}")


def test_a_bad_file_costs_no_other_allocation_and_heals(folder: Folder) -> None:
    folder.write("good.json")
    folder.write("bad.json", id="43", cards=["GPU-b", "GPU-elsewhere"])
    look = folder.look()
    assert look.reason == "bad.json: no card GPU-elsewhere here"
    assert [(each.id, each.cards) for each in look.allocations] == [("43", {"GPU-b"}), ("42", {"GPU-a"})]
    folder.write("bad.json", id="43", cards=["GPU-b"])
    assert folder.look().reason is None


def test_several_bad_files_are_counted(folder: Folder) -> None:
    for name in ("a.json", "b.json", "c.json"):
        (folder.path / name).write_text("{")
    assert folder.failure() == "a.json: no JSON, or torn (and 2 more)"


def test_a_million_cards_are_too_long_to_be_read(folder: Folder) -> None:
    folder.write("bad.json", cards=list(range(1_000_000)))
    assert folder.failure() == "bad.json: longer than 64 KiB"


def test_a_link_is_not_followed(folder: Folder, tmp_path: Path) -> None:
    folder.write().rename(tmp_path / "real.json")
    (folder.path / "one.json").symlink_to(tmp_path / "real.json")
    assert folder.failure() == "one.json: a link"


def test_a_fifo_and_a_folder_are_not_opened(folder: Folder) -> None:
    os.mkfifo(folder.path / "pipe.json")
    assert folder.failure() == "pipe.json: no regular file"
    (folder.path / "pipe.json").unlink()
    (folder.path / "folder.json").mkdir()
    assert folder.failure() == "folder.json: no regular file"


def test_a_file_that_becomes_a_fifo_between_two_calls_is_not_waited_for(
    folder: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = folder.write()
    real = os.open

    def swap(name: str | Path, flags: int, *, dir_fd: int | None = None) -> int:
        if name == "one.json" and not file.is_fifo():
            file.unlink()
            os.mkfifo(file)
        return real(name, flags, dir_fd=dir_fd)

    monkeypatch.setattr(os, "open", swap)
    assert folder.failure() == "one.json: no regular file"


@pytest.mark.parametrize("mode", [0o664, 0o646, 0o666])
def test_a_file_that_others_may_write_is_not_believed(folder: Folder, mode: int) -> None:
    folder.write().chmod(mode)
    assert folder.failure() == "one.json: others than its owner may write it"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may give a file away")
def test_a_file_of_somebody_else_is_not_believed(folder: Folder) -> None:
    os.chown(folder.write(), FOREIGN, FOREIGN)
    assert folder.failure() == "one.json: owned by uid 4242, not by root or the agent's user"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may give a folder away")
def test_a_folder_of_somebody_else_is_not_believed(folder: Folder) -> None:
    folder.write()
    os.chown(folder.path, FOREIGN, FOREIGN)
    assert folder.failure().endswith("owned by uid 4242, not by root or the agent's user")


def test_a_folder_that_others_may_write_is_not_believed(folder: Folder) -> None:
    folder.write()
    folder.path.chmod(0o1777)
    look = folder.look()
    assert look.reason == f"{folder.path}: others than its owner may write it"
    assert look.allocations == ()


def test_a_folder_that_is_missing_or_no_folder_is_a_failure(folder: Folder) -> None:
    folder.path.rmdir()
    assert folder.failure() == f"{folder.path}: No such file or directory"
    folder.path.write_text("")
    assert folder.failure() == f"{folder.path}: Not a directory"


def test_a_folder_with_too_many_files_is_a_failure(folder: Folder) -> None:
    for number in range(MOST_FILES + 1):
        (folder.path / f"{number}").touch()
    assert folder.failure() == f"{folder.path}: more than {MOST_FILES} files"


def test_gres_numbers_are_places_in_gres_conf(folder: Folder, tmp_path: Path) -> None:
    whole = [card for card in CARDS if card.parent is None]
    (tmp_path / "gres.conf").write_text("NodeName=n[1-8] Name=gpu File=/dev/nvidia[1-2]\n")
    folder.write(cards=[{"gres": 0}], node="n7")
    look = folder.reader.look(NOW, NOW + TICK, whole)
    assert [each.cards for each in look.allocations] == [{"GPU-b"}]
