"""A report that reads days is that of their hours and from the ticks, to the last digit, whatever becomes of ticks."""

from __future__ import annotations

import json
import shutil
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from fakes import by_other_means as means
from fakes.by_other_means import Recorded
from fakes.fleet import spooled_ticks
from fakes.restless import restless
from gua.core.durations import to_rfc3339
from gua.core.parameters import BY_DAY
from gua.core.ports import Row, SpooledTick
from gua.core.tick import Origin
from gua.core.words import Source
from gua.report import days, streak_limit
from gua.report.collect import collect
from gua.report.forms.data import report_json
from gua.report.hours import choose_hours, tick_hours
from gua.report.parts import in_parts
from gua.report.prices import PRICES, Prices
from gua.report.sections.card_streaks import CARD_STREAKS, IDLE_SPLIT, LONG_STREAK_MS, CardStreaksRow
from gua.report.sections.now_rows import _began_unseen
from gua.report.sections.right_size import CARD_SIZES
from gua.report.sections.slow_cards import SLOW_CARDS_VIEW
from gua.report.sections.usage_rows import HOLDERS, USAGE_VIEW, CardProcess, OwnerSpanRow
from gua.report.views import SHARED
from gua.report.window import ReportRequest
from gua.sim.host import END_MS, Scenario, simulate
from gua.store import hours
from gua.store.database import Store, open_store
from gua.store.report_views import report_views, report_views_with_days

pytestmark = pytest.mark.engine

HOUR_MS = 3_600_000
DAY_MS = 24 * HOUR_MS
MIDNIGHT_MS = END_MS // DAY_MS * DAY_MS
LAST_DAY = MIDNIGHT_MS // DAY_MS - 1
# Of a row of card_streaks, what a card does now and since when.
OF_NOW = CardStreaksRow._fields.index("watched_since_ms")
SUMS = frozenset({"headline", "cards"})
# Sections of which a question reads days.
OF_DAYS = frozenset({"headline", "cards", "usage", "time-of-day", "money", "energy", "usefulness", "slow-cards"})
WINDOWS: Mapping[str, Mapping[str, Any]] = {
    "everything": {"since": "6d"},
    "edges in the middle of ticks": {"since": "2026-03-23T07:13:07.501999", "until": "2026-03-26T22:59:59.999999"},
    "a zone three quarters off": {"since": "5d", "timezone": "Asia/Kathmandu"},
    "added up": {"since": "5d", "hosts": ("restless-1", "lab"), "by": ("host",)},
}


def lab() -> list[SpooledTick]:
    origin = Origin(host="lab", source=Source.SIMULATOR, interval_ms=600_000)
    return list(spooled_ticks(simulate(Scenario(seed=1, gpus=2, interval_ms=600_000, ticks=6 * 24 * 4), origin=origin)))


