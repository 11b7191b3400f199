"""What a reservation, a request for cards and a candidate are, and which cards a request gets. Nothing here does IO."""

from __future__ import annotations

import json
import secrets
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from types import MappingProxyType
from typing import Final, NamedTuple

MOST_CARDS: Final = 1024
LONGEST_NOTE: Final = 200


class Kind(StrEnum):
    """What holds a reservation: a command while it runs, or a person until a time."""

    RUN = "run"
    MANUAL = "manual"


class Ending(StrEnum):
    """Why a reservation ended."""

    RELEASED = "released"
    COMMAND = "its command ended"
    EXPIRED = "its time was over"
    ORPHANED = "its command ended and left nothing on the cards"
    IDLE = "its cards were not used for too long"
    CANCELLED = "it was taken back before anybody had it"


@dataclass(frozen=True, kw_only=True, slots=True)
class Wish:
    """Which cards: ``count`` of any, or the ``cards`` named by UUID. Exactly one of both is given."""

    count: int | None = None
    cards: tuple[str, ...] = ()

    @property
    def size(self) -> int:
        """How many cards it is for."""
        return len(self.cards) if self.count is None else self.count


def new_place() -> str:
    """Return the name of a new place in the queue, which only who takes it knows."""
    return secrets.token_hex(8)


@dataclass(frozen=True, kw_only=True, slots=True)
class Requested:
    """Who wants cards: what a request and the reservation that it becomes have in common.

    ``place`` names it in the queue, taken at ``asked_ms`` (Unix ms). ``pid`` and ``start_ticks`` are the process that
    asks, and later the leader of the reservation's command. ``container`` is where it runs if that container, and
    no user of the host, asks. ``workload_kind`` and ``workload_model`` are what it is declared to be for.
    """

    uid: int
    owner: str
    kind: Kind
    place: str = field(default_factory=new_place)
    asked_ms: int = 0
    note: str | None = None
    pid: int | None = None
    start_ticks: int | None = None
    container: str | None = None
    workload_kind: str | None = None
    workload_model: str | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class CardRequest(Requested):
    """Somebody's request for cards. The queue goes by ``turn``, the number of its place."""

    wish: Wish
    turn: int = 0
    for_ms: int | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Reservation(Requested):
    """Cards that somebody has. ``cards`` are UUIDs in the order of the cards' indices. Times are Unix ms.

    From ``asked_ms`` to ``since_ms`` it waited. ``until_ms`` is when its time is over, ``None`` for a command without a
    time limit; ``until_boot_ms`` is the same on the boot clock, which nobody can set, of the boot ``boot_id``.
    ``parents`` are the GPUs that its instances were parts of; ``handed_over`` is whether who asked is known to have it.
    """

    id: str
    cards: tuple[str, ...]
    since_ms: int
    until_ms: int | None = None
    ended_ms: int | None = None
    ending: Ending | None = None
    ended_by: str | None = None
    parents: tuple[str, ...] = ()
    until_boot_ms: int | None = None
    boot_id: str | None = None
    handed_over: bool = False


def as_json(record: Requested) -> str:
    """Return a reservation or a request as text that its reader below takes."""
    return json.dumps(asdict(record))


def read_reservation(text: str) -> Reservation:
    """Return the reservation of a text. Raises ValueError, TypeError or KeyError for anything else."""
    said = json.loads(text)
    ending = None if said["ending"] is None else Ending(said["ending"])
    lists = {name: tuple(said[name]) for name in ("cards", "parents")}
    return Reservation(**{**said, **lists, "kind": Kind(said["kind"]), "ending": ending})


def read_request(text: str) -> CardRequest:
    """Return the request of a text. Raises ValueError, TypeError or KeyError for anything else."""
    said = json.loads(text)
    wish = Wish(count=said["wish"]["count"], cards=tuple(said["wish"]["cards"]))
    return CardRequest(**{**said, "kind": Kind(said["kind"]), "wish": wish})


