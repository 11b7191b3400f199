"""The desk: strict order, no card twice, and the end of a command seen by its lock and its leader."""

from __future__ import annotations

import os
import signal
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from fakes.desks import asked, ended, got, keep_places, killed_while_waiting, opened, run, until
from gua.core.errors import UnavailableError
from gua.reservations import desk as of_desk
from gua.reservations import watch
from gua.reservations.desk import Desk
from gua.reservations.model import Ending, Granted, Kind, Refused, Waiting


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Desk]:
    made = opened(tmp_path / "reservations")
    yield made
    made.close()


def test_cards_are_given_in_order_and_never_twice(desk: Desk) -> None:
    assert got(desk, asked(3)).reservation.cards == ("GPU-0", "GPU-1", "GPU-2")
    second = asked(2, uid=1001)
    desk.enter(second)
    assert desk.attempt(second.place) == Waiting(
        position=1, ahead=0, missing=1, reasons={f"GPU-{card}": "reserved by user1000" for card in range(3)}
    )
    newcomer = asked(1, uid=1002)
    desk.enter(newcomer)
    # A card is free, and is kept for who came first.
    assert desk.attempt(newcomer.place) == Waiting(position=2, ahead=1)
    desk.leave(second.place)
    granted = desk.attempt(newcomer.place)
    assert isinstance(granted, Granted)
    assert granted.reservation.cards == ("GPU-3",)


def test_a_request_for_more_gpus_than_the_host_has_does_not_wait(desk: Desk) -> None:
    request = asked(5)
    desk.enter(request)
    refused = desk.attempt(request.place)
    assert isinstance(refused, Refused)
    assert refused.never == "this host has 4 GPUs that can be given, not 5"


def test_a_manual_reservation_ends_at_its_time(desk: Desk) -> None:
    got(desk, asked(for_ms=300))
    until(lambda: not desk.reservations())
    (over,) = desk.since(0)
    assert over.ending is Ending.EXPIRED
    assert over.ended_ms is not None
    assert over.ended_ms - over.since_ms >= 300  # and without a request for it


def test_it_can_be_extended_and_released(tmp_path: Path) -> None:
    boot = 1_000.0
    desk = opened(tmp_path / "reservations", boot_seconds=lambda: boot)
    granted = got(desk, asked(for_ms=200))
    desk.extend(granted.reservation.id, granted.reservation.since_ms + 60_000)
    boot += 1
    time.sleep(0.4)
    assert len(desk.reservations()) == 1
    assert [each.id for each in desk.end([granted.reservation.id, "nobody"], by="user1000")] == [granted.reservation.id]
    assert desk.since(0)[0].ended_by == "user1000"
    desk.close()


def test_the_end_of_a_command_frees_its_card_at_once(desk: Desk) -> None:
    process, _ = run(desk, "exec sleep 60")
    time.sleep(0.3)
    assert len(desk.reservations()) == 1
    process.kill()
    process.wait()
    until(lambda: not desk.reservations())
    assert desk.since(0)[0].ending is Ending.COMMAND


def test_what_a_command_leaves_behind_keeps_the_card_until_it_ends(desk: Desk, tmp_path: Path) -> None:
    stop = tmp_path / "stop"
    process, _ = run(desk, f"(until test -e {stop}; do sleep 0.05; done) & exit 0")
    assert process.wait() == 0
    time.sleep(0.3)
    assert len(desk.reservations()) == 1
    stop.touch()
    until(lambda: not desk.reservations())


def test_a_leader_whose_children_closed_all_keeps_the_card(desk: Desk) -> None:
    process, _ = run(desk, 'for fd in 3 4 5 6 7 8 9; do eval "exec $fd>&-"; done; sleep 60')
    time.sleep(0.5)
    assert len(desk.reservations()) == 1
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    until(lambda: not desk.reservations())


