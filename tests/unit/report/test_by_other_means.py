"""Figures by which people lose their cards, once more from the plain ticks, one after the other, in plain Python."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import pairwise
from pathlib import Path
from random import Random
from typing import Final

import pytest

from fakes import by_other_means as means
from fakes.allocations import allocated
from fakes.by_other_means import DAY_MS, HOUR_MS, IDLE, Counted, Episode, Key, Recorded, Seen, SeenPart, Spent
from fakes.fleet import spooled_ticks
from fakes.restless import restless
from fakes.stuck import stuck
from gua.core.ports import SpooledTick
from gua.core.tick import Origin
from gua.core.words import Source
from gua.core.workloads import workload_kind
from gua.report.collect import collect
from gua.report.costs import Cost, Costs, added, wasted
from gua.report.hours import choose_hours
from gua.report.model import IdleSeconds, Report
from gua.report.section_list import section_names
from gua.report.sections.allocation import AllocatedHours
from gua.report.sections.calendar import Days, Week
from gua.report.sections.card_streaks import LONG_STREAK_MS, STUCK_MS, IdleSplit
from gua.report.sections.contention import Contention, Contentions
from gua.report.sections.energy import Energy
from gua.report.sections.money import Money
from gua.report.sections.now_rows import SILENT, Holder, Now
from gua.report.sections.right_size import ProgramOnCard, RightSize
from gua.report.sections.slow_cards import SlowCards
from gua.report.sections.streaks import FALSE_ALARM_MS, Streaks
from gua.report.sections.timeline import Timeline
from gua.report.sections.usage import OwnerUsage, Usage, UsageRow
from gua.report.sections.usefulness import IdleTime, MeanActivity, Usefulness
from gua.report.states import ACTIVE, IDLE_HELD, STATES, TRULY_IDLE, UNKNOWN
from gua.report.window import USAGE_BY, ReportRequest
from gua.sim.host import END_MS, Scenario, simulate
from gua.store.database import Store, open_store

pytestmark = pytest.mark.engine

LIMITS_MS: Final = (20_000, 60_000, 150_000, 300_000, 600_000, 1_800_000, 3_600_000, 14_400_000)
RESTLESS: Final = ("restless-1", "restless-2")
STUCK: Final = "stuck-1"
HELD: Final = (ACTIVE, IDLE_HELD, UNKNOWN)
PARTY: Final = {
    "owner": "owner",
    "program": "program",
    "container": "container_id",
    "pod": "pod_uid",
    "job": "slurm_job_id",
}
PRICES: Final = (
    ("Fast", END_MS - 3 * HOUR_MS, "EUR", 2.5),
    ("Fast", END_MS - HOUR_MS, "EUR", 4.0),
    ("Slow", END_MS - 2 * HOUR_MS, "USD", 1.25),
    ("Slow", END_MS - HOUR_MS, "EUR", 1.0),
)


@dataclass(frozen=True)
class Asked:
    """A window, in ms before simulated time ends."""

    since_ms: int
    until_ms: int = 0
    timezone: str = "UTC"
    hosts: tuple[str, ...] = ()


WINDOWS: Final = {
    "everything": Asked(3 * DAY_MS, -5_000),
    "edges in the middle of ticks": Asked(4 * HOUR_MS + 12_345, HOUR_MS + 7_777, "Asia/Kathmandu", (*RESTLESS, STUCK)),
    "whole hours": Asked(5 * HOUR_MS, 2 * HOUR_MS, "Asia/Kolkata", RESTLESS),
    "some days": Asked(DAY_MS + 1_234_567, 2 * HOUR_MS + 1, "America/New_York", ("lab-1", "lab-2")),
    "less than an hour": Asked(50 * 60_000 + 3, 3_333),
}


def lab(host: str, seed: int, gpus: int) -> list[SpooledTick]:
    origin = Origin(host=host, source=Source.SIMULATOR, interval_ms=600_000)
    return list(spooled_ticks(simulate(Scenario(seed=seed, gpus=gpus, interval_ms=600_000, ticks=300), origin=origin)))


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory, made_store: Callable[[Path], str]) -> Iterator[Store]:
    """Open a store with two simulated hosts and two restless ones, with some hours rolled up and some not."""
    hosts = [
        lab("lab-1", 1, 4),
        lab("lab-2", 2, 3),
        *(
            list(
                spooled_ticks(
                    allocated(
                        restless(host, seed=seed, ticks=500, end_ms=END_MS - seed * 100),
                        seed=seed,
                        without_source=seed * 150,
                    )
                )
            )
            for seed, host in enumerate(RESTLESS)
        ),
        list(spooled_ticks(stuck(STUCK, seed=1, ticks=400, end_ms=END_MS - 333))),
    ]
    rng = Random("late")  # noqa: S311 - which ticks are late is no secret
    with open_store(made_store(tmp_path_factory.mktemp("means") / "store")) as opened:
        late = {id(tick) for ticks in hosts for tick in rng.sample(ticks, 4)}
        for ticks in hosts:
            assert opened.land([tick for tick in ticks if id(tick) not in late]) == []
        opened.count_hours()
        for ticks in hosts:
            assert opened.land([tick for tick in ticks if id(tick) in late]) == []
        columns = ("model", "valid_from", "currency", "per_gpu_hour")
        prices = [dict(zip(columns, (one[0], one[1] // 1000, *one[2:]), strict=True)) for one in PRICES]
        opened.insert_json("prices", prices)
        yield opened


@pytest.fixture(scope="module")
def recorded(store: Store) -> Recorded:
    return Recorded(store)


@dataclass(frozen=True, kw_only=True)
class Both:
    """What the report says of a window, and what its ticks say."""

    report: Report
    counted: Counted
    asked: Asked


# Less than an hour comes from ticks in any case, and so does what the edges of a window cut.
REQUESTS: Final = [
    *((name, False) for name in WINDOWS if name != "less than an hour"),
    *((name, True) for name in ("everything", "less than an hour")),
]


@pytest.fixture(
    scope="module",
    params=REQUESTS,
    ids=lambda param: f"{param[0]}, {'from ticks' if param[1] else 'some hours counted'}",
)
def both(request: pytest.FixtureRequest, store: Store, recorded: Recorded) -> Both:
    name, from_ticks = request.param
    asked = WINDOWS[name]
    since_ms, until_ms = END_MS - asked.since_ms, END_MS - asked.until_ms
    bounds = {"since_ms": since_ms, "until_ms": until_ms, "hosts": list(asked.hosts)}
    hours = choose_hours(store, bounds, from_ticks=from_ticks)
    if not from_ticks:
        assert {hour.is_counted for hour in hours} == {True, False}

    def moment(unix_ms: int) -> str:
        return datetime.fromtimestamp(unix_ms / 1000, means.UTC).isoformat(timespec="milliseconds")

    made = collect(
        store,
        ReportRequest(
            since=moment(since_ms),
            until=moment(until_ms),
            hosts=asked.hosts,
            by=USAGE_BY,
            timezone=asked.timezone,
            from_ticks=from_ticks,
            sections=frozenset(section_names()),
            what_if_limits_ms=LIMITS_MS,
            now_ms=until_ms,
        ),
    )
    assert (made.window.since_ms, made.window.until_ms) == (since_ms, until_ms)
    return Both(report=made, counted=recorded.window(since_ms, until_ms, asked.hosts), asked=asked)


def us(value: float) -> object:
    """Return a time in ms as good as sums of whole microseconds of ticks that are cut can be."""
    return pytest.approx(value, abs=0.01)


def test_headline_and_idle_split(both: Both) -> None:
    states = both.report.headline.states
    assert {state: states[state].gpu_ms for state in STATES} == {
        state: us(gpu_ms) for state, gpu_ms in both.counted.held_by_state().items()
    }
    split = both.report[IdleSplit]
    expected = means.idle_split(both.counted, LONG_STREAK_MS)
    assert {
        "never_used": split.never_used_gpu_ms,
        "never_used_long": split.never_used_long_gpu_ms,
        "low": split.low_gpu_ms,
        "low_long": split.low_long_gpu_ms,
    } == {name: us(gpu_ms) for name, gpu_ms in expected.items()}


def test_active_time_without_a_process(both: Both) -> None:
    gpu_ms, known_ms = means.time_without_process(both.counted)
    found = both.report.headline.active_without_process
    assert (found.gpu_ms or 0, found.known_gpu_ms) == (us(gpu_ms), us(known_ms))
    assert found.share == (pytest.approx(gpu_ms / both.counted.held_by_state()[ACTIVE]) if known_ms else None)
    expected = means.stuck(both.counted, STUCK_MS)
    stuck = both.report[IdleSplit].stuck
    assert {(one.host, one.gpu): (us(one.gpu_ms), one.longest_ms, one.since_ms, one.until_ms) for one in stuck} == {
        key: (us(ms), *longest) for key, (ms, *longest) in expected.items()
    }
    if both.asked == WINDOWS["everything"]:
        assert expected
        assert gpu_ms > 1.1 * sum(ms for ms, *_ in expected.values())


def test_idle_streaks(both: Both) -> None:
    streaks = both.report[Streaks]
    every = means.every_episode(both.counted)
    for one in streaks.classes:
        longer = [(holder, episode) for holder, episode in every if episode.ms > one.longer_than_ms]
        assert (one.streaks, one.holders) == (len(longer), len({holder for holder, _ in longer})), one
        assert one.idle_ms == sum(episode.ms for _, episode in longer)
        assert one.idle_held_gpu_ms == us(sum(episode.held_ms() for _, episode in longer))


def test_what_a_reclaim_would_give_back(both: Both) -> None:
    streaks = both.report[Streaks]
    every = means.every_episode(both.counted)
    for one in streaks.what_if:
        limit_ms = one.limit_ms
        longer = [(holder, episode) for holder, episode in every if episode.ms > limit_ms]
        assert (one.reclaims, one.holders) == (len(longer), len({holder for holder, _ in longer})), one
        alarms = [
            episode
            for _, episode in longer
            if episode.active_ms is not None and episode.active_ms - episode.reaches(limit_ms) <= FALSE_ALARM_MS
        ]
        assert one.false_alarms == len(alarms), one
        given_back = sum(episode.held_ms(limit_ms) for _, episode in longer)
        rounded_ms = sum(episode.rounded_ms(limit_ms) for _, episode in longer)
        assert one.gpu_ms == pytest.approx(given_back, abs=rounded_ms + 0.01), one


def work_of(counted: Counted, one: Seen, by: str) -> str | None:
    """Return the kind of work or the served model of a process."""
    reported = means.cost_suffix(counted, one, "workload_kind" if by == "kind" else "workload_model")
    return reported or (workload_kind(one.row["program"]) if by == "kind" else None)


@pytest.mark.parametrize("by", USAGE_BY)
def test_usage_by(both: Both, by: str) -> None:
    def name(one: Seen) -> object:
        if by == "host":
            return one.row["host"]
        if by in {"kind", "served-model"}:
            return work_of(both.counted, one, by)
        return both.counted.cards[one.row["host"], one.row["gpu"]]["model"] if by == "model" else one.row[PARTY[by]]

    (found,) = [parties for parties in both.report[Usage].usage_by if parties.by == by]
    expected = means.shares(both.counted, name)
    rest = expected.pop(("unlisted",))
    total = sum(sum(share.gpu_ms[state] for state in HELD) for share in [*expected.values(), rest])
    listed = {party.name: party for party in found.rows if party.kind == "listed"}
    assert set(listed) == {name for name, share in expected.items() if sum(share.gpu_ms.values()) > 0}
    for party in listed.values():
        share = expected[party.name]
        assert tuple(party.states[state].gpu_ms for state in HELD) == tuple(us(share.gpu_ms[state]) for state in HELD)
        assert party.gpu_ms == us(sum(share.gpu_ms.values()))
        assert party.share == pytest.approx(sum(share.gpu_ms.values()) / total)
        assert party.process_ms == share.unsplit_ms
        assert party.sessions == len(share.sessions)
        assert (party.first_ms, party.last_ms) == (share.first_ms, share.last_ms)
        assert party.longest_idle_ms == share.longest_idle_ms
    rests = unlisted_by(both.counted, by, expected) if by in {"host", "model"} else {None: rest.gpu_ms}
    assert {
        party.name: [party.states[state].gpu_ms for state in HELD] for party in found.rows if party.kind == "unlisted"
    } == {name: [us(gpu_ms[state]) for state in HELD] for name, gpu_ms in rests.items() if sum(gpu_ms.values()) >= 1}


def unlisted_by(counted: Counted, by: str, listed: Mapping[object, means.Share]) -> Mapping[object, dict[str, float]]:
    """Return what no listed process had on the cards of each host, or model."""
    rests: dict[object, dict[str, float]] = defaultdict(lambda: dict.fromkeys(HELD, 0.0))
    for (host, gpu), ticks in counted.ticks.items():
        name = host if by == "host" else counted.cards[host, gpu]["model"]
        for one in ticks:
            if one.state in HELD:
                rests[name][one.state] += one.gpu_ms
    for name, share in listed.items():
        for state in HELD:
            rests[name][state] -= share.gpu_ms[state]
    return rests


def test_owners(both: Both) -> None:
    expected = means.shares(both.counted, lambda one: (one.row["owner"], one.row["program"]))
    rest = expected.pop(("unlisted",))
    listed = {(one.owner, one.program): one for one in both.report[Usage].owners if one.kind == "listed"}
    assert set(listed) == {name for name, share in expected.items() if sum(share.gpu_ms.values()) > 0}
    for name, one in listed.items():
        share = expected[name]
        assert {state: one.states[state].gpu_ms for state in STATES} == {
            state: us(share.gpu_ms[state]) for state in STATES
        }
        assert (one.process_ms, one.sessions, one.first_ms, one.last_ms, one.longest_idle_ms) == (
            share.unsplit_ms,
            len(share.sessions),
            share.first_ms,
            share.last_ms,
            share.longest_idle_ms,
        ), name
    (unlisted,) = [one for one in both.report[Usage].owners if one.kind == "unlisted"]
    assert {state: unlisted.states[state].gpu_ms for state in STATES} == {
        state: us(rest.gpu_ms[state]) for state in STATES
    }


def newest_of(counted: Counted) -> dict[Key, Seen]:
    """Return the newest tick of each card that is not silent and can be held."""
    found = {}
    for key, ticks in counted.ticks.items():
        newest = max(ticks, key=lambda one: one.until_ms)
        patience_ms = 3 * max(counted.cards[key]["interval_ms"], newest.ms)
        if means.mode(counted.cards[key], newest) != "parent" and counted.until_ms - newest.until_ms <= patience_ms:
            found[key] = newest
    return found


def present_on(counted: Counted, key: Key, newest: Seen) -> list[tuple[str, str, int, int]]:
    """Return the processes of a card's newest tick, of the one before if it has none; a free card has no holder."""
    if newest.state == TRULY_IDLE:
        return []
    last = {process: ticks[-1].until_ms for process, ticks in counted.processes.items() if process[:2] == key}
    end_ms = max(last.values(), default=0)
    return [process for process, at_ms in last.items() if at_ms == end_ms >= newest.until_ms - 1.5 * newest.ms]


