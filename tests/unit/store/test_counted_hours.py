"""A report from counted hours is that from the ticks, to the last digit, whatever happened to the ticks meanwhile."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from fakes.reports import render_json
from gua.app.opening import counting
from gua.core.errors import UnavailableError
from gua.core.ports import SpooledTick
from gua.core.tick import Origin, Tick
from gua.core.words import Source
from gua.otlp.encode import encode
from gua.report import collect as collecting
from gua.report import hours as report_hours
from gua.report.collect import collect
from gua.report.hours import choose_hours
from gua.report.window import ReportRequest
from gua.sim.host import END_MS, Scenario, simulate
from gua.state.compression import compress
from gua.store.database import Store, open_store

pytestmark = pytest.mark.engine

HOUR_MS = 3_600_000
INTERVAL_MS = 240_000
SUMS = frozenset({"headline", "cards", "usage"})
WINDOWS = {
    "everything": {"since": "3d", "until": "2h"},
    "edges in the middle of ticks of one host, a zone three quarters off": {
        "since": "2026-03-26T07:13:07.501",
        "until": "2026-03-27T02:59:59.999",
        "timezone": "Asia/Kathmandu",
        "hosts": ("node-1",),
    },
}


def ticks_of(host: str, seed: int) -> list[SpooledTick]:
    origin = Origin(host=host, source=Source.SIMULATOR, interval_ms=INTERVAL_MS)
    scenario = Scenario(seed=seed, gpus=2, interval_ms=INTERVAL_MS, ticks=2 * 24 * 15)
    return [spooled(tick) for tick in simulate(scenario, end_ms=END_MS, origin=origin)]


def spooled(tick: Tick) -> SpooledTick:
    raw = encode(tick)
    return SpooledTick(id=tick.ts_ms, ts_ms=tick.ts_ms, raw_length=len(raw), blob=compress(raw))


def report(store: Store, *, from_ticks: bool = False, **request: object) -> str:
    report_request = ReportRequest(now_ms=END_MS, from_ticks=from_ticks, **request)  # type: ignore[arg-type] # as above
    return render_json(collect(store, report_request))


def numbers(store: Store, *, from_ticks: bool = False, **request: object) -> str:
    """Return the sums of cards and of holders only: enough to see whether hours are counted again."""
    return report(store, from_ticks=from_ticks, sections=SUMS, **request)


def listed_owners(store: Store, **request: Any) -> list[object]:  # noqa: ANN401 - of a window, as above
    """Return the owners of a report that has no more than them."""
    owners = json.loads(report(store, sections=frozenset({"usage"}), **request))["owners"]
    return [one for one in owners if one["kind"] == "listed"]


def command(store: Store, sql: str) -> None:
    store._client.command(sql)  # noqa: SLF001 - what happens to a store below its own interface
    store._forget_ticks()  # noqa: SLF001 - as the store itself does where it is the one that writes


def uncounted(store: Store) -> int:
    bounds = {"since_ms": 0, "until_ms": END_MS + HOUR_MS, "hosts": []}
    return sum(not hour.is_counted for hour in choose_hours(store, bounds))


@pytest.fixture(scope="module")
def hosts() -> dict[str, list[SpooledTick]]:
    return {"node-1": ticks_of("node-1", 1), "node-2": ticks_of("node-2", 2)}


@pytest.fixture(scope="module")
def counted(
    hosts: dict[str, list[SpooledTick]],
    tmp_path_factory: pytest.TempPathFactory,
    made_store: Callable[[Path], str],
) -> Path:
    """Return the folder of a store with the ticks of two hosts, counted."""
    folder = tmp_path_factory.mktemp("counted") / "store"
    with open_store(made_store(folder)) as opened:
        for ticks in hosts.values():
            assert opened.land(ticks) == []
        assert uncounted(opened) > 40
        assert opened.count_hours() > 80
        assert uncounted(opened) == 0
    return folder


@pytest.fixture
def store(counted: Path, tmp_path: Path) -> Iterator[Store]:
    """Return a store like it, for one test."""
    shutil.copytree(counted, tmp_path / "store", symlinks=True)
    with open_store(f"chdb://{tmp_path / 'store'}") as opened:
        assert uncounted(opened) == 0
        yield opened


def test_the_same_report_with_and_without(store: Store) -> None:
    from_ticks = {name: report(store, from_ticks=True, **window) for name, window in WINDOWS.items()}
    for name, window in WINDOWS.items():
        assert report(store, **window) == from_ticks[name], name
    # The counted rows did it: with nothing but them the middle of the window is still there.
    command(store, "TRUNCATE TABLE gua.process_ticks")
    for name, window in WINDOWS.items():
        assert listed_owners(store, from_ticks=True, **window) == [], name
        assert listed_owners(store, **window) != [], name


def make_few_ticks_too_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(collecting, "MOST_UNROLLED_TICKS", 1_000)
    monkeypatch.setattr(report_hours, "FEW_CARD_TICKS", 0)


def test_a_report_rolls_up_what_an_upgrade_left_and_prints_a_line(
    store: Store, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    report_request = ReportRequest(now_ms=END_MS)
    counted = json.loads(render_json(collect(store, report_request)))
    command(store, "ALTER TABLE gua.rollups UPDATE fingerprint = 1 WHERE true SETTINGS mutations_sync = 1")
    make_few_ticks_too_many(monkeypatch)
    assert uncounted(store) > 40

    assert json.loads(render_json(collect(store, report_request, count=counting(store)))) == counted

    assert uncounted(store) == 0
    assert capsys.readouterr().err == (
        "gua: hours of the store are not rolled up yet, or by another version: rolling them up now, once\n"
    )
    assert json.loads(render_json(collect(store, report_request, count=pytest.fail))) == counted


def test_a_report_is_had_where_hours_cannot_be_counted(
    store: Store, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def full(*_: object) -> int:
        msg = "the disk is full"
        raise UnavailableError(msg)

    monkeypatch.setattr(Store, "count_hours", full)
    make_few_ticks_too_many(monkeypatch)
    report_request = ReportRequest(now_ms=END_MS, sections=SUMS)
    before = json.loads(render_json(collect(store, report_request)))
    command(store, "TRUNCATE TABLE gua.rollups")
    assert json.loads(render_json(collect(store, report_request, count=counting(store)))) == before
    assert capsys.readouterr().err.endswith("gua: hours could not be rolled up: the disk is full\n")


def test_ticks_that_are_landed_again_change_nothing(store: Store, hosts: dict[str, list[SpooledTick]]) -> None:
    before = numbers(store)
    store.land(hosts["node-1"][50:100])
    assert uncounted(store) > 0
    assert numbers(store) == before
    store.count_hours()
    assert uncounted(store) == 0
    assert numbers(store) == before


def test_late_ticks_are_in_the_report_at_once_and_counted_later(
    made_store: Callable[[Path], str], hosts: dict[str, list[SpooledTick]], tmp_path: Path
) -> None:
    late = hosts["node-1"][350:380]
    with open_store(made_store(tmp_path / "late")) as store:
        store.land([tick for tick in hosts["node-1"] if tick not in late])
        store.count_hours()
        without = numbers(store)
        store.land(late)
        at_once = numbers(store)
        assert at_once != without
        assert at_once == numbers(store, from_ticks=True)
        assert 1 <= store.count_hours() <= 4
        assert numbers(store) == at_once


def test_other_rules_judge_counted_hours_too(store: Store) -> None:
    before = numbers(store)
    store.insert_json("settings", [{"key": "active_utilization", "value": 0.6}])
    after = numbers(store)
    assert after != before
    assert after == numbers(store, from_ticks=True)
    assert uncounted(store) > 40
    store.count_hours()
    assert uncounted(store) == 0
    assert numbers(store) == after


def test_an_owner_who_becomes_known_later_is_the_only_one(store: Store) -> None:
    row = "'node-1', gpu, ts, 77, toDateTime64(0, 3), 30000, 1000"
    columns = "(host, gpu, ts, pid, created, duration_ms, gpu_time_ms"
    some = "FROM gua.card_ticks FINAL WHERE host = 'node-1' AND utilization > 5000 LIMIT 50"
    command(store, f"INSERT INTO gua.process_ticks {columns}) SELECT {row} {some}")
    store.count_hours()
    command(store, f"INSERT INTO gua.process_ticks {columns}, owner, program) SELECT {row}, 'ada', 'late' {some}")
    store.count_hours()
    assert uncounted(store) == 0
    counted = numbers(store)
    assert counted == numbers(store, from_ticks=True)
    identities = json.loads(counted)["owners"]
    assert [one["owner"] for one in identities if one["program"] == "late"] == ["ada"]
    assert not [one for one in identities if one["kind"] == "listed" and one["owner"] is None]


def test_hours_outlive_their_ticks(store: Store) -> None:
    window = {"since": "2026-03-26T12:00:00", "until": "2026-03-27T06:00:00"}
    before = numbers(store, **window)
    changed = {"keep_ticks_days": 30, "active_utilization": 0.9}
    store.insert_json("settings", [{"key": key, "value": value} for key, value in changed.items()])
    command(store, "TRUNCATE TABLE gua.card_ticks")
    command(store, "TRUNCATE TABLE gua.process_ticks")
    assert store.count_hours(anew=True) == 0
    kept, whole = (json.loads(text) for text in (numbers(store, **window), before))
    for state, time in kept["headline"]["states"].items():
        # A tick that began before the window is not cut any more.
        assert time["gpu_hours"] == pytest.approx(whole["headline"]["states"][state]["gpu_hours"], abs=10 * 4 / 60)
    # The tick of each card that ends after the window began before its end.
    assert kept["headline"]["card_ticks"] == whole["headline"]["card_ticks"] - len(whole["cards"])
    assert len(kept["owners"]) == len(whole["owners"])


def test_all_hours_may_be_counted_anew(store: Store) -> None:
    before = numbers(store)
    assert store.count_hours() == 0
    assert store.count_hours(anew=True) > 80
    assert numbers(store) == before


def test_views_of_hours_are_the_same_before_and_after_they_were_counted(store: Store) -> None:
    def hours(view: str, columns: str) -> list[dict[str, object]]:
        found = store.select(f"SELECT * FROM gua.{view} ORDER BY {columns}", {})
        return [dict(row) for row in found]

    cards, identities = "host, gpu, hour, state, reason", "host, gpu, hour, owner, program, state"
    counted = hours("card_hours", cards), hours("owner_hours", identities)
    command(store, "TRUNCATE TABLE gua.rollups")
    assert (hours("card_hours", cards), hours("owner_hours", identities)) == counted
    assert min(map(len, counted)) > 100


def test_cards_of_one_host_keep_their_own_intervals(made_store: Callable[[Path], str], tmp_path: Path) -> None:
    with open_store(made_store(tmp_path / "mixed")) as store:
        start_ms = END_MS - 6 * HOUR_MS
        add_card(store, "fast", start_ms, interval_ms=30_000, without=range(300, 306))
        add_card(store, "slow", start_ms, interval_ms=300_000)
        store.count_hours()
        assert uncounted(store) == 0
        counted = numbers(store)
        assert counted == numbers(store, from_ticks=True)
        assert json.loads(counted)["coverage"]["gaps"] == 1


def test_an_hour_that_the_window_cuts_is_read_from_its_ticks(made_store: Callable[[Path], str], tmp_path: Path) -> None:
    with open_store(made_store(tmp_path / "cut")) as store:
        start_ms = END_MS - 6 * HOUR_MS
        add_card(store, "card", start_ms, interval_ms=30_000)
        store.count_hours()
        cut = {"since_ms": start_ms + HOUR_MS + 1, "until_ms": start_ms + 4 * HOUR_MS - 1, "hosts": []}
        is_counted = {hour.hour - start_ms // HOUR_MS: hour.is_counted for hour in choose_hours(store, cut)}
        # A tick of the fourth may have begun before the end.
        assert is_counted == {1: False, 2: True, 3: False, 4: False}


def test_an_hour_in_which_no_card_was_read_is_none_of_a_day(made_store: Callable[[Path], str], tmp_path: Path) -> None:
    with open_store(made_store(tmp_path / "unread")) as store:
        add_card(store, "card", END_MS - 6 * HOUR_MS, interval_ms=30_000, without=range(120, 240))
        before = report(store)
        unread = END_MS - 5 * HOUR_MS + 1000
        columns = "(host, gpu, ts, utilization)"
        command(store, f"INSERT INTO gua.card_ticks {columns} VALUES ('one', 'card', {moment(unread)}, 1)")
        store.count_hours()
        assert uncounted(store) == 0
        assert report(store) == before


def test_a_tick_of_no_time_is_in_no_hour_of_a_card(made_store: Callable[[Path], str], tmp_path: Path) -> None:
    with open_store(made_store(tmp_path / "nothing")) as store:
        add_card(store, "card", END_MS - 6 * HOUR_MS, interval_ms=30_000)
        report_request = "SELECT * FROM gua.card_hours ORDER BY ALL"
        before = store.select(report_request, {})
        columns = "(host, gpu, ts, duration_ms, gpu_time_ms)"
        moment_of_it = moment(END_MS - 5 * HOUR_MS + 1000)
        command(store, f"INSERT INTO gua.card_ticks {columns} VALUES ('one', 'card', {moment_of_it}, 0, 0)")
        assert store.select(report_request, {}) == before


def test_ticks_kept_for_a_century_are_all_counted(made_store: Callable[[Path], str], tmp_path: Path) -> None:
    with open_store(made_store(tmp_path / "century")) as store:
        store.insert_json("settings", [{"key": "keep_ticks_days", "value": 36_500}])
        add_card(store, "card", END_MS - 6 * HOUR_MS, interval_ms=30_000)
        assert uncounted(store) == store.count_hours() == 6


def test_hours_of_more_months_than_an_insert_takes_are_counted(
    made_store: Callable[[Path], str], tmp_path: Path
) -> None:
    with open_store(made_store(tmp_path / "months")) as store:
        months = "toDateTime64('2014-01-01 00:30:00', 3, 'UTC') + toIntervalMonth(number) FROM numbers(104)"
        columns = "(host, gpu, ts, duration_ms, gpu_time_ms)"
        command(
            store,
            f"INSERT INTO gua.card_ticks {columns} SETTINGS max_partitions_per_insert_block = 0 "
            f"SELECT 'one', 'card', {months.replace(' FROM', ', 30000, 30000 FROM')}",
        )
        assert store.count_hours() == 104


def add_card(store: Store, gpu: str, start_ms: int, *, interval_ms: int, without: range = range(0)) -> None:
    """Give the host "one" a card with six hours of ticks, but those by number in ``without``."""
    last = 6 * HOUR_MS // interval_ms
    ends = f"fromUnixTimestamp64Milli(toInt64({start_ms} + (number + 1) * {interval_ms}), 'UTC')"
    command(
        store,
        "INSERT INTO gua.card_ticks (host, gpu, ts, duration_ms, gpu_time_ms, utilization, interval_ms, source) "
        f"SELECT 'one', '{gpu}', {ends}, {interval_ms}, {interval_ms}, 5000, {interval_ms}, 'agent' "
        f"FROM numbers({last}) WHERE number < {without.start} OR number >= {without.stop}",
    )
    newest = moment(start_ms + 6 * HOUR_MS)
    seen = f"'one', '{gpu}', {moment(start_ms)}, {newest}, {interval_ms}, ({newest}, 1.)"
    command(store, f"INSERT INTO gua.card_seen SELECT {seen}")
    described = f"'one', '{gpu}', {newest}, 'agent', {interval_ms}"
    command(store, f"INSERT INTO gua.card_info (host, gpu, ts, source, interval_ms) SELECT {described}")


def moment(ms: int) -> str:
    return f"fromUnixTimestamp64Milli(toInt64({ms}), 'UTC')"
