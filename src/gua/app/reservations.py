"""The agent's handlers of reservation requests on the local socket, and reservations as an allocation source."""

import contextlib
import os
import select
import socket
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

from gua.app.requester import ADMIN_GROUP, Requester, Requesters
from gua.core.allocation import Allocation, AllocationLook, CardKey, SourceHealth
from gua.core.errors import NotNowError, NotYoursError, UnavailableError, UsageError
from gua.core.plaintext import storable
from gua.core.ports import AllocationSources
from gua.core.tick import Tick
from gua.core.untrusted import object_in
from gua.core.workloads import declared
from gua.local_socket.peer import LineError, Lines, encoded, send_line
from gua.local_socket.server import Converse
from gua.reservations.desk import Desk
from gua.reservations.idleness import IdleReservations
from gua.reservations.model import (
    LONGEST_NOTE,
    MOST_CARDS,
    Candidate,
    CardRequest,
    Granted,
    Kind,
    Refused,
    Reservation,
    Waiting,
    Wish,
    new_place,
)
from gua.state.socket_address import Peer

SOURCE: Final = "gua"
REQUESTS: Final = ("reserve", "release", "extend", "reservations", "queue")
LONGEST_MS: Final = 365 * 24 * 3600 * 1000
_LONGEST_LOOK_MS: Final = 60_000  # a reservation may end while the cards are read, after the tick's time
_SEND_SECONDS: Final = 5.0
_LOOK_SECONDS: Final = 2.0
_REPEAT_SECONDS: Final = 30.0


_WHAT: Final = ("since_ms", "until_ms", "note", "workload_kind", "workload_model")


