"""Ledger of reservations, an SQLite file whose unique index prevents granting a card twice; and the queue."""

import contextlib
import sqlite3
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from gua.core.allocation import QueueWaits
from gua.core.errors import GuaError, UnavailableError
from gua.reservations.model import CardRequest, Reservation, Surroundings, Wish, as_json, read_request, read_reservation

_VERSION: Final = 1
_APPLICATION_ID: Final = 0x67756172  # "guar"
_BUSY_SECONDS: Final = 5.0
_TABLES: Final = """
CREATE TABLE reservations (
    id TEXT PRIMARY KEY,
    uid INTEGER NOT NULL,
    since_ms INTEGER NOT NULL,
    ended_ms INTEGER,
    reservation TEXT NOT NULL
) STRICT;
CREATE TABLE cards (
    reservation TEXT NOT NULL REFERENCES reservations (id) ON DELETE CASCADE,
    place INTEGER NOT NULL,
    card TEXT NOT NULL,
    ended_ms INTEGER,
    PRIMARY KEY (reservation, place)
) STRICT, WITHOUT ROWID;
CREATE INDEX by_end ON reservations (ended_ms);
CREATE INDEX by_user ON reservations (uid, since_ms);
CREATE UNIQUE INDEX one_at_a_time ON cards (card) WHERE ended_ms IS NULL;
CREATE TABLE waiting (
    place TEXT PRIMARY KEY,
    number INTEGER NOT NULL,
    request TEXT NOT NULL,
    left_boot_ms INTEGER
) STRICT;
"""


class TakenError(Exception):
    """A card of the reservation is already reserved; nothing was granted."""


class Ledger:
    """Reservations of this host in the SQLite file ``path``; each change is on disk on return.

    For one thread at a time. A damaged file is renamed to ``<name>.damaged-<UTC time>``, in ``set_aside``, and replaced
    by a new one. Every method raises UnavailableError if the file cannot be used, as on a full disk.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self.set_aside: Path | None = None
        try:
            self._connection = _opened(path)
        except sqlite3.DatabaseError as error:
            code = getattr(error, "sqlite_errorcode", None)
            if isinstance(error, sqlite3.OperationalError) and code not in {
                sqlite3.SQLITE_CORRUPT,
                sqlite3.SQLITE_NOTADB,
            }:
                raise UnavailableError(_cannot(path, error)) from None
            self.set_aside = _put_aside(path)
            try:
                self._connection = _opened(path)
            except sqlite3.Error as again:
                raise UnavailableError(_cannot(path, again)) from None

    def close(self) -> None:
        """Close the file."""
        self._connection.close()

    def grant(self, reservation: Reservation) -> None:
        """Insert a new reservation and remove its request from the queue, in one transaction.

        Raises TakenError if one of its cards is already reserved.
        """
        with self._change() as connection:
            connection.execute(
                "INSERT INTO reservations VALUES (?, ?, ?, NULL, ?)",
                (reservation.id, reservation.uid, reservation.since_ms, as_json(reservation)),
            )
            try:
                connection.executemany(
                    "INSERT INTO cards VALUES (?, ?, ?, NULL)",
                    [(reservation.id, place, card) for place, card in enumerate(reservation.cards)],
                )
            except sqlite3.IntegrityError as error:
                raise TakenError(reservation.id) from error
            connection.execute("DELETE FROM waiting WHERE place = ?", (reservation.place,))

    def write(self, reservation: Reservation) -> None:
        """Update a reservation: its end, its time limit, or that it was handed over."""
        ended_ms = reservation.ended_ms
        with self._change() as connection:
            connection.execute(
                "UPDATE reservations SET ended_ms = ?, reservation = ? WHERE id = ?",
                (ended_ms, as_json(reservation), reservation.id),
            )
            connection.execute("UPDATE cards SET ended_ms = ? WHERE reservation = ?", (ended_ms, reservation.id))

    def knows(self, identifier: str) -> bool:
        """Return whether a reservation with this id is stored, open or ended."""
        return bool(self._all("SELECT 1 FROM reservations WHERE id = ?", identifier))

    def open_ones(self) -> list[Reservation]:
        """Return the open reservations, oldest first."""
        return self._read("WHERE ended_ms IS NULL ORDER BY since_ms, id")

    def since(self, since_ms: int) -> list[Reservation]:
        """Return the reservations that are open or ended after a time (Unix ms), oldest first."""
        return self._read("WHERE ended_ms IS NULL OR ended_ms > ? ORDER BY since_ms, id", since_ms)

    def last_cards(self, uid: int) -> list[str]:
        """Return the UUIDs of the cards of a user's 64 newest reservations, newest first, each card once."""
        rows = self._all(
            "SELECT card, max(since_ms) AS newest FROM cards"
            " JOIN (SELECT id, since_ms FROM reservations WHERE uid = ? ORDER BY since_ms DESC LIMIT 64)"
            " ON id = reservation GROUP BY card ORDER BY newest DESC, card",
            uid,
        )
        return [str(card) for card, _ in rows]

    def last_ends(self) -> dict[str, int]:
        """Return by UUID when the last ended reservation of each card ended (Unix ms)."""
        return {
            str(card): int(ended)
            for card, ended in self._all(
                "SELECT card, max(ended_ms) FROM cards WHERE ended_ms IS NOT NULL GROUP BY card"
            )
        }

    def enqueue(self, requests: Iterable[CardRequest]) -> None:
        """Store requests with their turns in the queue; all of them or none."""
        with self._change() as connection:
            connection.executemany(
                "INSERT OR REPLACE INTO waiting VALUES (?, ?, ?, NULL)",
                [(request.place, request.turn, as_json(request)) for request in requests],
            )

    def dequeue(self, place: str) -> None:
        """Remove a request from the queue."""
        with self._change() as connection:
            connection.execute("DELETE FROM waiting WHERE place = ?", (place,))

    def left(self, now_boot_ms: int) -> dict[str, int]:
        """Return since when each place is absent, on the boot clock [ms]; places not marked yet are marked now."""
        with self._change() as connection:
            # A time ahead of the clock is from another boot.
            connection.execute(
                "UPDATE waiting SET left_boot_ms = ? WHERE left_boot_ms IS NULL OR left_boot_ms > ?",
                (now_boot_ms, now_boot_ms),
            )
        return {str(place): int(left) for place, left in self._all("SELECT place, left_boot_ms FROM waiting")}

    def come_back(self, place: str) -> None:
        """Record that the requester returned to a place."""
        with self._change() as connection:
            connection.execute("UPDATE waiting SET left_boot_ms = NULL WHERE place = ?", (place,))

    def queue(self) -> list[CardRequest]:
        """Return the waiting requests in queue order."""
        return [read_request(text) for (text,) in self._all("SELECT request FROM waiting ORDER BY number")]

    def forget_before(self, ended_ms: int) -> None:
        """Delete the reservations that ended before a time (Unix ms)."""
        with self._change() as connection:
            connection.execute("DELETE FROM reservations WHERE ended_ms < ?", (ended_ms,))

    def _read(self, where: str, *values: object) -> list[Reservation]:
        rows = self._all(f"SELECT reservation FROM reservations {where}", *values)  # noqa: S608 - contains no values
        return [read_reservation(text) for (text,) in rows]

    def _all(self, sql: str, *values: object) -> list[Any]:
        try:
            return self._connection.execute(sql, values).fetchall()
        except sqlite3.Error as error:
            raise UnavailableError(_cannot(self._path, error)) from None

    @contextmanager
    def _change(self) -> Iterator[sqlite3.Connection]:
        try:
            self._connection.execute("BEGIN IMMEDIATE")
            try:
                yield self._connection
                self._connection.execute("COMMIT")
            except BaseException:
                # A full disk may already have rolled the transaction back.
                if self._connection.in_transaction:
                    self._connection.execute("ROLLBACK")
                raise
        except sqlite3.Error as error:
            raise UnavailableError(_cannot(self._path, error)) from None


