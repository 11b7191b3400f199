"""The section notices: every number once more from the plain data, and its text, JSON and CSV as a whole."""

from __future__ import annotations

import csv
import io
import json
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from random import Random
from typing import Any, Final

import pytest

from fakes.fleet import spooled_ticks
from fakes.two_weeks import BEGIN_MS, HOUR_MS, TICK_MS, Life, Place, TwoWeeks
from gua.core.moments import to_rfc3339
from gua.report.collect import collect
from gua.report.forms.data import render_csv
from gua.report.forms.text import render_text
from gua.report.kit.fields import json_of
from gua.report.kit.style import Style
from gua.report.model import Report
from gua.report.sections.notices import Notices, SentNotice
from gua.report.window import ReportRequest
from gua.store.database import Store, open_store

pytestmark = pytest.mark.engine

DAYS: Final = 3
SINCE_MS: Final = BEGIN_MS + 2 * HOUR_MS
UNTIL_MS: Final = BEGIN_MS + 70 * HOUR_MS
NOTICES: Final = 60
WEEKS: Final = TwoWeeks(seed=5, days=DAYS, missing=0)


@dataclass(frozen=True)
class Told:
    """A notice that was sent, as plain data."""

    holder: str
    kind: str
    state: str
    places: tuple[Place, ...]
    owner: str | None
    sent_ms: int
    rule: str
    step: int
    reminder: int
    results: tuple[str, ...]

    def rows(self) -> Iterator[Mapping[str, object]]:
        for number, result in enumerate(self.results, start=1):
            yield {
                "host": self.places[0][0],
                "kind": self.kind,
                "holder": self.holder,
                "rule": self.rule,
                "step": self.step,
                "reminder": self.reminder,
                "channel": f"{number} json://one.example",
                "sent": to_rfc3339(self.sent_ms),
                "result": result,
                "detail": "refused" if result == "failed" else "",
                "message": "m",
                "state": self.state,
                "cards": [{"host": host, "gpu": f"GPU-{host}-{index}"} for host, index in self.places],
                "owner": self.owner,
                "program": "python",
                "pid": None,
                "since": to_rfc3339(self.sent_ms - HOUR_MS),
                "idle_ms": HOUR_MS,
                "written": to_rfc3339(self.sent_ms),
            }


def told() -> list[Told]:
    """Return notices at whole hours of random holders, some of them before or after the holder was there."""
    rng = Random("told")  # noqa: S311 - a simulation, no secret
    places: dict[str, list[Life]] = defaultdict(list)
    for life in WEEKS.lives:
        places[life.job or f"{life.place[0]} {life.pid} {life.created_ms}"].append(life)
    found = []
    for number in range(NOTICES):
        holder, lives = rng.choice(sorted(places.items()))
        first = lives[0]
        hour = (first.since_ms - BEGIN_MS) // HOUR_MS + rng.randrange(-2, 30)
        shared = {
            "sent_ms": BEGIN_MS + max(hour, 0) * HOUR_MS,
            "rule": rng.choice(("idle", "later")),
            "step": rng.choice((1, 2)),
            "reminder": number + 1,
            "results": rng.choice(
                (("sent",), ("sent", "failed"), ("failed", "failed"), ("started",), ("sent", "started"))
            ),
        }
        given = [one for one in WEEKS.given if one.job == first.job]
        if given and rng.random() < 0.7:
            found.append(Told(given[0].job, "job", "empty", (given[0].place,), given[0].owner, **shared))
        else:
            kind = "job" if first.job else "process"
            found.append(
                Told(holder, kind, "idle-held", tuple(sorted({life.place for life in lives})), first.owner, **shared)
            )
    return found


TOLD: Final = told()


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory, made_store: Callable[[Path], str]) -> Iterator[Store]:
    with open_store(made_store(tmp_path_factory.mktemp("notices") / "store")) as opened:
        ordered = sorted(WEEKS.readings, key=lambda one: one.ts_ms)
        assert opened.land(list(spooled_ticks(map(WEEKS.tick, ordered)))) == []
        opened.count_hours()
        opened.insert_json("notices", [row for one in TOLD for row in one.rows()])
        yield opened


@pytest.fixture(scope="module", params=[True, False], ids=["from ticks", "from rollups"])
def report(request: pytest.FixtureRequest, store: Store) -> Report:
    asked = ReportRequest(
        since=to_rfc3339(SINCE_MS),
        until=to_rfc3339(UNTIL_MS),
        sections=frozenset({"notices"}),
        from_ticks=request.param,
        now_ms=UNTIL_MS,
    )
    return collect(store, asked)


