from __future__ import annotations

import random
import shutil
import sqlite3
from contextlib import closing
from functools import cache
from pathlib import Path

import pytest

from fakes.spooled import extend
from gua.core.errors import UnavailableError
from gua.core.ports import Mark
from gua.spool.queue import Spool
from gua.state.compression import compress, decompress

PAGE_BYTES = 4096

TICKS = 1_000
DELIVERED = 300
BOTH = ("store", "otlp")


@cache
def content(number: int) -> bytes:
    noise = random.Random(number)  # noqa: S311 - data, no secret
    return b"%d:" % number + noise.randbytes(noise.choice([50, 200, 200, 200, 5000])) * 3


def mark(ts_ms: int) -> Mark:
    return Mark(ts_ms=ts_ms, monotonic_ms=ts_ms + 1, boot_id="boot")


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """One spool as a killed agent leaves it, ``file`` and ``log``, and as one that was stopped, ``whole``."""
    path = tmp_path_factory.mktemp("sound") / "spool.db"
    with Spool(path, destinations=BOTH) as spool:
        extend(spool, ((number, content(number)) for number in range(1, TICKS - 29)))
        ticks = spool.peek("store", DELIVERED)
        spool.refuse("store", ticks[:3], "bad")
        for destination in BOTH:
            spool.acknowledge(destination, ticks[-1].id)
        with closing(sqlite3.connect(path)) as database:
            database.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
        for number in range(TICKS - 29, TICKS + 1):
            spool.append(number, content(number), mark(number))
        files = {"file": path.read_bytes(), "log": path.with_name("spool.db-wal").read_bytes()}
    return files | {"whole": path.read_bytes(), "log of whole": b""}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "spool.db"


def put(path: Path, file: bytes, log: bytes = b"") -> None:
    path.write_bytes(file)
    if log:
        path.with_name("spool.db-wal").write_bytes(log)


def readable(spool: Spool, destination: str = "store") -> tuple[dict[int, int], int]:
    """Return the id of each tick that waits, by its number, and how many are no longer what was written."""
    found = {}
    damaged = 0
    for tick in spool.peek(destination, 2 * TICKS):
        try:
            raw = decompress(tick.blob)
        except ValueError:
            damaged += 1
            continue
        number = int(raw.split(b":")[0])
        assert raw == content(number)
        assert (tick.ts_ms, tick.raw_length) == (number, len(raw))
        found[number] = tick.id
    return found, damaged


def test_a_spool_of_garbage_is_set_aside_and_replaced_with_an_unknown_loss(path: Path) -> None:
    for garbage in (b"", b"x", b"\xff" * 100_000):
        put(path, garbage)
        with Spool(path, destinations=BOTH) as spool:
            assert spool.set_aside is not None
            assert spool.set_aside.read_bytes() == garbage
            assert (spool.stats().repairs, spool.stats().lost, spool.mark()) == (1, None, None)
            spool.append(9, content(9), mark(9))
            # A sender that had a batch in hand must not acknowledge a tick that came later.
            assert spool.peek("store", 1)[0].id > 1_000_000
            assert spool.depth("store") == 1


def test_a_new_file_counts_on_where_the_damaged_one_stood(path: Path, sound: dict[str, bytes]) -> None:
    file = bytearray(sound["whole"])
    at = file.index(compress(content(600))[-40:]) // PAGE_BYTES * PAGE_BYTES
    file[at : at + PAGE_BYTES] = bytes(PAGE_BYTES)
    put(path, file)
    for repairs in (1, 2):
        with Spool(path, destinations=BOTH) as spool:
            assert (spool.stats().repairs, spool.stats().lost) == (repairs, None)
            assert (spool.stats().refused["store"], spool.stats().delivered["otlp"]) == (3, DELIVERED)
            spool.acknowledge("store", TICKS)  # of the file that was there before
            spool.append(9, content(9))
            assert (spool.depth("store"), spool.depth("otlp")) == (1, 1)
            with closing(sqlite3.connect(path)) as database:
                database.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
        damaged = bytearray(path.read_bytes())
        damaged[PAGE_BYTES : PAGE_BYTES + 50] = b"\xff" * 50  # of the ticks' page, not of the counters'
        put(path, damaged)


