from __future__ import annotations

import contextlib
import fcntl
import os
import resource
import signal
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from fakes.patience import at_most
from fakes.spooled import extend
from gua.agent.outbox import Outbox
from gua.core.errors import TransientError, UnavailableError
from gua.core.ports import Mark
from gua.spool import database
from gua.spool.database import Database
from gua.spool.queue import Spool
from gua.state.compression import decompress

PAGE = 4096


def mark(ts_ms: int) -> Mark:
    return Mark(ts_ms=ts_ms, monotonic_ms=ts_ms + 1, boot_id=None)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "spool.db"


@pytest.fixture
def spool(path: Path) -> Iterator[Spool]:
    with Spool(path) as opened:
        yield opened


def fill(spool: Spool, first: int, last: int) -> None:
    extend(spool, ((number, b"%d " % number * 300) for number in range(first, last + 1)))


def waiting(spool: Spool) -> list[int]:
    return [int(decompress(tick.blob).split()[0]) for tick in spool.peek("store", 50_000)]


def overwrite(path: Path, at: int, data: bytes) -> None:
    """Damage the file as a disk does: under the connections that are open."""
    descriptor = os.open(path, os.O_WRONLY)
    os.pwrite(descriptor, data, at)
    os.close(descriptor)


def checkpoint(path: Path) -> None:
    with contextlib.closing(sqlite3.connect(path)) as database:
        database.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()


def in_child(work: Callable[[], None]) -> int:
    """Run ``work`` in a process of its own; return its id. No spool may be open: SQLite does not survive a fork."""
    pid = os.fork()
    if pid == 0:
        try:
            work()
        except BaseException as error:  # noqa: BLE001 - nothing of the test run must go on in the child
            os.write(2, f"{error!r}\n".encode())
            os._exit(1)
        os._exit(0)
    return pid


def ended_well(pid: int) -> bool:
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0


def seen_by_another(path: Path) -> list[int]:
    """Return what waits, as a process sees it that opens the spool and closes it again."""
    program = "import sys, test_errors as t; t.print_waiting(t.Path(sys.argv[1]))"
    environ = os.environ | {"PYTHONPATH": os.pathsep.join([str(Path(__file__).parent), *sys.path])}
    answer = subprocess.run([sys.executable, "-c", program, path], env=environ, stdout=subprocess.PIPE, check=True)
    return [int(number) for number in answer.stdout.split()]


def print_waiting(path: Path) -> None:
    with Spool(path, destinations=None) as spool:
        sys.stdout.write(" ".join(map(str, waiting(spool))))


def test_damage_that_is_met_while_running_costs_what_waited_and_no_new_tick(spool: Spool, path: Path) -> None:
    fill(spool, 1, 400)
    checkpoint(path)
    overwrite(path, 2 * PAGE, b"\xff" * 3 * PAGE)
    with Spool(path, destinations=None) as other:  # which mends it, since it reads the file anew
        assert other.stats().repairs == 1
        spool.append(401, b"401", mark(401))
        assert waiting(spool) == waiting(other) == [401]
        assert spool.mark() == mark(401)


def test_damage_of_a_page_that_the_log_holds_is_healed_by_the_log(spool: Spool, path: Path) -> None:
    fill(spool, 1, 400)  # which let the file grow: its first page has its length
    overwrite(path, 0, b"damaged" * 200)
    with Spool(path, destinations=None) as other:
        assert waiting(other) == list(range(1, 401))
        checkpoint(path)
        assert (spool.stats().repairs, spool.set_aside) == (0, None)
    assert path.read_bytes().startswith(b"SQLite format 3")


@pytest.mark.parametrize("how", ["append", "peek", "acknowledge"])
def test_each_call_begins_anew_at_the_damage_that_it_meets(path: Path, how: str) -> None:
    with Spool(path) as spool:
        # More than a connection keeps in memory, and than is checked on opening.
        noise = os.urandom(4_000)
        extend(spool, ((number, b"%d " % number + noise) for number in range(1, 2_501)))
    calls: dict[str, Callable[[Spool], object]] = {
        "append": lambda spool: spool.append(0, b"0"),
        "peek": lambda spool: spool.peek("store", 5_000),
        "acknowledge": lambda spool: spool.acknowledge("store", 5),
    }
    with Spool(path) as spool:
        size = path.stat().st_size
        overwrite(path, PAGE, os.urandom(10 * PAGE))
        overwrite(path, size - 10 * PAGE, os.urandom(10 * PAGE))
        calls[how](spool)
        spool.append(2_501, b"2501")
        assert waiting(spool)[-1] == 2_501
        assert spool.set_aside is not None


def test_a_file_that_is_removed_while_running_is_replaced_from_what_is_open(spool: Spool, path: Path) -> None:
    with Spool(path, destinations=None) as sender:
        fill(spool, 1, 10)
        spool.append(11, b"11", mark(11))
        ids = [tick.id for tick in sender.peek("store", 4)]
        for file in path.parent.glob("spool.db*"):
            file.unlink()
        spool.append(12, b"12", mark(12))
        sender.acknowledge("store", ids[-1])
        assert waiting(spool) == waiting(sender) == [*range(5, 13)]
        assert (spool.stats().repairs, spool.stats().lost, spool.mark()) == (1, 0, mark(12))
    with Spool(path) as again:
        assert waiting(again) == [*range(5, 13)]


def test_a_folder_that_is_removed_while_running_is_made_again(tmp_path: Path) -> None:
    path = tmp_path / "home" / "spool.db"
    with Spool(path) as spool:
        fill(spool, 1, 10)
        path.parent.rename(tmp_path / "gone")
        spool.append(11, b"11")
        assert waiting(spool) == [*range(1, 12)]