def test_idle_cards_and_holders_now_match_an_independent_computation(both: Both) -> None:
    counted = both.counted
    now = both.report[Now]
    newest = newest_of(counted)
    states = [one.state for one in newest.values()]
    assert tuple(now.cards[state] for state in STATES) == tuple(states.count(state) for state in STATES)
    # The newest tick in the window has the properties of a card.
    last = {key: max(ticks, key=lambda one: one.until_ms) for key, ticks in counted.ticks.items()}
    every = [(card.host, card.gpu) for card in both.report.cards]
    can_be_held = {key for key in every if means.mode(counted.cards[key], last.get(key)) != "parent"}
    assert now.cards[SILENT] == len(can_be_held) - len(newest)
    listed = {(one.host, one.gpu, one.pid, one.created_ms or 0): one for one in now.holders if one.pid is not None}
    present = {key: present_on(counted, key, one) for key, one in newest.items()}
    here = [process for processes in present.values() for process in processes]
    assert set(listed) == {process for process in here if counted.processes[process][-1].state == IDLE}
    for process, holder in listed.items():
        check_holder(counted, holder, counted.processes[process])
        assert holder.is_alone == (len(present[process[:2]]) == 1)
        assert holder.card_state == newest[process[:2]].state
    unlisted = {(one.host, one.gpu): one for one in now.holders if one.pid is None}
    assert set(unlisted) == {key for key, one in newest.items() if one.state == IDLE_HELD and not present[key]}
    for key, holder in unlisted.items():
        streak = list(means.streaks(counted.ticks[key], IDLE_HELD, {ACTIVE, TRULY_IDLE}))[-1]
        assert (holder.idle_since_ms, holder.idle_ms) == (streak[0].since_ms, sum(one.ms for one in streak))


