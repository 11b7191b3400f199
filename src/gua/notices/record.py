"""The record of notices in the store: what was sent before, rows of what is sent now, and the lease of a run."""

import os
import secrets
import socket
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final, NamedTuple, Protocol

from gua.core.errors import UnavailableError
from gua.core.moments import to_rfc3339
from gua.core.plaintext import safe
from gua.core.ports import ViewReader
from gua.core.view import Count, Moment, View
from gua.notices.due import COMMAND, Sent, Taken
from gua.notices.held import SUCCESSES, Notice, NoticeResult

LEASE_MS: Final = 5 * 60_000
"""How long other runs wait for a run that does not renew its lease."""
WAIT_MS: Final = 60_000
DIGEST: Final = "digest"
"""Kind and rule of digests, which are no notices."""
_SETTLE_SECONDS: Final = 1.0
_POLL_SECONDS: Final = 1.0
_NOT_TAKEN: Final = Taken(2**63, frozenset(), is_sent=False)


class Inserter(ViewReader, Protocol):
    """A store: its views, and insertion of rows into its tables."""

    @property
    def is_embedded(self) -> bool:
        """Return whether it is an embedded store, which one process has open at a time."""

    def insert_json(self, table: str, rows: Sequence[Mapping[str, object]]) -> None:
        """Insert rows into ``gua.<table>``; they are stored on return."""

    def keep_notices(self, holders: Sequence[str]) -> None:
        """Write notices of holders (``<kind> <holder>``) anew that are older than a day, so that they do not expire."""


class SentRow(NamedTuple):
    """One notice on one channel that was sent at ``sent_ms`` (Unix ms), or may have been, as of ``written_ms``."""

    kind: str
    holder: str
    rule: str
    step: Count
    reminder: Count
    owner: str | None
    sent_ms: Moment
    channel: str
    result: str
    message: str
    written_ms: Moment


class RunRow(NamedTuple):
    """A run that has not ended: when it began, and until when it may send (Unix ms)."""

    run: str
    host: str
    pid: Count
    started_ms: Moment
    until_ms: Moment


SENT: Final = View("sent_notices", SentRow, ("since_ms",))
RUNS: Final = View("notice_runs", RunRow, ())


class SentBefore:
    """The notices of a store that were sent before, or may have been; without ``with_failed`` only these.

    ``newest_ms`` is when the newest row of all was written (Unix ms): a row that is to replace one must be later.
    """

    def __init__(self, rows: Iterable[SentRow], *, with_failed: bool = True) -> None:
        every = tuple(rows)
        self.newest_ms = max((row.written_ms for row in every), default=0)
        self.rows = tuple(row for row in every if with_failed or row.result != NoticeResult.FAILED)
        self._of: dict[tuple[str, str, str], dict[tuple[int, int], Taken]] = {}
        for row in self.rows:
            of_holder = self._of.setdefault((row.kind, row.holder, row.rule), {})
            key = (row.step, row.reminder)
            before, channel = of_holder.get(key, _NOT_TAKEN), channel_number(row.channel)
            is_sent = row.result in SUCCESSES and channel != COMMAND
            of_holder[key] = Taken(
                min(before.at_ms, row.sent_ms), before.channels | {channel}, is_sent=before.is_sent or is_sent
            )

    def of(self, kind: str, holder: str, rule: str) -> Sent:
        """Return what a holder got by a rule, by step and reminder."""
        return self._of.get((kind, holder, rule), {})

    def messages_since(self, since_ms: int) -> dict[str, int]:
        """Return how many messages each owner (empty if unknown) got since a moment (Unix ms).

        A summary is one, and so is a message by several channels. Commands are none.
        """
        messages: dict[str, set[str]] = {}
        for row in self.rows:
            is_command = channel_number(row.channel) == COMMAND
            if row.sent_ms >= since_ms and row.result != NoticeResult.FAILED and not is_command:
                messages.setdefault(row.owner or "", set()).add(row.message)
        return {owner: len(each) for owner, each in messages.items()}

    def unresolved(self) -> list[SentRow]:
        """Return the notices of killed runs, newest first: it is unknown whether they were sent."""
        started = (row for row in self.rows if row.result == NoticeResult.STARTED)
        return sorted(started, key=lambda row: -row.sent_ms)


def channel_name(number: int, shown: str) -> str:
    """Return the name of a step's channel in the record: its number in the step (0: the command), and what it is."""
    return f"{number} {shown}"


def channel_number(name: str) -> int:
    """Return the number of a channel by its name in the record."""
    number = name.split(" ", 1)[0]
    return int(number) if number.isdecimal() else COMMAND


