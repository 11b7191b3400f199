from __future__ import annotations

import threading
import time
from pathlib import Path

from gua.identity.process import Owners, passwd_file_name, passwd_name

HOUR = 3_600


class Directory:
    """A name service that answers when it is let."""

    def __init__(self, **names: int) -> None:
        self.names = {uid: name for name, uid in names.items()}
        self.asked: list[int] = []
        self.up = threading.Event()
        self.up.set()

    def look_up(self, uid: int) -> str | None:
        self.asked.append(uid)
        self.up.wait(60)
        return self.names.get(uid)


def eventually(names: Owners, uid: int, expected: str) -> None:
    deadline = time.monotonic() + 60
    while names.name(uid) != expected:
        assert time.monotonic() < deadline
        time.sleep(0.005)


def test_a_user_is_known_by_name_and_without_one_by_number() -> None:
    names = Owners(Directory(alice=1000).look_up)
    assert (names.name(1000), names.name(1234), names.name(None)) == ("alice", "1234", None)
    assert passwd_name(0) == "root"
    assert passwd_name(2**40) is None


def test_a_directory_that_hangs_holds_up_nothing_but_the_first_question() -> None:
    directory = Directory(alice=1000, bob=1001)
    directory.up.clear()
    names = Owners(directory.look_up, patience_seconds=0.05, local={0: "root"}.get)
    begun = time.monotonic()
    assert [names.name(uid) for uid in (1000, 1001, 1000, 0, *range(2_000, 2_500))] == [None] * 3 + ["root"] + [
        None
    ] * 500
    assert time.monotonic() - begun < 5  # each of 500 that waits would make it 25
    directory.up.set()
    eventually(names, 1000, "alice")
    eventually(names, 1001, "bob")
    assert directory.asked.count(1000) == 1


def test_a_directory_that_breaks_is_one_without_an_answer() -> None:
    def broken(uid: int) -> str | None:
        raise OSError(uid)

    assert Owners(broken).name(1000) == "1000"


def test_names_are_looked_up_again_after_an_hour_and_missing_ones_after_five_minutes() -> None:
    now = [0.0]
    directory = Directory(alice=1000)
    names = Owners(directory.look_up, monotonic=lambda: now[0])
    for moment in (0, 200, 310, 3_500):
        now[0] = moment
        names.name(1000)
        names.name(1001)
        eventually(names, 1001, "1001")
        while names._working:  # noqa: SLF001 - an answer that was known comes again on its own time
            time.sleep(0.005)
    assert (directory.asked.count(1000), directory.asked.count(1001)) == (1, 3)
    directory.names[1001] = "carol"
    now[0] = HOUR * 2
    names.name(1001)
    eventually(names, 1001, "carol")


def test_a_name_outlives_a_directory_that_is_down_by_a_day() -> None:
    now = [0.0]
    directory = Directory(alice=1000)
    names = Owners(directory.look_up, monotonic=lambda: now[0])
    assert names.name(1000) == "alice"
    directory.names.clear()
    for hours in range(2, 24):
        now[0] = hours * HOUR
        assert names.name(1000) == "alice"
    now[0] = 25 * HOUR
    eventually(names, 1000, "1000")


def test_only_so_many_names_are_remembered() -> None:
    names = Owners(lambda _: None, local=lambda uid: f"user{uid}")
    for uid in range(10_000):
        assert names.name(uid) == f"user{uid}"
    assert len(names._answers) == 1_024  # noqa: SLF001 - memory is no behaviour that a caller sees


def test_a_passwd_file_yields_the_first_user_with_an_id(tmp_path: Path) -> None:
    path = tmp_path / "passwd"
    path.write_bytes(
        b"root:x:0:0::/root:/bin/sh\n\n+@nis\nbad:x\nalice:x:1000:1000::/:\nal:x:1000:1::/:\ncaf\xe9:x:7:7::/:\n"
    )
    assert [passwd_file_name(path, uid) for uid in (0, 1000, 1, 7)] == ["root", "alice", None, "caf\ufffd"]
    assert passwd_file_name(tmp_path / "absent", 0) is None
