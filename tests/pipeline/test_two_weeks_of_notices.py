"""Two weeks of notices against a script that knows the truth: each at the right run, none on what is unknown.

A run after each tick: .venv/bin/python -m pytest -s tests/pipeline/test_two_weeks_of_notices.py --notify-every-tick
"""

from __future__ import annotations

from bisect import bisect_right, insort
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from itertools import pairwise
from pathlib import Path
from random import Random
from typing import Final
from zoneinfo import ZoneInfo

import pytest

from fakes.fleet import spooled_ticks
from fakes.notice_store import RecordingChannels
from fakes.two_weeks import BEGIN_MS, CARDS, DAY_MS, DAYS, END_MS, HOUR_MS, MINUTE_MS, TICK_MS, Life, Place, TwoWeeks
from gua.app import notifying
from gua.app.notifying import NoticeRun, RunOutcome
from gua.notices.policy import parse_policy
from gua.store.database import Store, open_store

pytestmark = pytest.mark.engine

RUNS: Final = 40
POLICY: Final = """
zone = "Europe/Berlin"
most_per_owner_per_day = 1000
exempt_owners = ["svc-*"]
[[hold]]
owner = "hanna"
until = 2026-03-28
reason = "thesis"
[[rule]]
name = "idle"
state = "idle-held"
after = "2h"
[[rule.quiet]]
from = "22:00"
until = "06:00"
[[rule.quiet]]
days = ["sun"]
[[rule.step]]
to = ["json://one.example", "json://two.example"]
remind_every = "5h"
growing = 2
most_reminders = 2
[[rule.step]]
after = "30h"
to = ["json://lead.example"]
[[rule]]
name = "empty"
state = "empty"
after = "1h"
[[rule.step]]
to = ["json://empty.example"]
[[rule.step]]
after = "6h"
to = ["json://empty-again.example"]
"""
# The same policy once more, as plain numbers: hours of each step, and of its reminders.
STEPS: Final = {"idle": ((2, (5, 10)), (30, ())), "empty": ((1, ()), (6, ()))}
CHANNELS: Final = {("idle", 1): 2, ("idle", 2): 1, ("empty", 1): 1, ("empty", 2): 1}
HOLD_ENDS_MS: Final = int(datetime(2026, 3, 29, tzinfo=ZoneInfo("Europe/Berlin")).timestamp() * 1000)
Name = tuple[str, str]
Sent = tuple[str, str, int, int]
"""Rule, holder, step and reminder."""


class NoFacts:
    def groups(self, owner: str) -> frozenset[str] | None:
        del owner
        return None

    def of_job(self, job: str, key: str) -> str | None:
        del job, key
        return None


