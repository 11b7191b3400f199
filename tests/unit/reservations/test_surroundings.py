"""Reservations on a host that misbehaves: clocks, sleep, a full disk, a truth that is gone, cards that are lost."""

from __future__ import annotations

import os
import resource
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from fakes.desks import CARDS, asked, ended, got, opened, run, until
from gua.app.reservations import WithReservations
from gua.core.allocation import QueueWaits
from gua.core.errors import UnavailableError
from gua.reservations.model import Candidate, Ending, Granted, Kind, Waiting

HOUR_MS = 3_600_000


class Clocks:
    """A wall clock that somebody sets, and one that runs on in sleep."""

    def __init__(self) -> None:
        self.wall = 1_800_000_000_000
        self.boot = 5_000.0

    def pass_by(self, seconds: float) -> None:
        self.wall += round(seconds * 1000)
        self.boot += seconds

    def settings(self, boot_id: str = "this") -> dict[str, object]:
        return {"wall_ms": lambda: self.wall, "boot_seconds": lambda: self.boot, "boot_id": boot_id}


@pytest.mark.parametrize("step_ms", [24 * HOUR_MS, -24 * HOUR_MS])
def test_a_reservation_lasts_as_long_however_the_clock_is_set(tmp_path: Path, step_ms: int) -> None:
    clocks = Clocks()
    desk = opened(tmp_path / "reservations", **clocks.settings())
    granted = got(desk, asked(for_ms=HOUR_MS)).reservation
    clocks.wall += step_ms
    clocks.pass_by(1800)
    (held,) = desk.reservations()
    assert held.until_ms == clocks.wall + HOUR_MS // 2  # what is shown is when it will end, by the clock as it is now
    assert desk.since(clocks.wall - 30_000) == [held]  # and so ticks report that it goes on
    assert desk.since(0) == [held]
    desk.close()
    desk = opened(tmp_path / "reservations", **clocks.settings())  # and the agent was started anew
    time.sleep(0.2)
    assert [each.id for each in desk.reservations()] == [granted.id]
    clocks.pass_by(1801)
    desk.extend("nobody", clocks.wall)  # wakes no request
    until(lambda: not desk.reservations())
    (over,) = desk.since(0)
    assert over.ending is Ending.EXPIRED
    assert over.ended_ms is not None
    assert over.ended_ms >= over.since_ms
    desk.close()


def test_what_has_ended_does_not_come_back_where_the_clock_is_set_back(tmp_path: Path) -> None:
    clocks = Clocks()
    desk = opened(tmp_path / "reservations", **clocks.settings())
    looks = WithReservations(None, desk)

    def allocated() -> set[str]:
        return {each.id for each in looks.look(clocks.wall - 30_000, clocks.wall, ()).allocations}

    before, during = (got(desk, asked(for_ms=HOUR_MS)).reservation.id for _ in range(2))
    clocks.pass_by(600)
    desk.end([before], by=None)
    clocks.wall -= HOUR_MS  # to before both began
    clocks.pass_by(30)
    assert allocated() == {during}
    desk.end([during], by=None)  # kept as one that ended when it began, which is to come
    clocks.pass_by(30)
    assert allocated() == set()
    desk.close()


def test_waits_are_reported_before_the_first_grant(tmp_path: Path) -> None:
    clocks = Clocks()
    held = [replace(card, refusal="is held by ana") for card in CARDS]
    desk = opened(tmp_path / "reservations", probe=lambda: held, **clocks.settings())
    looks = WithReservations(None, desk)
    assert looks.look(clocks.wall - 30_000, clocks.wall, ()).sources == ()  # no request here
    request = asked()
    desk.enter(request)
    assert isinstance(desk.attempt(request.place), Waiting)
    desk.keep_place(request)
    clocks.pass_by(30)
    (source,) = looks.look(clocks.wall - 30_000, clocks.wall, ()).sources
    assert source.waits == QueueWaits(waiting=1, wait_ms=30_000, waited_ms=30_000)
    desk.close()


def test_after_a_boot_the_wall_clock_determines_the_end(tmp_path: Path) -> None:
    clocks = Clocks()
    desk = opened(tmp_path / "reservations", **clocks.settings())
    got(desk, asked(for_ms=HOUR_MS))
    desk.close()
    clocks.pass_by(600)
    clocks.boot = 20.0
    desk = opened(tmp_path / "reservations", **clocks.settings("the next"))
    (held,) = desk.reservations()
    assert held.until_ms == clocks.wall + HOUR_MS - 600_000
    desk.close()