def is_far_from_known(ticks: list[Seen], first: Seen) -> bool:
    """Return whether no tick just before shows the state then."""
    just_before_ms = first.since_ms - 2 * first.span_ms
    return not any(one.state != UNKNOWN and just_before_ms <= one.until_ms and one.ts_ms < first.ts_ms for one in ticks)


def began_unseen(counted: Counted, ticks: list[Seen], first: Seen) -> bool:
    """Return whether the process may have idled on the card before that tick."""
    if any(one.state != UNKNOWN and one.ts_ms < first.ts_ms for one in ticks):
        return is_far_from_known(ticks, first)
    near_ms = 2 * first.span_ms
    if first.since_ms - ticks[0].since_ms > near_ms:  # unknown from the beginning
        return True
    key = next(key for key, of_process in counted.processes.items() if of_process is ticks)
    of_card = counted.ticks[key[:2]]
    watched_since_ms = of_card[0].since_ms
    for before, after in pairwise(of_card):
        if means.is_apart(before, after):
            watched_since_ms = after.since_ms
    return max(ticks[0].row["created_ms"] + near_ms, ticks[0].since_ms - near_ms) <= watched_since_ms


def check_holder(counted: Counted, holder: Holder, ticks: list[Seen]) -> None:
    episode = means.episodes(ticks)[-1]
    last = ticks[-1]
    assert (holder.idle_since_ms, holder.idle_ms) == (episode.ticks[0].since_ms, episode.ms)
    assert holder.is_lower_bound == began_unseen(counted, ticks, episode.ticks[0])
    day_ms = last.until_ms - DAY_MS
    active_ms = sum(
        one.until_ms - max(one.since_ms, day_ms) for one in ticks if one.state == ACTIVE and one.ts_ms > day_ms
    )
    is_whole = counted.since_ms <= max(day_ms, last.row["created_ms"])
    if is_whole and any(one.state != UNKNOWN and one.ts_ms > day_ms for one in ticks):
        assert holder.active_24h_ms == pytest.approx(active_ms, abs=means.rounded_ms(ticks))
    else:
        assert holder.active_24h_ms is None
    held = [one for one in ticks if one.card_state == IDLE_HELD]
    assert holder.wasted_gpu_ms == us(sum(one.gpu_ms for one in held))
    expected = means.spent(counted, PRICES, (((holder.host, holder.gpu), one) for one in held))[IDLE_HELD]
    assert holder.wasted_cost is not None
    assert holder.wasted_cost.amounts == pytest.approx(expected.amounts, abs=1e-6)
    assert holder.wasted_cost.unpriced_gpu_ms == us(expected.unpriced_ms)
    known = [(one.row["memory_bytes"], one.ms) for one in held if one.row["memory_bytes"] is not None]
    if known:
        # Bytes are cut to KiB before they are multiplied.
        expected = sum(memory * ms for memory, ms in known)
        assert holder.wasted_byte_ms == pytest.approx(expected, abs=1024 * sum(ms for _, ms in known))
    else:
        assert holder.wasted_byte_ms is None
    assert (holder.owner, holder.program, holder.memory_bytes) == tuple(
        last.row[column] for column in ("owner", "program", "memory_bytes")
    )