def test_a_log_that_is_removed_while_running_takes_nothing_with_it(spool: Spool, path: Path) -> None:
    with Spool(path, destinations=None) as sender:
        fill(spool, 1, 10)
        path.with_name("spool.db-wal").unlink()
        spool.append(11, b"11")
        assert waiting(sender) == [*range(1, 12)]
        sender.acknowledge("store", 3)
        assert seen_by_another(path) == [*range(4, 12)]
        assert waiting(spool) == [*range(4, 12)]


def test_another_process_that_ends_leaves_the_log_to_those_who_use_it(spool: Spool, path: Path) -> None:
    log = path.with_name("spool.db-wal")
    spool.append(1, b"1")
    before = log.stat().st_ino
    # Opening and closing the same file in one process must not take the first connection's locks.
    Spool(path, destinations=None).close()
    assert seen_by_another(path) == [1]
    assert log.stat().st_ino == before
    spool.append(2, b"2")
    assert seen_by_another(path) == [1, 2]


def test_only_one_of_many_sets_a_damaged_file_aside(path: Path) -> None:
    problems: list[BaseException] = []

    def use(spool: Spool, number: int) -> None:
        try:
            for count in range(5):
                spool.append(number, b"%d" % (number + count))
        except BaseException as error:  # noqa: BLE001 - reported by the test
            problems.append(error)

    def use_in_child() -> None:
        os.read(start, 1)
        with Spool(path, destinations=None) as spool:
            use(spool, 9_000)
        assert problems == []

    start, go = os.pipe()
    children = [in_child(use_in_child), in_child(use_in_child)]
    with contextlib.ExitStack() as held:
        opened = [held.enter_context(Spool(path)) for _ in range(4)]
        fill(opened[0], 1, 500)
        checkpoint(path)
        overwrite(path, PAGE, b"\xff" * 3 * PAGE)
        threads = [
            threading.Thread(target=use, args=(spool, 1_000 * number)) for number, spool in enumerate(opened, start=1)
        ]
        os.write(go, b"xx")
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert [ended_well(child) for child in children] == [True, True]
        assert problems == []
        expected = [1_000 * which + count for which in (1, 2, 3, 4, 9, 9) for count in range(5)]
        assert sorted(waiting(opened[0])) == sorted(expected)
        asides = [file for file in path.parent.iterdir() if ".corrupt-" in file.name and file.suffix[-4] != "-"]
        assert len(asides) == opened[0].stats().repairs == 1


def test_a_writer_during_a_long_repair_gets_a_transient_error(
    spool: Spool, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spool.append(1, b"1")
    monkeypatch.setattr(database, "WAIT_SECONDS", 0.05)
    with database.locked(path, fcntl.LOCK_EX):
        with pytest.raises(TransientError, match="being repaired"):
            spool.append(2, b"2")
        assert waiting(spool) == [1]
    spool.append(2, b"2")


def test_a_lock_file_that_is_a_link_is_not_followed(spool: Spool, path: Path) -> None:
    spool.append(1, b"1")
    lock, elsewhere = path.with_name("spool.db.lock"), path.with_name("elsewhere")
    lock.unlink()
    lock.symlink_to(elsewhere)
    with pytest.raises(UnavailableError, match=r"spool\.db\.lock is a symbolic link, which gua does not follow"):
        spool.append(2, b"2")
    assert not elsewhere.exists()
    lock.unlink()
    spool.append(2, b"2")
    assert waiting(spool) == [1, 2]


def test_a_lock_file_that_is_a_pipe_does_not_block(spool: Spool, path: Path) -> None:
    path.with_name("spool.db.lock").unlink(missing_ok=True)
    os.mkfifo(path.with_name("spool.db.lock"))
    with at_most(20):
        spool.append(1, b"1")
    assert waiting(spool) == [1]


def test_a_full_disk_is_reported_in_one_line(path: Path) -> None:
    def overfill(connection: sqlite3.Connection) -> None:
        pages = connection.execute("PRAGMA page_count").fetchone()[0]
        connection.execute(f"PRAGMA max_page_count = {pages + 2}")
        connection.execute("INSERT INTO ticks (ts_ms, raw_length, blob) VALUES (1, 1, zeroblob(100000))")

    database = Database(path, prepare=lambda _: None)
    with contextlib.closing(database), pytest.raises(UnavailableError, match=r"disk of the spool .* is full"):
        database.write(overfill)


def test_no_tick_is_lost_while_files_cannot_grow(path: Path) -> None:
    def work() -> None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        _, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
        noise = [os.urandom(4_000) for _ in range(40)]
        with Spool(path) as spool:
            outbox = Outbox(spool)
            for number in range(40):
                if number == 10:
                    resource.setrlimit(resource.RLIMIT_FSIZE, (path.stat().st_size, hard))
                if number == 20:
                    assert outbox.waiting == 10
                    assert outbox.trouble is not None
                    assert "\n" not in outbox.trouble
                    assert (outbox.mark, spool.mark()) == (mark(19), mark(9))
                    resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))
                outbox.put(number, noise[number], mark(number))
            assert (outbox.waiting, outbox.trouble, outbox.dropped) == (0, None, 0)
            assert [decompress(tick.blob) for tick in spool.peek("store", 100)] == noise
            assert (spool.mark(), spool.stats().repairs) == (mark(39), 0)

    assert ended_well(in_child(work))