@dataclass(frozen=True)
class Part:
    """What a holder did on one of its cards in one tick; ``gpu_ms`` is its GPU time."""

    start_ms: int
    end_ms: int
    gpu_ms: float
    is_idle: bool
    is_used: bool


def ticks_of(host: str) -> list[int]:
    return sorted(one.ts_ms for one in WEEKS.readings if one.host == host and SINCE_MS < one.ts_ms <= UNTIL_MS)


def parts_of(one: Told) -> Iterator[Part]:
    """Yield what the holder of a notice did in each tick of the window on the notice's cards."""
    for place in one.places:
        for ts_ms in ticks_of(place[0]):
            there = [] if WEEKS.is_lost(place, ts_ms) else WEEKS.on_card(place, ts_ms)
            doings = [doing for _, doing in there]
            is_active = "computes" in doings
            is_known = is_active or "unknown" not in doings
            if one.state == "empty":
                given = WEEKS.given_at(place, ts_ms)
                if given and given.job == one.holder:
                    is_empty = not there and not WEEKS.is_lost(place, ts_ms)
                    is_used = bool(there) and is_known
                    yield Part(ts_ms - TICK_MS, ts_ms, TICK_MS, is_idle=is_empty, is_used=is_used)
                continue
            for life, doing in there:
                if (life.job or f"{place[0]} {life.pid} {life.created_ms}") == one.holder:
                    is_idle = doing == "idles" and is_known and not is_active
                    yield Part(
                        ts_ms - TICK_MS, ts_ms, TICK_MS / len(there), is_idle=is_idle, is_used=doing == "computes"
                    )


@dataclass(frozen=True)
class Outcome:
    before_ms: float
    after_ms: float
    used_ms: int | None
    released_ms: int | None


def outcome_of(one: Told) -> Outcome:
    parts = list(parts_of(one))
    later = [part for part in parts if part.end_ms > one.sent_ms]
    last_ms = max((part.end_ms for part in parts), default=0)
    is_gone = all(ticks_of(host)[-1] - 3 * TICK_MS > last_ms for host, _ in one.places)
    return Outcome(
        before_ms=sum(part.gpu_ms for part in parts if part.is_idle and part.end_ms <= one.sent_ms),
        after_ms=sum(part.gpu_ms for part in later if part.is_idle),
        used_ms=min((part.start_ms for part in later if part.is_used), default=None),
        released_ms=max(last_ms, one.sent_ms) if is_gone else None,
    )


def in_window() -> list[tuple[Told, Outcome]]:
    return [(one, outcome_of(one)) for one in TOLD if SINCE_MS < one.sent_ms <= UNTIL_MS]


def by_reminder(report: Report) -> dict[int, SentNotice]:
    return {one.reminder: one for one in report[Notices].sent}


def test_every_notice_of_the_window_is_there_with_what_its_holder_did(report: Report) -> None:
    found, expected = by_reminder(report), in_window()
    assert set(found) == {one.reminder for one, _ in expected}
    assert 40 < len(expected) < NOTICES
    for one, outcome in expected:
        row = found[one.reminder]
        assert (row.rule, row.step, row.holder, row.owner) == (one.rule, one.step, one.holder, one.owner)
        assert (row.sent_ms, row.cards, row.state) == (one.sent_ms, len(one.places), one.state)
        assert sorted(each.result for each in row.channels) == sorted(one.results)
        assert row.idle_before_gpu_ms == pytest.approx(outcome.before_ms, abs=5), one
        assert row.idle_after_gpu_ms == pytest.approx(outcome.after_ms, abs=5), one
        assert row.used_ms == outcome.used_ms, one
        assert row.released_ms == outcome.released_ms, one
    every = [outcome for _, outcome in expected]
    assert {outcome.used_ms is None for outcome in every} == {True, False}
    assert {outcome.released_ms is None for outcome in every} == {True, False}
    assert {one.state for one, _ in expected} == {"idle-held", "empty"}


def within(outcome: Outcome, sent_ms: int, hours: int) -> bool:
    return outcome.released_ms is not None and outcome.released_ms - sent_ms <= hours * HOUR_MS