def test_time_goes_on_while_the_host_sleeps(tmp_path: Path) -> None:
    clocks = Clocks()
    desk = opened(tmp_path / "reservations", **clocks.settings())
    got(desk, asked(for_ms=HOUR_MS))
    clocks.pass_by(2 * 3600)  # asleep: the monotonic clock, by which threads wait, stood still
    until(lambda: not desk.reservations())
    desk.close()


@contextmanager
def full_disk(most: int) -> Iterator[None]:
    """No file of this process grows beyond so many bytes: EFBIG in the place of ENOSPC, which needs no disk."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (most, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


@pytest.mark.parametrize("most", [0, 1024], ids=["no lock can be kept", "no row can be kept"])
def test_a_full_disk_gives_nothing_and_leaves_nothing(tmp_path: Path, most: int) -> None:
    desk = opened(tmp_path / "reservations")
    request = asked(kind=Kind.RUN, pid=os.getpid())
    desk.enter(request)
    with full_disk(most), pytest.raises(UnavailableError, match="make room on its disk"):
        desk.attempt(request.place)
    assert desk.reservations() == []
    assert list((tmp_path / "reservations" / "locks").iterdir()) == []
    granted = desk.attempt(request.place)  # the place was kept, and with room it goes on
    assert isinstance(granted, Granted)
    assert granted.lifeline is not None
    os.close(granted.lifeline)
    desk.close()


def test_a_truth_that_was_removed_is_found_again_by_the_locks(tmp_path: Path) -> None:
    logged: list[str] = []
    folder = tmp_path / "reservations"
    desk = opened(folder)
    process, granted = run(desk, "exec sleep 60", cards=("GPU-2",))
    (folder / "locks" / "left").write_text("{}")  # an agent was killed before it gave the lock to anybody
    desk.close()
    for path in folder.glob("reservations.db*"):
        path.unlink()
    desk = opened(folder, log=logged.append)
    assert [(each.id, each.cards) for each in desk.reservations()] == [(granted.reservation.id, ("GPU-2",))]
    assert logged == [f"the reservation {granted.reservation.id} of user1000 was restored by its command's lock"]
    assert [path.name for path in (folder / "locks").iterdir()] == [granted.reservation.id]
    ended(process)
    until(lambda: not desk.reservations())
    desk.close()


def test_a_reservation_that_was_given_back_is_not_found_again(tmp_path: Path) -> None:
    """Its command goes on and has the lock, and an agent was killed before it had removed the lock's file."""
    folder = tmp_path / "reservations"
    desk = opened(folder)
    process, granted = run(desk, "exec sleep 60")
    lock = folder / "locks" / granted.reservation.id
    (tmp_path / "kept").hardlink_to(lock)
    desk.end([granted.reservation.id], by="user1000")
    desk.close()
    lock.hardlink_to(tmp_path / "kept")
    desk = opened(folder)
    assert desk.reservations() == []
    ended(process)
    desk.close()


def test_a_card_that_is_lost_is_waited_for_and_one_that_is_reserved_stays_so(tmp_path: Path) -> None:
    now: list[Candidate] = list(CARDS)
    desk = opened(tmp_path / "reservations", lambda: now)
    got(desk, asked(cards=("GPU-0",)))
    lost = "is lost or needs a reset"
    now[:] = [replace(card, refusal=lost) for card in CARDS[:2]] + list(CARDS[2:])
    waits = asked(cards=("GPU-1",), uid=1001)
    desk.enter(waits)
    assert desk.attempt(waits.place) == Waiting(position=1, ahead=0, missing=1, reasons={"GPU-1": lost})
    assert len(desk.reservations()) == 1
    now[:] = CARDS
    assert isinstance(desk.attempt(waits.place), Granted)
    desk.close()


def test_an_unresponsive_driver_costs_no_queue_place(tmp_path: Path) -> None:
    answers = True

    def probe() -> Sequence[Candidate]:
        if not answers:
            msg = "no card can be read now: see gua status"
            raise UnavailableError(msg)
        return CARDS

    desk = opened(tmp_path / "reservations", probe)
    process, _ = run(desk, "exec sleep 60", cards=("GPU-0",))
    waits = asked(cards=("GPU-1",), uid=1001)
    desk.enter(waits)
    answers = False
    assert desk.attempt(waits.place) == Waiting(
        position=1, ahead=0, missing=1, trouble="no card can be read now: see gua status"
    )
    ended(process)
    time.sleep(0.3)
    assert len(desk.reservations()) == 1  # what it left on the card cannot be seen: better kept than given twice
    answers = True
    assert isinstance(desk.attempt(waits.place), Granted)
    until(lambda: len(desk.reservations()) == 1)
    desk.close()