def _opened(path: Path) -> sqlite3.Connection:
    path.touch(mode=0o600, exist_ok=True)
    connection = sqlite3.connect(path, timeout=_BUSY_SECONDS, isolation_level=None, check_same_thread=False)
    try:
        connection.execute("PRAGMA journal_mode = WAL").fetchone()
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute("PRAGMA foreign_keys = ON")
        (application,) = connection.execute("PRAGMA application_id").fetchone()
        (version,) = connection.execute("PRAGMA user_version").fetchone()
        (tables,) = connection.execute("SELECT count(*) FROM sqlite_schema").fetchone()
        if (application, version) != (_APPLICATION_ID, _VERSION):
            _refuse_unless(not tables and application in {0, _APPLICATION_ID}, "it is of another version")
            connection.executescript(
                f"BEGIN IMMEDIATE; {_TABLES} PRAGMA application_id = {_APPLICATION_ID};"
                f" PRAGMA user_version = {_VERSION}; COMMIT;"
            )
        (sound,) = connection.execute("PRAGMA quick_check(1)").fetchone()
        _refuse_unless(sound == "ok", str(sound))
        try:  # SQLite's own check does not look into JSON
            for (text,) in connection.execute("SELECT reservation FROM reservations"):
                read_reservation(text)
            for (text,) in connection.execute("SELECT request FROM waiting"):
                read_request(text)
        except (ValueError, TypeError, KeyError):
            raise sqlite3.DatabaseError("a row is damaged") from None
    except BaseException:
        connection.close()
        raise
    return connection


def _refuse_unless(fine: bool, why: str) -> None:  # noqa: FBT001 - the asserted condition
    if not fine:
        raise sqlite3.DatabaseError(why)


def _put_aside(path: Path) -> Path:
    aside = path.with_name(f"{path.name}.damaged-{datetime.now(UTC):%Y%m%dT%H%M%SZ}")
    try:
        path.rename(aside)
        for ending in ("-wal", "-shm"):
            with contextlib.suppress(FileNotFoundError):
                path.with_name(path.name + ending).unlink()
    except OSError as error:
        raise UnavailableError(f"{path} is damaged and cannot be set aside ({error.strerror}): remove it") from None
    return aside