class Reservations:
    """Handlers of the reservation requests that come over the local socket.

    ``requesters`` identifies the requester. ``cards`` reads the cards' state now. ``beside`` returns the reason why a
    scheduler allocates this host's cards, else ``None``. ``idle_cards`` returns since when each card is idle-held (UUID
    to Unix ms).
    """

    def __init__(
        self,
        desk: Desk,
        *,
        cards: Callable[[], Sequence[Candidate]],
        requesters: Requesters,
        beside: Callable[[], str | None] = lambda: None,
        idle_cards: Callable[[], Mapping[str, int]] = dict,
    ) -> None:
        self._desk = desk
        self._cards = cards
        self._requesters = requesters
        self._beside = beside
        self._idle_cards = idle_cards
        self._index: dict[str, int] = {}
        if desk.reservations() or desk.queue():
            with contextlib.suppress(UnavailableError):  # the first request fills the indices
                self._index = {card.uuid: card.index for card in cards()}

    def conversations(self) -> Mapping[str, Converse]:
        """Return the handler of each request type."""
        handlers = (self._reserve, self._release, self._extend, self._reservations, self._queue)
        return dict(zip(REQUESTS, handlers, strict=True))

    def as_object(self, reservation: Reservation) -> dict[str, Any]:
        """Return a reservation as the JSON object that is sent."""
        streak = self._desk.idle().get(reservation.id)
        return {
            **{name: getattr(reservation, name) for name in ("id", "owner", "uid", "kind")},
            "cards": list(reservation.cards),
            "gpus": [self._index.get(card) for card in reservation.cards],
            **{name: getattr(reservation, name) for name in _WHAT},
            "idle_since_ms": None if streak is None else streak.since_ms,
            "raced": self._desk.raced().get(reservation.id),
            **{name: getattr(reservation, name) for name in ("ended_ms", "ending", "ended_by")},
        }

    def _reserve(self, connection: socket.socket, peer: Peer, message: Mapping[str, Any], lines: Lines) -> None:
        ruler = None if message.get("beside_scheduler") is True else self._beside()
        if ruler is not None:
            raise NotNowError(f"{ruler}: request cards from it, or pass --beside-scheduler")
        try:
            request = self._request(self._requesters.identify(connection, peer), message)
            wait_ms = _amount(message, "wait_ms", most=LONGEST_MS)
            deadline = None if wait_ms is None else time.monotonic() + wait_ms / 1000
            accepts = message.get("accept_unknown") is True
            try:
                granted = self._desk.granted_before(request)
            except UnavailableError:  # the reservation stays the client's while it retries
                return
            if granted is None:
                resumed = self._desk.enter(request)
                try:
                    granted = self._granted(connection, request, deadline, accepts=accepts, resumed=resumed)
                finally:
                    if granted is None:
                        self._desk.leave(request.place)
            if granted is not None:
                self._hand_over(connection, granted, lines)
        except UnavailableError:
            if not self._desk.closing:  # shutdown closes the desk before the socket: clients retry with the next agent
                raise

    def _granted(
        self, connection: socket.socket, request: CardRequest, deadline: float | None, *, accepts: bool, resumed: bool
    ) -> Granted | None:
        """Wait for the grant; ``None`` if the client left. Raises NotNowError after the wait, UsageError if refused."""
        sent: dict[str, Any] | None = None
        sent_at = 0.0
        while True:
            try:
                answer = self._desk.attempt(request.place, accept_unknown=accepts)
            except UnavailableError:
                if self._desk.closing:  # the place in the queue is stored: the client retries with the next agent
                    return None
                raise
            if isinstance(answer, Granted):
                return answer
            if isinstance(answer, Refused):
                raise UsageError(answer.never or "these cards cannot be had")
            left = None if deadline is None else deadline - time.monotonic()
            if left is not None and left <= 0:
                raise NotNowError(self._over(answer))
            if sent is None and not resumed:
                self._desk.keep_place(request)
            waiting = self._waiting(request, answer)
            if waiting != sent or time.monotonic() - sent_at > _REPEAT_SECONDS:
                send_line(connection, {"waiting": waiting}, seconds=_SEND_SECONDS)
                sent, sent_at = waiting, time.monotonic()
            self._desk.wait(_LOOK_SECONDS if left is None else min(left, _LOOK_SECONDS))
            poll = select.poll()
            poll.register(connection, select.POLLRDHUP)  # ignores unread input
            if poll.poll(0) or self._desk.closing:  # the client disconnected, or the agent ends
                return None

    def _hand_over(self, connection: socket.socket, granted: Granted, lines: Lines) -> None:
        """Send the grant and its lifeline; cancel it if the client does not receive it."""
        for card, index in zip(granted.reservation.cards, granted.indices, strict=True):
            self._index[card] = index
        message = encoded({"granted": self.as_object(granted.reservation)})
        descriptors = [] if granted.lifeline is None else [granted.lifeline]
        try:
            connection.settimeout(_SEND_SECONDS)
            sent = socket.send_fds(connection, [message], descriptors)
            if sent < len(message):
                connection.sendall(message[sent:])
            if not descriptors:
                # A command's lock shows that the grant arrived; a manual reservation needs the client's confirmation.
                confirmation = lines.object(deadline=time.monotonic() + _SEND_SECONDS)
                if confirmation is None or confirmation.get("got") is not True:
                    self._desk.cancel(granted)
                    return
                # A repeated request may have cancelled this grant: without a confirmation the client retries.
                if self._desk.handed_over(granted):
                    send_line(connection, {"kept": True}, seconds=_SEND_SECONDS)
            else:
                self._desk.handed_over(granted)
        except (OSError, LineError):
            self._desk.cancel(granted)
        except UnavailableError:  # a full disk: a manual reservation is not confirmed yet
            if not descriptors:
                self._desk.cancel(granted)
                raise
        finally:
            for descriptor in descriptors:
                os.close(descriptor)

    def _request(self, requester: Requester, message: Mapping[str, Any]) -> CardRequest:
        kind = Kind(message["kind"]) if message.get("kind") in {each.value for each in Kind} else Kind.MANUAL
        place = message.get("place")
        if not (isinstance(place, str) and place.isalnum() and len(place) <= LONGEST_NOTE):
            place = None
        note = message.get("note")
        workload = declared(object_in(message.get("labels")))
        return CardRequest(
            uid=requester.uid,
            owner=requester.owner,
            kind=kind,
            wish=self._wish(message, None if place is None else self._desk.known_wish(place, requester.uid)),
            place=place or new_place(),
            for_ms=_amount(message, "for_ms", most=LONGEST_MS, least=1),
            note=storable(note, LONGEST_NOTE) if isinstance(note, str) else None,
            pid=requester.pid if requester.start_ticks is not None else None,
            start_ticks=requester.start_ticks,
            container=requester.container,
            workload_kind=workload.kind,
            workload_model=workload.model,
        )

    def _wish(self, message: Mapping[str, Any], known: Wish | None) -> Wish:
        try:
            cards = self._cards()
        except UnavailableError:  # a returning request waits until the cards are readable
            if known is None:
                raise
            return known
        self._index = {card.uuid: card.index for card in cards}
        count, named = message.get("count"), message.get("cards")
        if isinstance(named, list) and named and len(named) <= MOST_CARDS:
            uuids = tuple(_named(str(name), cards) for name in named)
            if len(set(uuids)) < len(uuids):
                raise UsageError("a card is named twice: name each once")
            return Wish(cards=uuids)
        if not isinstance(count, int) or isinstance(count, bool) or not 0 < count <= MOST_CARDS:
            raise UsageError(f"give a number of cards from 1 to {MOST_CARDS}, or name them")
        return Wish(count=count)

    def _release(self, connection: socket.socket, peer: Peer, message: Mapping[str, Any], _: Lines) -> None:
        requester = self._requesters.identify(connection, peer)
        reservations = self._selected(requester, message)
        released = self._desk.end([each.id for each in reservations], by=requester.owner)
        send_line(connection, {"released": [self.as_object(each) for each in released]}, seconds=_SEND_SECONDS)

    def _extend(self, connection: socket.socket, peer: Peer, message: Mapping[str, Any], _: Lines) -> None:
        for_ms = _amount(message, "for_ms", most=LONGEST_MS, least=1)
        if for_ms is None:
            raise UsageError("no duration is given: add it, as in --for 2h")
        requester = self._requesters.identify(connection, peer)
        reservations = [each for each in self._selected(requester, message) if each.kind is Kind.MANUAL]
        until_ms = time.time_ns() // 1_000_000 + for_ms
        longer = [extended for each in reservations if (extended := self._desk.extend(each.id, until_ms)) is not None]
        send_line(connection, {"extended": [self.as_object(each) for each in longer]}, seconds=_SEND_SECONDS)

    def _reservations(self, connection: socket.socket, _: Peer, message: Mapping[str, Any], __: Lines) -> None:
        since_ms = _amount(message, "since_ms", most=2**53)
        reservations = self._desk.reservations() if since_ms is None else self._desk.since(since_ms)
        send_line(connection, {"reservations": [self.as_object(each) for each in reservations]}, seconds=_SEND_SECONDS)

    def status(self) -> dict[str, Any]:
        """Return the entries on reservations in the agent's status object."""
        return {
            "reservations": [self.as_object(each) for each in self._desk.reservations()],
            "queue": self.waiting(),
            "reservations_ended_ms": self._desk.last_ends(),
        }

    def _queue(self, connection: socket.socket, _: Peer, __: Mapping[str, Any], ___: Lines) -> None:
        send_line(connection, {"queue": self.waiting()}, seconds=_SEND_SECONDS)

    def waiting(self) -> list[dict[str, Any]]:
        """Return the queue in its order, as the JSON objects that are sent."""
        return [
            {
                "position": position,
                "owner": request.owner,
                "uid": request.uid,
                "kind": request.kind.value,
                "count": request.wish.size,
                "gpus": [self._index.get(card) for card in request.wish.cards],
                "requested_ms": request.requested_ms,
                "for_ms": request.for_ms,
                "note": request.note,
            }
            for position, request in enumerate(self._desk.queue(), 1)
        ]

    def _selected(self, requester: Requester, message: Mapping[str, Any]) -> list[Reservation]:
        """Return the reservations that a request names by id or card, else all manual ones of the user.

        Raises NotYoursError if one belongs to another user and the requester is no administrator.
        """
        every = self._desk.reservations()
        ids, named = message.get("ids"), message.get("cards")
        if isinstance(named, list) and named:
            cards = self._cards()
            uuids = {_named(str(name), cards) for name in named[:MOST_CARDS]}
            reservations = [each for each in every if uuids & set(each.cards)]
        elif isinstance(ids, list) and ids:
            reservations = [each for each in every if each.id in ids]
        else:
            reservations = [each for each in every if requester.has(each) and each.kind is Kind.MANUAL]
        others = [each for each in reservations if not requester.has(each)]
        if others and not requester.is_admin:
            gpus = ", ".join(str(self._index.get(card, card)) for card in others[0].cards)
            raise NotYoursError(
                f"GPU {gpus} is reserved by {others[0].owner}: only they, root and the group {ADMIN_GROUP} may do that"
            )
        return reservations

    def _waiting(self, request: CardRequest, answer: Waiting) -> dict[str, Any]:
        ends = [each.until_ms for each in self._desk.reservations() if each.until_ms is not None]
        return {
            "place": request.place,
            "position": answer.position,
            "ahead": answer.ahead,
            "missing": answer.missing,
            "next_end_ms": min(ends, default=None),
            "reasons": {str(self._index.get(card, card)): reason for card, reason in answer.reasons.items()},
            "idle_since_ms": self._idle_since(answer.reasons),
            "trouble": answer.trouble,
        }

    def _idle_since(self, cards: Iterable[str]) -> dict[str, int]:
        """Return since when each of these cards is idle while reserved or held, by card index (Unix ms)."""
        idle, streaks = dict(self._idle_cards()), self._desk.idle()
        for each in self._desk.reservations():
            for card in each.cards:
                idle.pop(card, None)
                if each.id in streaks:
                    idle[card] = streaks[each.id].since_ms
        return {str(self._index.get(card, card)): idle[card] for card in cards if card in idle}

    def _over(self, answer: Waiting) -> str:
        if answer.ahead:
            return f"no cards now: {answer.ahead} wait{'s' if answer.ahead == 1 else ''} before you"
        if answer.trouble is not None:
            return f"no cards now: {answer.trouble}"
        each = "; ".join(f"GPU {self._index.get(card, card)} {why}" for card, why in sorted(answer.reasons.items()))
        return f"no cards now: {answer.missing} more GPU{'' if answer.missing == 1 else 's'} needed: {each}"