@dataclass
class Truth:
    """What is due, from the plain data and what has arrived. Each run is later than the one before."""

    weeks: TwoWeeks
    arrived: int = 0
    ends: dict[str, list[int]] = field(default_factory=lambda: {host: [] for host in CARDS})
    sent: dict[tuple[str, str], dict[tuple[int, int], int]] = field(default_factory=dict)
    reasons: Counter[str] = field(default_factory=Counter)

    def seen(self, place: Place, now_ms: int) -> list[int]:
        """Return the ends of a card's ticks that have arrived, in order, as the store has them."""
        readings = self.weeks.readings
        while self.arrived < len(readings) and readings[self.arrived].arrives_ms <= now_ms:
            insort(self.ends[readings[self.arrived].host], readings[self.arrived].ts_ms)
            self.arrived += 1
        return self.ends[place[0]]

    def idle_ms(self, life: Life, ticks: list[int]) -> int:
        """Return the known idle time of a process at the newest of the ticks, 0 if it is not idle there."""
        total_ms, before_ms = 0, None
        for ts_ms in ticks[bisect_right(ticks, life.since_ms) :]:
            doing = None if self.weeks.is_lost(life.place, ts_ms) else life.doing(ts_ms)
            if doing is None:
                continue
            # A hole of up to two ticks is bridged.
            if doing == "computes" or (before_ms is not None and ts_ms - TICK_MS - before_ms > 2 * TICK_MS):
                total_ms = 0
            total_ms += TICK_MS if doing == "idles" else 0
            before_ms = ts_ms
        return total_ms if before_ms == ticks[-1] and life.doing(ticks[-1]) == "idles" else 0

    def empty_ms(self, place: Place, ticks: list[int]) -> tuple[str, str, int] | None:
        """Return job, owner and known time of an allocation that is empty at the newest of the ticks."""
        given = self.weeks.given_at(place, ticks[-1])
        if given is None:
            return None
        total_ms, before_ms = 0, None
        for ts_ms in ticks[bisect_right(ticks, given.since_ms) :]:
            if self.weeks.given_at(place, ts_ms) is not given:
                continue
            is_far = before_ms is not None and ts_ms - TICK_MS - before_ms > 2 * TICK_MS
            before_ms = ts_ms
            there = self.weeks.on_card(place, ts_ms)
            is_unknown = self.weeks.is_lost(place, ts_ms) or (
                bool(there)
                and all(doing != "computes" for _, doing in there)
                and "unknown" in [one[1] for one in there]
            )
            total_ms = 0 if is_far or (there and not is_unknown) else total_ms
            total_ms += TICK_MS if not there and not is_unknown else 0
        is_empty = not self.weeks.on_card(place, ticks[-1]) and not self.weeks.is_lost(place, ticks[-1])
        return (given.job, given.owner, total_ms) if is_empty else None

    def idle_now(self, now_ms: int) -> Iterator[tuple[str, str, str | None, int]]:
        """Yield rule, holder, owner and idle time of what is idle or empty."""
        idle: dict[str, list[int]] = {}
        owners: dict[str, str | None] = {}
        bad: set[str] = set()
        for place in [(host, index) for host, count in CARDS.items() for index in range(count)]:
            ticks = self.seen(place, now_ms)
            if not ticks:
                continue
            is_silent = now_ms - ticks[-1] > 3 * TICK_MS
            is_lost = self.weeks.is_lost(place, ticks[-1])
            last_ms = ticks[-1]
            if is_lost:
                last_ms = max((ts for ts in ticks if not self.weeks.is_lost(place, ts)), default=0)
            there = self.weeks.on_card(place, last_ms)
            is_blind = "computes" not in [doing for _, doing in there] and "unknown" in [doing for _, doing in there]
            for life, doing in there:
                holder = life.job or f"{place[0]} {life.pid} {life.created_ms}"
                owners[holder] = life.owner
                if is_silent or is_lost or is_blind or doing != "idles":
                    bad.add(holder)
                    self.reasons["silent" if is_silent else "lost" if is_lost else "blind" if is_blind else doing] += 1
                else:
                    idle.setdefault(holder, []).append(self.idle_ms(life, ticks))
            if not is_silent and (empty := self.empty_ms(place, ticks)):
                yield "empty", *empty
        for holder, times in idle.items():
            if holder not in bad:
                yield "idle", holder, owners[holder], min(times)

    def due(self, now_ms: int) -> set[Sent]:
        """Return what is due at a run, and remember it as sent."""
        found: set[Sent] = set()
        local = datetime.fromtimestamp(now_ms / 1000, ZoneInfo("Europe/Berlin"))
        is_quiet = local.weekday() == 6 or local.hour >= 22 or local.hour < 6
        for rule, holder, owner, idle_ms in self.idle_now(now_ms):
            if idle_ms < STEPS[rule][0][0] * HOUR_MS:
                continue
            if owner is None:  # an owner that is exempt or on hold, or not
                self.reasons["owner unknown"] += 1
                continue
            if owner == "svc-llm" or (owner == "hanna" and now_ms < HOLD_ENDS_MS) or (rule == "idle" and is_quiet):
                self.reasons["exempt, on hold or quiet"] += 1
                continue
            sent = self.sent.setdefault((rule, holder), {})
            if (step := self.next_of(STEPS[rule], sent, idle_ms / HOUR_MS, now_ms)) is not None:
                sent[step] = now_ms
                found.add((rule, holder, *step))
        return found

    @staticmethod
    def next_of(
        steps: tuple[tuple[int, tuple[int, ...]], ...], sent: dict[tuple[int, int], int], idle_hours: float, now_ms: int
    ) -> tuple[int, int] | None:
        taken = max((step for step, _ in sent), default=0)
        if taken < len(steps) and idle_hours >= steps[taken][0]:
            waits_ms = (steps[taken][0] - steps[taken - 1][0]) * HOUR_MS if taken else 0
            if not taken or now_ms - sent[taken, 1] >= waits_ms:
                return taken + 1, 1
        if not taken or idle_hours < steps[taken - 1][0]:
            return None
        last = max(reminder for step, reminder in sent if step == taken)
        distances = steps[taken - 1][1]
        if last <= len(distances) and now_ms - sent[taken, last] >= distances[last - 1] * HOUR_MS:
            return taken, last + 1
        return None