@dataclass(frozen=True, kw_only=True, slots=True)
class Candidate:
    """A card as it is now. ``refusal`` is why it cannot be granted, in plain words; ``None`` if it can.

    ``may_be_accepted`` is whether the refusal is only that its state is not known, which a request can accept.
    ``free_since_ms`` is until when anybody was on it or was promised it, ``None`` if that is not known; ``whole`` is
    whether it is a whole GPU: what a count is given; ``parent`` is the GPU that an instance is a part of. ``uids`` are
    the users whose processes are on it, ``containers`` where these run, and ``held_by`` names them.
    """

    uuid: str
    index: int
    model: str | None = None
    whole: bool = True
    refusal: str | None = None
    may_be_accepted: bool = False
    uids: frozenset[int] = frozenset()
    free_since_ms: int | None = None
    parent: str | None = None
    containers: frozenset[str] = frozenset()
    held_by: str | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Granted:
    """A reservation; ``lifeline`` is the descriptor to hand to its command, ``None`` for a manual one."""

    reservation: Reservation
    lifeline: int | None
    indices: tuple[int, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class Waiting:
    """A request that waits: its position from 1, how many stand before it, and what is missing if it is the first.

    ``trouble`` is why the cards cannot be read now, which may pass.
    """

    position: int
    ahead: int
    missing: int | None = None
    reasons: Mapping[str, str] = field(default_factory=dict)
    trouble: str | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Surroundings:
    """What the desk sees of its host; ``tell`` takes what goes into the log.

    ``probe`` reads the cards from the driver as they are now, and raises UnavailableError where it cannot.
    ``start_ticks`` is when a process began, in the kernel's ticks, ``None`` of one that does not run.
    ``boot_seconds`` is a clock that nobody sets and that runs on in suspend, of the boot ``boot_id``.
    """

    probe: Callable[[], Sequence[Candidate]]
    start_ticks: Callable[[int], int | None]
    wall_ms: Callable[[], int] = lambda: time.time_ns() // 1_000_000
    boot_seconds: Callable[[], float] = lambda: time.clock_gettime(time.CLOCK_BOOTTIME)
    boot_id: str | None = None
    tell: Callable[[str], None] = lambda _: None

    def boot_ms(self) -> int:
        """Return the time on the boot clock in ms."""
        return round(self.boot_seconds() * 1000)

    def is_running(self, asker: Requested) -> bool:
        """Return whether the process that asked still runs; who asks without one is always there."""
        return asker.pid is None or self.start_ticks(asker.pid) == asker.start_ticks


class Taken(NamedTuple):
    """Who has which card by UUID, in words; and who has an instance of which GPU."""

    cards: Mapping[str, str]
    in_part: Mapping[str, str] = MappingProxyType({})


@dataclass(frozen=True, kw_only=True, slots=True)
class Refused:
    """No cards now. ``missing`` is how many more are needed; ``reasons`` say, by UUID, why candidates were left out.

    Where cards were named, of those alone. ``never`` is why waiting does not help, ``None`` if it may.
    """

    missing: int
    reasons: Mapping[str, str]
    never: str | None = None


def choose(
    wish: Wish,
    candidates: Sequence[Candidate],
    taken: Taken,
    *,
    last_cards: Sequence[str] = (),
    accept_unknown: bool = False,
) -> tuple[str, ...] | Refused:
    """Return the cards that a request gets, in the order of their indices, or why it gets none.

    Who has a GPU has its instances, and who has an instance has a part of the GPU, however it was partitioned since.
    Named cards are given as named. Of a number, all are of one model: first of
    cards that the user had last (``last_cards``, newest first), then of those that are free the longest, then by index.
    """
    known = {candidate.uuid: candidate for candidate in candidates}
    reasons = {
        each.uuid: reason for each in candidates if (reason := _reason(each, taken, accept_unknown=accept_unknown))
    }
    if wish.cards:
        absent = [uuid for uuid in wish.cards if uuid not in known]
        reasons = {uuid: reasons[uuid] for uuid in wish.cards if uuid in reasons}
        if absent:
            return Refused(missing=len(absent), reasons=reasons, never=f"there is no card {absent[0]} on this host")
        missing = [uuid for uuid in wish.cards if uuid in reasons]
        if missing:
            return Refused(missing=len(missing), reasons=reasons)
        return tuple(sorted(wish.cards, key=lambda uuid: known[uuid].index))
    whole = [each for each in candidates if each.whole]
    models = {each.model for each in whole}
    largest = max((sum(each.model == model for each in whole) for model in models), default=0)
    if wish.size > largest:
        what = "of one model " if largest < len(whole) else ""
        never = f"this host has {largest} GPU{'' if largest == 1 else 's'} {what}that can be given, not {wish.size}"
        return Refused(missing=wish.size - largest, reasons=reasons, never=never)
    free = [each for each in whole if each.uuid not in reasons]
    order = {uuid: place for place, uuid in enumerate(last_cards)}
    ranked = sorted(free, key=lambda each: (order.get(each.uuid, len(order)), each.free_since_ms or 0, each.index))
    by_model: dict[str | None, list[Candidate]] = {}
    for each in ranked:
        of_model = by_model.setdefault(each.model, [])
        of_model.append(each)
        if len(of_model) == wish.size:
            return tuple(given.uuid for given in sorted(of_model, key=lambda given: given.index))
    most = max((len(of_model) for of_model in by_model.values()), default=0)
    return Refused(missing=wish.size - most, reasons=reasons)


def _reason(card: Candidate, taken: Taken, *, accept_unknown: bool) -> str | None:
    for uuid in (card.uuid, card.parent):
        if uuid is not None and uuid in taken.cards:
            return taken.cards[uuid]
    if card.uuid in taken.in_part and card.whole:
        return taken.in_part[card.uuid]
    if card.refusal is not None and not (accept_unknown and card.may_be_accepted):
        return card.refusal
    return None