def notice_row(  # noqa: PLR0913 - keyword-only, the columns that a notice does not have
    notice: Notice,
    *,
    channel: str,
    message: str,
    result: NoticeResult,
    sent_ms: int,
    written_ms: int,
    detail: str = "",
) -> dict[str, object]:
    """Return the row of ``gua.notices`` of a notice on a channel; moments in Unix ms."""
    held = notice.held
    return {
        "host": held.host,
        "kind": held.kind,
        "holder": held.key,
        "rule": notice.rule,
        "step": notice.step,
        "reminder": notice.reminder,
        "channel": channel,
        "sent": to_rfc3339(sent_ms),
        "result": result,
        "detail": detail,
        "message": message,
        "state": held.state,
        "cards": [{"host": card.host, "gpu": card.gpu} for card in held.cards],
        "owner": held.owner,
        "program": held.program,
        "pid": held.pid,
        "since": to_rfc3339(held.since_ms),
        "idle_ms": held.idle_ms,
        "written": to_rfc3339(written_ms),
    }


def sent_before(reader: ViewReader, *, with_failed: bool = True) -> SentBefore:
    """Return all notices of a store, or without those that all a channel reported as failed."""
    rows = (row for row in SENT.rows(reader, {"since_ms": 0}) if row.kind != DIGEST)
    return SentBefore(rows, with_failed=with_failed)


def digests_before(reader: ViewReader) -> tuple[dict[tuple[str, int], str], int]:
    """Return the results of digests by recipient and channel number, and when the newest row was written (Unix ms)."""
    rows = [row for row in SENT.rows(reader, {"since_ms": 0}) if row.kind == DIGEST]
    rows.sort(key=lambda row: row.result != NoticeResult.FAILED)  # a channel that failed may have another server now
    results = {(row.holder, channel_number(row.channel)): row.result for row in rows}
    return results, max((row.written_ms for row in rows), default=0)


class Lease:
    """The right of one run to send, while it renews it.

    ClickHouse has no compare-and-set: two runs on different hosts that begin within the time in which an insert becomes
    visible on all replicas (a second here) could both send. So could runs on hosts whose clocks differ by more than
    that. Runs on one host are kept apart by a lock, so an embedded store needs no lease.
    """

    def __init__(self, *, now_ms: Callable[[], int], sleep: Callable[[float], None]) -> None:
        self._now_ms = now_ms
        self._sleep = sleep
        self._run = secrets.token_hex(8)
        self._started_ms = now_ms()
        self._renewed_ms = 0

    @property
    def is_held(self) -> bool:
        """Return whether it was ever written, so that it is to be given back."""
        return self._renewed_ms > 0

    def take(self, store: Inserter, *, wait_ms: int = WAIT_MS) -> None:
        """Wait for the runs that began earlier. Raises UnavailableError if one holds on for longer than ``wait_ms``."""
        if store.is_embedded:
            return
        self.renew(store)
        self._sleep(_SETTLE_SECONDS)
        while True:
            now_ms = self._now_ms()
            waiting = sorted(
                (row for row in RUNS.rows(store, {}) if row.until_ms > now_ms),
                key=lambda row: (row.started_ms, row.run),
            )
            if not waiting or waiting[0].run == self._run:
                return
            if now_ms - self._started_ms > wait_ms:
                self.give_back(store)
                first = waiting[0]
                raise UnavailableError(
                    f"another gua notify (pid {first.pid} on {safe(first.host, 80)}) has been sending since "
                    f"{to_rfc3339(first.started_ms)}: run this one again later"
                )
            self.renew(store)
            self._sleep(_POLL_SECONDS)

    @property
    def is_renewal_due(self) -> bool:
        """Return whether a third of the lease has passed."""
        return self._now_ms() - self._renewed_ms > LEASE_MS // 3

    def renew(self, store: Inserter) -> None:
        """Extend the lease, where a third of it has passed.

        Raises UnavailableError if all of it has, as where the machine slept: another run may send by now.
        """
        if store.is_embedded or not self.is_renewal_due:
            return
        if self.is_held and self._now_ms() - self._renewed_ms > LEASE_MS:
            raise UnavailableError(
                f"this run could not renew its right to send within {LEASE_MS // 60_000} minutes, so another may send: "
                "run it again, what it has not begun is still due"
            )
        self._write(store, self._now_ms() + LEASE_MS)

    def give_back(self, store: Inserter) -> None:
        """Let the next run send."""
        if not store.is_embedded:
            self._write(store, self._now_ms())

    def _write(self, store: Inserter, until_ms: int) -> None:
        self._renewed_ms = self._now_ms()
        row = {"run": self._run, "host": socket.gethostname(), "pid": os.getpid()}
        moments = {"started": self._started_ms, "until": until_ms, "written": self._renewed_ms}
        store.insert_json("notice_runs", [{**row, **{name: to_rfc3339(ms) for name, ms in moments.items()}}])
