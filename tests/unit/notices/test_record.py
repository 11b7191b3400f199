"""The record of notices: what was sent before, counts for the day's limit, and the lease of a run."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC
from typing import Any, Final

import pytest

from fakes.idle_notice import SINCE_MS, notice
from gua.core.errors import UnavailableError
from gua.core.moments import parse_moment_ms
from gua.notices.due import COMMAND, Taken
from gua.notices.held import NoticeResult
from gua.notices.record import LEASE_MS, Lease, SentBefore, SentRow, channel_name, channel_number, notice_row

T: Final = SINCE_MS


def row(**changes: Any) -> SentRow:  # noqa: ANN401 - a field each
    known: dict[str, Any] = {
        "kind": "process",
        "holder": "node1 4711 1",
        "rule": "idle",
        "step": 1,
        "reminder": 1,
        "owner": "alice",
        "sent_ms": T,
        "channel": "1 json://one.example",
        "result": "sent",
        "message": "a",
        "written_ms": T,
    }
    return SentRow(**{**known, **changes})


def test_channels_of_a_notice_are_put_together_with_the_moment_of_the_first() -> None:
    before = SentBefore([row(sent_ms=T + 5, channel="2 mailto://x"), row()])
    assert before.of("process", "node1 4711 1", "idle") == {(1, 1): Taken(T, frozenset((1, 2)), is_sent=True)}


@pytest.mark.parametrize("changed", [{"kind": "job"}, {"holder": "node1 4711 2"}, {"rule": "other"}])
def test_notices_of_another_holder_or_another_rule_do_not_count(changed: dict[str, str]) -> None:
    assert SentBefore([row(**changed)]).of("process", "node1 4711 1", "idle") == {}


def test_a_notice_is_sent_if_one_of_its_channels_took_it() -> None:
    rows = [row(result="failed"), row(channel="2 b://", result="started")]
    assert not SentBefore(rows).of("process", "node1 4711 1", "idle")[1, 1].is_sent
    assert SentBefore([*rows, row(channel="3 c://")]).of("process", "node1 4711 1", "idle")[1, 1].is_sent


def test_a_command_that_ran_is_taken_and_is_no_notice_that_was_sent() -> None:
    before = SentBefore([row(step=2, channel=channel_name(COMMAND, "command scancel"))])
    assert before.of("process", "node1 4711 1", "idle") == {(2, 1): Taken(T, frozenset((COMMAND,)), is_sent=False)}


def test_messages_are_counted_by_owner_from_a_moment_on_and_a_summary_or_two_channels_are_one() -> None:
    rows = [
        row(),
        row(channel="2 b://"),
        row(holder="node1 5 1", message="a"),
        row(holder="node1 6 1", message="b"),
        row(message="c", sent_ms=T - 1),
        row(message="d", result="failed"),
        row(message="e", result="started"),
        row(message="f", channel="0 command scancel"),
        row(message="g", owner=None),
    ]
    assert SentBefore(rows).messages_since(T) == {"alice": 3, "": 1}


def test_unresolved_are_the_notices_without_a_result_the_newest_first() -> None:
    rows = [row(result="started"), row(), row(result="started", sent_ms=T + 1)]
    assert [one.sent_ms for one in SentBefore(rows).unresolved()] == [T + 1, T]


def test_the_newest_row_is_the_one_that_was_written_last() -> None:
    assert SentBefore([]).newest_ms == 0
    assert SentBefore([row(written_ms=T + 9), row(sent_ms=T + 50)]).newest_ms == T + 9


@pytest.mark.parametrize(("name", "number"), [("12 json://a", 12), ("0 command x", 0), ("", 0), ("x", 0), ("² x", 0)])
def test_a_channel_has_its_number_in_its_name(name: str, number: int) -> None:
    assert channel_number(name) == number


def test_a_row_has_every_column_of_the_notice() -> None:
    found = notice_row(
        notice(),
        channel="1 json://one.example",
        message="m",
        result=NoticeResult.FAILED,
        sent_ms=T,
        written_ms=T + 1,
        detail="refused",
    )
    assert found["cards"] == [{"host": "node1", "gpu": f"GPU-{index}c3f2a7e-0000"} for index in (0, 1)]
    assert (found["kind"], found["holder"], found["pid"], found["owner"]) == ("process", "node1 4711", 4711, "alice")
    assert (found["sent"], found["written"]) == ("2026-11-28T15:05:00Z", "2026-11-28T15:05:00.001Z")
    assert (found["result"], found["detail"], found["idle_ms"]) == ("failed", "refused", 11_400_000)


@dataclass
class Runs:
    """A server whose only table has the runs, read at a clock that sleeping advances."""

    now_ms: int = T
    is_embedded: bool = False
    is_concurrent: bool = False
    rows_of_runs: dict[str, Mapping[str, Any]] = field(default_factory=dict)
    inserts: int = 0

    def insert_json(self, table: str, rows: Sequence[Mapping[str, object]]) -> None:
        assert table == "notice_runs"
        self.inserts += 1
        for each in rows:
            self.rows_of_runs[str(each["run"])] = {
                "run": each["run"],
                "host": each["host"],
                "pid": each["pid"],
                **{
                    f"{name}_ms": parse_moment_ms(str(each[name]), now_ms=0, timezone=UTC)
                    for name in ("started", "until")
                },
            }

    def rows(self, view: str, parameters: Mapping[str, object]) -> Iterable[Mapping[str, Any]]:
        assert (view, parameters) == ("notice_runs", {})
        return list(self.rows_of_runs.values())

    def lease(self) -> Lease:
        return Lease(now_ms=lambda: self.now_ms, sleep=self.sleep)

    def sleep(self, seconds: float) -> None:
        self.now_ms += round(seconds * 1000)


def test_one_of_two_runs_waits_until_the_other_gives_its_lease_back() -> None:
    store = Runs()
    first = store.lease()
    first.take(store)
    second, slept = store.lease(), []

    def sleep(seconds: float) -> None:
        store.sleep(seconds)
        slept.append(seconds)
        if len(slept) == 5:
            first.give_back(store)

    second._sleep = sleep  # noqa: SLF001 - the other run ends while this one waits
    second.take(store)
    assert len(slept) == 5


def test_a_run_that_waits_too_long_gives_up_and_names_the_start_of_the_other() -> None:
    store = Runs()
    store.lease().take(store)
    waiting = store.lease()
    with pytest.raises(UnavailableError, match=r"another gua notify .* has been sending since 2026-11-28T15:05"):
        waiting.take(store, wait_ms=10_000)
    open_runs = [one for one in store.rows_of_runs.values() if one["until_ms"] > store.now_ms]
    assert len(open_runs) == 1, "the run that gave up does not keep others waiting"


def test_a_killed_run_keeps_others_waiting_until_its_lease_ends() -> None:
    store = Runs()
    store.lease().take(store)
    store.now_ms += LEASE_MS - 5_000
    later = store.lease()
    later.take(store, wait_ms=60_000)
    assert store.now_ms >= T + LEASE_MS


def test_a_lease_is_renewed_only_after_a_third_of_it() -> None:
    store = Runs()
    lease = store.lease()
    lease.take(store)
    lease.renew(store)
    assert store.inserts == 1
    store.now_ms += LEASE_MS // 3 + 1
    lease.renew(store)
    assert store.inserts == 2


def test_an_embedded_store_needs_no_lease() -> None:
    store = Runs(is_embedded=True)
    lease = store.lease()
    lease.take(store)
    lease.renew(store)
    lease.give_back(store)
    assert store.inserts == 0


def test_a_lease_that_ended_is_not_renewed_as_another_run_may_send() -> None:
    store = Runs()
    lease = store.lease()
    lease.take(store)
    store.now_ms += LEASE_MS + 1
    with pytest.raises(UnavailableError, match="could not renew its right to send within 5 minutes"):
        lease.renew(store)
