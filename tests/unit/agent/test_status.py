"""What the agent knows of itself: counted as it is reported, read by other threads at the same time."""

from __future__ import annotations

import json
import threading
from typing import Any

import pytest

from fakes.cards import GIB, INTERVAL_MS, START_MS, card, tick
from fakes.clock import FakeClock
from gua.agent.status import Board
from gua.core.errors import UnavailableError
from gua.core.tick import AgentReading, ErrorCount
from gua.spool.stats import SpoolStats


class Spooled:
    """Figures of a spool that a test sets, or the error that it raises instead."""

    def __init__(self) -> None:
        self.figures = SpoolStats(ticks=0, bytes=4096, waiting={"store": 0, "endpoint": 0})
        self.error: UnavailableError | None = None

    def __call__(self) -> SpoolStats:
        if self.error is not None:
            raise self.error
        return self.figures


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock(wall_ms=START_MS)


@pytest.fixture
def spooled() -> Spooled:
    return Spooled()


@pytest.fixture
def board(clock: FakeClock, spooled: Spooled) -> Board:
    return Board(
        pid=4242,
        version="0.1.0",
        host="gpu-1",
        started_ms=START_MS,
        interval_ms=INTERVAL_MS,
        destinations=[("store", "chdb:///data"), ("endpoint", "https://otel.example:4318")],
        clock=clock,
        spool=spooled,
        in_memory=lambda: 7,
    )


def told(board: Board) -> dict[str, Any]:
    return json.loads(json.dumps(board.status()))


def test_an_agent_that_just_began_has_no_tick_and_says_so(board: Board) -> None:
    status = told(board)
    assert status["schema"] == "gua.status/1"
    assert status["agent"] == {
        "pid": 4242,
        "version": "0.1.0",
        "host": "gpu-1",
        "started": "2026-03-25T00:00:00Z",
        "detects_models": False,
        "activity": None,
        "uptime_seconds": 0,
        "interval_seconds": 30,
    }
    assert (status["last_tick"], status["cards"], status["ticks"]) == (None, [], {"made": 0, "skipped": {}})
    assert (status["running"], status["stalled"]) == (True, False)


def test_a_tick_shows_with_its_age_lateness_and_duration(board: Board, clock: FakeClock) -> None:
    board.ticked(
        tick(START_MS, card(), agent=AgentReading(started_ms=START_MS, tick_duration_seconds=0.061)), lateness_ms=4
    )
    clock.advance(12_500)
    status = told(board)
    assert status["last_tick"] == {
        "time": "2026-03-25T00:00:00Z",
        "age_seconds": 12.5,
        "lateness_seconds": 0.004,
        "duration_seconds": 0.061,
        "activity_cards": 0,
    }
    assert status["cards"][0]["sample_age_seconds"] == 12.5


def test_an_agent_without_a_tick_for_two_intervals_is_stalled(board: Board, clock: FakeClock) -> None:
    board.ticked(tick(START_MS, card()), lateness_ms=0)
    clock.advance(2 * INTERVAL_MS)
    assert not told(board)["stalled"]
    clock.advance(1)
    assert told(board)["stalled"]


def test_an_agent_that_never_made_a_tick_is_stalled_after_two_intervals(board: Board, clock: FakeClock) -> None:
    clock.advance(2 * INTERVAL_MS + 1)
    assert told(board)["stalled"]


def test_ages_count_a_suspend_and_do_not_run_back_with_the_clock(board: Board, clock: FakeClock) -> None:
    board.ticked(tick(START_MS, card()), lateness_ms=0)
    clock.wall += 3_600_000  # the monotonic clock stands still in a suspend
    assert told(board)["last_tick"]["age_seconds"] == 3600
    clock.wall = START_MS - 3_600_000
    clock.monotonic += 5_000
    assert told(board)["last_tick"]["age_seconds"] == 5


def test_a_card_that_is_no_longer_read_ages_and_leaves(board: Board, clock: FakeClock) -> None:
    other = card("GPU-2", index=1)
    board.ticked(tick(START_MS, card(), other), lateness_ms=0)
    clock.advance(INTERVAL_MS)
    board.ticked(tick(START_MS + INTERVAL_MS, other), lateness_ms=0)
    assert [one["sample_age_seconds"] for one in told(board)["cards"]] == [30, 0]
    clock.advance(INTERVAL_MS)
    board.ticked(tick(START_MS + 2 * INTERVAL_MS, other), lateness_ms=0)
    assert [one["uuid"] for one in told(board)["cards"]] == ["GPU-2"]


def test_grid_points_without_a_tick_are_counted_by_reason(board: Board) -> None:
    board.skipped("waiting")
    board.skipped("missed", 3)
    board.skipped("waiting")
    assert told(board)["ticks"]["skipped"] == {"missed": 3, "waiting": 2}


def test_a_destination_shows_what_waits_and_how_old_the_oldest_is(
    board: Board, clock: FakeClock, spooled: Spooled
) -> None:
    spooled.figures = SpoolStats(
        ticks=3,
        bytes=9000,
        waiting={"store": 0, "endpoint": 3},
        oldest_ms={"endpoint": START_MS},
        delivered={"store": 5, "endpoint": 0},
        delivered_ms={"store": START_MS + 60_000},
        refused={"store": 1, "endpoint": 0},
    )
    clock.advance(90_000)
    board.failed("endpoint", "connection refused")
    store, endpoint = told(board)["destinations"]
    assert (store["waiting_ticks"], store["lag_seconds"], store["delivered_ticks"]) == (0, 0, 5)
    assert (store["failing"], store["last_delivery"], store["refused_ticks"]) == (False, "2026-03-25T00:01:00Z", 1)
    assert store["last_delivery_age_seconds"] == 30
    assert (endpoint["waiting_ticks"], endpoint["lag_seconds"]) == (3, 90)
    assert (endpoint["failing"], endpoint["last_error"]) == (True, "connection refused")
    assert endpoint["last_delivery"] is None


