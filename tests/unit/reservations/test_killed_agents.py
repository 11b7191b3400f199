"""The order of service and each place, at whatever moment an agent is killed or stopped."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import SimpleNamespace

import pytest

from fakes.desks import asked, cards_of_now, ended, got, killed_while_waiting, opened, until
from fakes.sockets import listening
from gua.app import reserving
from gua.app.requester import Requesters
from gua.app.reservations import Reservations
from gua.app.reserving import NoAgentError, reserve
from gua.core.errors import NotNowError, UnavailableError
from gua.local_socket.peer import Lines
from gua.procfs.reader import ProcFs
from gua.reservations.desk import Desk
from gua.reservations.ledger import Ledger
from gua.reservations.model import Candidate, CardRequest, Granted, Waiting
from gua.state.socket_address import peer_credentials


def waiting(desk: Desk, request: CardRequest) -> Waiting:
    answer = desk.attempt(request.place)
    assert isinstance(answer, Waiting)
    return answer


def places(desk: Desk) -> list[str]:
    return [request.place for request in desk.queue()]


def test_with_a_place_those_before_it_are_kept(tmp_path: Path) -> None:
    """The first looks at the cards, which may take long, when the agent is killed; the later ones were made to wait."""
    first = opened(tmp_path / "reservations")
    got(first, asked(4))
    head, second, newest = (asked(1, pid=os.getpid()) for _ in range(3))
    for request in (head, second, newest):
        first.enter(request)
    since = first.queue()[0].requested_ms
    first.keep_place(second)
    first.close()
    again = opened(tmp_path / "reservations")
    assert again.enter(second)
    assert not again.enter(newest)  # no request was behind it
    assert again.enter(head)
    assert places(again) == [head.place, second.place, newest.place]
    assert again.queue()[0].requested_ms == since
    again.close()


def test_a_grant_and_the_end_of_its_place_are_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Else the next agent keeps the place of the owner of cards, and all others wait behind it for a minute."""
    first = opened(tmp_path / "reservations")
    before = got(first, asked(4))
    head, second = asked(4, pid=os.getpid()), asked(1, pid=os.getpid())
    for request in (head, second):
        first.enter(request)
        assert waiting(first, request)
        first.keep_place(request)
    first.end([before.reservation.id], by=None)
    with monkeypatch.context() as killed:  # an agent that does nothing more once the grant was written
        killed.setattr(Ledger, "dequeue", lambda *_: None)
        assert isinstance(first.attempt(head.place), Granted)
    first.close()
    again = opened(tmp_path / "reservations")
    assert again.granted_before(head) is not None
    assert places(again) == [second.place]
    again.close()


def test_a_queue_place_whose_requester_has_ended_is_removed_at_once(tmp_path: Path) -> None:
    process = subprocess.Popen(["sleep", "600"])
    head, second = asked(4, pid=process.pid), asked(1, pid=os.getpid())
    killed_while_waiting(tmp_path / "reservations", head, second)
    again = opened(tmp_path / "reservations")
    assert places(again) == [head.place, second.place]
    ended(process)  # after the next agent read which processes live, and before its request to that one
    until(lambda: places(again) == [second.place], seconds=30)  # the minute of its place is not over
    again.close()


@contextmanager
def conversation(
    desk: Desk, cards: Callable[[], Sequence[Candidate]] = cards_of_now
) -> Iterator[tuple[socket.socket, list[Exception]]]:
    """Query the agent's end in a thread, for all cards by hand; return the other end, and the error that it reports."""
    here, there = socket.socketpair()
    raised: list[Exception] = []
    asks = Reservations(desk, cards=cards, requesters=Requesters(ProcFs(), str)).conversations()["reserve"]
    request = {"kind": "manual", "count": 4, "place": "mine"}

    def serve() -> None:
        with there:
            try:
                asks(there, peer_credentials(there), request, Lines(there, longest_bytes=4096))
            except Exception as error:  # noqa: BLE001 - the error that they get
                raised.append(error)

    thread = threading.Thread(target=serve)
    thread.start()
    with here:
        yield here, raised
    thread.join(60)
    assert not thread.is_alive()


def line(connection: socket.socket) -> dict[str, object] | None:
    return Lines(connection, longest_bytes=2**20).object(deadline=time.monotonic() + 60)


def test_a_request_that_must_wait_as_the_agent_stops_gets_no_answer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    desk = opened(tmp_path / "reservations")
    got(desk, asked(4))
    keep_place = desk.keep_place

    def late(request: CardRequest) -> None:
        desk.close()  # between the look at the cards and this
        keep_place(request)

    monkeypatch.setattr(desk, "keep_place", late)
    with conversation(desk) as (connection, raised):
        assert line(connection) is None
    assert raised == []


def test_a_request_that_cannot_be_stored_is_refused_with_the_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    desk = opened(tmp_path / "reservations")
    got(desk, asked(4))

    def full(*_: object) -> None:
        msg = "the disk is full"
        raise UnavailableError(msg)

    monkeypatch.setattr(Ledger, "enqueue", full)
    with conversation(desk) as (connection, raised):
        assert line(connection) is None
    assert [str(error) for error in raised] == ["the disk is full"]
    assert desk.queue() == []
    desk.close()


def test_a_grant_cancelled_before_its_confirmation_is_not_confirmed(tmp_path: Path) -> None:
    """A client that gave up a slow agent repeats its request, and gets the grant that the first answer then cancels."""
    desk = opened(tmp_path / "reservations")
    with conversation(desk) as (connection, raised):
        granted = line(connection)
        assert granted is not None
        (held,) = desk.reservations()
        desk.cancel(Granted(reservation=held, lifeline=None, indices=()))
        connection.sendall(b'{"got":true}\n')
        assert line(connection) is None
    assert raised == []
    desk.close()


