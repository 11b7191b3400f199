"""The host's cards by index, each with its thread, and what is remembered of them by UUID."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Final

from gua.core.ports import Clock, RawCard
from gua.core.tick import ReadError
from gua.nvml.activity import CardActivity
from gua.nvml.calls import Calls
from gua.nvml.card_cache import CardCache
from gua.nvml.card_read import CardRead, drain
from gua.nvml.driver import Driver, Handle
from gua.nvml.gpm import Gpm
from gua.nvml.workers import Lane, Ticket, Workers

ReadCards = dict[str, Sequence[RawCard]]
# How long a reading waits for the activity of all cards; they answer within milliseconds, or are given up.
_ACTIVITY_SECONDS: Final = 1.0
_LEAST_ACTIVITY_SECONDS: Final = 0.2


class _Slot:
    """An index of the driver: its lane, that of its activity, and the card that was there last."""

    def __init__(self, index: int, lane: Lane, activity_lane: Lane) -> None:
        self.index = index
        self.lane = lane
        self.activity_lane = activity_lane
        self.handle: Handle | None = None
        self.cache: CardCache | None = None
        self.card_read: CardRead | None = None
        self.calls: Calls | None = None


class Slots:
    """Asks all cards at the same time; times to wait ``until`` are those of time.monotonic.

    ``with_activity`` is whether their performance counters are read, too.
    """

    def __init__(self, driver: Driver, clock: Clock, workers: Workers, *, with_activity: bool = False) -> None:
        self._driver = driver
        self._clock = clock
        self._workers = workers
        self._with_activity = with_activity
        self._slots: list[_Slot] = []
        self._caches: dict[str, CardCache] = {}
        self._forgotten: list[Gpm] = []
        self._leaving: list[Lane] = []

    @property
    def lost(self) -> bool:
        """Whether any card is lost."""
        return any(cache.lost for cache in self._caches.values())

    @property
    def idle(self) -> bool:
        """Whether no thread is inside a call: only then may the driver be released."""
        self._leaving = [lane for lane in self._leaving if lane.busy]
        return not self._leaving and not any(slot.lane.busy or slot.activity_lane.busy for slot in self._slots)

    def take_gpms(self) -> list[Gpm]:
        """Return what is to be freed before the driver is released, and forget what belongs to no card any more."""
        forgotten, self._forgotten = self._forgotten, []
        for cache in self._caches.values():
            if cache.activity is not None:
                cache.activity.forget()
        return [*forgotten, *(gpm for cache in self._caches.values() for gpm in cache.gpms)]

    def resize(self, count: int) -> None:
        """Follow the driver's number of cards; with another number every index may mean another card."""
        if count == len(self._slots):
            return
        self._leaving += [lane for slot in self._slots[count:] for lane in (slot.lane, slot.activity_lane)]
        del self._slots[count:]
        for index in range(len(self._slots), count):
            self._slots.append(_Slot(index, self._workers.lane(), self._workers.lane()))
        self.forget_handles()

    def forget_handles(self) -> None:
        """Look every card up anew when they are read next: the driver was opened anew, or cards moved."""
        for slot in self._slots:
            slot.handle = None

    def read(
        self, version: str | None, read_cards: ReadCards, until: float
    ) -> tuple[list[ReadError], ReadError | None]:
        """Read every card that is not in ``read_cards`` yet into it.

        Returns what failed, and of that what tells that the driver is gone as a whole.
        """
        errors: list[ReadError] = []
        gone: ReadError | None = None
        waiting = [slot for slot in self._slots if slot.cache is None or slot.cache.uuid not in read_cards]
        before = set(read_cards)
        # Once; again for those whose drain had to end first; and again for those whose index means another card.
        for _ in range(3):
            submitted = [slot for slot in waiting if not slot.lane.busy]
            for slot in submitted:
                self._submit(slot, version)
            self.wait(until)
            for slot in submitted:
                self._give_up_spare(slot)
            waiting = [slot for slot in waiting if slot not in submitted or slot.lane.busy]
            moved = []
            for slot in submitted:
                card_read, calls = slot.card_read, slot.calls
                if slot in waiting or card_read is None or calls is None:
                    continue
                errors += calls.errors
                gone = calls.errors[-1] if card_read.gone else gone
                if card_read.moved:
                    moved.append(slot)
                else:
                    self._take(slot, card_read, read_cards)
            if moved:
                self.forget_handles()
                waiting += moved
            if all(slot.lane.busy for slot in waiting):
                break
        errors += self._given_up(waiting)
        if self._with_activity:
            errors += self._read_activity(read_cards, before, min(until, time.monotonic() + _ACTIVITY_SECONDS))
        spare = [error for slot in self._slots if slot.cache is not None for error in slot.cache.given_up.errors()]
        errors += [error for error in spare if error not in errors]
        return [*errors, *self._drained(errors)], gone

    def _give_up_spare(self, slot: _Slot) -> None:
        """Go on without a ticket that hangs where nothing is left but what the card can do without."""
        ticket, card_read = slot.lane.ticket, slot.card_read
        if not slot.lane.busy or ticket is None or ticket.calls.spare_since is None or card_read is None:
            return
        if card_read.cache is not None:
            card_read.cache.give_up(ticket)
            card_read.without_spare()
            self._leaving.append(slot.lane)
            slot.lane = self._workers.lane()

    def _given_up(self, waiting: Sequence[_Slot]) -> list[ReadError]:
        """Return the call that hangs for each slot that has not answered; it is not waited for again."""
        errors: list[ReadError] = []
        for slot in waiting:
            ticket = slot.lane.ticket
            if ticket is not None and slot.lane.busy:
                ticket.hung = True
                errors.append(ticket.no_answer())
                if slot.cache is None and slot.card_read is not None:
                    slot.cache = slot.card_read.cache
        return errors

    def _read_activity(self, read_cards: ReadCards, before: set[str], until: float) -> list[ReadError]:
        """Put the activity of the whole cards that were read after ``before`` into them; return what failed.

        A call that hangs is told, and not made again before it comes back.
        """
        asked: list[tuple[_Slot, CardActivity, Ticket]] = []
        errors: list[ReadError] = []
        # A card that hung took it: what is not waited for would be given up for nothing.
        has_time = until - time.monotonic() > _LEAST_ACTIVITY_SECONDS
        for slot in self._slots:
            cache, handle = slot.cache, slot.handle
            activity = None if cache is None else cache.activity
            if cache is None or activity is None or handle is None or cache.uuid in before:
                continue
            given_up = activity.given_up.errors()
            errors += given_up
            if activity.is_absent or given_up or slot.activity_lane.busy or not has_time:
                continue
            if cache.partitioned or cache.uuid not in read_cards:
                activity.gpm.begin_anew()
                continue
            ticket = self._activity_ticket(handle, cache, activity)
            slot.activity_lane.submit(ticket)
            asked.append((slot, activity, ticket))
        self._workers.wait([ticket for _, _, ticket in asked], until)
        for slot, activity, ticket in asked:
            if not ticket.done:
                errors.append(ticket.no_answer())
                activity.give_up(ticket)
                continue
            errors += ticket.calls.errors
            if slot.cache is not None:
                card, *rest = read_cards[slot.cache.uuid]
                read_cards[slot.cache.uuid] = [activity.take(ticket.calls, card), *rest]
        return errors

    def _activity_ticket(self, handle: Handle, cache: CardCache, activity: CardActivity) -> Ticket:
        calls = Calls(self._driver, cache.uuid)
        return Ticket(calls, lambda: activity.ask(self._driver, calls, handle))

    def cards(self, read_cards: ReadCards, *, complete: bool) -> list[RawCard]:
        """Return the cards by index: as they were found, else as unread.

        A card that is at no index any more is forgotten, unless it was lost or the look was not ``complete``.
        """
        present = {slot.cache.uuid for slot in self._slots if slot.cache is not None}
        for uuid, cache in list(self._caches.items()):
            if complete and uuid not in read_cards and uuid not in present and not cache.lost:
                self._forgotten += self._caches.pop(uuid).gpms
        order = sorted(self._caches.values(), key=lambda cache: (cache.identity.index or 0, cache.lost))
        return [raw for cache in order for raw in read_cards.get(cache.uuid) or cache.unread()]

    def drain(self, until: float) -> None:
        """Empty the rings of every whole card that are due; what is slow goes on beside.

        While a card is lost all are: the driver may be opened anew at the next drain, which then reads nothing.
        """
        tickets = []
        is_lost = self.lost
        for slot in self._slots:
            handle, cache = slot.handle, slot.cache
            if handle is None or cache is None or slot.lane.busy or cache.partitioned or not (is_lost or cache.due):
                continue
            ticket = self._drain_ticket(handle, cache)
            slot.card_read = None
            slot.lane.submit(ticket)
            tickets.append(ticket)
        self._workers.wait(tickets, until)

    def wait(self, until: float) -> None:
        """Wait for the calls under way, those that hung before apart."""
        tickets = [slot.lane.ticket for slot in self._slots if slot.lane.ticket is not None]
        self._workers.wait([ticket for ticket in tickets if not ticket.hung], until)

    def leave(self) -> None:
        """Let the threads end."""
        self._workers.close()

    def _submit(self, slot: _Slot, version: str | None) -> None:
        card_read = CardRead(slot.index, slot.handle, slot.cache, version)
        calls = Calls(self._driver, None if slot.cache is None else slot.cache.uuid)
        slot.card_read, slot.calls = card_read, calls
        slot.lane.submit(Ticket(calls, lambda: card_read.run(self._driver, calls, self._cache_of)))

    def _drain_ticket(self, handle: Handle, cache: CardCache) -> Ticket:
        calls = Calls(self._driver, cache.uuid)
        return Ticket(calls, lambda: drain(self._driver, calls, handle, cache))

    def _take(self, slot: _Slot, card_read: CardRead, read_cards: ReadCards) -> None:
        """Take over what a reading brought."""
        slot.handle = card_read.handle
        slot.cache = card_read.cache or slot.cache
        if slot.cache is None:
            return
        if card_read.lost:
            slot.cache.lost = True
        if card_read.cards:
            slot.cache.lost = False
            read_cards.setdefault(slot.cache.uuid, card_read.cards)

    def _cache_of(self, uuid: str) -> CardCache:
        return self._caches.setdefault(uuid, CardCache(uuid, self._clock, with_activity=self._with_activity))

    def _drained(self, errors: Sequence[ReadError]) -> list[ReadError]:
        """Return what the drains met since the last reading and this one did not."""
        met: list[ReadError] = []
        for slot in self._slots:
            if slot.cache is not None and not slot.lane.busy:
                met += [error for error in slot.cache.drained if error not in errors]
                slot.cache.drained.clear()
        return met