def test_a_delivery_ends_a_failure_and_the_last_error_stays(board: Board) -> None:
    board.failed("endpoint", "503")
    board.delivered("endpoint")
    one = told(board)["destinations"][1]
    assert (one["failing"], one["last_error"]) == (False, "503")


def test_a_later_delivery_by_another_process_ends_a_failure(board: Board, clock: FakeClock, spooled: Spooled) -> None:
    board.failed("store", "the store is in use")
    for delivered_ms, failing in ((START_MS - 1, True), (START_MS, True), (START_MS + 1, False)):
        spooled.figures = SpoolStats(ticks=0, bytes=0, delivered_ms={"store": delivered_ms})
        clock.advance(1_000)
        assert told(board)["destinations"][0]["failing"] is failing


def test_what_is_not_known_of_the_spool_is_null_and_why_is_a_condition(board: Board, spooled: Spooled) -> None:
    spooled.error = UnavailableError("the disk of the spool is full")
    status = told(board)
    assert status["spool"] == {"ticks": None, "bytes": None, "in_memory_ticks": 7, "dropped_ticks": None}
    assert status["destinations"][0]["waiting_ticks"] is None
    assert status["destinations"][0]["lag_seconds"] is None
    assert status["conditions"] == ["the disk of the spool is full"]


def test_an_unreadable_spool_reports_its_reason_once(board: Board, spooled: Spooled) -> None:
    why = "the spool cannot be used: disk I/O error"
    spooled.error = UnavailableError(why)
    board.note("spool", why)
    assert told(board)["conditions"] == [why]


def test_a_condition_stands_until_it_is_taken_back(board: Board) -> None:
    board.note("disk", "the disk is full")
    board.note("disk", "the disk is still full")
    assert told(board)["conditions"] == ["the disk is still full"]
    board.note("disk", None)
    board.note("disk", None)
    assert told(board)["conditions"] == []


def test_errors_stand_by_how_often_they_happened(board: Board) -> None:
    counts = (ErrorCount(call="a", code="X", count=1), ErrorCount(call="b", code="Y", count=9))
    board.ticked(tick(START_MS, agent=AgentReading(started_ms=START_MS, errors=counts)), lateness_ms=0)
    assert told(board)["errors"] == [{"call": "b", "code": "Y", "count": 9}, {"call": "a", "code": "X", "count": 1}]


def test_many_kinds_of_errors_and_long_words_stay_bounded(board: Board) -> None:
    counts = tuple(ErrorCount(call=f"call{number}", code="X", count=1) for number in range(1000))
    board.ticked(tick(START_MS, agent=AgentReading(started_ms=START_MS, errors=counts)), lateness_ms=0)
    board.failed("store", "x" * 100_000)
    board.note("long", "x" * 100_000)
    assert len(json.dumps(told(board))) < 20_000


def test_it_is_read_while_it_is_written(board: Board) -> None:
    done = threading.Event()
    failed: list[Exception] = []

    def read() -> None:
        while not done.is_set():
            try:
                status = board.status()
                assert len(status["cards"]) in {0, 1, 2}
            except Exception as error:  # noqa: BLE001 - passed to the test
                failed.append(error)
                return

    readers = [threading.Thread(target=read) for _ in range(3)]
    for reader in readers:
        reader.start()
    for number in range(300):
        board.ticked(tick(START_MS + number * INTERVAL_MS, card(f"GPU-{number % 7}", held=GIB)), lateness_ms=0)
        board.skipped(f"reason{number % 5}")
        board.note(f"key{number % 5}", "text" if number % 2 else None)
        board.delivered("store")
    done.set()
    for reader in readers:
        reader.join()
    assert failed == []


def test_without_an_allocation_source_no_source_is_shown(board: Board) -> None:
    board.ticked(tick(START_MS, card()), lateness_ms=0)
    assert told(board)["allocation_sources"] == []


def test_a_source_shows_whether_it_works_and_for_how_long(board: Board, clock: FakeClock) -> None:
    for number in range(4):
        clock.advance(INTERVAL_MS)
        reason = None if number < 2 else f"no answer {number}"
        board.ticked(tick(clock.wall, card(), sources={"files": None, "slurm": reason}), lateness_ms=0)
    clock.advance(1_000)
    assert told(board)["allocation_sources"] == [
        {"source": "files", "ok": True, "reason": None, "since": "2026-03-25T00:00:30Z", "seconds": 91},
        {"source": "slurm", "ok": False, "reason": "no answer 3", "since": "2026-03-25T00:01:30Z", "seconds": 31},
    ]
    clock.advance(INTERVAL_MS)
    board.ticked(tick(clock.wall, card(), sources={"slurm": None}), lateness_ms=0)
    assert [(each["source"], each["ok"], each["seconds"]) for each in told(board)["allocation_sources"]] == [
        ("slurm", True, 0)
    ]


def test_a_reason_without_an_end_is_cut(board: Board) -> None:
    board.ticked(tick(START_MS, card(), sources={"slurm": "x" * 10_000}), lateness_ms=0)
    assert len(told(board)["allocation_sources"][0]["reason"]) == 500