def test_the_log_goes_aside_with_its_file(path: Path, sound: dict[str, bytes]) -> None:
    file = bytearray(sound["file"])
    file[PAGE_BYTES : len(file) // 2] = b"\xff" * (len(file) // 2 - PAGE_BYTES)
    put(path, file, sound["log"])
    with Spool(path, destinations=BOTH) as spool:
        assert spool.set_aside is not None
        assert spool.set_aside.with_name(spool.set_aside.name + "-wal").exists()
        assert spool.peek("store", 1) == []


@pytest.mark.parametrize("at", [16, 32, 3 * 4120 + 100])
def test_of_a_damaged_log_sqlite_reads_what_stands_before_the_damage(
    path: Path, sound: dict[str, bytes], at: int
) -> None:
    log = bytearray(sound["log"])
    log[at] ^= 0xFF
    put(path, sound["file"], log)
    with Spool(path, destinations=BOTH) as spool:
        assert set(readable(spool)[0]) >= set(range(DELIVERED + 1, TICKS - 29))
        spool.append(9, content(9), mark(9))
        assert spool.mark() == mark(9)


def test_a_file_that_is_missing_beside_its_log_or_in_a_repair_was_lost(path: Path, sound: dict[str, bytes]) -> None:
    path.with_name("spool.db-wal").write_bytes(sound["log"])
    with Spool(path, destinations=BOTH) as spool:
        assert (spool.stats().repairs, spool.depth("store")) == (1, 0)
        spool.append(9, content(9))
    # As a process that was killed between its two steps leaves it.
    path.rename(path.with_name("spool.db.corrupt-20260325T000000.000000Z"))
    put(path.with_name("spool.db.new"), b"half of a file")
    with Spool(path, destinations=BOTH) as spool:
        assert (spool.stats().repairs, spool.stats().lost, spool.depth("store")) == (1, None, 0)


def test_only_the_latest_damaged_files_are_kept(path: Path) -> None:
    for _ in range(4):
        put(path, b"garbage" * 1_000)
        Spool(path).close()
    assert len([file for file in path.parent.iterdir() if ".corrupt-" in file.name]) == 2


@pytest.mark.parametrize(("field", "damaged"), [(68, 0x10), (18, 0x09), (44, 0x08), (56, 0x02), (16, 0x20), (24, 0x01)])
def test_a_flipped_field_of_the_header_is_damage_and_not_another_program(
    path: Path, sound: dict[str, bytes], field: int, damaged: int
) -> None:
    file = bytearray(sound["whole"])
    file[field] ^= damaged
    put(path, file)
    with Spool(path, destinations=BOTH) as spool:
        spool.append(9, content(9), mark(9))
        assert spool.mark() == mark(9)


def damage(noise: random.Random, data: bytearray) -> None:
    for _ in range(noise.choice([1, 1, 3, 10])):
        if not data:
            return
        at = noise.randrange(min(len(data), noise.choice([100, PAGE_BYTES, 10 * PAGE_BYTES, len(data), len(data)])))
        length = min(len(data) - at, noise.choice([1, 100, PAGE_BYTES, 10 * PAGE_BYTES]))
        match noise.choice(["flip", "flip", "flip", "zero", "garbage", "truncate"]):
            case "flip":
                data[at] ^= 1 << noise.randrange(8)
            case "zero":
                data[at : at + length] = bytes(length)
            case "garbage":
                data[at : at + length] = noise.randbytes(length)
            case _:
                del data[at:]


@pytest.mark.parametrize("first", range(0, 40, 4))
def test_whatever_is_damaged_the_spool_opens_and_goes_on_or_is_of_another_version(
    tmp_path: Path, sound: dict[str, bytes], first: int
) -> None:
    for seed in range(first, first + 4):
        noise = random.Random(seed)  # noqa: S311 - reproducible damage
        killed = noise.random() < 0.5
        file, log = bytearray(sound["file" if killed else "whole"]), bytearray(sound["log"] if killed else b"")
        damage(noise, log if killed and noise.random() < 0.5 else file)
        path = tmp_path / str(seed) / "spool.db"
        path.parent.mkdir()
        put(path, file, log)
        try:
            spool = Spool(path, destinations=BOTH)
        except UnavailableError as error:
            assert "version" in str(error)  # noqa: PT017 - most damage leaves the version alone
            continue
        with spool:
            spool.append(TICKS + 1, content(TICKS + 1), mark(TICKS + 1))
            readable(spool)
            spool.mark()
            # Each call has met the damage by now that is in its way.
            spool.append(TICKS + 2, content(TICKS + 2), mark(TICKS + 2))
            assert TICKS + 2 in readable(spool)[0]
            assert spool.mark() == mark(TICKS + 2)
            waiting = spool.peek("store", 3 * TICKS)
            assert spool.depth("store") == len(waiting)
            spool.acknowledge("store", waiting[-1].id)
            assert spool.depth("store") == 0
        shutil.rmtree(path.parent)


def test_ticks_that_vanished_with_a_removed_log_are_counted_as_an_unknown_loss(path: Path) -> None:
    with Spool(path) as spool:
        for number in range(1, 6):
            spool.append(number, content(number))
        (last,) = spool.peek("store", 1, after=4)
        # The file as it was before its log, which SQLite takes for the newest once another process began a new log.
        with closing(sqlite3.connect(path, isolation_level=None)) as other:
            other.execute("DELETE FROM ticks")
            other.execute("UPDATE sqlite_sequence SET seq = 0 WHERE name = 'ticks'")
        assert spool.stats().lost == 0
        spool.append(6, content(6))
        (tick,) = spool.peek("store", 10)
        assert tick.id > last.id
        assert (spool.stats().lost, spool.stats().repairs) == (None, 1)
        spool.append(7, content(7))
        assert (len(spool.peek("store", 10)), spool.stats().repairs) == (2, 1)