def firsts(rows: Sequence[tuple[Told, Outcome]]) -> list[Outcome]:
    """Return what came of the first notice of each holder."""
    first: dict[tuple[str, str], tuple[int, int, Outcome]] = {}
    for one, outcome in rows:
        key, value = (one.kind, one.holder), (one.sent_ms, one.reminder, outcome)
        if key not in first or value[:2] < first[key][:2]:
            first[key] = value
    return [outcome for *_, outcome in first.values()]


def test_steps_add_up_their_notices(report: Report) -> None:
    groups: dict[tuple[str, int], list[tuple[Told, Outcome]]] = defaultdict(list)
    for row in in_window():
        groups[row[0].rule, row[0].step].append(row)
    steps = report[Notices].steps
    assert [(one.rule, one.step) for one in steps] == sorted(groups)
    for one in steps:
        rows = groups[one.rule, one.step]
        assert one.notices == len(rows)
        assert one.failed == sum(set(each.results) == {"failed"} for each, _ in rows)
        assert one.unresolved == sum("started" in each.results for each, _ in rows)
        for hours, found in ((1, one.released_1h), (8, one.released_8h), (24, one.released_24h)):
            assert found == sum(within(outcome, each.sent_ms, hours) for each, outcome in rows)
        alarms = [
            each for each, outcome in rows if outcome.used_ms is not None and outcome.used_ms - each.sent_ms <= 600_000
        ]
        assert one.false_alarms == len(alarms)


def test_idle_time_of_a_step_counts_each_holder_from_its_first_notice(report: Report) -> None:
    rows = by_reminder(report)
    for one in report[Notices].steps:
        mine = [(told_, outcome) for told_, outcome in in_window() if (told_.rule, told_.step) == (one.rule, one.step)]
        hosts = {told_.reminder: rows[told_.reminder].host for told_, _ in mine}
        assert hosts
        assert one.idle_before_gpu_ms == pytest.approx(sum(each.before_ms for each in firsts(mine)), abs=60)
        assert one.idle_after_gpu_ms == pytest.approx(sum(each.after_ms for each in firsts(mine)), abs=60)


def test_owners_with_several_notices_are_listed_the_most_first(report: Report) -> None:
    by_owner: dict[str, list[tuple[Told, Outcome]]] = defaultdict(list)
    for row in in_window():
        if row[0].owner is not None:
            by_owner[row[0].owner].append(row)
    repeated = report[Notices].repeated
    assert {one.owner for one in repeated} == {owner for owner, rows in by_owner.items() if len(rows) > 1}
    for one in repeated:
        rows = by_owner[str(one.owner)]
        assert (one.notices, one.holders) == (len(rows), len({(each.kind, each.holder) for each, _ in rows}))
        assert one.idle_after_gpu_ms == pytest.approx(sum(each.after_ms for each in firsts(rows)), abs=60)
    keys = [(-one.notices, -one.idle_after_gpu_ms) for one in repeated]
    assert keys == sorted(keys)


def test_text_json_and_csv_are_as_they_were(report: Report, golden: Callable[[str, str], None]) -> None:
    golden("notices/section.txt", render_text(report, Style(width=120), with_basis=False))
    golden("notices/section.json", json.dumps(json_of(report[Notices]), indent=1) + "\n")
    text = render_csv(report, "notices").replace("\r\n", "\n")
    golden("notices/section.csv", text)
    rows = list(csv.DictReader(io.StringIO(text)))
    assert len(rows) == len(report[Notices].sent)
    assert all(row["channels"].startswith("1 json://one.example: ") for row in rows)


def test_a_window_without_notices_shows_that(report: Report) -> None:
    empty = replace(report, models={Notices: Notices(steps=(), repeated=(), sent=())})
    text = render_text(empty, Style(width=120), with_basis=False)
    assert "No notice was sent in this window. gua notify sends them by a policy: see docs/notices.md." in text


def test_a_notice_within_ten_minutes_of_use_is_a_false_alarm_and_a_later_one_is_not(report: Report) -> None:
    one: Any = report[Notices].sent[0]
    assert replace(one, used_ms=one.sent_ms + 600_000).is_false_alarm
    assert not replace(one, used_ms=one.sent_ms + 600_001).is_false_alarm
    assert replace(one, released_ms=one.sent_ms + HOUR_MS).is_released_within(1)
    assert not replace(one, released_ms=one.sent_ms + HOUR_MS + 1).is_released_within(1)
