"""Batches of messages: slow channels keep the right to send, and a run without it begins no further batch."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from gua.app import notifying, sending
from gua.app.job_facts import HostFacts
from gua.app.notifying import NoticeRun
from gua.app.sending import Versions, send_all
from gua.core.errors import UnavailableError
from gua.notices.channels import SendResult
from gua.notices.held import NoticeResult
from gua.notices.policy import parse_policy
from gua.notices.record import LEASE_MS, Lease

START_MS = 1_795_878_000_000


class Server:
    """A store on a server with a clock: rows of notices in order, and until when the run may send."""

    is_embedded = False
    is_concurrent = False

    def __init__(self) -> None:
        self.now_ms = START_MS
        self.notices: list[Mapping[str, object]] = []
        self.leases = 0

    def insert_json(self, table: str, rows: Sequence[Mapping[str, object]]) -> None:
        if table == "notices":
            self.notices += rows
        else:
            self.leases += 1

    def keep_notices(self, holders: Sequence[str]) -> None:
        assert not holders

    def rows(self, _view: str, _parameters: Mapping[str, object]) -> list[Mapping[str, Any]]:
        return []

    @contextmanager
    def open(self) -> Iterator[Server]:
        yield self


def send(server: Server, seconds: Sequence[float]) -> list[SendResult]:
    """Send messages that take so long each, and return their results."""
    lease = Lease(now_ms=lambda: server.now_ms, sleep=lambda _: None)
    lease.take(server)

    def sent(delivery: float) -> SendResult:
        server.now_ms += round(1000 * delivery)
        return SendResult(result=NoticeResult.SENT)

    return send_all(
        seconds,
        lease,
        stores=server.open,
        send=sent,
        rows=lambda delivery, result, _version: [{"seconds": delivery, "result": result.result}],
        written_ms=Versions().next_ms,
    )


def test_each_message_is_recorded_before_its_batch_is_sent_and_after() -> None:
    server = Server()
    assert len(send(server, [1.0] * 20)) == 20
    kinds = [row["result"] for row in server.notices]
    assert kinds == ["started"] * 16 + ["sent"] * 16 + ["started"] * 4 + ["sent"] * 4


def test_slow_channels_of_one_batch_keep_the_lease() -> None:
    server = Server()
    assert len(send(server, [30.0] * 40)) == 40  # 20 minutes, with a lease of 5
    assert server.leases > 40 * 30_000 // LEASE_MS


def test_a_run_that_lost_its_lease_begins_no_further_batch() -> None:
    server = Server()
    with pytest.raises(UnavailableError, match="another may send"):
        send(server, [1.0] * 15 + [LEASE_MS / 1000 + 1] + [1.0] * 16)
    assert [row["result"] for row in server.notices] == ["started"] * 16 + ["sent"] * 16


def test_a_run_that_fails_to_read_the_store_gives_its_lease_back(monkeypatch: pytest.MonkeyPatch) -> None:
    server = Server()

    def failing(*_: object, **_others: object) -> None:
        raise UnavailableError("no data")

    monkeypatch.setattr(notifying, "held_now", failing)
    monkeypatch.setattr(sending.time, "sleep", lambda _: None)
    monkeypatch.setattr(sending, "Lease", lambda **_: Lease(now_ms=lambda: server.now_ms, sleep=lambda _: None))
    policy = parse_policy("", Path("policy.toml"))
    run = NoticeRun(policy, server.open, book=None, facts=HostFacts(), clock=lambda: START_MS, environ={})
    with pytest.raises(UnavailableError, match="no data"):
        run.send()
    assert server.leases == 2, "taken and given back"
