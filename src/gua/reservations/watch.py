"""Thread that detects the end of reservations: ended commands, expired times, and grants that were not received."""

import contextlib
import math
import os
import select
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from pathlib import Path
from typing import Final

from gua.core.errors import GuaError
from gua.reservations import lifeline
from gua.reservations.model import Candidate, Ending, Reservation, Surroundings

ORPHAN_SECONDS: Final = 300.0
"""Time for which cards stay reserved after the leader ended while no process of its user is on them."""
TRY_SECONDS: Final = 2.0
_LOOK_SECONDS: Final = 0.1


@dataclass(slots=True)
class WatchedReservation:
    """An open reservation and the state of its command. Times are monotonic [s], except ``due`` on the boot clock [s].

    ``leader`` is a pidfd while the leader runs; ``due`` is the time limit. ``last_there`` is when the command was last
    known to run, ``look_again`` when to check its cards next for processes without the lock. ``claim_until`` is when an
    unconfirmed grant expires. ``race_at`` is when to check the cards for other users, named in ``raced``.
    """

    reservation: Reservation
    path: Path | None = None
    leader: int | None = None
    due: float | None = None
    last_there: float = 0.0
    look_again: float = 0.0
    is_used: bool = True
    claim_until: float | None = None
    race_at: float | None = None
    raced: str | None = None