def test_cards_that_are_free(both: Both) -> None:
    counted, now = both.counted, both.report[Now]
    newest = {key: one for key, one in newest_of(counted).items() if one.state == TRULY_IDLE}
    status = {key: status_of(counted, key) for key in newest}
    free = {(one.host, one.gpu): one for one in (*now.free, *now.maybe_allocated)}
    assert {key: card.allocation for key, card in free.items()} == {
        key: reported for key, reported in status.items() if reported != "allocated"
    }
    assert {one.allocation for one in now.maybe_allocated} <= {"unknown"}
    for key, card in free.items():
        ticks = counted.ticks[key]
        streak = list(means.streaks(ticks, TRULY_IDLE, {ACTIVE, IDLE_HELD}))[-1]
        since_ms, is_lower_bound = streak[0].since_ms, is_far_from_known(ticks, streak[0])
        if status[key] == "unallocated":
            since_ms, is_lower_bound = free_since(counted, key, since_ms, is_lower_bound=is_lower_bound)
        assert (card.free_since_ms, card.is_lower_bound) == (since_ms, is_lower_bound)
        assert card.free_ms == sum(max(one.until_ms - max(one.since_ms, since_ms), 0) for one in streak)

        def hour(one: Seen) -> int:
            return means.local((one.until_ms - 1) // HOUR_MS * HOUR_MS, both.asked.timezone).hour

        now_at = means.local((ticks[-1].until_ms - 1) // HOUR_MS * HOUR_MS, both.asked.timezone)
        then = [one for one in ticks if hour(one) == now_at.hour]
        if not then:
            assert card.free_ratio_at_this_hour is None
            continue
        usual = sum(one.ms for one in then if one.state == TRULY_IDLE) / sum(one.ms for one in then)
        assert card.free_ratio_at_this_hour == pytest.approx(usual)


def free_since(counted: Counted, key: Key, idle_since_ms: int, *, is_lower_bound: bool) -> tuple[int, bool]:
    """Return since when a truly-idle card has been unallocated, too, and whether it may be longer."""
    parts = [part for part in counted.parts[key] if part.gpu_ms > 0]
    allocated_ms = max((part.until_ms for part in parts if part.source), default=0)
    free = [part for part in parts if part.use == "free"]
    pairs = zip([None, *free], free, strict=False)
    begins = [one for before, one in pairs if before is None or means.is_apart(before.card, one.card)]
    first = begins[-1].card
    nobodys_ms = max(allocated_ms, first.since_ms)
    if idle_since_ms >= nobodys_ms:
        return idle_since_ms, is_lower_bound
    just_before_ms = first.since_ms - 2 * first.span_ms
    known = [part for part in parts if part.use != "unknown" and part.since_ms < first.since_ms]
    is_known = allocated_ms >= first.since_ms or any(part.until_ms >= just_before_ms for part in known)
    return nobodys_ms, not is_known


def status_of(counted: Counted, key: Key) -> str | None:
    """Return whether a card is allocated at the end of its newest tick, ``None`` without a source."""
    newest = counted.ticks[key][-1]
    parts = [part for part in counted.parts[key] if part.card is newest and part.until_ms == newest.until_ms]
    if any(part.source and part.gpu_ms > 0 for part in parts):
        return "allocated"
    return None if not parts else "unknown" if any(part.use == "unknown" for part in parts) else "unallocated"


def test_contention(both: Both) -> None:
    hosts = sorted({key[0] for key in both.counted.ticks})
    assert [one.host for one in both.report[Contentions]] == [None, *hosts]
    for one in both.report[Contentions]:
        of = hosts if one.host is None else [one.host]
        held: list[tuple[Key, Seen]] = []
        expected = means.contention(both.counted, of, held)
        rounded_ms = sum(means.rounded_ms(ticks) for key, ticks in both.counted.ticks.items() if key[0] in of)
        check_contention(one, expected, rounded_ms)
        cost = means.spent(both.counted, PRICES, held)[IDLE_HELD]
        tolerance_ms = 2 * one.cards * rounded_ms + 0.01
        assert one.cost is not None
        for currency in {*one.cost.amounts, *cost.amounts}:
            found, reported = one.cost.amounts.get(currency, 0), cost.amounts.get(currency, 0)
            assert found == pytest.approx(reported, abs=tolerance_ms / HOUR_MS * 4 + 1e-6)
        assert one.cost.unpriced_gpu_ms == pytest.approx(cost.unpriced_ms, abs=tolerance_ms)


def check_contention(one: Contention, expected: dict[str, float], rounded_ms: int) -> None:
    """Compare; what rounding leaves between ticks is moved to the end of a run."""
    found = {"free": one.free_ms, "contended": one.contended_ms, "busy": one.busy_ms, "unknown": one.unknown_ms}
    assert found == pytest.approx({name: expected[name] for name in found}, abs=2 * rounded_ms)
    assert sum(found.values()) == sum(expected[name] for name in found)
    near = 2 * one.cards * rounded_ms + 0.01
    assert one.contended_gpu_ms == pytest.approx(expected["contended_gpu"], abs=near)
    assert one.contended_allocated_gpu_ms == pytest.approx(expected["contended_allocated_gpu"], abs=near)


def test_waits_and_the_use_of_cards_meanwhile_match_an_independent_computation(both: Both) -> None:
    hosts = sorted({key[0] for key in both.counted.ticks})
    reported = 0
    for one in both.report[Contentions]:
        expected = means.waits(both.counted, hosts if one.host is None else [one.host])
        found = (
            one.most_waiting,
            one.wait_ms,
            one.waited_ms,
            one.waited_empty_gpu_ms,
            one.waited_held_gpu_ms,
            one.waited_others_gpu_ms,
            one.waited_free_gpu_ms,
            one.waits_unknown_ms,
        )
        if expected["most"] is None:
            assert found == tuple(expected.values())
            continue
        reported += 1
        assert found == pytest.approx(tuple(expected.values()), abs=1)
        assert one.wait_ms
    assert reported > 1 or both.asked.hosts == ("lab-1", "lab-2")


def test_reservations_per_owner_match_an_independent_computation(both: Both) -> None:
    expected = means.reservations(both.counted)
    found = {}
    for one in both.report[AllocatedHours].owners:
        if one.source == "gua":
            found |= {(one.owner, "run"): one.runs, (one.owner, "manual"): one.manuals}
        else:
            assert (one.runs, one.manuals) == (None, None)
    assert {of: count for of, count in found.items() if count} == expected


def test_coverage(both: Both) -> None:
    expected = means.coverage(both.counted)
    assert {(card.host, card.gpu) for card in both.report.cards} == set(expected)
    for card in both.report.cards:
        one = expected[card.host, card.gpu]
        # Shares of a third of a GPU and the like are rounded to whole milliseconds of each tick.
        rounded = 1e-4 * one.unobserved_gpu_ms
        assert card.expected_gpu_ms == pytest.approx(one.gpu_ms, abs=rounded + 1)
        assert card.observed_gpu_ms == us(one.observed_gpu_ms)
        assert card.unobserved_gpu_ms == pytest.approx(one.unobserved_gpu_ms, abs=rounded + 1)
        assert card.gaps == one.gaps
    sums = [sum(one.gpu_ms for one in expected.values()), sum(one.observed_gpu_ms for one in expected.values())]
    assert both.report.coverage.ratio == pytest.approx(sums[1] / sums[0])


def test_energy(both: Both) -> None:
    cards = {(one.host, one.gpu): one for one in both.report[Energy].cards}
    whole = {key for key in both.counted.ticks if both.counted.cards[key]["mig"] != "instance"}
    assert set(cards) == whole
    for key, card in cards.items():
        expected = means.energy(both.counted, key)
        for state, (measured, measured_ms, estimated, estimated_ms, unknown_ms) in expected.items():
            one = card.states[state]
            assert (one.measured_ms, one.estimated_ms, one.unknown_ms) == (measured_ms, estimated_ms, unknown_ms)
            assert one.measured_joules == pytest.approx(measured, abs=0.01)
            assert one.estimated_joules == pytest.approx(estimated, abs=0.001 * len(both.counted.ticks[key]))
        watts = {state: one[0] / one[1] * 1000 if one[1] else None for state, one in expected.items()}
        bare, held = watts[TRULY_IDLE], watts[IDLE_HELD]
        assert card.bare_watts == (None if bare is None else pytest.approx(bare))
        assert card.held_watts == (None if held is None else pytest.approx(held))
        added = None if bare is None or held is None else (held - bare) * expected[IDLE_HELD][1] / 1000
        assert card.added_joules == (None if added is None else pytest.approx(added, abs=0.1))


def test_idle_time(both: Both) -> None:
    found = both.report[Usefulness]
    cards = {(one.host, one.gpu): one for one in found.cards}
    expected = {key: means.idle_time(both.counted, key) for key in both.counted.ticks}
    assert set(cards) == {key for key, states in expected.items() if any(sums[0] for sums in states.values())}
    for key, card in cards.items():
        check_idle_time(card.states[ACTIVE], expected[key][ACTIVE])
        check_idle_time(card.states[IDLE_HELD], expected[key][IDLE_HELD])
    of_state = {
        state: [sum(each) for each in zip(*(one[state] for one in expected.values()), strict=True)]
        for state in (ACTIVE, IDLE_HELD)
    }
    check_idle_time(found.states[ACTIVE], of_state[ACTIVE])
    check_idle_time(found.states[IDLE_HELD], of_state[IDLE_HELD])
    check_idle_time(found.loaded, [sum(each) for each in zip(*of_state.values(), strict=True)])
    for state, part in found.states.items():
        assert part.gpu_ms == us(both.report.headline.states[state].gpu_ms)
    check_idle_seconds(both.report.headline.idle_seconds, {key: one[ACTIVE] for key, one in expected.items()})
    seconds = both.report.headline.idle_seconds
    if seconds is not None:
        reported = found.states[ACTIVE]
        assert (seconds.sampled_gpu_ms, seconds.idle_gpu_ms) == (reported.sampled_gpu_ms, reported.idle_gpu_ms)


def check_means(found: Sequence[MeanActivity], ticks: Sequence[Seen]) -> None:
    names = {"sm": "sm", "occupancy": "occupancy", "tensor": "tensor", "memory_bandwidth": "bandwidth"}
    expected = {name: means.activity(ticks, column) for name, column in names.items()}
    assert {one.metric for one in found} == {name for name, one in expected.items() if one[0]}
    for one in found:
        gpu_ms, mean, low_ms = expected[one.metric]
        assert (one.known_gpu_ms, one.low_gpu_ms) == (us(gpu_ms), us(low_ms)), one.metric
        assert one.mean == pytest.approx(mean), one.metric


def test_activity_of_sms_and_memory(both: Both) -> None:
    found = both.report[Usefulness]
    assert found.activity
    check_means(found.activity, [one for ticks in both.counted.ticks.values() for one in ticks])
    for card in found.cards:
        check_means(card.activity, both.counted.ticks[card.host, card.gpu])


def test_active_hours_with_few_sms_per_owner_match_an_independent_computation(both: Both) -> None:
    found = {(one.owner, one.program): one for one in both.report[Usefulness].owners}
    expected = means.owners_activity(both.counted)
    assert set(found) == set(expected)
    for name, one in found.items():
        gpu_ms, sm, low_ms = expected[name]
        assert (one.gpu_ms, one.low_gpu_ms, one.sm) == (us(gpu_ms), us(low_ms), pytest.approx(sm)), name


def test_runs_that_looked_busy_with_few_sms(both: Both) -> None:
    found = both.report[Usefulness].busy_with_few_sms
    expected = {
        (*key, run[0].since_ms): run for key in both.counted.ticks for run in means.busy_with_few_sms(both.counted, key)
    }
    assert {(one.host, one.gpu, one.since_ms) for one in found} == set(expected)
    assert [one.observed_ms for one in found] == sorted((one.observed_ms for one in found), reverse=True)
    if STUCK in {host for host, _ in both.counted.cards} and both.asked.since_ms > 2 * HOUR_MS:
        assert len({one.gpu for one in found}) == 2
    for one in found:
        run = expected[one.host, one.gpu, one.since_ms]
        gpu_ms = sum(each.gpu_ms for each in run)
        assert (one.until_ms, one.observed_ms) == (run[-1].until_ms, sum(each.ms for each in run))
        assert one.gpu_ms == us(gpu_ms)
        assert one.sm == pytest.approx(sum(each.gpu_ms * each.row["sm"] / 200 for each in run) / gpu_ms)
        moments = {each.ts_ms for each in run}
        there = [
            each.row
            for process, ticks in both.counted.processes.items()
            for each in ticks
            if process[:2] == (one.host, one.gpu) and each.ts_ms in moments
        ]
        assert set(one.owners) == {row["owner"] for row in there}
        assert set(one.programs) == {row["program"] for row in there}


def test_right_size(both: Both) -> None:
    found = both.report[RightSize]
    listed = {(one.host, one.gpu, one.owner, one.program, one.job): one for one in found.workloads}
    expected = {key: one for key, one in means.taken(both.counted).items() if one.gpu_ms}
    assert set(listed) == set(expected)
    fitting_ms = 0.0
    for key, one in listed.items():
        taken = expected[key]
        card = one.host, one.gpu
        sizes = [size for size, _ in taken.memory]
        assert one.gpu_ms == us(taken.gpu_ms)
        assert (one.peak_bytes, one.p95_bytes) == (max(sizes, default=None), means.least_not_exceeded(taken.memory))
        assert (one.peak_utilization, one.p95_utilization) == (
            max((use / 10_000 for use, _ in taken.busiest), default=None),
            None if not taken.busiest else (means.least_not_exceeded(taken.busiest) or 0) / 10_000,
        )
        assert one.unknown_gpu_ms == pytest.approx(taken.gpu_ms * taken.unknown_ms / taken.ms, abs=0.01)
        most = means.least_not_exceeded(taken.sms)
        assert one.p95_sm_utilization == (None if most is None else most / 200)
        usable = means.usable_bytes(both.counted, card)
        assert one.usable_bytes == usable
        too_large = usable is not None and any(size * 2 > usable for size in sizes)
        fits_half = False if too_large else None if usable is None or taken.unknown_ms or not sizes else True
        assert one.fits_half is fits_half, key
        if both.counted.cards[card]["mig"] == "instance":
            check_smaller_profile(one, both.counted, sizes if not taken.unknown_ms else [*sizes, None])
        fitting_ms += taken.gpu_ms if fits_half else 0
        cost = means.spent(both.counted, PRICES, ((card, tick) for tick in taken.ticks))
        assert one.cost is not None
        assert one.cost.amounts == pytest.approx(
            dict(sum((Counter(each.amounts) for each in cost.values()), Counter())), abs=1e-6
        )
    assert found.half.gpu_ms == pytest.approx(fitting_ms, abs=1)
    assert found.every.gpu_ms == pytest.approx(sum(one.gpu_ms for one in expected.values()), abs=1)


def check_smaller_profile(one: ProgramOnCard, counted: Counted, sizes: list[int | None]) -> None:
    """Compare what a program on an instance of 3 of 7 slices would have fitted: an eighth or a quarter of an H100."""
    card = one.host, one.gpu
    whole = means.whole_bytes(counted, card)
    if whole is None or "H100" not in counted.cards[card]["model"] or None in sizes or not sizes:
        assert one.fits_slice is not True
        return
    largest = max(size for size in sizes if size is not None)
    part = "1/8" if largest <= whole * 0.1125 else "1/4" if largest <= whole * 0.225 else None
    assert (one.fits_slice, one.slice) == (part is not None, part)


def test_slow_cards(both: Both) -> None:
    found = {(one.host, one.gpu): one for one in both.report[SlowCards].cards}
    assert set(found) == set(both.counted.ticks)
    for key, card in found.items():
        expected = means.slowed(both.counted, key)
        assert {name: getattr(card, name) for name in expected} == expected, key
    order = [one.slowed_ms for one in both.report[SlowCards].cards]
    assert order == sorted(order, reverse=True)


def test_recovery_actions_of_cards(both: Both) -> None:
    found = {
        (one.host, one.gpu): (one.recovery_action, one.recovery_ms, one.recovery_at_ms) for one in both.report.cards
    }
    assert found == {key: means.recovery(both.counted, key) for key in found}


def check_idle_time(one: IdleTime, sums: list[float]) -> None:
    """Compare; each tick is rounded to whole microseconds, and its energy to whole mJ."""
    gpu_ms, sampled_ms, idle_ms, powered_ms, joules = sums
    assert one.gpu_ms == us(gpu_ms)
    near = 0.001 * 2000
    assert one.sampled_gpu_ms == pytest.approx(sampled_ms, abs=near)
    assert one.idle_gpu_ms == pytest.approx(idle_ms, abs=near)
    assert one.measured_gpu_ms == pytest.approx(powered_ms, abs=near)
    assert one.idle_share == (pytest.approx(idle_ms / sampled_ms, abs=1e-6) if sampled_ms else None)
    assert one.idle_joules == (pytest.approx(joules, abs=0.01) if powered_ms else None)


def check_idle_seconds(found: IdleSeconds | None, active: dict[Key, list[float]]) -> None:
    """Compare with the sums of the active ticks of each card."""
    sampled_ms, idle_ms = (sum(one[place] for one in active.values()) for place in (1, 2))
    assert (found is None) == (not sampled_ms)
    if found is None:
        return
    near = 0.001 * 2000
    assert found.sampled_gpu_ms == pytest.approx(sampled_ms, abs=near)
    assert found.idle_gpu_ms == pytest.approx(idle_ms, abs=near)
    assert found.idle_share == pytest.approx(idle_ms / sampled_ms, abs=1e-6)
    worst = found.most_idle
    assert (worst is None) == (not idle_ms)
    if worst is not None:
        assert worst.idle_gpu_ms == pytest.approx(max(one[2] for one in active.values()), abs=near)
        assert worst.idle_gpu_ms == pytest.approx(active[worst.host, worst.gpu][2], abs=near)


def test_week_and_days(both: Both) -> None:
    week = means.by_clock(both.counted, both.asked.timezone, lambda at: (at.weekday(), at.hour))
    days = means.by_clock(both.counted, both.asked.timezone, lambda at: at.date().isoformat())
    for hour in both.report[Week]:
        of_hour = week.pop((hour.weekday, hour.hour), dict.fromkeys(STATES, 0.0))
        assert {state: hour.states[state].gpu_ms for state in STATES} == {
            state: us(ms) for state, ms in of_hour.items()
        }
    assert not week
    for day in both.report[Days]:
        of_day = days.pop(day.date, dict.fromkeys(STATES, 0.0))
        assert {state: day.states[state].gpu_ms for state in STATES} == {state: us(ms) for state, ms in of_day.items()}
    assert not days


def test_timeline(both: Both) -> None:
    timeline = both.report[Timeline]
    for card in timeline.cards:
        key = card.host, card.gpu
        ticks = both.counted.ticks.get(key, [])
        rounded_ms = means.rounded_ms(ticks)
        expected = means.cells(both.counted, key, timeline.cell_ms)
        assert len(card.cells) == len(expected)
        for found, one in zip(card.cells, expected, strict=True):
            assert sum(found) <= timeline.cell_ms + 2
            assert list(found) == pytest.approx(one, abs=rounded_ms + 2)
        for place, state in enumerate(STATES):
            total = sum(one.ms for one in ticks if one.state == state)
            assert sum(one[place] for one in card.cells) == pytest.approx(total, abs=len(expected))
        processes = {one[2:]: seen for one, seen in both.counted.processes.items() if one[:2] == key}
        assert len(card.holders) + card.more_holders == len(processes)
        longest = sorted((sum(one.ms for one in seen) for seen in processes.values()), reverse=True)
        known = [
            (sum(one.ms for one in seen), seen[0].since_ms, seen[-1].until_ms, pid, idle_ms, unknown_ms)
            for (pid, _), seen in processes.items()
            for idle_ms in [sum(one.ms for one in seen if one.state == IDLE)]
            for unknown_ms in [sum(one.ms for one in seen if one.state == UNKNOWN)]
        ]
        for one, ms in zip(card.holders, longest, strict=False):
            assert (ms, one.since_ms, one.until_ms, one.pid, one.idle_ms, one.unknown_ms) in known


def check_costs(found: Costs | None, expected: dict[str, Spent]) -> None:
    assert found is not None
    for state in STATES:
        amounts = {currency: value for currency, value in found[state].amounts.items() if value > 1e-6}
        assert amounts == pytest.approx({c: v for c, v in expected[state].amounts.items() if v > 1e-6}, abs=1e-6), state
        assert found[state].unpriced_gpu_ms == us(expected[state].unpriced_ms), state


def test_costs_of_models(both: Both) -> None:
    counted = both.counted
    costs = both.report[Money].costs
    assert len({(one.model, one.currency) for one in costs}) == len(costs)
    for model in {card["model"] for key, card in counted.cards.items() if key in counted.ticks}:
        ticks = ((key, one) for key, of in counted.ticks.items() if counted.cards[key]["model"] == model for one in of)
        expected = means.spent(counted, PRICES, ticks)
        of_model = [one for one in costs if one.model == model]
        for state in STATES:
            amounts = {
                one.currency: one.states[state].cost for one in of_model if one.currency and one.states[state].cost
            }
            assert amounts == pytest.approx(expected[state].amounts, abs=1e-6)
            assert sum(one.states[state].unpriced_gpu_ms for one in of_model) == us(expected[state].unpriced_ms)


def test_costs_of_cards_and_of_all(both: Both) -> None:
    counted = both.counted
    every = [(key, one) for key, ticks in counted.ticks.items() for one in ticks]
    check_costs(both.report.headline.costs, means.spent(counted, PRICES, every))
    for card in both.report.cards:
        key = (card.host, card.gpu)
        check_costs(card.costs, means.spent(counted, PRICES, ((key, one) for one in counted.ticks[key])))


@pytest.mark.parametrize("by", ["identity", *USAGE_BY])
def test_costs_of_owners(both: Both, by: str) -> None:
    counted, usage = both.counted, both.report[Usage]

    def name(one: Seen) -> object:
        if by == "identity":
            return one.row["owner"], one.row["program"]
        if by == "host":
            return one.row["host"]
        if by in {"kind", "served-model"}:
            return work_of(counted, one, by)
        return counted.cards[one.row["host"], one.row["gpu"]]["model"] if by == "model" else one.row[PARTY[by]]

    ticks: dict[object, list[tuple[Key, Seen]]] = {}
    for process, of_process in counted.processes.items():
        for one in of_process:
            if one.card_state != TRULY_IDLE:
                ticks.setdefault(name(one), []).append((process[:2], one))
    rows: dict[object, OwnerUsage | UsageRow] = (
        {(one.owner, one.program): one for one in usage.owners if one.kind == "listed"}
        if by == "identity"
        else {one.name: one for of in usage.usage_by if of.by == by for one in of.rows if one.kind == "listed"}
    )
    assert rows
    for whose, one in rows.items():
        check_costs(one.costs, means.spent(counted, PRICES, ticks[whose]))


def test_costs_of_streaks_and_of_what_limits_give_back(both: Both) -> None:
    every = [episode for _, episode in means.every_episode(both.counted)]

    def check(found: Cost | None, longer: Sequence[Episode], limit_ms: int) -> None:
        assert found is not None
        ticks = [((one.row["host"], one.row["gpu"]), one) for episode in longer for one in episode.held(limit_ms)]
        expected = means.spent(both.counted, PRICES, ticks)[IDLE_HELD]
        rounded_ms = sum(episode.rounded_ms(limit_ms) for episode in longer) if limit_ms else 0
        amounts = {currency: expected.amounts.get(currency, 0) for currency in found.amounts}
        assert found.amounts == pytest.approx(amounts, abs=rounded_ms / HOUR_MS * 4 + 1e-6)
        assert sum(expected.amounts.values()) == pytest.approx(sum(amounts.values()), abs=1e-9)
        assert found.unpriced_gpu_ms == pytest.approx(expected.unpriced_ms, abs=rounded_ms + 0.01)

    for one in both.report[Streaks].classes:
        check(one.cost, [episode for episode in every if episode.ms > one.longer_than_ms], 0)
    for limit in both.report[Streaks].what_if:
        check(limit.cost, [episode for episode in every if episode.ms > limit.limit_ms], limit.limit_ms)


def test_a_fleet_in_parts_of_hosts_has_the_same_numbers(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = ReportRequest(since="3d", what_if_limits_ms=LIMITS_MS, now_ms=END_MS)
    asked = replace(asked, sections=frozenset({"streaks", "what-if", "timeline"}))
    whole = collect(store, asked)
    monkeypatch.setattr("gua.report.hours.MOST_CARD_HOURS_OF_A_PART", 1)

    in_parts = collect(store, asked)

    assert in_parts[Streaks] == whole[Streaks]
    assert in_parts[Timeline] == whole[Timeline]
    assert whole[Streaks].what_if[0].cost is not None


@pytest.mark.parametrize("by", ["identity", *USAGE_BY])
def test_waste_of_owners_and_without_owner_is_the_cost_of_all_idle_held_time(both: Both, by: str) -> None:
    usage = both.report[Usage]
    rows: Sequence[OwnerUsage | UsageRow] = (
        usage.owners if by == "identity" else next(of.rows for of in usage.usage_by if of.by == by)
    )
    whole = wasted(both.report.headline.costs)
    together = added(wasted(one.costs) for one in rows)
    assert whole is not None
    assert together is not None
    assert together.amounts == pytest.approx(whole.amounts, abs=1e-6)
    assert together.unpriced_gpu_ms == us(whole.unpriced_gpu_ms)


def test_uses_of_all_of_owners_and_of_sources(both: Both) -> None:
    found, counted = both.report[AllocatedHours], both.counted
    every = means.every_part(counted)
    expected = means.uses(part for _, part in every)
    assert {use: ms for use, ms in found.uses.items() if ms} == {use: us(ms) for use, ms in expected.items()}
    # The seven sum to what was observed while somebody looked, the rest is what was observed otherwise.
    has_source = sum(one.gpu_ms for of in counted.ticks.values() for one in of if one.row["allocation"] is not None)
    assert sum(found.uses.values()) == us(has_source)
    assert found.with_source_gpu_ms + found.without_source_gpu_ms == pytest.approx(
        sum(time.gpu_ms for time in both.report.headline.states.values()), abs=1
    )
    costs = means.spent_by_use(counted, PRICES, every)
    assert found.costs is not None
    for use, cost in found.costs.items():
        check_cost(cost, costs[use])
    for rows, name in (
        (found.owners, lambda part: (part.source, part.owner)),
        (found.allocated, lambda part: (part.source, None)),
    ):
        of: dict[object, list[tuple[Key, SeenPart]]] = {}
        for key, part in every:
            if part.source and part.gpu_ms > 0:
                of.setdefault(name(part), []).append((key, part))
        assert {(one.source, one.owner) for one in rows} == set(of)
        for one in rows:
            parts = of[one.source, one.owner]
            uses = means.uses(part for _, part in parts)
            assert {use: ms for use, ms in one.uses.items() if ms} == {use: us(ms) for use, ms in uses.items()}
            assert one.allocated_gpu_ms == us(sum(uses.values()))
            assert one.shared_gpu_ms == us(sum(part.gpu_ms for _, part in parts if part.is_shared))
            costs = means.spent_by_use(counted, PRICES, parts)
            for use, cost in (one.costs or {}).items():
                check_cost(cost, costs[use])


def test_allocated_time_by_kind_of_work_and_by_served_model(both: Both) -> None:
    allocated_parts = [(key, part) for key, part in means.every_part(both.counted) if part.source and part.gpu_ms > 0]
    found = {work.by: work.rows for work in both.report[AllocatedHours].work_by}
    assert set(found) == {"kind", "served-model"}
    for by, column in (("kind", "workload_kind"), ("served-model", "workload_model")):
        names = means.work_of_allocations(both.counted, column)
        expected: dict[str | None, list[SeenPart]] = {}
        for key, part in allocated_parts:
            expected.setdefault(names.get((key[0], part.source, part.allocation_id)), []).append(part)
        assert {row.name for row in found[by]} == set(expected)
        if both.asked.hosts != ("lab-1", "lab-2"):
            assert None in expected
            assert len(expected) > 1
        for row in found[by]:
            uses = means.uses(expected[row.name])
            assert {use: ms for use, ms in row.uses.items() if ms} == {use: us(ms) for use, ms in uses.items()}
            assert row.allocated_gpu_ms == us(sum(uses.values()))


def check_cost(found: Cost, expected: Spent) -> None:
    amounts = {currency: value for currency, value in found.amounts.items() if value > 1e-6}
    assert amounts == pytest.approx({c: v for c, v in expected.amounts.items() if v > 1e-6}, abs=1e-6)
    assert found.unpriced_gpu_ms == us(expected.unpriced_ms)


def test_sources_and_for_how_long_they_failed(both: Both) -> None:
    found = {(one.host, one.source): one for one in both.report.allocation_sources}
    assert set(found) == {(row["host"], row["source"]) for row in both.counted.sources}
    for key, one in found.items():
        rows = [row for row in both.counted.sources if (row["host"], row["source"]) == key]
        failed = [row for row in rows if row["status"] != "ok"]
        assert one.failed_ms == sum(row["ms"] for row in failed)
        assert one.ok_ms == sum(row["ms"] for row in rows) - one.failed_ms
        assert one.ok == (rows[-1]["status"] == "ok")
        assert one.reason == (failed[-1]["reason"] if failed else None)
        assert one.last_ms == rows[-1]["ts_ms"]


def test_current_allocations_and_since_when_they_are_empty(both: Both) -> None:
    found = both.report[Now]
    expected = {}
    for (host, gpu, source, identity), parts in means.by_allocation(both.counted).items():
        ticks = both.counted.ticks[host, gpu]
        newest = parts[-1]
        is_seen = found.as_of_ms - ticks[-1].until_ms <= 3 * max(
            ticks[-1].span_ms, both.counted.cards[host, gpu]["interval_ms"]
        )
        if newest.until_ms < ticks[-1].until_ms or ticks[-1].row["mig"] == "parent" or not is_seen or not newest.gpu_ms:
            continue
        row = [newest]
        if newest.use != "unknown":
            row = list(means.parts_in_a_row(parts))[-1]
            assert row[-1] is newest
        expected[host, gpu, source, identity] = (newest.use, row[0].since_ms, sum(one.ms for one in row), newest.owner)
    reported = {
        (one.host, one.gpu, one.source, one.allocation_id): (one.use, one.use_since_ms, one.in_use_ms, one.owner)
        for one in found.allocations
    }
    known = {key: value for key, value in expected.items() if value[0] != "unknown"}
    assert {key: value for key, value in reported.items() if value[0] != "unknown"} == known
    assert set(reported) == set(expected)
    allocated_cards = {key[:2] for key in reported}
    assert not allocated_cards & {(one.host, one.gpu) for one in (*found.free, *found.maybe_allocated)}


def test_what_taking_empty_allocations_back_would_have_freed(both: Both) -> None:
    rows = [
        (key[2:], row)
        for key, parts in means.by_allocation(both.counted).items()
        for row in means.parts_in_a_row([part for part in parts if part.gpu_ms > 0])
        if row[0].use == "empty"
    ]
    limits = both.report[Streaks].what_if_empty
    assert bool(limits) == bool(both.counted.sources)
    for limit in limits:
        longer = [(whose, row) for whose, row in rows if sum(one.ms for one in row) > limit.limit_ms]
        assert limit.reclaims == len(longer)
        given_back = sum(means.after(row, limit.limit_ms) for _, row in longer)
        # A run of ticks gives back a part of its GPU time, which is rounded to 1 ms a tick.
        assert limit.gpu_ms == pytest.approx(given_back, abs=0.01 + sum(len(row) for _, row in longer))