def pieces(host: str, seed: int) -> list[SpooledTick]:
    """Return the half hours before each midnight and noon, and a little after, so that days have holes and edges."""
    ends = sorted(MIDNIGHT_MS - half * DAY_MS // 2 + seed * 1_234_567 for half in range(8))
    return list(
        spooled_ticks(
            tick
            for number, end_ms in enumerate(ends)
            for tick in restless(host, seed=seed * 10 + number % 2, ticks=55, end_ms=end_ms)
        )
    )


class Noting:
    """A store that notes which questions read days."""

    is_concurrent = False

    def __init__(self, store: Store) -> None:
        self.store = store
        self.by_day: dict[str, list[int]] = {}
        self.times: Counter[str] = Counter()

    def rows(self, view: str, parameters: Mapping[str, object]) -> Iterable[Row]:
        self.times[view] += 1
        if "days" in parameters:
            self.by_day[view] = list(parameters["days"])  # type: ignore[call-overload]
        return self.store.rows(view, parameters)


def report(store: Store, **request: Any) -> tuple[str, dict[str, list[int]]]:  # noqa: ANN401 - of a window, as written
    """Return the report as JSON, and which days its questions read."""
    reader = Noting(store)
    asked = ReportRequest(now_ms=END_MS, **{"sections": OF_DAYS, **request})
    return json.dumps(report_json(collect(reader, asked)), indent=0), reader.by_day


def numbers(store: Store, **request: Any) -> str:  # noqa: ANN401 - as above
    """Return the sums of cards alone: what is asked of them is whether days are added up again."""
    return report(store, sections=SUMS, **request)[0]


def held(store: Store) -> list[int]:
    found = store.rows("held_days", {"since_ms": 0, "until_ms": END_MS + DAY_MS, "hosts": []})
    return [row["day"] for row in found]


def command(store: Store, sql: str) -> None:
    store._client.command(sql)  # noqa: SLF001 - what happens to a store below its own interface


@pytest.fixture(autouse=True)
def always(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(days, "LEAST_CARD_HOURS", 0)
    monkeypatch.setattr(hours, "LEAST_HOURS", 0)


@pytest.fixture(scope="module")
def ticks() -> dict[str, list[SpooledTick]]:
    return {"lab": lab(), "restless-1": pieces("restless-1", 1), "restless-2": pieces("restless-2", 2)}


@pytest.fixture(scope="module")
def counted(
    ticks: dict[str, list[SpooledTick]], tmp_path_factory: pytest.TempPathFactory, made_store: Callable[[Path], str]
) -> Path:
    """Return the folder of a store with three hosts, its hours and days counted, and prices that begin on the way."""
    folder = tmp_path_factory.mktemp("days") / "store"
    with open_store(made_store(folder)) as opened:
        for of_host in ticks.values():
            assert opened.land(of_host) == []
        opened.count_hours()
        assert opened.count_days() == 5 + 5 + 5
        assert opened.count_days() == 0
        columns = ("model", "valid_from", "currency", "per_gpu_hour")
        begins = (MIDNIGHT_MS - 4 * DAY_MS, MIDNIGHT_MS - 2 * DAY_MS + 7 * HOUR_MS)
        models = {row["model"] for row in opened.rows("models", {})}
        rows = [(model, at // 1000, "EUR", 2.5 + at % 7) for at in begins for model in models]
        opened.insert_json("prices", [dict(zip(columns, row, strict=True)) for row in rows])
    return folder


@pytest.fixture
def store(counted: Path, tmp_path: Path) -> Iterator[Store]:
    """Return a store like it, for one test."""
    shutil.copytree(counted, tmp_path / "store", symlinks=True)
    with open_store(f"chdb://{tmp_path / 'store'}") as opened:
        yield opened


def test_the_same_report_from_days_from_hours_and_from_ticks(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    # With owners instead of sessions, which are made of runs.
    monkeypatch.setattr(streak_limit, "MOST_CARD_HOURS", 0)
    for name, window in WINDOWS.items():
        of_days, read = report(store, **window)
        ticked, none = report(store, from_ticks=True, **window)
        assert of_days == ticked, name
        headline = json.loads(of_days)["headline"]
        assert headline["idle_held"]["gpu_hours_in_long_streaks"] > 0
        assert headline["idle_seconds"]["most_idle"]["idle_gpu_hours"] > 0
        assert none == {}
        # A price begins on the second of the last three days, and ticks of the first hour of a window before it.
        assert read["owners"] == read["costs"] == read["overview"] == read["energy"] == read["idle_split"]
        assert read["slow_cards"] == read["overview"]
        assert LAST_DAY in read["overview"] or name == "edges in the middle of ticks"
        assert MIDNIGHT_MS // DAY_MS - 2 not in read["overview"]
        assert ("time_of_day" in read) == (name != "a zone three quarters off")
    of_days, _ = report(store)
    monkeypatch.setattr(days, "LEAST_CARD_HOURS", 10**9)
    of_hours, read = report(store)
    assert of_hours == of_days
    assert read == {}


def test_idle_held_time_of_days_is_that_of_the_streaks_of_each_card(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    for window in ({"since": "4d"}, {"since": "70h", "until": "5h", "hosts": ("lab",)}):
        of_cards = json.loads(report(store, sections=SUMS, **window)[0])["headline"]["idle_held"]
        monkeypatch.setattr(streak_limit, "MOST_CARD_HOURS", 0)
        of_days = json.loads(report(store, sections=SUMS, **window)[0])["headline"]["idle_held"]
        monkeypatch.undo()
        monkeypatch.setattr(days, "LEAST_CARD_HOURS", 0)
        assert of_days == of_cards
        assert of_days["never_used"]["gpu_hours_in_long_streaks"] < of_days["never_used"]["gpu_hours"]


def test_why_cards_are_slow_and_what_memory_they_have_is_told_of_days_as_of_ticks(store: Store) -> None:
    recorded = Recorded(store)
    told: Counter[str] = Counter()
    for since_ms, until_ms, hosts in (
        (-5 * DAY_MS, DAY_MS, ()),
        (-4 * DAY_MS - 1_234_567, -DAY_MS // 2 - 1_000_001, ("restless-1", "restless-2")),
    ):
        window = MIDNIGHT_MS + since_ms, MIDNIGHT_MS + until_ms
        bounds = {"since_ms": window[0], "until_ms": window[1], "hosts": list(hosts)}
        reader, found, of_days = days.with_days(store, bounds, price_starts=(), timezone="UTC")
        read = {**bounds, "tick_hours": tick_hours(found), "use_hourly": 1}
        assert len(of_days) >= 3
        of_ticks = recorded.window(*window, hosts)
        for view, expected in ((SLOW_CARDS_VIEW, means.slowed), (CARD_SIZES, means.size)):
            rows = {(row.host, row.gpu): row._asdict() for row in view.rows(reader, read)}
            assert set(rows) == set(of_ticks.ticks)
            for key, row in rows.items():
                assert {name: row[name] for name in expected(of_ticks, key)} == expected(of_ticks, key), key
                told.update(name for name, value in row.items() if value)
    assert told >= Counter(("heat_ms", "hardware_ms", "xid", "xid_errors", "row_remap", "is_cut", "whole_bytes"))


# Of each tick and card one of ten, for a while the same:
# active, idle-held never used (4) or low (2), truly-idle, unknown, none.
EDGES = """
INSERT INTO gua.card_ticks (
    host, gpu, ts, duration_ms, gpu_time_ms, interval_ms, utilization, memory_used_bytes, memory_reserved_bytes,
    process_list
)
SELECT
    'edges',
    concat('GPU-', toString(number % 20) AS card),
    fromUnixTimestamp64Milli({since_ms} + intDiv(number, 20) * 600000 AS end_ms, 'UTC'),
    600000,
    600000,
    600000,
    multiIf(kind = 0, 9000, kind < 5, 0, kind < 7, 300, kind = 8, NULL, 0),
    if(kind = 7, 0, 1073741824),
    0,
    'known'
FROM
(
    SELECT
        number,
        cityHash64(number % 20, intDiv(number, 20 * (1 + number % 20 % 5))) % 10 AS any,
        -- From the second day on four of the cards are as they are, two of them not always known.
        [1, 7, if(any < 3, 8, 1), if(any < 3, 8, 7)][number % 4 + 1] AS later,
        if(number % 20 < 16 OR number < 20 * 200, any, later) AS kind
    FROM numbers(20 * 6 * 24 * 5)
)
WHERE kind != 9
"""


# Of each tick and card three processes, which idle, work, are unknown and missing by turns, and change their names.
EDGE_PROCESSES = """
INSERT INTO gua.process_ticks (
    host, gpu, ts, pid, created, duration_ms, gpu_time_ms, memory_bytes, utilization, owner, program, container_id
)
SELECT
    'edges',
    concat('GPU-', toString(card)),
    fromUnixTimestamp64Milli({since_ms} + intDiv(number, 60) * 600000, 'UTC'),
    intDiv(number, 20) % 3 AS place,
    fromUnixTimestamp64Milli({since_ms} - 600000 + intDiv(tick, 200 + card * 50) * 600000, 'UTC'),
    600000,
    100000 + cityHash64(number) % 100000,
    1048576 * (cityHash64(number) % 9),
    multiIf(kind = 0, 9000, kind = 1, NULL, 0),
    if(card % 5 = 1, NULL, ['ana', 'bo'][1 + cityHash64(card, place, intDiv(tick, 50)) % 2]),
    if(card % 5 = 2, toString(intDiv(tick, 150)), 'python'),
    if(card % 5 = 3, toString(intDiv(tick, 100)), NULL)
FROM
(
    SELECT
        number,
        number % 20 AS card,
        intDiv(number, 60) AS tick,
        cityHash64(number % 60, intDiv(tick, 1 + number % 7)) % (if(number % 4 = 0, 400, 12)) AS kind
    FROM numbers(60 * 6 * 24 * 5)
)
WHERE kind != 2
"""
# One that idles from a day into the next, which a price splits and is read by its hours, and one of a single tick.
LATE_PROCESSES = """
INSERT INTO gua.process_ticks (
    host, gpu, ts, pid, created, duration_ms, gpu_time_ms, memory_bytes, utilization, owner, program
)
SELECT
    'edges',
    'GPU-16',
    fromUnixTimestamp64Milli({since_ms} + tick * 600000, 'UTC'),
    if(tick = 672, 78, 77) AS pid,
    fromUnixTimestamp64Milli({since_ms} + if(tick = 672, 671, 346) * 600000, 'UTC'),
    600000,
    100000,
    1048576,
    0,
    'cy',
    'late'
FROM (SELECT arrayJoin(arrayPushBack(range(347, 456), 672)) AS tick)
"""
# Of a host without any process: a card that worked for sixteen hours and does nothing since.
QUIET = """
INSERT INTO gua.card_ticks (
    host, gpu, ts, duration_ms, gpu_time_ms, interval_ms, utilization, memory_used_bytes, memory_reserved_bytes,
    process_list
)
SELECT
    'quiet',
    'GPU-q',
    fromUnixTimestamp64Milli({since_ms} + number * 600000, 'UTC'),
    600000,
    600000,
    600000,
    if(number < 96, 9000, 0),
    0,
    0,
    'known'
FROM numbers(6 * 24 * 5)
"""
Rows = list[OwnerSpanRow]


@pytest.fixture(scope="module")
def edges(counted: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of a store with a host besides of which every tick of five days is something else."""
    folder = tmp_path_factory.mktemp("edges") / "store"
    shutil.copytree(counted, folder, symlinks=True)
    with open_store(f"chdb://{folder}") as opened:
        for statement in (EDGES, EDGE_PROCESSES, LATE_PROCESSES, QUIET):
            command(opened, statement.replace("{since_ms}", str(MIDNIGHT_MS - 5 * DAY_MS + 600_000)))
        opened.count_hours()
        assert opened.count_days() == 10
    return folder


@pytest.fixture
def edge_store(edges: Path) -> Iterator[Store]:
    with open_store(f"chdb://{edges}") as opened:
        yield opened


def test_streaks_are_joined_over_midnight_as_over_an_hour(edge_store: Store) -> None:
    for since_ms, until_ms in ((-5 * DAY_MS, 0), (-4 * DAY_MS - 1_234_567, -DAY_MS // 3 + 1)):
        bounds = {"since_ms": MIDNIGHT_MS + since_ms, "until_ms": MIDNIGHT_MS + until_ms, "hosts": ["edges"]}
        reader, found, of_days = days.with_days(edge_store, bounds, price_starts=(), timezone="UTC")
        read = {**bounds, "tick_hours": tick_hours(found), "use_hourly": 1}
        assert len(of_days) >= 3
        (split,) = IDLE_SPLIT.rows(reader, read)
        asked = {**read, "timezone": "UTC", "long_streak_ms": LONG_STREAK_MS}
        cards = CARD_STREAKS.rows(edge_store, asked)
        assert len(cards) == 20
        assert split._asdict() == {name: sum(getattr(card, name) for card in cards) for name in split._fields}
        assert 0 < split.low_long_us < split.low_us
        assert 0 < split.never_used_long_us < split.never_used_us


def owners(rows: Rows) -> Rows:
    """Return the rows without who is there now, in one order."""
    listed = [row for row in rows if sum(row.gpu_us)]
    return sorted((row._replace(holders=(), priced=tuple(sorted(row.priced))) for row in listed), key=repr)


def holders(listed: Iterable[CardProcess], *, since_ms: int) -> list[CardProcess]:
    """Return the processes of each card that were there last, at a moment or later."""
    found = [one for one in listed if one.last_ms >= since_ms]
    newest: dict[tuple[str, str], int] = {}
    for one in found:
        newest[one.host, one.gpu] = max(newest.get((one.host, one.gpu), 0), one.last_ms)
    return sorted((one for one in found if one.last_ms == newest[one.host, one.gpu]), key=repr)


def still(rows: Sequence[CardStreaksRow], *, since_ms: int) -> list[CardStreaksRow]:
    """Return cards in one order; of those that were not there at a moment or later, idle-held time alone."""
    gone = {"state": "", "newest_span_ms": 0, "watched_since_ms": 0, "is_lower_bound": False}
    nothing = dict.fromkeys(("since_ms", "in_state_ms", "in_state_us", "free_ratio_at_this_hour"), None)
    return sorted(row if row.as_of_ms >= since_ms else row._replace(**gone, **nothing) for row in rows)


def test_processes_are_the_same_over_midnight_as_over_an_hour(edge_store: Store) -> None:
    for since_ms, until_ms, hosts, most in (
        (-5 * DAY_MS, 0, ["edges"], ("identity", "host", "model")),
        (-5 * DAY_MS, END_MS - MIDNIGHT_MS, [], ("identity",)),
        (-4 * DAY_MS - 1_234_567, -DAY_MS // 3 + 1, ["edges", "restless-2"], ("identity",)),
    ):
        bounds = {"since_ms": MIDNIGHT_MS + since_ms, "until_ms": MIDNIGHT_MS + until_ms, "hosts": hosts}
        prices = Prices.within(PRICES.rows(edge_store, {}), since_ms=bounds["since_ms"], until_ms=bounds["until_ms"])
        starts = [row.valid_from_ms for row in prices.rows]
        daily, found, of_days = days.with_days(edge_store, bounds, price_starts=starts, timezone="UTC")
        assert isinstance(daily, days.DailyReader)
        of_now = daily.telling_of_now(MIDNIGHT_MS + until_ms, 600_000, cards=10_000)
        assert len(of_days) >= len(of_now.days_before_now) > 0
        read = {**bounds, **prices.parameters, "tick_hours": tick_hours(found), "use_hourly": 1}
        every_hour = tick_hours(choose_hours(edge_store, bounds, from_ticks=True))
        for by in most:
            of_hours = USAGE_VIEW.rows(edge_store, {**read, "by": by})
            assert owners(USAGE_VIEW.rows(daily, {**read, "by": by})) == owners(of_hours)
        with_now = USAGE_VIEW.rows(of_now, {**read, "by": "identity"})
        ticked = USAGE_VIEW.rows(edge_store, {**read, "by": "identity", "tick_hours": every_hour, "use_hourly": 0})
        assert owners(with_now) == owners(ticked)
        recently = {"since_ms": MIDNIGHT_MS + until_ms - 2 * HOUR_MS}
        of_ticks = {**read, "tick_hours": every_hour, "use_hourly": 0}
        still_there = holders(HOLDERS.rows(of_now, read), **recently)
        assert still_there == holders(HOLDERS.rows(edge_store, of_ticks), **recently)
        assert still_there == holders((one for row in ticked for one in row.holders), **recently)
        assert still_there == holders((one for row in with_now for one in row.holders), **recently)
        asked = {"timezone": "Asia/Kathmandu", "long_streak_ms": LONG_STREAK_MS}
        now = still(CARD_STREAKS.rows(of_now, {**read, **asked}), **recently)
        # Of a large fleet of those days alone that tell since when; of a process, whether its card was watched before.
        brief = {(row.host, row.gpu): row for row in CARD_STREAKS.rows(of_now, {**read, **asked, "long_streak_ms": 0})}
        for row in now:
            if row.as_of_ms >= recently["since_ms"]:
                here = brief[row.host, row.gpu]
                assert here.watched_since_ms >= row.watched_since_ms
                assert here[:OF_NOW] == row[:OF_NOW]
        for one in still_there:
            watched = [rows[one.host, one.gpu].watched_since_ms for rows in (brief, {(r.host, r.gpu): r for r in now})]
            assert _began_unseen(one, watched[0]) == _began_unseen(one, watched[1])
        assert now == still(CARD_STREAKS.rows(edge_store, {**of_ticks, **asked}), **recently)
        if hosts == ["edges"]:
            # Some idle since a day that is read as one.
            since = [one.idle_since_ms // DAY_MS for one in still_there if one.idle_since_ms]
            assert min(since) <= max(of_now.days_before_now)
            long_ago = {one.gpu for one in now if (one.since_ms or END_MS) // DAY_MS in of_now.days_before_now}
            assert long_ago == {f"GPU-{card}" for card in range(16, 20)}
            assert max(row.longest_idle_ms or 0 for row in ticked) > DAY_MS


@pytest.mark.parametrize("by", ["identity", "owner", "program", "host", "model"])
def test_without_prices_usage_of_days_is_that_of_hours(edge_store: Store, by: str) -> None:
    bounds = {"since_ms": MIDNIGHT_MS - 5 * DAY_MS, "until_ms": END_MS, "hosts": []}
    daily, found, of_days = days.with_days(edge_store, bounds, price_starts=(), timezone="UTC")
    read = {**bounds, **Prices().parameters, "tick_hours": tick_hours(found), "use_hourly": 1, "by": by}
    assert read["price_models"] == []
    assert len(of_days) >= 3
    of_hours = USAGE_VIEW.rows(edge_store, read)
    assert owners(USAGE_VIEW.rows(daily, read)) == owners(of_hours)
    assert len({state for row in of_hours for state, us in enumerate(row.gpu_us) if us}) == 3


def test_a_card_without_processes_is_idle_since_a_day_long_ago(edge_store: Store) -> None:
    bounds = {"since_ms": MIDNIGHT_MS - 5 * DAY_MS, "until_ms": MIDNIGHT_MS, "hosts": ["quiet"]}
    daily, found, _ = days.with_days(edge_store, bounds, price_starts=(), timezone="UTC")
    assert isinstance(daily, days.DailyReader)
    of_now = daily.telling_of_now(MIDNIGHT_MS, 600_000, cards=10_000)
    read = {**bounds, "tick_hours": tick_hours(found), "use_hourly": 1, "timezone": "UTC", "long_streak_ms": 0}
    every_hour = tick_hours(choose_hours(edge_store, bounds, from_ticks=True))
    (brief,) = CARD_STREAKS.rows(of_now, read)
    (whole,) = CARD_STREAKS.rows(edge_store, {**read, "tick_hours": every_hour, "use_hourly": 0})
    assert brief[:OF_NOW] == whole[:OF_NOW]
    assert brief.since_ms == MIDNIGHT_MS - 5 * DAY_MS + 96 * 600_000


def test_who_holds_cards_is_told_of_days_where_runs_would_be_too_many(
    edge_store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    window: dict[str, Any] = {
        "since": to_rfc3339(MIDNIGHT_MS - 5 * DAY_MS),
        "until": to_rfc3339(MIDNIGHT_MS),
        "sections": frozenset({"headline", "cards", "usage", "now"}),
    }
    ticked, _ = report(edge_store, from_ticks=True, **window)
    assert json.loads(ticked)["now"]["holders"]
    monkeypatch.setattr(days, "LEAST_CARD_DAYS", 0)
    monkeypatch.setattr("gua.report.collect.skipped", lambda *_: 1)
    of_days, read = report(edge_store, **window)
    assert of_days == ticked
    assert "holders" not in read
    assert read["usage"] == read["card_streaks"] == read["overview"][:-1]
    monkeypatch.setattr(streak_limit, "MOST_CARD_DAYS", 0)
    # Of a large fleet by name: apart from usage.
    monkeypatch.setattr("gua.report.collect.skipped", lambda *_: None)
    of_both, read = report(edge_store, **window)
    # Of so many cards it is not told how often one is free at an hour.
    brief = [line if "free_ratio_at_this_hour" not in line else "" for line in of_both.splitlines()]
    assert brief == [line if "free_ratio_at_this_hour" not in line else "" for line in ticked.splitlines()]
    assert {one["free_ratio_at_this_hour"] for one in json.loads(of_both)["now"]["free"]} == {None}
    assert read["usage"] == read["overview"] == read["idle_split"]
    assert read["holders"] == read["card_streaks"] == read["overview"][:-1]
    # Nor need it be asked for: up to a size of its own.
    monkeypatch.setattr("gua.report.collect.skipped", lambda *_: 1)
    assert report(edge_store, **window)[0] == of_both
    # Nor at once: host by host it is the same.
    monkeypatch.setattr("gua.report.collect.MOST_CARD_HOURS_OF_NOW_AT_ONCE", 1)
    noting = Noting(edge_store)
    in_parts_of_hosts = collect(noting, ReportRequest(now_ms=END_MS, **window))
    assert json.dumps(report_json(in_parts_of_hosts), indent=0) == of_both
    assert noting.times["holders"] == len(in_parts_of_hosts.hosts) > 1
    monkeypatch.setattr(streak_limit, "MOST_CARD_HOURS_OF_NOW", 0)
    without_now = json.loads(report(edge_store, **window)[0])
    assert without_now["now"] is None
    assert without_now["owners"] == json.loads(of_both)["owners"]
    monkeypatch.setattr(streak_limit, "MOST_CARD_DAYS_APART", 0)
    left_out = json.loads(report(edge_store, **window)[0])
    assert left_out["now"] is None
    assert left_out["streaks_skipped_card_hours"] == 1
    assert left_out["owners"] != without_now["owners"]


def test_of_a_large_fleet_what_a_card_does_is_told_of_fewer_hours_than_who_holds_it() -> None:
    asked: dict[str, list[int]] = {}

    class Asked:
        is_concurrent = True

        def rows(self, view: str, parameters: Mapping[str, Any]) -> list[Row]:
            asked[f"{view} {parameters.get('long_streak_ms')}"] = parameters.get("days", [])
            return []

    bounds = {"since_ms": 0, "until_ms": MIDNIGHT_MS + 7 * HOUR_MS, "hosts": []}
    reader = days.DailyReader(Asked(), bounds, [days.HeldDay(LAST_DAY - ago, 0, 0) for ago in (2, 1, 0)], "UTC")
    for after_midnight, interval_ms, of_holders, of_cards in (
        (7, HOUR_MS, 2, 3),
        (0, HOUR_MS, 1, 2),
        (7, HOUR_MS + 1, 0, 0),
    ):
        of_now = reader.telling_of_now(MIDNIGHT_MS + after_midnight * HOUR_MS, interval_ms, cards=10_000)
        for view, long_streak_ms in (("holders", None), ("card_streaks", LONG_STREAK_MS), ("card_streaks", 0)):
            of_now.rows(view, {**bounds, "use_hourly": 1, "long_streak_ms": long_streak_ms})
        read = {question: len(of_question) for question, of_question in asked.items()}
        assert read["holders None"] == read[f"card_streaks {LONG_STREAK_MS}"] == of_holders
        assert read["card_streaks 0"] == of_cards


def test_where_views_alone_may_be_asked_for_no_days_are_read(store: Store) -> None:
    class OfViews(Noting):
        def rows(self, view: str, parameters: Mapping[str, object]) -> Iterable[Row]:
            return super().rows(view, {name: value for name, value in parameters.items() if name not in BY_DAY})

    reader = OfViews(store)
    by_views = collect(reader, ReportRequest(now_ms=END_MS, sections=SUMS))
    assert json.dumps(report_json(by_views), indent=0) == numbers(store)
    bounds = {"since_ms": END_MS - 4 * DAY_MS, "until_ms": END_MS, "hosts": []}
    _, every, none = days.with_days(reader, bounds, price_starts=(), timezone="UTC")
    daily, same, found = days.with_days(store, bounds, price_starts=(), timezone="UTC")
    assert none == frozenset()
    assert LAST_DAY in found
    assert isinstance(daily, days.DailyReader)
    assert [hour.hour for hour in every] == [hour.hour for hour in same]


def test_hosts_that_are_asked_for_in_parts_are_read_of_days_too(store: Store) -> None:
    bounds: dict[str, Any] = {"since_ms": MIDNIGHT_MS - 4 * DAY_MS, "until_ms": END_MS, "hosts": []}
    noting = Noting(store)
    for hosts, parts in (
        ([], (("lab",), ("restless-1", "restless-2"))),
        (["lab", "restless-1"], (("restless-1",), ("lab",))),
    ):
        daily, every, _ = days.with_days(noting, {**bounds, "hosts": hosts}, price_starts=(), timezone="UTC")
        read = {**bounds, "hosts": hosts, "tick_hours": tick_hours(every), "use_hourly": 1}
        (whole,) = IDLE_SPLIT.rows(daily, read)
        rows = []
        for part in parts:
            noting.by_day.clear()
            rows += IDLE_SPLIT.rows(in_parts(daily, (part,)), read)
            assert LAST_DAY in noting.by_day["idle_split"]
        assert whole.low_us > 0
        assert whole._asdict() == {name: sum(getattr(row, name) for row in rows) for name in whole._fields}
        # Of other hosts or another window it is not known which days hold.
        for other in ({"hosts": [*hosts, "node"]} if hosts else {}, {"since_ms": MIDNIGHT_MS - 3 * DAY_MS}):
            noting.by_day.clear()
            IDLE_SPLIT.rows(daily, {**read, **other})
            assert bool(noting.by_day) == (not other)
        if hosts:
            noting.by_day.clear()
            IDLE_SPLIT.rows(daily, {**read, "hosts": []})
            assert not noting.by_day


def test_weeks_of_which_no_hour_is_read_are_not_looked_at(store: Store) -> None:
    since = 20_509 * DAY_MS  # 2026-02-25, a Wednesday
    every = [days.HeldDay(day, 0, 0) for day in range(20_509, 20_536) if day != 20_523]
    read = days.by_day(every, {"since_ms": since})
    # Up to the day before the window; not the week with an odd day, nor that in which the days end.
    weeks = ["2026-01-19", "2026-01-26", "2026-02-02", "2026-02-09", "2026-02-16"]
    assert read["unread_weeks"] == [*weeks, "2026-03-02", "2026-03-16"]
    assert days.by_day(every[:1], {"since_ms": 0})["unread_weeks"] == ["1970-01-01"]
    assert "2026-02-23" in str(days.by_day(every, {"since_ms": since + 3_600_000})["unread_weeks"])

    parameters = {"since_ms": since, "until_ms": END_MS, "hosts": [], "use_hourly": 1, "tick_hours": [0], **read}
    views = report_views_with_days()
    asked = f"EXPLAIN indexes = 1 {views.written_out(views.query('time_of_day'))}"
    told = store._select(asked, {**parameters, "timezone": "UTC"}, store._report_settings)  # noqa: SLF001 - as it asks

    lines = [str(row["explain"]) for row in told]
    assert any("Condition: " in line and "toMonday(hour) notIn 7-element set" in line for line in lines)


def test_a_long_streak_is_as_long_in_sql() -> None:
    assert f"{LONG_STREAK_MS} AS LONG_STREAK_MS" in report_views().query("idle_split")


def test_runs_are_of_the_same_hours(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    window: dict[str, Any] = {"since": "2d", "sections": frozenset({"now", "week", "days", "usefulness"})}
    of_days, read = report(store, **window)
    assert {"overview", "calendar", "activity"} <= read.keys()
    monkeypatch.setattr(days, "LEAST_CARD_HOURS", 10**9)
    assert report(store, **window) == (of_days, {})


def test_late_repeated_and_deleted_ticks_are_right_at_once_and_within_one_count(
    store: Store, ticks: dict[str, list[SpooledTick]]
) -> None:
    before = numbers(store)
    assert LAST_DAY in held(store)
    store.land(ticks["lab"][-100:-60])
    assert LAST_DAY not in held(store)
    assert numbers(store) == before

    command(store, "DELETE FROM gua.card_ticks WHERE host = 'lab' AND intDiv(toUnixTimestamp(ts), 600) % 5 = 0")
    store.count_hours(anew=True)
    deleted = numbers(store)
    assert deleted == numbers(store, from_ticks=True) != before
    assert LAST_DAY in held(store)

    store.land(ticks["lab"])
    at_once = numbers(store)
    assert at_once == before
    assert LAST_DAY not in held(store)
    store.count_hours()
    assert LAST_DAY in held(store)
    assert numbers(store) == before


def test_other_rules_judge_days_too(store: Store) -> None:
    before = numbers(store)
    store.insert_json("settings", [{"key": "active_utilization", "value": 0.6}])
    assert held(store) == []
    after = numbers(store)
    assert after == numbers(store, from_ticks=True) != before
    store.count_hours()
    assert LAST_DAY in held(store)
    assert numbers(store) == after


def test_a_day_waits_until_all_of_its_hours_are_counted(store: Store, ticks: dict[str, list[SpooledTick]]) -> None:
    store.land(ticks["lab"][-100:-60])
    assert store.count_days() == 0
    command(store, "ALTER TABLE gua.host_hours DELETE WHERE host = 'restless-1' SETTINGS mutations_sync = 1")
    command(store, "TRUNCATE TABLE gua.host_days")
    assert store.count_days() == 5 - 2 + 5


def test_days_outlive_their_ticks(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    changed = {"keep_ticks_days": 30, "active_utilization": 0.9}
    store.insert_json("settings", [{"key": key, "value": value} for key, value in changed.items()])
    command(store, "TRUNCATE TABLE gua.card_ticks")
    command(store, "TRUNCATE TABLE gua.process_ticks")
    # Hours stay as they were judged, and so does what is added up of them.
    assert store.count_hours(anew=True) == 0
    assert LAST_DAY in held(store)
    assert store.count_days() == 0
    of_days, read = report(store, sections=SUMS)
    assert LAST_DAY in read["overview"]
    # Kept for longer again, what does not hold is no day's.
    store.insert_json("settings", [{"key": "keep_ticks_days", "value": 30_000}])
    assert held(store) == []
    store.insert_json("settings", [{"key": "keep_ticks_days", "value": 30}])
    monkeypatch.setattr(days, "LEAST_CARD_HOURS", 10**9)
    assert report(store, sections=SUMS) == (of_days, {})


def test_a_small_store_keeps_no_days(monkeypatch: pytest.MonkeyPatch, store: Store) -> None:
    command(store, "TRUNCATE TABLE gua.host_days")
    store.count_hours()
    assert held(store) != []
    command(store, "TRUNCATE TABLE gua.host_days")
    monkeypatch.setattr(hours, "LEAST_HOURS", 10**9)
    store.count_hours()
    assert held(store) == []


def test_what_reads_days_says_so() -> None:
    assert {view.name for view in SHARED.values() if view.optional == BY_DAY} == {
        "hours",
        *days.READ_DAYS,
        *days.READ_DAYS_BY_HOUR,
        *days.READ_DAYS_BY_KEY,
        *days.READ_DAYS_BEFORE_NOW,
    }
    for name in (*days.READ_DAYS, *days.READ_DAYS_BY_HOUR, *days.READ_DAYS_BY_KEY, *days.READ_DAYS_BEFORE_NOW):
        query = report_views_with_days().written_out(report_views_with_days().query(name))
        assert "{days:Array(Int64)}" in query
        assert "{odd_days:Array(Int64)}" in query
        assert "{unread_weeks:Array(Date)}" in query
        assert "days:" not in report_views().written_out(report_views().query(name), deep=True)
