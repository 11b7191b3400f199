"""Reservation service of the agent: requests in strict order, grants and ends. One thread-safe object."""

import contextlib
import os
import secrets
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from operator import attrgetter
from pathlib import Path
from typing import Final

from gua.core.allocation import QueueWaits
from gua.core.errors import GuaError, UnavailableError
from gua.reservations import lifeline
from gua.reservations.idleness import IdleStreak
from gua.reservations.ledger import PLACE_SECONDS, Ledger, Queue, TakenError
from gua.reservations.model import (
    Candidate,
    CardRequest,
    Ending,
    Granted,
    Kind,
    Refused,
    Requested,
    Reservation,
    Reserved,
    Surroundings,
    Waiting,
    Wish,
    as_json,
    choose,
    read_reservation,
)
from gua.reservations.watch import TRY_SECONDS, Watch, WatchedReservation

_LOGGED_ENDINGS: Final = frozenset({Ending.IDLE, Ending.ORPHANED})
_RACE_SECONDS: Final = 1.0
_STEP_MS: Final = 2_000
_RETAINED_MS: Final = 90 * 24 * 3600 * 1000


class Desk:
    """Reservations and queue of this host, stored in ``folder``.

    Reservations that are idle for ``idle_release_ms`` end; never if ``None``. :meth:`start` loads the stored state, and
    :meth:`close` leaves it for the next agent. ``was_used`` is whether any reservation or request is or was stored.
    """

    def __init__(self, folder: Path, host: Surroundings, *, idle_release_ms: int | None = None) -> None:
        self._folder = folder
        self._host = host
        self._idle_release_ms = idle_release_ms
        # The state below is changed only under _changed's lock; _granting serializes the attempts to grant cards.
        self._changed = threading.Condition(threading.RLock())
        self._granting = threading.Lock()
        self._ledger: Ledger
        self._held: dict[str, WatchedReservation] = {}
        self._last_ends: dict[str, int] = {}
        self._idle: Mapping[str, IdleStreak] = {}
        self._forgiven: dict[str, int] = {}
        self._queue: Queue
        self.closing = False
        self.was_used = False
        self._watch: Watch

    def start(self) -> None:
        """Load stored reservations and start the watch. Raises UnavailableError if the ledger cannot be used."""
        try:
            self._folder.mkdir(mode=0o700, exist_ok=True)
            (self._folder / "locks").mkdir(mode=0o700, exist_ok=True)
        except OSError as error:
            msg = f"cannot keep reservations in {self._folder} ({error.strerror}): see who may write there"
            raise UnavailableError(msg) from None
        self._ledger = Ledger(self._folder / "reservations.db")
        if self._ledger.set_aside is not None:
            aside = self._ledger.set_aside
            self._host.log(f"the reservations file was damaged and is now {aside}; running commands keep their cards")
        # A damaged or removed ledger lacks reservations of running commands, whose lock files remain.
        for path in sorted((self._folder / "locks").iterdir()):
            if self._ledger.knows(path.name):
                continue
            with contextlib.suppress(OSError, ValueError, TypeError, KeyError, TakenError):
                if not lifeline.is_held(path):
                    path.unlink()
                    continue
                restored = read_reservation(path.read_text(encoding="ascii"))
                self._ledger.grant(restored)
                self._host.log(f"the reservation {path.name} of {restored.owner} was restored by its command's lock")
        self._ledger.forget_before(self._host.wall_ms() - _RETAINED_MS)
        for reservation in self._ledger.open_ones():
            held = self._hold(reservation)
            if not reservation.handed_over:
                held.claim_until = time.monotonic() + PLACE_SECONDS
        self._last_ends = self._ledger.last_ends()
        self._queue = Queue(self._ledger, self._host)
        self.was_used = bool(self._last_ends or self._held or self._queue.requests)
        self._watch = Watch(
            self._held,
            self._host,
            lock=self._changed,
            end=self._end,
            write=self._ledger.write,
            look_at_queue=self._look_at_queue,
        )
        self._watch.start()

    def close(self) -> None:
        """Stop the watch. Reservations stay valid, and stored places in the queue until 60 s after the next start."""
        with self._changed:
            self.closing = True
            self._changed.notify_all()
        self._watch.stop()
        with self._changed:
            self._ledger.close()

    def reservations(self) -> list[Reservation]:
        """Return the open reservations, oldest first; ``until_ms`` fits the wall clock as it is set now."""
        with self._changed:
            return [self._by_the_clock(held) for held in self._held.values()]

    def raced(self) -> dict[str, str]:
        """Return by reservation id who else was on its cards one second after the grant, in words."""
        with self._changed:
            return {identifier: held.raced for identifier, held in self._held.items() if held.raced is not None}

    def idle(self) -> Mapping[str, IdleStreak]:
        """Return the idle streak of each open reservation whose cards are not used, by reservation id."""
        with self._changed:
            return {identifier: streak for identifier, streak in self._idle.items() if identifier in self._held}

    def note_idle(self, streaks: Mapping[str, IdleStreak]) -> None:
        """Store the current idle streaks by reservation id, and end reservations idle for ``idle_release_ms``."""
        with self._changed:
            self._idle = streaks
            # Extending a reservation shows that it is needed: idle time before that does not count in this streak.
            self._forgiven = {
                identifier: forgiven
                for identifier, forgiven in self._forgiven.items()
                if identifier in streaks and streaks[identifier].idle_ms >= forgiven
            }
            if self._idle_release_ms is None:
                return
            for identifier, streak in streaks.items():
                if streak.idle_ms - self._forgiven.get(identifier, 0) < self._idle_release_ms:
                    continue
                try:
                    self._end(identifier, Ending.IDLE)
                except GuaError as error:
                    self._host.log(f"a reservation that is not used could not be ended: {error}")

    def since(self, since_ms: int) -> list[Reservation]:
        """Return the ended reservations that lasted past a time (Unix ms), and all open ones."""
        with self._changed:
            ended = [each for each in self._ledger.since(since_ms) if each.id not in self._held]
            return [*ended, *self.reservations()]

    def last_ends(self) -> dict[str, int]:
        """Return by UUID when the last reservation of each card ended (Unix ms)."""
        with self._changed:
            return dict(self._last_ends)

    def queue(self) -> list[CardRequest]:
        """Return the waiting requests in queue order."""
        with self._changed:
            return list(self._queue.requests)

    def take_waits(self) -> QueueWaits:
        """Return the number of waiting requests and their waiting time [ms] since the last call."""
        with self._changed:
            return self._queue.waits.take()

    def enter(self, request: CardRequest) -> bool:
        """Add a request to the end of the queue, or resume its stored place; return whether it was resumed.

        Raises UnavailableError if another user has the place, or a request that is not absent.
        """
        with self._changed:
            return self._queue.enter(request)

    def known_wish(self, place: str, uid: int) -> Wish | None:
        """Return the cards that a returning user's place waits for or was granted; ``None`` for an unknown place."""
        with self._changed:
            wish = self._queue.absent_wish(place, uid)
            if wish is not None:
                return wish
            held = (held.reservation for held in self._held.values())
            granted = next((each for each in held if (each.place, each.uid) == (place, uid)), None)
            return None if granted is None else Wish(cards=granted.cards)

    def keep_place(self, request: CardRequest) -> None:
        """Store the place of a request that has to wait, so that it survives a restart of the agent."""
        with self._changed:
            self.was_used = True  # waiting time counts even before the first grant
            self._queue.store(request.place)

    def leave(self, place: str) -> None:
        """Remove a place from the queue, if it exists. While closing, it is retained for the next agent."""
        with self._changed:
            if self.closing:
                return
            self._queue.leave(place)
            self._changed.notify_all()

    def _look_at_queue(self, now: float) -> list[float]:
        """Remove expired absent places, and return when the others expire, on the monotonic clock [s]."""
        for place in self._queue.given_up(now):
            self.leave(place)
        return list(self._queue.absent.values())

    def attempt(self, place: str, *, accept_unknown: bool = False) -> Granted | Waiting | Refused:
        """Grant cards to the request at this place if it is first in the queue and enough are free.

        Returns ``Waiting`` if not, and ``Refused`` if waiting cannot help. Raises UnavailableError if the ledger cannot
        be written, the place is gone, or the agent is stopping.
        """
        with self._granting:
            with self._changed:
                position = self._queue.position(place)
                if position > 0:
                    return Waiting(position=position + 1, ahead=position)
                request = self._queue.requests[0]
                last_cards = self._ledger.last_cards(request.uid)
                ends = dict(self._last_ends)
            # Outside the lock: the driver may be slow, and queries of the status must not wait for it.
            try:
                cards = self._host.probe()
            except UnavailableError as error:
                return Waiting(position=1, ahead=0, missing=request.wish.size, trouble=str(error))
            candidates = [
                replace(each, free_since_ms=max(ends.get(each.uuid, 0), each.free_since_ms or 0)) for each in cards
            ]
            with self._changed:
                if self.closing or self._queue.position(place) != 0:
                    raise UnavailableError("the agent is stopping")
                chosen = choose(
                    request.wish, candidates, self._reserved(), last_cards=last_cards, accept_unknown=accept_unknown
                )
                if isinstance(chosen, Refused):
                    if chosen.never is not None:
                        return chosen
                    return Waiting(position=1, ahead=0, missing=chosen.missing, reasons=chosen.reasons)
                return self._grant(self._queue.requests[0], chosen, candidates)

    def wait(self, seconds: float) -> None:
        """Wait for a change, for at most this many seconds and at most 2 s; return at once while closing."""
        with self._changed:
            if not self.closing:
                self._changed.wait(min(seconds, TRY_SECONDS))

    def cancel(self, granted: Granted) -> None:
        """End a reservation whose grant could not be delivered to the requester."""
        self._end(granted.reservation.id, Ending.CANCELLED)

    def handed_over(self, granted: Granted) -> bool:
        """Record that the requester received the grant; return whether the reservation is still open."""
        with self._changed:
            held = self._held.get(granted.reservation.id)
            if held is None:
                return False
            handed = replace(held.reservation, handed_over=True)
            self._ledger.write(handed)
            held.reservation = handed
            held.claim_until = None
            return True

    def granted_before(self, request: CardRequest) -> Granted | None:
        """Return the grant for a returning request, ``None`` if it has none or its command holds the lock already.

        An agent may have been killed between storing a grant and delivering it. Raises UnavailableError if it cannot be
        delivered now.
        """
        with self._changed:
            # The same place, user, container and process.
            identity = attrgetter("place", "uid", "container", "pid", "start_ticks")
            same = (held for held in self._held.values() if identity(held.reservation) == identity(request))
            held = next(same, None)
            if held is None or (held.path is not None and lifeline.is_held(held.path)):
                return None
            try:
                descriptor = None if held.path is None else lifeline.make_again(held.path)
            except OSError as error:
                raise UnavailableError(f"cannot hand a reservation over ({error.strerror}): try again") from None
            reservation = held.reservation
        try:
            index = {card.uuid: card.index for card in self._host.probe()}
        except UnavailableError:
            if descriptor is not None:
                os.close(descriptor)
            raise
        indices = tuple(index.get(card, -1) for card in reservation.cards)
        return Granted(reservation=reservation, lifeline=descriptor, indices=indices)

    def end(self, identifiers: Sequence[str], *, by: str | None) -> list[Reservation]:
        """End reservations by id and return those that were open; ``by`` names who ended them."""
        return [ended for each in identifiers if (ended := self._end(each, Ending.RELEASED, by=by)) is not None]

    def extend(self, identifier: str, until_ms: int) -> Reservation | None:
        """Set a reservation's end (Unix ms) and return it; ``None`` if it is not open. Its idle time restarts at 0."""
        with self._changed:
            held = self._held.get(identifier)
            if held is None:
                return None
            due = self._host.boot_seconds() + (until_ms - self._host.wall_ms()) / 1000
            longer = replace(
                held.reservation, until_ms=until_ms, until_boot_ms=round(due * 1000), boot_id=self._host.boot_id
            )
            self._ledger.write(longer)
            held.reservation = longer
            held.due = due
            streak = self._idle.get(identifier)
            if streak is not None:
                self._forgiven[identifier] = streak.idle_ms
        self._watch.stir()
        return held.reservation

    def _reserved(self) -> Reserved:
        cards: dict[str, str] = {}
        owners: dict[str, set[str]] = {}
        for held in self._held.values():
            cards |= dict.fromkeys(held.reservation.cards, f"reserved by {held.reservation.owner}")
            for parent in held.reservation.parents:
                owners.setdefault(parent, set()).add(held.reservation.owner)
        return Reserved(
            cards, {gpu: f"in part reserved by {', '.join(sorted(names))}" for gpu, names in owners.items()}
        )

    def _by_the_clock(self, held: WatchedReservation) -> Reservation:
        """Return the reservation with its end on the current wall clock, which may have been set since the grant."""
        if held.due is None or held.reservation.until_ms is None:
            return held.reservation
        until_ms = self._host.wall_ms() + round((held.due - self._host.boot_seconds()) * 1000)
        is_set = abs(until_ms - held.reservation.until_ms) > _STEP_MS
        return replace(held.reservation, until_ms=until_ms) if is_set else held.reservation

    def _grant(self, request: CardRequest, cards: tuple[str, ...], candidates: Sequence[Candidate]) -> Granted:
        now_ms = self._host.wall_ms()
        known = {each.uuid: each for each in candidates}
        requested = {each.name: getattr(request, each.name) for each in fields(Requested)}
        reservation = Reservation(
            **(requested | {"requested_ms": min(request.requested_ms, now_ms)}),
            id=secrets.token_hex(6),
            cards=cards,
            since_ms=now_ms,
            until_ms=None if request.for_ms is None else now_ms + request.for_ms,
            parents=tuple(sorted({parent for card in cards if (parent := known[card].parent) is not None})),
            until_boot_ms=None if request.for_ms is None else self._host.boot_ms() + request.for_ms,
            boot_id=self._host.boot_id,
        )
        descriptor = self._lifeline(reservation) if request.kind is Kind.RUN else None
        try:
            self._ledger.grant(reservation)
        except BaseException as error:
            if descriptor is not None:
                os.close(descriptor)
                lifeline.remove(self._lock_path(reservation.id))
            if isinstance(error, TakenError):
                raise UnavailableError("a card was granted to another request at the same time: try again") from None
            raise
        self._queue.granted(request.place)
        self._hold(reservation).race_at = time.monotonic() + _RACE_SECONDS
        self._changed.notify_all()
        self._watch.stir()
        return Granted(reservation=reservation, lifeline=descriptor, indices=tuple(known[card].index for card in cards))

    def _lifeline(self, reservation: Reservation) -> int:
        path = self._lock_path(reservation.id)
        try:
            descriptor = lifeline.make(path)
            # The content restores the reservation if the ledger is damaged.
            path.chmod(0o600)
            path.write_text(as_json(reservation), encoding="ascii")
        except OSError as error:
            lifeline.remove(path)
            msg = f"cannot keep a reservation in {path.parent} ({error.strerror}): make room on its disk"
            raise UnavailableError(msg) from None
        return descriptor

    def _lock_path(self, identifier: str) -> Path:
        return self._folder / "locks" / identifier

    def _hold(self, reservation: Reservation) -> WatchedReservation:
        held = WatchedReservation(reservation, last_there=time.monotonic())
        if reservation.until_boot_ms is not None and reservation.boot_id == self._host.boot_id is not None:
            held.due = reservation.until_boot_ms / 1000
        elif reservation.until_ms is not None:
            held.due = self._host.boot_seconds() + (reservation.until_ms - self._host.wall_ms()) / 1000
        if reservation.kind is Kind.RUN:
            held.path = self._lock_path(reservation.id)
            if reservation.pid is not None and reservation.start_ticks is not None:
                with contextlib.suppress(OSError):
                    held.leader = lifeline.open_pidfd(reservation.pid, reservation.start_ticks, self._host.start_ticks)
        self._held[reservation.id] = held
        self.was_used = True
        return held

    def _end(self, identifier: str, ending: Ending, *, by: str | None = None) -> Reservation | None:
        with self._changed:
            held = self._held.get(identifier)
            if held is None:
                return None
            reservation = held.reservation
            ended_ms = max(self._host.wall_ms(), reservation.since_ms)
            ended = replace(reservation, ended_ms=ended_ms, ending=ending, ended_by=by)
            self._ledger.write(ended)
            del self._held[identifier]
            self._forgiven.pop(identifier, None)
            if ending in _LOGGED_ENDINGS or by not in {None, reservation.owner}:
                why = f"{ending.value} by {by}" if by is not None else ending.value
                self._host.log(
                    f"reservation {identifier} of {reservation.owner} ({', '.join(reservation.cards)}) ended: {why}"
                )
            if held.path is not None:
                lifeline.remove(held.path)
            self._changed.notify_all()
            self._watch.stir()
            self._last_ends |= dict.fromkeys(reservation.cards, ended_ms)
            return ended