def _cannot(path: Path, error: sqlite3.Error) -> str:
    return f"cannot keep reservations in {path} ({error}): make room on its disk, and see that this user may write it"


PLACE_SECONDS: Final = 60.0
"""Time for which a stored place waits for its requester after the agent starts again."""


@dataclass(slots=True)
class WaitMeter:
    """Integrates the number of waiting requests over time. For use under the queue's lock.

    ``now_ms`` is a clock that cannot be set [ms].
    """

    now_ms: Callable[[], int]
    _waiting: int = 0
    _since_ms: int | None = None
    _wait_ms: int = 0
    _waited_ms: int = 0

    def note(self, waiting: int) -> None:
        """Record the number of requests that wait from now on."""
        now_ms = self.now_ms()
        if self._since_ms is not None and self._waiting:
            passed_ms = max(0, now_ms - self._since_ms)
            self._wait_ms += self._waiting * passed_ms
            self._waited_ms += passed_ms
        self._waiting, self._since_ms = waiting, now_ms

    def take(self) -> QueueWaits:
        """Return the waits since the last call and reset them: the sum over requests, and the time with any [ms]."""
        self.note(self._waiting)
        waits = QueueWaits(waiting=self._waiting, wait_ms=self._wait_ms, waited_ms=self._waited_ms)
        self._wait_ms = self._waited_ms = 0
        return waits


class Queue:
    """The waiting requests in order. For use under the desk's lock.

    It starts with the stored places of the previous agent, without those whose process has ended. Methods raise
    UnavailableError if the ledger cannot be written.
    """

    def __init__(self, ledger: Ledger, host: Surroundings) -> None:
        self._ledger = ledger
        self._host = host
        self.waits = WaitMeter(host.boot_ms)
        self._turn = self._stored_to = 0
        self.requests: list[CardRequest] = []
        for request in ledger.queue():
            if host.is_running(request):
                self.requests.append(request)
                self._turn = self._stored_to = request.turn
            else:
                ledger.dequeue(request.place)
        now_ms = host.boot_ms()
        # By place, when it expires (monotonic): 60 s after the first agent start without its requester, so that
        # further restarts do not extend it.
        self.absent = {
            place: time.monotonic() + PLACE_SECONDS - (now_ms - left_ms) / 1000
            for place, left_ms in ledger.left(now_ms).items()
        }
        self.waits.note(len(self.requests))

    def enter(self, request: CardRequest) -> bool:
        """Add a request to the end of the queue, or resume its stored place; return whether it was resumed.

        Raises UnavailableError if another user has the place, or a request that is not absent.
        """
        for position, waiting in enumerate(self.requests):
            if waiting.place != request.place:
                continue
            if waiting.uid == request.uid and request.place in self.absent:
                self._ledger.come_back(request.place)
                del self.absent[request.place]
                self.requests[position] = replace(waiting, pid=request.pid, start_ticks=request.start_ticks)
                return True
            raise UnavailableError("that place in the queue is taken")
        self._turn += 1
        self.requests.append(replace(request, requested_ms=self._host.wall_ms(), turn=self._turn))
        self.waits.note(len(self.requests))
        return False

    def absent_wish(self, place: str, uid: int) -> Wish | None:
        """Return the requested cards of a user's absent place; ``None`` if no such place is absent."""
        known = (each for each in self.requests if (each.place, each.uid) == (place, uid) and place in self.absent)
        return next((each.wish for each in known), None)

    def store(self, place: str) -> None:
        """Store a place, and all unstored ones before it, so that they survive a restart of the agent.

        The first request may be reading the cards and not be stored yet. If the agent is killed then, later requests
        must not overtake it.
        """
        turn = next((waiting.turn for waiting in self.requests if waiting.place == place), 0)
        if turn > self._stored_to:
            self._ledger.enqueue(waiting for waiting in self.requests if self._stored_to < waiting.turn <= turn)
            self._stored_to = turn

    def leave(self, place: str) -> None:
        """Remove a place from the queue, if it exists. Errors of the ledger are ignored."""
        self.granted(place)
        with contextlib.suppress(GuaError):
            self._ledger.dequeue(place)

    def granted(self, place: str) -> None:
        """Remove the request of a place in memory only: the ledger removed it with its grant."""
        self.requests = [waiting for waiting in self.requests if waiting.place != place]
        self.waits.note(len(self.requests))

    def position(self, place: str) -> int:
        """Return the number of requests before a place. Raises UnavailableError if the place is gone."""
        for position, waiting in enumerate(self.requests):
            if waiting.place == place:
                return position
        raise UnavailableError("this place in the queue is gone")

    def given_up(self, now: float) -> list[str]:
        """Return each absent place once that expired or whose process ended; ``now`` is monotonic [s]."""
        absent = [waiting for waiting in self.requests if waiting.place in self.absent]
        ended = {waiting.place for waiting in absent if not self._host.is_running(waiting)}
        places = [place for place, until in self.absent.items() if until <= now or place in ended]
        for place in places:
            del self.absent[place]
        return places
