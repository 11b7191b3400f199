"""Handles of one engine, lent to threads."""

from __future__ import annotations

import threading
import time
from contextlib import ExitStack
from typing import Any, cast

import pytest

from gua.core.errors import UnavailableError
from gua.store.engine import ALONE, Handles


class Handle:
    """What Handles knows of a client: that it is closed in the end."""

    def __init__(self) -> None:
        self.is_closed = False

    def close(self) -> None:
        self.is_closed = True


def handles(*, most: int) -> tuple[Handles, list[Handle]]:
    made = [Handle()]

    def another() -> Any:  # noqa: ANN401 - stands for the vendor's client
        made.append(Handle())
        return made[-1]

    return Handles(cast("Any", made[0]), another, most=most), made


def test_sequential_callers_get_the_same_handle() -> None:
    lending, made = handles(most=4)
    for _ in range(3):
        with lending.lent():
            pass
    assert len(made) == 1


def test_concurrent_callers_get_their_own_handles_up_to_the_maximum() -> None:
    lending, made = handles(most=2)
    waited = threading.Event()
    with ExitStack() as held:
        first = held.enter_context(lending.lent())
        second = held.enter_context(lending.lent())
        assert first is not second

        def third() -> None:
            with lending.lent():
                waited.set()

        thread = threading.Thread(target=third)
        thread.start()
        assert not waited.wait(0.05)
    thread.join(60)
    assert waited.is_set()
    assert len(made) == 2


def test_the_lowest_turn_of_those_who_wait_comes_first() -> None:
    lending, made = handles(most=1)
    order: list[int] = []

    def borrow(turn: int) -> None:
        with lending.lent(turn):
            order.append(turn)

    threads = [threading.Thread(target=borrow, args=(turn,)) for turn in (3, 2, 0, 4, 1)]
    with lending.lent():
        for thread in threads:
            thread.start()
        while len(lending._waiting) < len(threads):  # noqa: SLF001 - nothing shows when a thread has begun to wait
            time.sleep(0.001)
    for thread in threads:
        thread.join(60)
    assert order == [0, 1, 2, 3, 4]
    assert len(made) == 1


def test_who_has_a_later_turn_gets_the_other_handle_at_once() -> None:
    lending, _ = handles(most=2)
    both = threading.Barrier(2)

    def borrow(turn: int) -> None:
        with lending.lent(turn):
            both.wait(timeout=60)  # two at a time, or none gets on

    threads = [threading.Thread(target=borrow, args=(turn,)) for turn in (2, 1)]
    with lending.lent(ALONE):
        for waiting, thread in enumerate(threads, 1):
            thread.start()
            while len(lending._waiting) < waiting:  # noqa: SLF001 - as above
                time.sleep(0.001)
    for thread in threads:
        thread.join(60)
    assert not both.broken


def test_an_exclusive_caller_waits_for_all_and_blocks_later_ones() -> None:
    lending, _ = handles(most=3)
    order: list[str] = []

    def alone() -> None:
        with lending.lent(ALONE):
            order.append("alone")
            time.sleep(0.05)
            order.append("alone no more")

    def after() -> None:
        with lending.lent():
            order.append("after")

    threads = [threading.Thread(target=alone), threading.Thread(target=after)]
    with lending.lent():
        threads[0].start()
        while lending._waiting != [-1]:  # noqa: SLF001 - nothing shows when a thread has begun to wait
            time.sleep(0.001)
        threads[1].start()
        time.sleep(0.02)
        order.append("before")
    for thread in threads:
        thread.join(60)
    assert order == ["before", "alone", "alone no more", "after"]


def test_a_handle_that_cannot_be_opened_leaves_its_place_to_others() -> None:
    def refuse() -> Any:  # noqa: ANN401 - as above
        msg = "no more"
        raise UnavailableError(msg)

    lending = Handles(cast("Any", Handle()), refuse, most=2)
    with lending.lent():
        for _ in range(3):
            with pytest.raises(UnavailableError, match="no more"), lending.lent():
                pass
    with lending.lent(ALONE):
        pass


def test_closing_waits_for_running_callers_closes_all_handles_and_refuses_later_callers() -> None:
    lending, made = handles(most=2)
    with ExitStack() as held:
        held.enter_context(lending.lent())
        held.enter_context(lending.lent())
        thread = threading.Thread(target=lending.close)
        thread.start()
        thread.join(0.05)
        assert thread.is_alive()
        assert not any(handle.is_closed for handle in made)
    thread.join(60)
    assert [handle.is_closed for handle in made] == [True, True]
    with pytest.raises(UnavailableError, match="closed"), lending.lent():
        pass
    with pytest.raises(UnavailableError, match="closed"), lending.lent(ALONE):
        pass
