"""What to do now, from rows as the views give them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from fakes.store import HOUR_MS, UNTIL_MS, card, extent, whole
from gua.report.allocations import ALLOCATION_NAMES, ALLOCATIONS
from gua.report.costs import Cost
from gua.report.kit.fields import filled
from gua.report.model import Card, Extent, Window
from gua.report.prices import Price, Prices
from gua.report.rows import OVERVIEW
from gua.report.sections.card_streaks import CARD_STREAKS
from gua.report.sections.now_rows import HOLDERS, Now, now_of

TICK_MS = 30_000
MINUTE_MS = 60_000
PRICES = Prices(
    (
        Price("H100", "EUR", 2.4, 0, None, UNTIL_MS - 2 * HOUR_MS),
        Price("H100", "EUR", 9.9, UNTIL_MS - 2 * HOUR_MS, None, UNTIL_MS - HOUR_MS),
        Price("H100", "USD", 1.2, UNTIL_MS - HOUR_MS, None, None),
    )
)
WINDOW = Window(since_ms=UNTIL_MS - 24 * HOUR_MS, until_ms=UNTIL_MS, timezone="UTC")


def streak(state: str, *, as_of_ms: int = UNTIL_MS, gpu: str = "GPU-a", **values: object) -> dict[str, Any]:
    """Return a row of ``card_streaks``: so for an hour."""
    return {
        "host": "node-1",
        "gpu": gpu,
        "state": state,
        "as_of_ms": as_of_ms,
        "newest_span_ms": TICK_MS,
        "since_ms": as_of_ms - HOUR_MS,
        "in_state_ms": HOUR_MS,
        "in_state_us": HOUR_MS * 1000,
        "is_lower_bound": False,
        "watched_since_ms": as_of_ms - 24 * HOUR_MS,
        "free_ratio_at_this_hour": 0.5,
        **values,
    }


def process(
    last_ms: int,
    *,
    pid: int = 7,
    gpu: str = "GPU-a",
    created_ms: int = 0,
    known_before_ms: int = 0,
    first_ms: int | None = None,
    idle_since_ms: int | None = None,
) -> tuple[object, ...]:
    """Return a holder as ``who`` lists it, idle for ten minutes."""
    identity = ("ana", "train", None, None, "42", None)
    since_ms = last_ms - 600_000 if idle_since_ms is None else idle_since_ms
    idle = (True, 2**30, since_ms, 600_000, TICK_MS, known_before_ms, since_ms if first_ms is None else first_ms, 0)
    return (
        "node-1",
        gpu,
        pid,
        created_ms,
        identity,
        last_ms,
        *idle,
        600_000_000,
        2**20 * 600_000,
        600_000,
        ((1, 150_000_000), (2, 0), (3, 300_000_000)),
    )


def told(
    rows: list[dict[str, Any]],
    *processes: tuple[object, ...],
    allocations: Sequence[Mapping[str, object]] = (),
    names: Sequence[Mapping[str, object]] = (),
    **of_card: object,
) -> Now:
    cards = [card("node-1", row["gpu"], (0.0, 24.0, 0.0, 0.0), **of_card) for row in rows]
    return now_of(
        CARD_STREAKS.parsed(whole(CARD_STREAKS, row) for row in rows),
        HOLDERS.parsed(dict(zip(HOLDERS.columns, one, strict=True)) for one in processes),
        ALLOCATIONS.parsed(whole(ALLOCATIONS, {"host": "node-1", "is_total": False, **row}) for row in allocations),
        ALLOCATION_NAMES.parsed(whole(ALLOCATION_NAMES, {"host": "node-1", **row}) for row in names),
        cards=[
            filled(Card, row, states=row.state_times) for row in OVERVIEW.parsed(whole(OVERVIEW, row) for row in cards)
        ],
        extents=[Extent(**extent("node-1", interval_ms=TICK_MS))],
        window=WINDOW,
        now_ms=UNTIL_MS,
        prices=PRICES,
    )


def test_what_a_holder_wasted_costs_by_the_prices_of_the_time() -> None:
    (holder,) = told([streak("idle-held")], process(UNTIL_MS)).holders
    # 150 s at 2.40 EUR an hour, none of its 600 s at the second price, 300 s at 1.20 USD, and 150 s without a price.
    assert holder.wasted_cost == Cost(
        amounts={"EUR": pytest.approx(0.1), "USD": pytest.approx(0.1)}, unpriced_gpu_ms=150_000
    )


@pytest.mark.parametrize(
    ("began", "cost"),
    [
        (UNTIL_MS - 30 * MINUTE_MS, Cost(amounts={"USD": pytest.approx(0.6)}, unpriced_gpu_ms=0)),
        # One price counted for a part of it: how much of it is not kept apart.
        (UNTIL_MS - 90 * MINUTE_MS, None),
    ],
)
def test_memory_without_a_listed_process_costs_what_counted_throughout(began: int, cost: Cost | None) -> None:
    row = streak("idle-held", since_ms=began, in_state_us=1_800_000_000)
    (holder,) = told([row], model="H100").holders
    assert holder.pid is None
    assert holder.wasted_cost == cost


def test_a_process_in_the_newest_tick_is_a_holder() -> None:
    found = told([streak("idle-held")], process(UNTIL_MS))

    assert [(one.pid, one.owner, one.slurm_job_id, one.is_alone, one.idle_ms) for one in found.holders] == [
        (7, "ana", "42", True, 600_000)
    ]
    assert found.holders[0].wasted_byte_ms == 2**30 * 600_000


@pytest.mark.parametrize(("ticks_ago", "pid"), [(1, 7), (2, None)])
def test_a_tick_whose_processes_have_not_arrived_yet_has_no_unlisted_memory(ticks_ago: int, pid: int | None) -> None:
    found = told([streak("idle-held")], process(UNTIL_MS - ticks_ago * TICK_MS))

    assert [one.pid for one in found.holders] == [pid]


@pytest.mark.parametrize("ticks_ago", [0, 1])
def test_a_free_card_has_no_holder(ticks_ago: int) -> None:
    found = told([streak("truly-idle")], process(UNTIL_MS - ticks_ago * TICK_MS))

    assert found.holders == ()
    assert [one.gpu for one in found.free] == ["GPU-a"]


@pytest.mark.parametrize("ticks_ago", [0, 1, 2, 5_000])
def test_what_was_allocated_when_somebody_looked_is_not_of_now(ticks_ago: int) -> None:
    last_ms = UNTIL_MS - ticks_ago * TICK_MS
    of_job = {"source": "slurm", "allocation_id": "7", "owner": "bo", "use": "empty"}
    allocations = [
        {"gpu": "GPU-a", "last_ms": last_ms, **of_job},
        {"gpu": "GPU-b", "last_ms": last_ms, "source": "", "use": "free"},
    ]
    found = told([streak("truly-idle"), streak("truly-idle", gpu="GPU-b")], allocations=allocations)

    free = [(one.gpu, one.allocation) for one in found.free]
    if ticks_ago <= 1:  # the newest tick may not have landed whole
        assert free == [("GPU-b", "unallocated")]
        assert [(one.gpu, one.owner) for one in found.allocations] == [("GPU-a", "bo")]
    else:  # no source has been read since
        assert free == [("GPU-a", None), ("GPU-b", None)]
        assert found.allocations == ()


FREE = {"gpu": "GPU-a", "last_ms": UNTIL_MS, "source": "", "use": "free"}


@pytest.mark.parametrize(
    ("part", "free_ms", "is_lower_bound", "previous_owner"),
    [
        # Five hours idle, allocated all the time, and released two minutes ago: the rest of that tick was unallocated.
        pytest.param({"use_since_ms": UNTIL_MS - 2 * MINUTE_MS - TICK_MS, "in_use_ms": 2 * MINUTE_MS + TICK_MS,
                      "allocated_until_ms": UNTIL_MS - 2 * MINUTE_MS, "allocated_to": "bo"},
                     2 * MINUTE_MS, False, "bo", id="given-back"),
        pytest.param({"use_since_ms": UNTIL_MS - 2 * MINUTE_MS, "in_use_ms": 2 * MINUTE_MS, "allocated_to": None,
                      "allocated_until_ms": UNTIL_MS - 2 * MINUTE_MS},
                     2 * MINUTE_MS, False, None, id="given-back-by-somebody-unknown"),
        # Allocated for a single tick: the time before and after it is one streak of unallocated parts.
        pytest.param({"use_since_ms": UNTIL_MS - HOUR_MS, "in_use_ms": HOUR_MS - TICK_MS, "allocated_to": "bo",
                      "allocated_until_ms": UNTIL_MS - MINUTE_MS}, MINUTE_MS, False, "bo", id="a-tick-between"),
        pytest.param({"use_since_ms": UNTIL_MS - MINUTE_MS, "in_use_ms": MINUTE_MS, "use_since_is_lower_bound": True},
                     MINUTE_MS, True, None, id="not-known-whether-it-was-allocated"),
        pytest.param({"use_since_ms": UNTIL_MS - 8 * HOUR_MS, "in_use_ms": 8 * HOUR_MS, "allocated_to": "bo",
                      "allocated_until_ms": UNTIL_MS - 8 * HOUR_MS}, 5 * HOUR_MS, False, None, id="used-since"),
    ],
)  # fmt: skip
def test_a_card_is_free_since_its_last_allocation_ended(
    part: dict[str, object], free_ms: int, *, is_lower_bound: bool, previous_owner: str | None
) -> None:
    row = streak("truly-idle", since_ms=UNTIL_MS - 5 * HOUR_MS, in_state_ms=5 * HOUR_MS)
    (card,) = told([row], allocations=[{**FREE, **part}]).free

    assert (card.free_since_ms, card.free_ms) == (UNTIL_MS - free_ms, free_ms)
    assert (card.is_lower_bound, card.previous_owner) == (is_lower_bound, previous_owner)


def test_an_allocation_has_its_names_from_this_card() -> None:
    of_job = {"source": "slurm", "allocation_id": "7", "owner": "bo", "use": "empty", "last_ms": UNTIL_MS}
    called = {"source": "slurm", "allocation_id": "7", "kind": "shard", "job_name": "train"}
    called |= {"since_ms": 1, "until_ms": 2}
    found = told(
        [streak("truly-idle"), streak("truly-idle", gpu="GPU-b")],
        allocations=[{"gpu": "GPU-a", **of_job}, {"gpu": "GPU-b", **of_job}],
        names=[{"gpu": "GPU-a", **called}, {"gpu": "GPU-b", **called, "allocation_id": "8"}],
    )

    assert [
        (one.gpu, one.allocation_kind, one.job_name, one.allocated_since_ms, one.allocated_until_ms)
        for one in found.allocations
    ] == [("GPU-a", "shard", "train", 1, 2), ("GPU-b", None, None, None, None)]


def test_two_processes_of_a_card_are_not_alone() -> None:
    found = told([streak("idle-held")], process(UNTIL_MS), process(UNTIL_MS, pid=8))

    assert [(one.pid, one.is_alone) for one in found.holders] == [(7, False), (8, False)]


def test_a_card_without_a_tick_for_three_intervals_is_silent_and_not_listed() -> None:
    rows = [
        streak("truly-idle", as_of_ms=UNTIL_MS - 3 * TICK_MS),
        streak("truly-idle", as_of_ms=UNTIL_MS - 3 * TICK_MS - 1, gpu="GPU-b"),
        streak("idle-held", as_of_ms=UNTIL_MS - HOUR_MS, gpu="GPU-c"),
    ]
    found = told(rows, process(UNTIL_MS - HOUR_MS, gpu="GPU-c"))

    assert [one.gpu for one in found.free] == ["GPU-a"]
    assert found.holders == ()
    assert found.cards == {"active": 0, "idle-held": 0, "truly-idle": 1, "unknown": 0, "silent": 2}


def test_the_rest_of_a_partitioned_card_is_nothing_to_be_had() -> None:
    found = told([streak("truly-idle")], mig="parent")

    assert (found.free, found.cards["truly-idle"], found.cards["silent"]) == ((), 0, 0)


@pytest.mark.parametrize(
    ("known_before_ms", "created_ms", "first_ms", "is_lower_bound"),
    [
        (UNTIL_MS - 600_000, 0, UNTIL_MS - HOUR_MS, False),  # it worked until then
        (UNTIL_MS - 600_000 - 2 * TICK_MS, 0, UNTIL_MS - HOUR_MS, False),
        (UNTIL_MS - 600_000 - 2 * TICK_MS - 1, 0, UNTIL_MS - HOUR_MS, True),  # unknown or unobserved until then
        (0, 0, UNTIL_MS - 600_000, False),  # it came to a card that was watched
        (0, 0, UNTIL_MS - 24 * HOUR_MS, True),
        (0, UNTIL_MS - HOUR_MS, UNTIL_MS - HOUR_MS, True),  # unknown from its beginning on
    ],
)
def test_an_idle_time_with_an_unobserved_begin_is_a_lower_bound(
    known_before_ms: int, created_ms: int, first_ms: int, *, is_lower_bound: bool
) -> None:
    since = {"idle_since_ms": first_ms} if first_ms == UNTIL_MS - 24 * HOUR_MS else {}
    one = process(UNTIL_MS, known_before_ms=known_before_ms, created_ms=created_ms, first_ms=first_ms, **since)

    assert [one.is_lower_bound for one in told([streak("idle-held")], one).holders] == [is_lower_bound]


@pytest.mark.parametrize(("after_ms", "is_lower_bound"), [(0, False), (-2 * TICK_MS, True), (1 - 2 * TICK_MS, False)])
def test_a_process_that_began_with_the_observation_idled_nowhere_before(after_ms: int, *, is_lower_bound: bool) -> None:
    watched_ms = UNTIL_MS - 24 * HOUR_MS
    one = process(UNTIL_MS, created_ms=watched_ms + after_ms, first_ms=watched_ms, idle_since_ms=watched_ms)

    assert [one.is_lower_bound for one in told([streak("idle-held")], one).holders] == [is_lower_bound]


def test_a_working_process_is_listed_beside_the_idle_ones_of_its_card() -> None:
    idle, works = process(UNTIL_MS), list(process(UNTIL_MS, pid=8, first_ms=UNTIL_MS - HOUR_MS))
    works[6] = False
    found = told([streak("active")], idle, tuple(works))

    assert [(one.pid, one.is_alone) for one in found.holders] == [(7, False)]
    assert [(one.pid, one.card_state, one.memory_bytes) for one in found.others] == [(8, "active", 2**30)]
    assert found.others[0].since_ms == UNTIL_MS - HOUR_MS
