from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from gua.core.errors import TransientError, UnavailableError
from gua.store.directory import StoreDirectory
from gua.store.engine import check_engine

HOLD = """
import sys
from pathlib import Path
from gua.store.directory import StoreDirectory
StoreDirectory(Path(sys.argv[1])).hold()
print("held", flush=True)
sys.stdin.read()
"""


def holder(path: Path) -> subprocess.Popen[str]:
    """Return a process that holds the directory until its standard input ends."""
    process = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "held\n"
    return process


class Time:
    """A clock that only sleeping moves."""

    def __init__(self) -> None:
        self.now = 0.0

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds


def test_a_directory_is_made_for_its_owner_alone(tmp_path: Path) -> None:
    directory = StoreDirectory(tmp_path / "a" / "store")
    assert not directory.exists()
    directory.hold()
    assert directory.path.stat().st_mode & 0o777 == 0o700
    directory.stamp("26.9.2.1")
    assert directory.exists()
    assert directory.stamped_engine() == "26.9.2.1"


def test_the_second_process_waits_until_the_first_is_done(tmp_path: Path) -> None:
    first = holder(tmp_path / "store")
    waited = []

    def sleep(seconds: float) -> None:
        waited.append(seconds)
        first.communicate()  # the first ends while the second waits

    second = StoreDirectory(tmp_path / "store")
    second.hold(sleep=sleep)
    assert len(waited) == 1
    assert (tmp_path / "store" / "lock").read_text() == f"pid {os.getpid()}"


def test_after_its_patience_it_gives_up_and_names_who_holds_the_store(tmp_path: Path) -> None:
    first = holder(tmp_path / "store")
    time = Time()
    with pytest.raises(TransientError, match=f"in use by pid {first.pid}, after 5 s still") as refused:
        StoreDirectory(tmp_path / "store").hold(patience_seconds=5, monotonic=time.monotonic, sleep=time.sleep)
    assert 5 <= time.now < 5.2
    assert str(tmp_path / "store") in str(refused.value)
    first.communicate()


def test_a_waiting_process_warns_once_after_a_second_with_the_holders_pid(tmp_path: Path) -> None:
    first = holder(tmp_path / "store")
    time = Time()
    warnings: list[tuple[float, str]] = []
    with pytest.raises(TransientError):
        StoreDirectory(tmp_path / "store").hold(
            patience_seconds=5,
            warn=lambda line: warnings.append((time.now, line)),
            monotonic=time.monotonic,
            sleep=time.sleep,
        )
    ((when, line),) = warnings
    assert 1 <= when < 1.2
    assert line == f"the store {tmp_path / 'store'} is in use by pid {first.pid}: waiting for it, 5 s at most"
    first.communicate()


def test_a_process_that_was_killed_holds_nothing(tmp_path: Path) -> None:
    first = holder(tmp_path / "store")
    first.kill()
    first.wait()
    StoreDirectory(tmp_path / "store").hold(patience_seconds=0)


def test_a_store_that_was_released_can_be_held_again(tmp_path: Path) -> None:
    first, second = StoreDirectory(tmp_path), StoreDirectory(tmp_path)
    first.hold()
    with pytest.raises(TransientError):
        second.hold(patience_seconds=0)
    first.release()
    first.release()
    second.hold(patience_seconds=0)


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize("name", ["thesis.tex", "data/results.csv", "lock.txt", "data/store.db"])
def test_a_directory_of_somebody_else_is_left_alone(tmp_path: Path, name: str) -> None:
    file = tmp_path / "home" / name
    file.parent.mkdir(parents=True)
    file.write_text("mine")
    before = contents(tmp_path)
    with pytest.raises(
        UnavailableError, match=rf"holds other files \({name.split('/', maxsplit=1)[0]}\): give an empty or new"
    ):
        StoreDirectory(tmp_path / "home").hold()
    assert contents(tmp_path) == before