@dataclass
class Site:
    """A store in which the ticks arrive, and runs of gua notify on it."""

    store: Store
    weeks: TwoWeeks
    landed: int = 0

    def arrive(self, now_ms: int) -> None:
        arrived = [one for one in self.weeks.readings[self.landed :] if one.arrives_ms <= now_ms]
        self.landed += len(arrived)
        assert self.store.land(list(spooled_ticks(self.weeks.tick(one) for one in arrived))) == []

    @contextmanager
    def stores(self) -> Iterator[Store]:
        yield self.store

    def notify(self, now_ms: int) -> RunOutcome:
        policy = parse_policy(POLICY, Path("policy.toml"))
        return NoticeRun(policy, self.stores, book=None, facts=NoFacts(), clock=lambda: now_ms, environ={}).send()


def moments(seed: int, *, is_every_tick: bool) -> list[int]:
    """Return when runs are made: a minute after each tick; or at random, and now and then two minutes after another."""
    if is_every_tick:
        return list(range(BEGIN_MS + TICK_MS + MINUTE_MS, END_MS, TICK_MS))
    rng = Random(f"runs {seed}")  # noqa: S311 - a simulation, no secret
    found = [BEGIN_MS + round((number + rng.random()) * DAYS * DAY_MS / RUNS) for number in range(RUNS)]
    return sorted({*found, *(moment + 2 * MINUTE_MS for moment in rng.sample(found, 4))})


def test_every_notice_reminder_and_escalation_is_sent_at_its_run(
    tmp_path: Path,
    made_store: Callable[[Path], str],
    monkeypatch: pytest.MonkeyPatch,
    request: pytest.FixtureRequest,
) -> None:
    is_every_tick = request.config.getoption("--notify-every-tick")
    runs = moments(1, is_every_tick=is_every_tick)
    hours_every = 12 if is_every_tick else 7
    weeks, channels = TwoWeeks(seed=1), RecordingChannels()
    truth = Truth(weeks)
    monkeypatch.setattr(notifying.channels, "reachable", channels.reachable)
    monkeypatch.setattr(notifying.channels, "send", channels.send)
    expected: list[set[Sent]] = []
    found: list[set[Sent]] = []
    with open_store(made_store(tmp_path / "store")) as store:
        site = Site(store, weeks)
        for number, now_ms in enumerate(runs):
            site.arrive(now_ms)
            if number % hours_every == 3:
                store.count_hours()
            before = len(channels.sent)
            outcome = site.notify(now_ms)
            notices = [
                (one.notice.rule, one.notice.held.key, one.notice.step, one.notice.reminder) for one in outcome.notices
            ]
            assert all(one.result == "sent" for one in outcome.notices)
            assert len(channels.sent) - before == sum(CHANNELS[rule, step] for rule, _, step, _ in notices)
            expected.append(truth.due(now_ms))
            found.append(set(notices))
            assert len(notices) == len(found[-1])
            assert found[-1] == expected[-1], f"run {number} at {now_ms}"
            if is_every_tick and not (number + 1) % (DAY_MS // TICK_MS):
                print(f"{number + 1} of {len(runs)} runs: {sum(map(len, found))} notices", flush=True)  # noqa: T201 - hours

    kinds = Counter((rule, step, reminder) for each in expected for rule, _, step, reminder in each)
    every = {
        (rule, step + 1, reminder)
        for rule, steps in STEPS.items()
        for step, (_, reminders) in enumerate(steps)
        for reminder in range(1, len(reminders) + 2)
    }
    assert set(kinds) == every, "the weeks have each kind of notice"
    assert set(truth.reasons) >= {"silent", "lost", "blind", "computes", "owner unknown", "exempt, on hold or quiet"}
    assert sum(map(len, expected)) > 40
    assert max(runs) < END_MS
    if is_every_tick:
        total = sum(map(len, expected))
        print(f"{len(runs)} runs, {total} notices: {sorted(kinds.items())}; {dict(truth.reasons)}")  # noqa: T201 - its figures
    owners = {life.job or f"{life.place[0]} {life.pid} {life.created_ms}": life.owner for life in weeks.lives}
    assert not [one for each in found for one in each if owners.get(one[1]) == "svc-llm"]
    reused = Counter((life.place[0], life.pid) for life in weeks.lives)
    assert max(reused.values()) > 3
    assert all(first != second for each in found for first, second in pairwise(sorted(each)))