@dataclass(eq=False)
class Watch:
    """Watches the open reservations in ``held``, by id; ``held`` is changed only under ``lock``.

    ``end`` ends a reservation and ``write`` stores a changed one. ``look_at_queue`` removes expired places, and returns
    when the others expire, on the monotonic clock [s].
    """

    held: dict[str, WatchedReservation]
    host: Surroundings
    _: KW_ONLY
    lock: threading.Condition
    end: Callable[[str, Ending], object]
    write: Callable[[Reservation], None]
    look_at_queue: Callable[[float], Sequence[float]]

    def __post_init__(self) -> None:
        self._is_stopping = False
        self._leaders: set[int] = set()
        self._woken, self._wake = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        self._thread = threading.Thread(target=self._run, name="gua-reservations", daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def stop(self) -> None:
        """Stop the thread, clear ``held``, and close all pidfds."""
        self._is_stopping = True
        self.stir()
        self._thread.join(timeout=5)
        with self.lock:
            self._forget_leaders()
            self.held.clear()
            self._forget_leaders()
        os.close(self._woken)
        os.close(self._wake)

    def stir(self) -> None:
        """Wake the thread to check at once."""
        with contextlib.suppress(OSError):  # pipe full: the thread wakes anyway
            os.write(self._wake, b"x")

    def _run(self) -> None:
        while not self._is_stopping:
            self._look_at_cards()
            now, boot_now = time.monotonic(), self.host.boot_seconds()
            with self.lock:
                waits = [until - now for until in self.look_at_queue(now)]
                for held in list(self.held.values()):
                    try:
                        ending = self._over(held, now, boot_now)
                        if ending is not None:
                            self.end(held.reservation.id, ending)
                    except (GuaError, OSError) as error:
                        self.host.log(f"a reservation could not be checked: {error}")
                        continue
                    if ending is None and held.due is not None:
                        waits.append(held.due - boot_now)
                    if held.race_at is not None:
                        waits.append(held.race_at - now)
                left_alone = any(held.path is not None and held.leader is None for held in self.held.values())
            wait_seconds = max(0.0, min([*waits, _LOOK_SECONDS if left_alone else TRY_SECONDS]))
            leaders = self._forget_leaders()
            poll = select.poll()
            for descriptor in (self._woken, *leaders):
                poll.register(descriptor, select.POLLIN)
            for descriptor, _ in poll.poll(math.ceil(wait_seconds * 1000)):
                if descriptor == self._woken:
                    with contextlib.suppress(OSError):
                        os.read(self._woken, 4096)
                else:
                    with self.lock:
                        leaders[descriptor].leader = None
                        leaders[descriptor].last_there = time.monotonic()

    def _forget_leaders(self) -> dict[int, WatchedReservation]:
        """Close the pidfds of ended leaders and ended reservations; return the others' reservations by pidfd."""
        with self.lock:
            leaders = {held.leader: held for held in self.held.values() if held.leader is not None}
            for gone in self._leaders - leaders.keys():
                os.close(gone)
            self._leaders = set(leaders)
            return leaders

    def _look_at_cards(self) -> None:
        """Check cards for processes that an ended leader left, and for other users shortly after a grant.

        Processes that closed every descriptor hold no lock, so only the driver knows them.
        """
        now = time.monotonic()
        with self.lock:
            left = [
                held
                for held in self.held.values()
                if held.path is not None and held.leader is None and held.look_again <= now
            ]
            fresh = [held for held in self.held.values() if held.race_at is not None and held.race_at <= now]
        if not left and not fresh:
            return
        try:
            cards = {candidate.uuid: candidate for candidate in self.host.probe()}
        except GuaError as error:
            self.host.log(f"the cards could not be checked for a command that ended or began: {error}")
            cards = None
        with self.lock:
            for held in left:
                held.look_again = now + TRY_SECONDS
                # Unknown counts as used: a card must not be granted twice.
                held.is_used = cards is None or any(
                    card in cards and _is_on(held.reservation, cards[card]) for card in held.reservation.cards
                )
                if held.is_used:
                    held.last_there = now
            for held in fresh:
                held.race_at = None
                if cards is not None:
                    self._log_race(held, [cards[card] for card in held.reservation.cards if card in cards])

    def _log_race(self, held: WatchedReservation, cards: Sequence[Candidate]) -> None:
        """Log who else was on a card one second after its grant. The reservation stays, and no process is killed."""
        mine = held.reservation
        others = [each for each in cards if each.held_by and not (_is_on(mine, each) and len(each.uids) == 1)]
        if others and self.held.get(mine.id) is held:
            held.raced = "; ".join(f"GPU {each.index}: {each.held_by}" for each in others)
            self.host.log(f"a second after {mine.owner} was given cards, others were on them, too: {held.raced}")

    def _over(self, held: WatchedReservation, now: float, boot_now: float) -> Ending | None:
        """Return why a reservation is over, else ``None``; ``now`` is monotonic, ``boot_now`` boot clock, both [s]."""
        if held.claim_until is not None and self._is_unclaimed(held, held.claim_until <= now):
            return Ending.CANCELLED
        if held.due is not None and held.due <= boot_now and held.path is None:
            return Ending.EXPIRED
        if held.path is None or held.leader is not None:
            return None  # a running leader holds the cards even if its children closed the descriptor
        if not held.is_used and not lifeline.is_held(held.path):
            return Ending.COMMAND
        # A terminal multiplexer or ssh-agent started by the command holds the lock without using a card.
        return Ending.ORPHANED if now - held.last_there > ORPHAN_SECONDS else None

    def _is_unclaimed(self, held: WatchedReservation, is_time_over: bool) -> bool:  # noqa: FBT001 - single call, above
        """Return whether a killed agent's grant was never received; mark it as handed over if its command runs."""
        if held.path is None or not lifeline.is_held(held.path):
            is_running = self.host.is_running(held.reservation)
            if is_running and not is_time_over:
                return False
            # A client without the grant retries or ends. A running leader is the command, with all descriptors closed.
            if not is_running or held.leader is None:
                return True
        held.reservation = replace(held.reservation, handed_over=True)
        held.claim_until = None
        with contextlib.suppress(GuaError):  # on a full disk the next agent repeats this check
            self.write(held.reservation)
        return False


def _is_on(reservation: Reservation, card: Candidate) -> bool:
    """Return whether a process of the reservation's owner or container is on a card."""
    return reservation.uid in card.uids if reservation.container is None else reservation.container in card.containers