class WithReservations:
    """An :class:`~gua.core.ports.AllocationSources` that adds reservations to other sources.

    Reservations count as a source only after the first one was made: a host without any reports as before.
    """

    def __init__(self, sources: AllocationSources | None, desk: Desk) -> None:
        self._sources = sources
        self._desk = desk
        self.allocated: dict[str, str] = {}
        """What the other sources allocated at the last look: UUID to a text that names owner and source."""

    def look(self, since_ms: int, now_ms: int, cards: Sequence[CardKey]) -> AllocationLook:
        """Return the allocations of the other sources, and reservations with any time in (since_ms, now_ms]."""
        look = AllocationLook() if self._sources is None else self._sources.look(since_ms, now_ms, cards)
        self.allocated = {
            card: f"is allocated to {each.owner or each.uid or 'somebody'} by {each.source}"
            for each in look.allocations
            if each.until_ms is None or each.until_ms > now_ms
            for card in each.cards
        }
        waits = self._desk.take_waits()
        if not self._desk.was_used:
            return look
        # An end in the future is from before the clock was set back.
        latest_ms = now_ms + _LONGEST_LOOK_MS
        reserved = tuple(_allocation(each) for each in self._desk.since(since_ms) if (each.ended_ms or 0) <= latest_ms)
        return AllocationLook(
            allocations=(*look.allocations, *reserved),
            sources=(*look.sources, SourceHealth(source=SOURCE, waits=waits)),
        )


