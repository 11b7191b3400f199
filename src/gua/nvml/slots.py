"""The host's cards by index, each with its thread, and what is remembered of them by UUID."""

from __future__ import annotations

from collections.abc import Sequence

from gua.core.ports import Clock, RawCard
from gua.core.tick import ReadError
from gua.nvml.calls import Calls
from gua.nvml.card_cache import KnownCard
from gua.nvml.card_read import Visit, drain
from gua.nvml.driver import Driver, Handle
from gua.nvml.gpm import Gpm
from gua.nvml.workers import Lane, Ticket, Watch

Found = dict[str, Sequence[RawCard]]


class _Slot:
    """An index of the driver: its lane, and the card that was there last."""

    def __init__(self, index: int, lane: Lane) -> None:
        self.index = index
        self.lane = lane
        self.handle: Handle | None = None
        self.known: KnownCard | None = None
        self.visit: Visit | None = None


class Slots:
    """Asks all cards at the same time; times to wait ``until`` are those of time.monotonic."""

    def __init__(self, driver: Driver, clock: Clock, watch: Watch) -> None:
        self._driver = driver
        self._clock = clock
        self._watch = watch
        self._slots: list[_Slot] = []
        self._known: dict[str, KnownCard] = {}
        self._forgotten: list[Gpm] = []
        self._leaving: list[Lane] = []

    @property
    def known(self) -> bool:
        """Whether any card is remembered."""
        return bool(self._known)

    @property
    def lost(self) -> bool:
        """Whether any card is lost."""
        return any(known.lost for known in self._known.values())

    @property
    def idle(self) -> bool:
        """Whether no thread is inside a call: only then may the driver be released."""
        self._leaving = [lane for lane in self._leaving if lane.busy]
        return not self._leaving and not any(slot.lane.busy for slot in self._slots)

    def take_gpms(self) -> list[Gpm]:
        """Return what is to be freed before the driver is released, and forget what belongs to no card any more."""
        forgotten, self._forgotten = self._forgotten, []
        return [*forgotten, *(known.gpm for known in self._known.values())]

    def resize(self, count: int) -> None:
        """Follow the driver's number of cards; with another number every index may mean another card."""
        if count == len(self._slots):
            return
        self._leaving += [slot.lane for slot in self._slots[count:]]
        del self._slots[count:]
        for index in range(len(self._slots), count):
            self._slots.append(_Slot(index, self._watch.lane()))
        self.forget_handles()

    def forget_handles(self) -> None:
        """Look every card up anew at the next visit: the driver was opened anew, or cards moved."""
        for slot in self._slots:
            slot.handle = None

    def visit(self, version: str | None, found: Found, until: float) -> tuple[list[ReadError], ReadError | None]:
        """Read every card that is not ``found`` yet into it.

        Returns what failed, and of that what tells that the driver is gone as a whole.
        """
        errors: list[ReadError] = []
        gone: ReadError | None = None
        waiting = [slot for slot in self._slots if slot.known is None or slot.known.uuid not in found]
        # Once; again for those whose drain had to end first; and again for those whose index means another card.
        for _ in range(3):
            asked = [slot for slot in waiting if not slot.lane.busy]
            for slot in asked:
                self._submit(slot, version)
            self.wait(until)
            waiting = [slot for slot in waiting if slot not in asked or slot.lane.busy]
            moved = []
            for slot in asked:
                visit, ticket = slot.visit, slot.lane.ticket
                if slot in waiting or visit is None or ticket is None:
                    continue
                errors += ticket.calls.errors
                gone = ticket.calls.errors[-1] if visit.gone else gone
                if visit.moved:
                    moved.append(slot)
                else:
                    self._take(slot, visit, found)
            if moved:
                self.forget_handles()
                waiting += moved
            if all(slot.lane.busy for slot in waiting):
                break
        errors += self._given_up(waiting)
        return [*errors, *self._drained(errors)], gone

    def _given_up(self, waiting: Sequence[_Slot]) -> list[ReadError]:
        """Return the call that hangs for each slot that has not answered; it is not waited for again."""
        errors: list[ReadError] = []
        for slot in waiting:
            ticket = slot.lane.ticket
            if ticket is not None and slot.lane.busy:
                ticket.hung = True
                errors.append(ticket.no_answer())
                if slot.known is None and slot.visit is not None:
                    slot.known = slot.visit.known
        return errors

    def cards(self, found: Found, *, complete: bool) -> list[RawCard]:
        """Return the cards by index: as they were found, else as unread.

        A card that is at no index any more is forgotten, unless it was lost or the look was not ``complete``.
        """
        present = {slot.known.uuid for slot in self._slots if slot.known is not None}
        for uuid, known in list(self._known.items()):
            if complete and uuid not in found and uuid not in present and not known.lost:
                self._forgotten.append(self._known.pop(uuid).gpm)
        order = sorted(self._known.values(), key=lambda known: (known.identity.index or 0, known.lost))
        return [raw for known in order for raw in found.get(known.uuid) or known.unread()]

    def drain(self, until: float) -> None:
        """Empty the rings of every whole card; what is slow goes on beside."""
        tickets = []
        for slot in self._slots:
            handle, known = slot.handle, slot.known
            if handle is None or known is None or slot.lane.busy or known.partitioned:
                continue
            ticket = self._drain_ticket(handle, known)
            slot.visit = None
            slot.lane.submit(ticket)
            tickets.append(ticket)
        self._watch.wait(tickets, until)

    def wait(self, until: float) -> None:
        """Wait for the calls under way, those that hung before apart."""
        tickets = [slot.lane.ticket for slot in self._slots if slot.lane.ticket is not None]
        self._watch.wait([ticket for ticket in tickets if not ticket.hung], until)

    def leave(self) -> None:
        """Let the threads end."""
        self._watch.close()

    def _submit(self, slot: _Slot, version: str | None) -> None:
        visit = Visit(slot.index, slot.handle, slot.known, version)
        calls = Calls(self._driver, None if slot.known is None else slot.known.uuid)
        slot.visit = visit
        slot.lane.submit(Ticket(calls, lambda: visit.run(self._driver, calls, self._know)))

    def _drain_ticket(self, handle: Handle, known: KnownCard) -> Ticket:
        calls = Calls(self._driver, known.uuid)
        return Ticket(calls, lambda: drain(self._driver, calls, handle, known))

    def _take(self, slot: _Slot, visit: Visit, found: Found) -> None:
        """Take over what a visit brought."""
        slot.handle = visit.handle
        slot.known = visit.known or slot.known
        if slot.known is None:
            return
        if visit.lost:
            slot.known.lost = True
        if visit.cards:
            slot.known.lost = False
            found.setdefault(slot.known.uuid, visit.cards)

    def _know(self, uuid: str) -> KnownCard:
        return self._known.setdefault(uuid, KnownCard(uuid, self._clock))

    def _drained(self, errors: Sequence[ReadError]) -> list[ReadError]:
        """Return what the drains met since the last reading and this one did not."""
        met: list[ReadError] = []
        for slot in self._slots:
            if slot.known is not None and not slot.lane.busy:
                met += [error for error in slot.known.drained if error not in errors]
                slot.known.drained.clear()
        return met