def test_foreign_files_beside_a_store_do_no_harm(tmp_path: Path) -> None:
    made = StoreDirectory(tmp_path)
    made.hold()
    made.stamp("26.9.2.1")
    made.release()
    (tmp_path / "notes.txt").write_text("mine")
    StoreDirectory(tmp_path).hold()


@pytest.mark.parametrize("left", [[], ["lock"], ["lock", "gua-store.json-a1b2.tmp"]])
def test_a_store_whose_making_was_cut_off_is_taken_up_again(tmp_path: Path, left: list[str]) -> None:
    for name in left:
        (tmp_path / name).write_text("")
    directory = StoreDirectory(tmp_path)
    directory.hold()
    assert directory.stamped_engine() is None


@pytest.mark.parametrize("below", ["file", "file/store", "file/a/store"])
def test_a_path_that_cannot_be_a_directory_is_one_line(tmp_path: Path, below: str) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(UnavailableError, match=r"cannot be used \(.+\): give a directory you may write") as refused:
        StoreDirectory(tmp_path / below).hold()
    assert str(tmp_path / below) in str(refused.value)
    assert not StoreDirectory(tmp_path / below).exists()


@pytest.mark.parametrize(
    "stamp", ["", "{", "null", "[]", "{}", '{"engine": null}', '{"engine": "new"}', '{"engine": 26}', "\x00\xff"]
)
def test_a_damaged_stamp_is_not_taken_for_an_old_engine(tmp_path: Path, stamp: str) -> None:
    (tmp_path / "gua-store.json").write_bytes(stamp.encode("latin-1"))
    with pytest.raises(UnavailableError, match=r"gua-store\.json is damaged: put it back"):
        StoreDirectory(tmp_path).stamped_engine()


def test_a_stamp_is_replaced_whole(tmp_path: Path) -> None:
    directory = StoreDirectory(tmp_path)
    directory.stamp("26.9.2.1")
    directory.stamp("26.10.1.1")
    assert json.loads((tmp_path / "gua-store.json").read_text()) == {"engine": "26.10.1.1"}
    assert [path.name for path in tmp_path.iterdir()] == ["gua-store.json"]


@pytest.mark.parametrize(
    ("stamped", "running"),
    [
        (None, "26.9.2.1"),
        ("26.9.2.1", "26.9.2.1"),
        ("26.9.5.1", "26.9.2.1"),
        ("25.8.2.29", "26.9.2.1"),
        ("26.9.2", "26.10.1.1"),
    ],
)
def test_an_engine_opens_what_it_or_an_older_one_wrote(stamped: str | None, running: str) -> None:
    check_engine(Path("/s"), stamped=stamped, running=running)


@pytest.mark.parametrize(("stamped", "running"), [("26.10.1.1", "26.9.2.1"), ("27.1", "26.12.1"), ("26.9.2", "25.10")])
def test_an_older_engine_does_not_open_what_a_newer_one_wrote(stamped: str, running: str) -> None:
    with pytest.raises(UnavailableError) as refused:
        check_engine(Path("/s"), stamped=stamped, running=running)
    assert f"written by engine {stamped}, this is {running}" in str(refused.value)
    assert "pip install -U chdb-core" in str(refused.value)


def test_links_that_somebody_planted_lead_to_nothing(tmp_path: Path) -> None:
    precious = tmp_path / "precious"
    precious.write_text("kept")
    planted = tmp_path / "store"
    planted.mkdir()
    (planted / "gua-store.json").write_text('{"engine": "26.9.1.1"}')
    (planted / "lock").symlink_to(precious)
    with pytest.raises(UnavailableError, match="cannot be used"):
        StoreDirectory(planted).hold()
    (planted / "lock").unlink()
    directory = StoreDirectory(planted)
    directory.hold()
    directory.stamp("26.9.2.1")
    directory.release()
    assert directory.stamped_engine() == "26.9.2.1"
    assert precious.read_text() == "kept"
