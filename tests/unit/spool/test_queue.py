from __future__ import annotations

import contextlib
import random
import sqlite3
import stat
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from fakes.spooled import extend, refused
from gua.core.errors import UnavailableError
from gua.core.ports import Mark
from gua.spool.queue import Spool
from gua.state.compression import decompress


def mark(ts_ms: int) -> Mark:
    return Mark(ts_ms=ts_ms, monotonic_ms=ts_ms + 1, boot_id=None)


def noise(seed: int) -> bytes:
    return random.Random(seed).randbytes(4000)  # noqa: S311 - data, no secret


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "agent" / "spool.db"


@pytest.fixture
def spool(path: Path) -> Iterator[Spool]:
    with Spool(path) as opened:
        yield opened


def test_ticks_come_out_as_they_went_in_oldest_first(spool: Spool) -> None:
    spool.append(30, b"a" * 100)
    extend(spool, [(20, b"b"), (40, b"")])
    got = spool.peek("store", 10)
    assert [(tick.ts_ms, tick.raw_length, decompress(tick.blob)) for tick in got] == [
        (30, 100, b"a" * 100),
        (20, 1, b"b"),
        (40, 0, b""),
    ]
    assert [tick.id for tick in spool.peek("store", 1, after=got[0].id)] == [got[1].id]


def test_a_tick_stays_until_every_destination_has_it(path: Path) -> None:
    with Spool(path, destinations=("store", "otlp")) as spool:
        extend(spool, ((number, b"x") for number in range(3)))
        first, second, third = (tick.id for tick in spool.peek("store", 10))
        spool.acknowledge("store", third)
        assert (spool.depth("store"), spool.depth("otlp")) == (0, 3)
        spool.acknowledge("otlp", first)
        assert [tick.id for tick in spool.peek("otlp", 10)] == [second, third]
        assert spool.peek("store", 10) == []
    with sqlite3.connect(path) as database:
        assert database.execute("SELECT count(*) FROM ticks").fetchone() == (2,)
    database.close()


def test_an_acknowledgement_cannot_go_back_nor_meet_a_later_tick(spool: Spool) -> None:
    extend(spool, [(1, b"x"), (2, b"x")])
    first, second = (tick.id for tick in spool.peek("store", 10))
    spool.acknowledge("store", second)
    spool.acknowledge("store", first)
    spool.append(3, b"y")
    assert [tick.ts_ms for tick in spool.peek("store", 10)] == [3]


def test_a_new_destination_gets_what_is_still_here_and_a_removed_one_holds_nothing_back(path: Path) -> None:
    with Spool(path, destinations=("store", "old")) as spool:
        extend(spool, [(1, b"x"), (2, b"x")])
        spool.acknowledge("store", spool.peek("store", 1)[0].id)
    with Spool(path, destinations=("store", "new")) as spool:
        assert [tick.ts_ms for tick in spool.peek("new", 10)] == [1, 2]
        assert [tick.ts_ms for tick in spool.peek("store", 10)] == [2]


def test_opening_without_destinations_removes_none(path: Path) -> None:
    with Spool(path, destinations=("store", "otlp")) as spool:
        spool.append(1, b"x")
    with Spool(path, destinations=None) as child:
        child.acknowledge("store", child.peek("store", 1)[0].id)
    with Spool(path, destinations=("store", "otlp")) as spool:
        assert (spool.depth("store"), spool.depth("otlp")) == (0, 1)


def test_the_stats_have_waiting_dropped_refused_and_delivered_ticks(path: Path) -> None:
    with Spool(path, destinations=("store", "otlp"), max_bytes=100_000) as spool:
        assert spool.stats().oldest_ms == {}
        for number in range(1, 41):
            spool.append(number, noise(number))
        dropped = spool.stats().dropped
        ticks = spool.peek("store", 3)
        spool.refuse("store", ticks[:2], "bad")
        spool.acknowledge("store", ticks[-1].id)
        stats = spool.stats()
        assert dropped > 10
        assert stats.waiting == {"store": 40 - dropped - 3, "otlp": 40 - dropped}
        assert stats.ticks == 40 - dropped == len(spool.peek("otlp", 100))
        assert stats.oldest_ms == {"store": dropped + 4, "otlp": dropped + 1}
        assert stats.dropped == dropped
        assert (stats.refused, stats.repairs) == ({"store": 2, "otlp": 0}, 0)
        assert (stats.delivered, set(stats.delivered_ms)) == ({"store": 1, "otlp": 0}, {"store"})
        assert (stats.lost, stats.bytes) == (0, spool.size_bytes())


