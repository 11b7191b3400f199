from __future__ import annotations

from collections.abc import Sequence

from gua.agent.outbox import Outbox
from gua.core.errors import TransientError, UnavailableError
from gua.core.ports import Mark
from gua.state.compression import decompress


def mark(ts_ms: int) -> Mark:
    return Mark(ts_ms=ts_ms, monotonic_ms=ts_ms, boot_id=None)


class Disk:
    """A spool on a disk that can be full."""

    def __init__(self) -> None:
        self.stored: list[tuple[int, bytes]] = []
        self.calls = 0
        self.stored_mark: Mark | None = None
        self.error: UnavailableError | None = None
        self.fails_after: int | None = None

    def append_blobs(self, ticks: Sequence[tuple[int, int, bytes]], mark: Mark | None = None) -> None:
        self.calls += 1
        if self.error is not None and (self.fails_after is None or self.calls > self.fails_after):
            raise self.error
        self.stored += [(ts_ms, decompress(blob)) for ts_ms, _, blob in ticks]
        assert all(len(decompress(blob)) == length for _, length, blob in ticks)
        if mark is not None:
            self.stored_mark = mark

    def mark(self) -> Mark | None:
        if self.error is not None:
            raise self.error
        return self.stored_mark


def test_a_tick_goes_straight_through() -> None:
    disk = Disk()
    outbox = Outbox(disk)
    outbox.put(1, b"one", mark(1))
    assert disk.stored == [(1, b"one")]
    assert (disk.stored_mark, outbox.mark) == (mark(1), mark(1))
    assert (outbox.waiting, outbox.dropped, outbox.trouble) == (0, 0, None)


def test_before_the_first_tick_the_mark_is_the_spools_and_a_read_error_is_trouble() -> None:
    disk = Disk()
    disk.stored_mark = mark(7)
    assert Outbox(disk).mark == mark(7)
    disk.error = UnavailableError("the disk is gone")
    outbox = Outbox(disk)
    assert outbox.mark is None
    assert outbox.trouble == "the disk is gone"


def test_what_the_disk_does_not_take_waits_in_order_and_goes_as_soon_as_it_does() -> None:
    disk = Disk()
    outbox = Outbox(disk)
    outbox.put(0, b"0", mark(0))
    disk.error = TransientError("the spool is being repaired")
    for number in range(1, 41):
        outbox.put(number, b"%d" % number, mark(number))
    assert (outbox.waiting, outbox.trouble) == (40, "the spool is being repaired")
    assert (outbox.mark, disk.stored_mark) == (mark(40), mark(0))
    disk.error = None
    outbox.put(41, b"41", mark(41))
    assert disk.stored == [(number, b"%d" % number) for number in range(42)]
    assert (disk.stored_mark, outbox.waiting, outbox.trouble) == (mark(41), 0, None)


def test_a_disk_that_fails_again_in_the_middle_keeps_what_it_took() -> None:
    disk = Disk()
    outbox = Outbox(disk)
    disk.error = UnavailableError("full")
    for number in range(40):
        outbox.put(number, b"%d" % number, mark(number))
    disk.fails_after = disk.calls + 1
    outbox.flush()
    assert (len(disk.stored), outbox.waiting, disk.stored_mark) == (16, 24, mark(15))
    disk.error = None
    outbox.flush()
    assert [ts_ms for ts_ms, _ in disk.stored] == list(range(40))


def test_above_its_bounds_the_oldest_go_and_are_counted() -> None:
    disk = Disk()
    disk.error = UnavailableError("full")
    few, small = Outbox(disk, max_ticks=3), Outbox(disk, max_bytes=60)
    for number in range(10):
        few.put(number, b"%d" % number, mark(number))
        small.put(number, b"%d" % number, mark(number))
    assert (few.waiting, few.dropped, few.mark) == (3, 7, mark(9))
    assert 1 < small.waiting < 6
    assert small.waiting + small.dropped == 10
    disk.error = None
    few.flush()
    assert [ts_ms for ts_ms, _ in disk.stored] == [7, 8, 9]


def test_one_tick_stays_however_large_it_is() -> None:
    disk = Disk()
    disk.error = UnavailableError("full")
    outbox = Outbox(disk, max_bytes=1)
    outbox.put(1, b"x" * 100, mark(1))
    outbox.put(2, b"x" * 100, mark(2))
    assert (outbox.waiting, outbox.dropped) == (1, 1)
