from __future__ import annotations

import random
import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from functools import cache
from pathlib import Path

import pytest

from gua.core.ports import Mark
from gua.spool.queue import Spool
from gua.spool.schema import PAGE_BYTES, root_pages
from gua.state.compression import compress, decompress

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
        spool.extend((number, content(number)) for number in range(1, TICKS - 29))
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


def page_of(file: bytes, number: int) -> int:
    """Return the page, from 1, on which most of that tick's bytes stand."""
    return file.index(compress(content(number))[-40:]) // PAGE_BYTES + 1


def zero_pages(first: int, count: int) -> Callable[[bytearray], None]:
    def zero(file: bytearray) -> None:
        file[(first - 1) * PAGE_BYTES : (first - 1 + count) * PAGE_BYTES] = bytes(count * PAGE_BYTES)

    return zero


def test_every_tick_is_taken_over_when_only_the_trees_above_them_are_damaged(
    path: Path, sound: dict[str, bytes]
) -> None:
    file = bytearray(sound["whole"])
    zero_pages(1, 2)(file)
    put(path, file)
    with Spool(path, destinations=BOTH) as spool:
        assert spool.set_aside is not None
        assert readable(spool) == ({number: number for number in range(DELIVERED + 1, TICKS + 1)}, 0)
        assert (spool.depth("store"), spool.depth("otlp")) == (TICKS - DELIVERED, TICKS - DELIVERED)
        assert (spool.stats().salvaged, spool.stats().lost, spool.stats().repairs) == (TICKS - DELIVERED, 0, 1)
        assert (spool.mark(), spool.stats().refused["store"], len(spool.refused("store"))) == (mark(TICKS), 3, 3)
        spool.append(9, content(9))
        assert spool.peek("store", 3_000)[-1].id == TICKS + 1


def test_a_zeroed_page_in_the_middle_costs_the_ticks_on_it_and_no_other(path: Path, sound: dict[str, bytes]) -> None:
    file = bytearray(sound["whole"])
    zero_pages(page_of(file, 600), 1)(file)
    zero_pages(1, 1)(file)
    put(path, file)
    with Spool(path, destinations=BOTH) as spool:
        found, damaged = readable(spool)
        missing = set(range(DELIVERED + 1, TICKS + 1)) - set(found)
        assert 600 in missing
        assert (len(missing), damaged) == (spool.stats().lost, 0)
        assert len(missing) < 30
        assert max(missing) - min(missing) < 60
        assert spool.depth("store") == len(found) == spool.stats().salvaged


