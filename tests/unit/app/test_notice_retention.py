"""Notices expire with the hours of a store, but not while their holder is there: no step is sent twice."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import pytest

from fakes.idle_notice import idle
from fakes.notice_store import RecordingChannels
from gua.app import notifying
from gua.app.held_now import HeldNow
from gua.app.job_facts import HostFacts
from gua.app.notifying import NoticeRun, RunOutcome
from gua.core.moments import DAY_MS, HOUR_MS, to_rfc3339
from gua.notices.held import Held, Notice, NoticeResult
from gua.notices.policy import parse_policy
from gua.notices.record import notice_row
from gua.store.database import Store, open_store

pytestmark = pytest.mark.engine

NOW_MS: Final = time.time_ns() // 1_000_000
KEPT_DAYS: Final = 5
POLICY: Final = (
    '[[rule]]\nname = "idle"\nstate = "idle-held"\nafter = "2h"\n[[rule.step]]\nto = ["json://one.example"]\n'
)


def row(held: Held, age_days: float, **more: Any) -> dict[str, object]:  # noqa: ANN401 - columns
    """Return a notice of some days ago."""
    notice = Notice(rule="idle", step=1, reminder=1, held=held, to=((1, "json://one.example"),))
    sent_ms = NOW_MS - round(age_days * DAY_MS)
    shared = {"channel": "1 json://one.example", "message": "m", "result": NoticeResult.SENT}
    return notice_row(notice, sent_ms=sent_ms, written_ms=sent_ms, **shared) | more


@pytest.fixture
def store(tmp_path: Path, made_store: Callable[[Path], str]) -> Iterator[Store]:
    with open_store(made_store(tmp_path / "store")) as opened:
        yield opened


def notices(store: Store) -> dict[tuple[str, str], str]:
    """Return when each notice was sent, by kind and holder, after rows that are due to expire are gone."""
    store._command("OPTIMIZE TABLE gua.notices FINAL", {})  # noqa: SLF001 - as the engine does by itself
    return {(one["kind"], one["holder"]): one["sent"] for one in store.select("SELECT * FROM gua.notices FINAL")}


def run(store: Store, monkeypatch: pytest.MonkeyPatch, held: list[Held]) -> RunOutcome:
    @contextmanager
    def stores() -> Iterator[Store]:
        yield store

    channels = RecordingChannels()
    monkeypatch.setattr(notifying.channels, "reachable", channels.reachable)
    monkeypatch.setattr(notifying.channels, "send", channels.send)
    found = HeldNow(at_ms=NOW_MS, held=tuple(held), unknown=())
    monkeypatch.setattr(notifying, "held_now", lambda *_arguments, **_options: found)
    policy = parse_policy(POLICY, Path("policy.toml"))
    return NoticeRun(policy, stores, book=None, facts=HostFacts(), clock=lambda: NOW_MS, environ={}).send()


def test_notices_have_the_retention_of_hours(store: Store) -> None:
    old, new = idle(owner="ana", key="n1 1 5"), idle(owner="bo", key="n1 2 5")
    rows = [row(old, KEPT_DAYS + 2), row(new, KEPT_DAYS - 2)]
    digest = {"kind": "digest", "holder": "owner ana 2026-01-01/2026-01-08"}
    store.insert_json("notices", [*rows, row(old, KEPT_DAYS + 2, **digest)])
    assert len(notices(store)) == len(rows) + 1, "by default they are stored for good"
    store.schema.apply(keep={"ticks_days": 2, "hours_days": KEPT_DAYS})
    assert set(notices(store)) == {("process", new.key)}
    store.schema.apply(keep={"hours_days": None})
    store.insert_json("notices", [row(old, KEPT_DAYS + 2)])
    assert set(notices(store)) == {("process", old.key), ("process", new.key)}


def test_a_notice_is_not_sent_again_to_a_process_that_is_older_than_the_retention(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    there = replace(idle(owner="ana", key="n1 1 5"), idle_ms=400 * HOUR_MS, last_ms=NOW_MS)
    gone = idle(owner="bo", key="n1 2 5")
    store.schema.apply(keep={"ticks_days": 2, "hours_days": KEPT_DAYS})
    store.insert_json("notices", [row(one, KEPT_DAYS - 1) for one in (there, gone)])
    sent = to_rfc3339(NOW_MS - (KEPT_DAYS - 1) * DAY_MS)
    assert run(store, monkeypatch, [there]).notices == []
    # A retention that ends before the rows' first version is as good as days of waiting.
    store.schema.apply(keep={"ticks_days": 2, "hours_days": 2})
    assert set(notices(store)) == {("process", there.key)}
    assert run(store, monkeypatch, [there]).notices == []
    again = run(store, monkeypatch, [there, replace(gone, idle_ms=400 * HOUR_MS, last_ms=NOW_MS)])
    assert [one.notice.held.key for one in again.notices] == [gone.key], "what has expired is no longer known"
    assert sent[:10] in str(notices(store)["process", there.key]).replace("/", "-")