def test_a_daemon_without_use_for_the_card_loses_it(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watch, "ORPHAN_SECONDS", 0.5)
    process, _ = run(desk, "(sleep 60) & exit 0")
    process.wait()
    until(lambda: not desk.reservations())
    assert desk.since(0)[0].ending is Ending.ORPHANED


def test_the_next_agent_finds_what_was_reserved(tmp_path: Path) -> None:
    first = opened(tmp_path / "reservations")
    process, granted = run(first, "exec sleep 60")
    other, _ = run(first, "exec sleep 60")
    got(first, asked(for_ms=60_000))
    waiting = asked(3)
    keep_places(first, waiting)
    first.close()
    ended(other)
    second = opened(tmp_path / "reservations")
    until(lambda: len(second.reservations()) == 2)
    assert second.reservations()[0].id == granted.reservation.id
    newcomer = asked(1)
    second.enter(newcomer)
    assert second.attempt(newcomer.place) == Waiting(position=2, ahead=1)
    assert second.enter(waiting)
    with pytest.raises(UnavailableError):
        second.enter(asked(1, place=waiting.place))
    process.kill()
    process.wait()
    until(lambda: len(second.reservations()) == 1)
    second.close()


def test_the_queue_place_of_an_ended_requester_is_removed_by_the_next_agent(tmp_path: Path) -> None:
    waits = subprocess.Popen(["sleep", "60"])
    head, second = asked(4, pid=waits.pid), asked(4, pid=os.getpid())
    killed_while_waiting(tmp_path / "reservations", head, second)
    ended(waits)
    again = opened(tmp_path / "reservations")
    assert [request.place for request in again.queue()] == [second.place]
    again.close()


def test_the_next_agent_serves_in_the_order_of_requests_not_of_writing(tmp_path: Path) -> None:
    first = opened(tmp_path / "reservations")
    got(first, asked(4))
    early, middle, late = asked(4), asked(4), asked(4)
    for request in (early, middle, late):
        first.enter(request)
    for request in (late, early):  # two threads of the agent, which was killed before the third wrote
        first.keep_place(request)
    first.close()
    for _ in range(2):
        again = opened(tmp_path / "reservations")
        newcomer = asked(1)
        again.enter(newcomer)
        assert [request.place for request in again.queue()] == [early.place, middle.place, late.place, newcomer.place]
        again.close()


def test_a_place_is_kept_for_a_minute_however_often_the_agent_is_started_anew(tmp_path: Path) -> None:
    boot = 1_000.0
    clock = {"boot_seconds": lambda: boot}
    stays, stopped = asked(1, pid=os.getpid()), asked(1, pid=os.getpid())
    killed_while_waiting(tmp_path / "reservations", stopped, stays, **clock)
    for _ in range(4):
        again = opened(tmp_path / "reservations", **clock)
        assert again.enter(stays)
        assert [request.place for request in again.queue()] == [stopped.place, stays.place]
        boot += 14.9  # it is killed before the minute of its own is over
        again.close()
    boot += 1
    again = opened(tmp_path / "reservations", **clock)
    until(lambda: [request.place for request in again.queue()] == [stays.place])
    again.close()


@pytest.mark.parametrize("kind", list(Kind))
def test_a_grant_that_a_killed_agent_did_not_announce_is_handed_over_by_the_next(tmp_path: Path, kind: Kind) -> None:
    first = opened(tmp_path / "reservations")
    request = asked(4, kind=kind, pid=os.getpid())
    granted = got(first, request)
    if granted.lifeline is not None:
        os.close(granted.lifeline)  # with the agent
    first.close()
    second = opened(tmp_path / "reservations")
    time.sleep(0.3)
    another = asked(1, uid=1001, place=request.place, kind=kind, pid=os.getpid())
    assert second.granted_before(another) is None  # it is not theirs
    again = second.granted_before(request)
    assert again is not None
    assert (again.reservation.id, again.indices) == (granted.reservation.id, (0, 1, 2, 3))
    assert (again.lifeline is None) == (kind is Kind.MANUAL)
    second.handed_over(again)
    once_more = second.granted_before(request)  # by hand the answer may be lost, for a command the lock shows it
    assert (once_more is None) == (kind is Kind.RUN)
    assert len(second.reservations()) == 1
    second.close()
    if again.lifeline is not None:
        os.close(again.lifeline)