def test_a_truncated_file_gives_what_is_left_and_counts_the_rest(path: Path, sound: dict[str, bytes]) -> None:
    put(path, sound["whole"][: len(sound["whole"]) * 2 // 3])
    with Spool(path, destinations=BOTH) as spool:
        found, _ = readable(spool)
        assert len(found) > 250
        assert spool.stats().lost == TICKS - DELIVERED - len(found)
        spool.append(9, content(9))
        assert spool.peek("store", 3_000)[-1].id == TICKS + 1


def test_a_file_of_which_nothing_is_left_tells_that_the_loss_cannot_be_told(path: Path) -> None:
    for garbage in (b"", b"x", b"\xff" * 100_000):
        put(path, garbage)
        with Spool(path, destinations=BOTH) as spool:
            assert spool.set_aside is not None
            assert (spool.stats().salvaged, spool.stats().lost, spool.mark()) == (0, None, None)
            spool.append(9, content(9), mark(9))
            # A sender that had a batch in hand must not acknowledge a tick that came later.
            assert spool.peek("store", 1)[0].id > 1_000_000
            assert spool.depth("store") == 1


def test_without_the_destinations_everything_is_sent_again(path: Path, sound: dict[str, bytes]) -> None:
    file = bytearray(sound["whole"])
    zero_pages(root_pages()["destinations"], 1)(file)
    put(path, file)
    with Spool(path, destinations=BOTH) as spool:
        found, _ = readable(spool)
        assert set(found) >= set(range(DELIVERED + 1, TICKS + 1))
        assert spool.stats().lost is None


def test_a_flipped_byte_in_a_tick_does_not_come_out_as_another_tick(path: Path, sound: dict[str, bytes]) -> None:
    file = bytearray(sound["whole"])
    file[file.index(compress(content(800))[-40:])] ^= 0x04
    zero_pages(1, 1)(file)
    put(path, file)
    with Spool(path, destinations=BOTH) as spool:
        found, damaged = readable(spool)
        assert damaged == 0
        assert set(range(DELIVERED + 1, TICKS + 1)) - set(found) == {800}
        assert spool.stats().lost == 1


def test_two_ticks_under_one_id_both_stay(path: Path, sound: dict[str, bytes]) -> None:
    file = bytearray(sound["whole"])
    at = file.index(compress(content(700))[:40])
    # The row id is the varint before the record's header: 700 becomes 701.
    start = file.rindex(bytes([0x85, 0x3C]), at - 40, at)
    file[start + 1] += 1
    zero_pages(1, 1)(file)
    put(path, file)
    with Spool(path, destinations=BOTH) as spool:
        found, _ = readable(spool)
        assert set(range(DELIVERED + 1, TICKS + 1)) == set(found)
        assert spool.depth("store") == len(found)


def test_what_was_committed_to_the_log_survives_damage_to_the_file(path: Path, sound: dict[str, bytes]) -> None:
    file = bytearray(sound["file"])
    file[PAGE_BYTES : len(file) // 2] = b"\xff" * (len(file) // 2 - PAGE_BYTES)
    put(path, file, sound["log"])
    with Spool(path, destinations=BOTH) as spool:
        found, _ = readable(spool)
        assert set(found) >= set(range(TICKS - 29, TICKS + 1))
        assert spool.mark() == mark(TICKS)
        assert spool.set_aside is not None
        assert spool.set_aside.with_name(spool.set_aside.name + "-wal").exists()


@pytest.mark.parametrize("at", [16, 32, 40, 3 * 4120 + 100])
def test_a_damaged_log_does_not_take_later_transactions_with_it(path: Path, sound: dict[str, bytes], at: int) -> None:
    log = bytearray(sound["log"])
    log[at] ^= 0xFF
    put(path, sound["file"], log)
    with Spool(path, destinations=BOTH) as spool:
        missing = set(range(DELIVERED + 1, TICKS + 1)) - set(readable(spool)[0])
        assert len(missing) <= 2
        assert spool.stats().repairs == 1
        assert spool.mark() in (None, mark(TICKS))
        assert spool.stats().lost in (None, len(missing))


def test_a_missing_file_is_made_from_the_log_that_is_left(path: Path, sound: dict[str, bytes]) -> None:
    path.with_name("spool.db-wal").write_bytes(sound["log"])
    with Spool(path, destinations=BOTH) as spool:
        assert TICKS in readable(spool)[0]
        spool.append(9, content(9))
    with Spool(path, destinations=BOTH) as spool:
        assert spool.stats().repairs == 1


def test_a_repair_that_was_cut_off_is_finished(path: Path, sound: dict[str, bytes]) -> None:
    put(path.with_name("spool.db.salvaged"), sound["whole"])
    path.with_name("spool.db-wal").write_bytes(sound["log"])  # of the file that was moved away already
    with Spool(path, destinations=BOTH) as spool:
        assert spool.depth("store") == TICKS - DELIVERED
        assert spool.stats().repairs == 0


def test_a_repair_that_was_cut_off_before_the_file_was_moved_does_not_count(
    path: Path, sound: dict[str, bytes]
) -> None:
    put(path, sound["whole"])
    put(path.with_name("spool.db.salvaged"), b"old")
    put(path.with_name("spool.db.new"), b"older")
    with Spool(path, destinations=BOTH) as spool:
        assert spool.depth("store") == TICKS - DELIVERED
    put(path, b"\xff" * 3 * PAGE_BYTES + sound["whole"][3 * PAGE_BYTES :])
    with Spool(path, destinations=BOTH) as spool:
        assert len(readable(spool)[0]) == TICKS - DELIVERED


def test_only_the_latest_damaged_files_are_kept(path: Path) -> None:
    for _ in range(4):
        put(path, b"garbage" * 1_000)
        Spool(path).close()
    assert len([file for file in path.parent.iterdir() if ".corrupt-" in file.name]) == 2


@pytest.mark.parametrize(
    ("field", "damaged"), [(60, 0x07), (68, 0x10), (18, 0x09), (44, 0x08), (56, 0x02), (16, 0x20), (24, 0x01)]
)
def test_a_flipped_field_of_the_header_is_damage_and_not_another_program(
    path: Path, sound: dict[str, bytes], field: int, damaged: int
) -> None:
    file = bytearray(sound["whole"])
    file[field] ^= damaged
    put(path, file)
    with Spool(path, destinations=BOTH) as spool:
        assert set(readable(spool)[0]) >= set(range(DELIVERED + 1, TICKS + 1))
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
def test_whatever_is_damaged_the_spool_opens_gives_what_is_intact_and_goes_on(
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
        with Spool(path, destinations=BOTH) as spool:
            spool.append(TICKS + 1, content(TICKS + 1), mark(TICKS + 1))
            found, _ = readable(spool)
            assert TICKS + 1 in found
            assert spool.mark() == mark(TICKS + 1)
            waiting = spool.peek("store", 3 * TICKS)
            assert spool.depth("store") == len(waiting)
            spool.acknowledge("store", waiting[-1].id)
            assert spool.depth("store") == 0
            if spool.stats().repairs and spool.stats().lost is not None:
                assert len(set(range(DELIVERED + 1, TICKS + 1)) - set(found)) <= spool.stats().lost
        shutil.rmtree(path.parent)
