"""What other tools that give out cards are known to do wrong: none of it happens here.

Other cases: an exec that fails, sudo, children that outlive the leader, CUDA's order and
USER are in tests/agent; newcomers and who notices an end in test_desk.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from fakes.desks import CARDS, asked, cards_of_now, ended, got, opened, run, until
from gua.app.reserving import Grant, environment
from gua.core.errors import UnavailableError
from gua.reservations.ledger import Ledger, TakenError
from gua.reservations.model import Candidate, Ending, Granted, Kind, Reservation, Waiting


def test_cards_that_expire_while_somebody_waits_are_given_once_and_whole(tmp_path: Path) -> None:
    boot = 1_000.0
    desk = opened(tmp_path / "reservations", boot_seconds=lambda: boot)
    got(desk, asked(3, for_ms=300))
    head, next_one = asked(2, uid=1001), asked(3, uid=1002)
    for request in (head, next_one):
        desk.enter(request)
        assert isinstance(desk.attempt(request.place), Waiting)
    # The one free card is not given until all can be given: the truth has the three of the first and no other.
    assert [len(each.cards) for each in desk.reservations()] == [3]
    boot += 1
    until(lambda: not desk.reservations())
    first, second = desk.attempt(head.place), desk.attempt(next_one.place)
    assert isinstance(first, Granted)
    assert isinstance(second, Waiting)
    desk.end([first.reservation.id], by=None)
    third = desk.attempt(next_one.place)
    assert isinstance(third, Granted)
    desk.close()


def test_the_truth_refuses_a_card_that_somebody_has(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "reservations.db")
    one = Reservation(id="a", uid=1, owner="a", kind=Kind.MANUAL, cards=("GPU-0", "GPU-1"), requested_ms=1, since_ms=1)
    ledger.grant(one)
    with pytest.raises(TakenError):
        ledger.grant(replace(one, id="b", cards=("GPU-2", "GPU-1")))
    assert [each.id for each in ledger.open_ones()] == ["a"]  # nothing of the other was kept, not even GPU-2
    ledger.write(replace(one, ended_ms=2, ending=Ending.RELEASED))
    ledger.grant(replace(one, id="b", cards=("GPU-2", "GPU-1")))
    ledger.close()


def test_a_request_for_named_cards_lists_reasons_for_these_only(tmp_path: Path) -> None:
    desk = opened(tmp_path / "reservations")
    got(desk, asked(cards=("GPU-0", "GPU-1", "GPU-3")))
    named = asked(cards=("GPU-1", "GPU-2"), uid=1001)
    desk.enter(named)
    assert desk.attempt(named.place) == Waiting(
        position=1, ahead=0, missing=1, reasons={"GPU-1": "reserved by user1000"}
    )
    desk.close()


def test_a_driver_that_takes_its_time_gives_no_card_twice(tmp_path: Path) -> None:
    def slow() -> Sequence[Candidate]:
        time.sleep(0.3)
        return CARDS

    desk = opened(tmp_path / "reservations", slow)
    answers: list[object] = []

    def request_cards(uid: int) -> None:
        request = asked(cards=("GPU-0",), uid=uid)
        desk.enter(request)
        answers.append(desk.attempt(request.place))

    threads = [threading.Thread(target=request_cards, args=(uid,)) for uid in (1, 2, 3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert sorted(type(answer).__name__ for answer in answers) == ["Granted", "Waiting", "Waiting"]
    assert len(desk.reservations()) == 1
    desk.close()


def test_the_end_of_a_command_whose_card_was_given_back_ends_no_later_reservation(tmp_path: Path) -> None:
    logs: list[str] = []
    desk = opened(tmp_path / "reservations", log=logs.append)
    process, first = run(desk, "exec sleep 60", cards=("GPU-1",))
    desk.end([first.reservation.id], by="root")
    second = got(desk, asked(cards=("GPU-1",), uid=1001))
    ended(process)
    time.sleep(0.5)
    assert [each.id for each in desk.reservations()] == [second.reservation.id]
    # Nothing of it is silent: the history and the log have who ended it, its owner and the card.
    history = {each.id: each for each in desk.since(0)}
    assert history[first.reservation.id].ending is Ending.RELEASED
    assert history[first.reservation.id].ended_by == "root"
    assert [line for line in logs if "user1000 (GPU-1) ended: released by root" in line]
    desk.close()


def test_another_user_on_a_just_granted_card_is_reported_and_the_grant_stays(tmp_path: Path) -> None:
    """The card was free when it was given; a user without a reservation is on it a moment later."""
    now = list(CARDS)
    logs: list[str] = []
    desk = opened(tmp_path / "reservations", lambda: now, log=logs.append)
    granted = got(desk, asked(cards=("GPU-0", "GPU-1")))
    mine, other = frozenset({1000}), frozenset({1007})
    now[0] = replace(now[0], uids=other, held_by="bob (python 0.9 GiB)", refusal="is held by bob")
    now[1] = replace(now[1], uids=mine, held_by="user1000 (python)", refusal="is held by user1000")
    until(desk.raced)
    assert desk.raced() == {granted.reservation.id: "GPU 0: bob (python 0.9 GiB)"}
    assert logs == ["a second after user1000 was given cards, others were on them, too: GPU 0: bob (python 0.9 GiB)"]
    assert len(desk.reservations()) == 1
    desk.close()


def test_a_card_keeps_its_reservation_where_the_order_of_cards_changes(tmp_path: Path) -> None:
    now = list(CARDS)
    desk = opened(tmp_path / "reservations", lambda: now)
    got(desk, asked(cards=("GPU-2",)))
    now[:] = [replace(card, index=card.index - 1) for card in CARDS if card.uuid != "GPU-0"]  # one is lost
    request = asked(cards=("GPU-2",), uid=1001)
    desk.enter(request)
    assert desk.attempt(request.place) == Waiting(
        position=1, ahead=0, missing=1, reasons={"GPU-2": "reserved by user1000"}
    )
    desk.leave(request.place)
    assert got(desk, asked(cards=("GPU-3",), uid=1001)).indices == (2,)
    desk.close()


def test_an_instance_is_a_card_of_its_own_and_is_named_by_its_uuid(tmp_path: Path) -> None:
    gpu, instance = Candidate(uuid="GPU-9", index=4, whole=False, refusal="is partitioned"), "MIG-a"
    cards = [*CARDS, gpu, Candidate(uuid=instance, index=5, whole=False, parent="GPU-9")]
    desk = opened(tmp_path / "reservations", lambda: cards)
    logs = got(desk, asked(cards=(instance,))).reservation
    grant = Grant(reservation={"id": logs.id, "cards": list(logs.cards), "gpus": [5]}, lifeline=None)
    made = environment(grant, {}, by_uuid=False)
    assert (made["CUDA_VISIBLE_DEVICES"], made["CUDA_DEVICE_ORDER"]) == (instance, "PCI_BUS_ID")
    desk.close()


def test_the_owner_of_a_gpu_has_its_instances_however_it_was_partitioned_since(tmp_path: Path) -> None:
    now = list(CARDS)
    desk = opened(tmp_path / "reservations", lambda: now)
    whole = got(desk, asked(cards=("GPU-0",)))
    partitioned = replace(CARDS[0], whole=False, refusal="is partitioned: name one of its instances")
    parts = [
        Candidate(uuid=f"MIG-{name}", index=7 + place, whole=False, parent="GPU-0") for place, name in enumerate("ab")
    ]
    now[:] = [partitioned, *CARDS[1:], *parts]
    request = asked(cards=("MIG-a",), uid=1001)
    desk.enter(request)
    answer = desk.attempt(request.place)
    assert isinstance(answer, Waiting)
    assert answer.reasons["MIG-a"] == "reserved by user1000"
    desk.end([whole.reservation.id], by=None)
    part = desk.attempt(request.place)
    assert isinstance(part, Granted)
    assert part.reservation.parents == ("GPU-0",)
    got(desk, asked(cards=("MIG-b",), uid=1002))  # the other instance is free
    now[:] = CARDS  # and whole again, while both instances are reserved
    desk.close()
    again = opened(tmp_path / "reservations", cards_of_now)
    four = asked(4, uid=1003)
    again.enter(four)
    answer = again.attempt(four.place)
    assert isinstance(answer, Waiting)
    assert answer.reasons == {"GPU-0": "in part reserved by user1001, user1002"}
    again.close()


def test_a_grant_that_cannot_be_kept_gives_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    desk = opened(tmp_path / "reservations")

    def taken(_: Ledger, reservation: Reservation) -> None:
        raise TakenError(reservation.id)

    request = asked(kind=Kind.RUN)
    desk.enter(request)
    with monkeypatch.context() as broken:
        broken.setattr(Ledger, "grant", taken)
        with pytest.raises(UnavailableError, match="at the same time"):
            desk.attempt(request.place)
    assert list((tmp_path / "reservations" / "locks").iterdir()) == []
    assert isinstance(desk.attempt(request.place), Granted)
    desk.close()