def test_delivered_ticks_count_for_their_destination_whichever_process_delivers(path: Path) -> None:
    began_ms = time.time_ns() // 1_000_000
    with Spool(path, destinations=("store", "otlp")) as agent, Spool(path, destinations=None) as report:
        extend(agent, ((number, b"x") for number in range(1, 11)))
        ids = [tick.id for tick in agent.peek("store", 10)]
        agent.acknowledge("store", ids[2])
        report.acknowledge("store", ids[6])
        agent.acknowledge("store", ids[4])  # what the other has reported already
        report.refuse("otlp", report.peek("otlp", 4), "bad")
        report.acknowledge("otlp", ids[3])
        assert agent.stats().delivered == report.stats().delivered == {"store": 7, "otlp": 0}
        assert agent.stats().delivered_ms.keys() == {"store"}
        assert began_ms <= agent.stats().delivered_ms["store"] <= time.time_ns() // 1_000_000


def test_the_room_of_an_outage_is_given_back_once_its_ticks_are_delivered(path: Path) -> None:
    with Spool(path) as spool, Spool(path, destinations=None) as sender:
        for _ in range(5):
            extend(spool, ((number, noise(number % 50)) for number in range(1_000)))
        assert spool.size_bytes() > 20_000_000
        while batch := sender.peek("store", 1_000):
            sender.acknowledge("store", batch[-1].id)
        assert spool.size_bytes() < 5_000_000
        spool.append(1, b"x")
        assert [tick.ts_ms for tick in sender.peek("store", 10)] == [1]


def test_the_log_does_not_stay_large_after_a_reader_held_it_up(path: Path) -> None:
    log = path.with_name("spool.db-wal")
    with Spool(path, max_bytes=1_000_000) as spool:
        spool.append(0, b"x")
        with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as reader:
            reader.execute("BEGIN")
            reader.execute("SELECT * FROM ticks").fetchall()
            for _ in range(8):
                extend(spool, ((number, noise(number)) for number in range(500)))
            assert log.stat().st_size > 6_000_000
        for number in range(3):
            spool.append(number, noise(number))
        assert log.stat().st_size <= 4 * 2**20
        assert spool.depth("store") < 300


def test_an_unknown_destination_is_a_mistake(spool: Spool, path: Path) -> None:
    with pytest.raises(ValueError, match="nowhere"):
        spool.peek("nowhere", 1)
    with pytest.raises(ValueError, match="destination"):
        Spool(path, destinations=())


def test_the_mark_is_kept_with_the_tick(path: Path) -> None:
    with Spool(path) as spool:
        assert spool.mark() is None
        spool.append(1, b"x", mark(1))
        spool.append(2, b"x")
    with Spool(path) as spool:
        assert spool.mark() == mark(1)
        assert spool.depth("store") == 2


def test_many_ticks_are_stored_all_or_none(spool: Spool) -> None:
    def failing() -> Iterator[tuple[int, bytes]]:
        yield 1, b"x"
        msg = "the file ends in the middle"
        raise OSError(msg)

    with pytest.raises(OSError, match="ends in the middle"):
        extend(spool, failing())
    assert spool.depth("store") == 0
    spool.append(2, b"x")
    assert spool.depth("store") == 1


def test_above_the_cap_the_oldest_ticks_go_and_are_counted(path: Path) -> None:
    cap = 200_000
    with Spool(path, max_bytes=cap) as spool:
        for number in range(100):
            spool.append(number, noise(number))
        kept = [tick.ts_ms for tick in spool.peek("store", 1000)]
        assert kept == list(range(100 - len(kept), 100))
        assert 25 < len(kept) < 50
        assert spool.stats().dropped == 100 - len(kept)
        dropped = spool.stats().dropped
    with Spool(path, max_bytes=cap) as spool:
        assert spool.stats().dropped == dropped
        extend(spool, ((number, noise(number)) for number in range(100, 300)))
        assert spool.stats().dropped + spool.depth("store") == 300