class Driver:
    """A driver that can be away."""

    def __init__(self) -> None:
        self.is_away = True

    def __call__(self) -> Sequence[Candidate]:
        if self.is_away:
            msg = "the driver is not loaded"
            raise UnavailableError(msg)
        return cards_of_now()


def test_a_requester_that_returns_while_the_cards_are_unreadable_keeps_its_place(tmp_path: Path) -> None:
    head, second = asked(4, uid=os.geteuid(), place="mine"), asked(1)
    killed_while_waiting(tmp_path / "reservations", head, second)
    driver = Driver()
    again = opened(tmp_path / "reservations", driver)
    with conversation(again, driver) as (connection, raised):
        waiting = line(connection)
        assert waiting is not None
        assert waiting["waiting"] == {
            "place": "mine",
            "position": 1,
            "ahead": 0,
            "missing": 4,
            "next_end_ms": None,
            "reasons": {},
            "idle_since_ms": {},
            "trouble": "the driver is not loaded",
        }
        assert places(again) == ["mine", second.place]
    with conversation(again, driver) as (connection, raised):  # a newcomer gets the error at once
        assert line(connection) is None
    assert [str(error) for error in raised] == ["the driver is not loaded"]
    again.close()


def test_a_requester_that_returns_for_its_grant_while_the_cards_are_unreadable_gets_that_grant(tmp_path: Path) -> None:
    first = opened(tmp_path / "reservations")
    granted = got(first, asked(2, uid=os.geteuid(), place="mine", pid=os.getpid()))
    first.close()
    driver = Driver()
    again = opened(tmp_path / "reservations", driver)
    with conversation(again, driver) as (connection, raised):
        assert line(connection) is None  # so they send the request again
    assert (raised, again.queue(), len(again.reservations())) == ([], [], 1)
    driver.is_away = False
    with conversation(again, driver) as (connection, raised):
        answer = line(connection)
        assert answer is not None
        assert isinstance(answer["granted"], dict)
        assert answer["granted"]["id"] == granted.reservation.id
        connection.sendall(b'{"got":true}\n')
        assert line(connection) == {"kept": True}
    again.close()


class Agents:
    """What listens at a socket, one answer after the other: each gets the request and the connection."""

    def __init__(self, path: Path, *answers: Callable[[socket.socket], None]) -> None:
        self.path = path
        self.asked: list[dict[str, object]] = []
        self._listening = ExitStack()
        self._listener = self._listening.enter_context(listening(path))
        self._answers = answers
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def _serve(self) -> None:
        with self._listening:  # once all have answered there is no listener
            for answer in self._answers:
                connection, _ = self._listener.accept()
                with connection:
                    request = line(connection)
                    assert request is not None
                    self.asked.append(request)
                    answer(connection)

    def close(self) -> None:
        self._thread.join(60)
        assert not self._thread.is_alive()


def says(**message: object) -> Callable[[socket.socket], None]:
    return lambda connection: connection.sendall(json.dumps(message).encode() + b"\n")


@pytest.fixture
def passed(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The client's clock: its time is the sum of these, to which its pauses of half a second come."""
    passed: list[float] = []
    clock = SimpleNamespace(monotonic=lambda: sum(passed), sleep=passed.append)
    monkeypatch.setattr(reserving, "time", clock)
    return passed


def gives(connection: socket.socket) -> None:
    says(granted={"id": "a", "cards": ["GPU-0"], "gpus": [0]})(connection)
    assert line(connection) == {"got": True}
    says(kept=True)(connection)


def test_the_minute_of_a_place_begins_when_the_agent_went_however_long_it_was_silent(
    tmp_path: Path, passed: list[float]
) -> None:
    printed: list[str] = []

    def waits(connection: socket.socket) -> None:
        says(waiting={"ahead": 1})(connection)
        until(lambda: printed)
        passed.append(3600)

    agents = Agents(tmp_path / "agent.sock", waits, gives)
    assert reserve([agents.path], {"kind": "manual", "count": 1}, progress=printed.append).gpus == "0"
    agents.close()
    assert printed == ["waiting: 1 request is before yours"]


def test_a_client_without_an_answer_waits_a_minute_for_an_agent_that_only_ends(
    tmp_path: Path, passed: list[float]
) -> None:
    def ends(_: socket.socket) -> None:
        passed.append(40)

    # The first may have ended before the client looked at its clock.
    agents = Agents(tmp_path / "agent.sock", ends, ends)
    with pytest.raises(NoAgentError, match="went away while you waited"):
        reserve([agents.path], {"kind": "manual", "count": 1}, progress=print)
    agents.close()
    assert 60 < sum(passed) < 110


def test_a_wait_is_as_long_as_it_was_to_be_however_many_agents_it_sees(tmp_path: Path, passed: list[float]) -> None:
    printed: list[str] = []

    def waits(connection: socket.socket) -> None:
        before = len(printed)
        says(waiting={"ahead": before + 1})(connection)
        until(lambda: len(printed) > before)
        passed.append(240)

    def over(connection: socket.socket) -> None:
        says(error="no cards now", exit_code=75)(connection)

    agents = Agents(tmp_path / "agent.sock", waits, waits, waits, over)
    with pytest.raises(NotNowError):
        reserve([agents.path], {"kind": "run", "count": 1, "wait_ms": 600_000}, progress=printed.append)
    agents.close()
    assert [request["wait_ms"] for request in agents.asked] == [600_000, 359_500, 119_000, 0]
    assert len({request["place"] for request in agents.asked}) == 1