class IdleNotes:
    """A :class:`~gua.agent.loop.Watcher` that reports unused reservations to the desk after each tick."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk
        self.idle = IdleReservations(SOURCE)

    def ticked(self, tick: Tick, *, lateness_ms: int) -> None:  # noqa: ARG002 - lateness does not change idleness
        """Update the idle streaks with a tick and pass them to the desk."""
        self._desk.note_idle(self.idle.ticked(tick))

    def skipped(self, reason: str, message: str, count: int = 1) -> None:
        """Ignore a skipped tick: time without a tick is not known to be idle."""

    def alive(self) -> None:
        """Ignore the sign of life."""


def _allocation(reservation: Reservation) -> Allocation:
    return Allocation(
        source=SOURCE,
        id=reservation.id,
        cards=frozenset(reservation.cards),
        since_ms=reservation.since_ms,
        until_ms=reservation.until_ms if reservation.ended_ms is None else reservation.ended_ms,
        owner=reservation.owner,
        uid=reservation.uid,
        kind=reservation.kind.value,
        container_id=reservation.container,
        workload_kind=reservation.workload_kind,
        workload_model=reservation.workload_model,
    )


def refused(why: str) -> Mapping[str, Converse]:
    """Return handlers that refuse every request with UnavailableError(``why``)."""

    def refuse(_: socket.socket, __: Peer, ___: Mapping[str, Any], ____: Lines) -> None:
        raise UnavailableError(why)

    return dict.fromkeys(REQUESTS, refuse)


def _named(name: str, cards: Sequence[Candidate]) -> str:
    """Return the UUID of a card by its index or UUID. Raises UsageError."""
    for card in cards:
        if name in {card.uuid, str(card.index)}:
            return card.uuid
    known = ", ".join(str(card.index) for card in cards)
    raise UsageError(f"there is no GPU {storable(name, 64)!r} here: there are {known or 'none'}")


def _amount(message: Mapping[str, Any], name: str, *, most: int, least: int = 0) -> int | None:
    value = message.get(name)
    if value is None:
        return None
    if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= most:
        raise UsageError(f"{name} is not within {least} and {most}")
    return value