def test_refused_ticks_go_before_ticks_that_wait(path: Path) -> None:
    with Spool(path, max_bytes=200_000) as spool:
        for number in range(20):
            spool.append(number, noise(number))
        ticks = spool.peek("store", 15)
        spool.refuse("store", ticks, "bad")
        spool.acknowledge("store", ticks[-1].id)
        for number in range(20, 45):
            spool.append(number, noise(number))
        assert (spool.depth("store"), spool.stats().dropped, spool.stats().refused["store"]) == (30, 0, 15)
        assert 0 < len(refused(path, "store")) < 15


def test_the_newest_tick_is_kept_however_small_the_cap(path: Path) -> None:
    with Spool(path, max_bytes=1) as spool:
        spool.append(1, b"x")
        spool.append(2, b"y")
        assert [tick.ts_ms for tick in spool.peek("store", 10)] == [2]
        assert spool.stats().dropped == 1


def test_a_refused_tick_is_kept_with_its_reason_and_counted_once(spool: Spool, path: Path) -> None:
    spool.append(1, b"bad")
    (tick,) = spool.peek("store", 1)
    spool.refuse("store", [tick], "not protobuf")
    spool.refuse("store", [tick], "not protobuf")
    assert refused(path, "store") == [(tick.id, tick.ts_ms, "not protobuf")]
    assert spool.stats().refused == {"store": 1}


def test_the_file_is_its_owner_s_alone(spool: Spool, path: Path) -> None:
    spool.append(1, b"x")
    for file in path.parent.iterdir():
        assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    assert spool.size_bytes() == sum(file.stat().st_size for file in path.parent.iterdir() if file.suffix != ".db-shm")


@pytest.mark.parametrize("where", [0, 5000])
def test_a_damaged_file_is_set_aside_and_a_new_one_begun(path: Path, where: int) -> None:
    with Spool(path) as spool:
        extend(spool, ((number, noise(number)) for number in range(50)))
    damaged = bytearray(path.read_bytes())
    damaged[where : where + 20_000] = b"\xa5" * 20_000
    path.write_bytes(damaged)
    with Spool(path) as spool:
        assert spool.set_aside is not None
        assert spool.set_aside.name.startswith("spool.db.corrupt-20")
        assert spool.set_aside.read_bytes() == damaged
        assert spool.depth("store") == 0
        spool.append(1, b"x")
    with Spool(path) as spool:
        assert spool.set_aside is None
        assert spool.depth("store") == 1


def test_a_database_of_another_program_is_left_alone(path: Path) -> None:
    path.parent.mkdir()
    with contextlib.closing(sqlite3.connect(path)) as other:
        other.execute("CREATE TABLE samples (ts INTEGER)")
    before = path.read_bytes()
    with pytest.raises(UnavailableError, match="another program"):
        Spool(path)
    assert path.read_bytes() == before


@pytest.mark.parametrize("version", [1, 99])
def test_a_spool_of_another_version_is_left_alone(path: Path, version: int) -> None:
    Spool(path).close()
    with contextlib.closing(sqlite3.connect(path)) as another:
        another.execute(f"PRAGMA user_version = {version}")
        another.commit()
    before = path.read_bytes()
    with pytest.raises(UnavailableError, match=f"is of version {version}, and this gua reads version 2: deliver"):
        Spool(path)
    assert path.read_bytes() == before


def test_a_path_that_cannot_be_used_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(UnavailableError, match=r"file/spool\.db cannot be used"):
        Spool(tmp_path / "file" / "spool.db")
    with pytest.raises(UnavailableError, match="cannot be used"):
        Spool(tmp_path)


def test_two_threads_can_use_one_spool(spool: Spool) -> None:
    writer = threading.Thread(target=lambda: [spool.append(number, b"x") for number in range(50)])
    writer.start()
    seen = 0
    while seen < 50:
        batch = spool.peek("store", 7)
        seen += len(batch)
        if batch:
            spool.acknowledge("store", batch[-1].id)
    writer.join()
    assert spool.depth("store") == 0