@pytest.mark.parametrize("kind", list(Kind))
def test_an_unannounced_grant_ends_with_its_requester(tmp_path: Path, kind: Kind) -> None:
    asks = subprocess.Popen(["sleep", "60"])
    killed_before_its_answer(tmp_path, kind, asks.pid)
    ended(asks)
    second = opened(tmp_path / "reservations")
    until(lambda: not second.reservations())
    second.close()


@pytest.mark.parametrize("kind", list(Kind))
def test_a_living_command_keeps_its_cards_if_its_requester_does_not_come_back(
    tmp_path: Path, kind: Kind, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It knows, as a client without an answer repeats its request or ends; and it may have closed every descriptor."""
    command = subprocess.Popen(["sleep", "60"])
    killed_before_its_answer(tmp_path, kind, command.pid)
    monkeypatch.setattr(of_desk, "PLACE_SECONDS", 0.2)
    second = opened(tmp_path / "reservations")
    if kind is Kind.RUN:
        until(lambda: second.reservations()[0].handed_over)
        second.close()
        second = opened(tmp_path / "reservations")  # which knows it from the start
        assert second.reservations()[0].handed_over
        ended(command)
    until(lambda: not second.reservations())
    assert second.since(0)[0].ending is (Ending.COMMAND if kind is Kind.RUN else Ending.CANCELLED)
    second.close()
    ended(command)


def killed_before_its_answer(tmp_path: Path, kind: Kind, pid: int) -> None:
    first = opened(tmp_path / "reservations")
    granted = got(first, asked(1, kind=kind, pid=pid))
    if granted.lifeline is not None:
        os.close(granted.lifeline)
    first.close()


def test_a_lock_that_is_held_is_known_to_be_handed_over_by_later_agents(tmp_path: Path) -> None:
    first = opened(tmp_path / "reservations")
    process, _ = run(first, "exec sleep 60")
    first.close()
    second = opened(tmp_path / "reservations")
    until(lambda: second.reservations()[0].handed_over)
    second.close()
    third = opened(tmp_path / "reservations")
    assert third.reservations()[0].handed_over
    ended(process)
    until(lambda: not third.reservations())
    third.close()


def test_a_damaged_truth_is_set_aside_and_those_that_live_go_on(tmp_path: Path) -> None:
    first = opened(tmp_path / "reservations")
    process, granted = run(first, "exec sleep 60")
    first.close()
    for path in (tmp_path / "reservations").glob("reservations.db*"):
        path.write_bytes(b"nonsense " * 1000)
    logged: list[str] = []
    second = opened(tmp_path / "reservations", log=logged.append)
    assert [each.id for each in second.reservations()] == [granted.reservation.id]
    assert "damaged" in logged[0]
    process.kill()
    process.wait()
    until(lambda: not second.reservations())
    second.close()


def test_many_at_once_are_served_in_order_and_no_card_is_given_twice(desk: Desk) -> None:
    holders: dict[str, str] = {}
    faults: list[str] = []
    lock = threading.Lock()

    def live(number: int) -> None:
        for _ in range(10):
            request = asked(1 + number % 3, uid=1000 + number)
            desk.enter(request)
            while not isinstance(answer := desk.attempt(request.place), Granted):
                desk.wait(1)
            cards = answer.reservation.cards
            with lock:
                faults.extend(card for card in cards if card in holders)
                holders.update(dict.fromkeys(cards, request.place))
            time.sleep(0.002)
            with lock:
                for card in cards:
                    del holders[card]
            desk.end([answer.reservation.id], by=None)

    threads = [threading.Thread(target=live, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert faults == []
    assert len(desk.since(0)) == 80
    assert desk.reservations() == []
