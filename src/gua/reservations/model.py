"""Data types of reservations and requests, and the choice of cards for a request. Nothing here does IO."""

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
    """Kind of a reservation: for a command while it runs, or by hand until a time."""

    RUN = "run"
    MANUAL = "manual"


class Ending(StrEnum):
    """Why a reservation ended, in words for messages."""

    RELEASED = "released"
    COMMAND = "its command ended"
    EXPIRED = "its time was over"
    ORPHANED = "its command ended and left nothing on the cards"
    IDLE = "its cards were not used for too long"
    CANCELLED = "it was taken back before anybody had it"


@dataclass(frozen=True, kw_only=True, slots=True)
class Wish:
    """Requested cards: ``count`` of any whole GPUs, or ``cards`` by UUID. Exactly one of both is set."""

    count: int | None = None
    cards: tuple[str, ...] = ()

    @property
    def size(self) -> int:
        """The number of requested cards."""
        return len(self.cards) if self.count is None else self.count


def new_place() -> str:
    """Return a random id for a place in the queue: 16 hex digits that only the requester knows."""
    return secrets.token_hex(8)


@dataclass(frozen=True, kw_only=True, slots=True)
class Requested:
    """The requester of cards: fields that a request and the resulting reservation share.

    ``place`` is the id in the queue, ``requested_ms`` the time of the request (Unix ms). ``pid`` and ``start_ticks``
    are the requesting process, later the command's leader. ``container`` is set if the requester is a container instead
    of a user of the host. ``workload_kind`` and ``workload_model`` are the declared purpose.
    """

    uid: int
    owner: str
    kind: Kind
    place: str = field(default_factory=new_place)
    requested_ms: int = 0
    note: str | None = None
    pid: int | None = None
    start_ticks: int | None = None
    container: str | None = None
    workload_kind: str | None = None
    workload_model: str | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class CardRequest(Requested):
    """A request for cards. ``turn`` is its number in the queue's order, ``for_ms`` the requested duration [ms]."""

    wish: Wish
    turn: int = 0
    for_ms: int | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Reservation(Requested):
    """Granted cards. ``cards`` are UUIDs in the order of the cards' indices. Times are Unix ms.

    It waited from ``requested_ms`` to ``since_ms``. ``until_ms`` is its time limit, ``None`` for a command without one.
    ``until_boot_ms`` is the same on the boot clock of the boot ``boot_id``, which cannot be set. ``parents`` are the
    GPUs of its MIG instances; ``handed_over`` is whether the requester is known to have received the grant.
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
    """Return a reservation or a request as JSON for ``read_reservation`` or ``read_request``."""
    return json.dumps(asdict(record))


def read_reservation(text: str) -> Reservation:
    """Return the reservation in a JSON text. Raises ValueError, TypeError or KeyError for anything else."""
    record = json.loads(text)
    ending = None if record["ending"] is None else Ending(record["ending"])
    lists = {name: tuple(record[name]) for name in ("cards", "parents")}
    return Reservation(**{**record, **lists, "kind": Kind(record["kind"]), "ending": ending})


def read_request(text: str) -> CardRequest:
    """Return the request in a JSON text. Raises ValueError, TypeError or KeyError for anything else."""
    record = json.loads(text)
    wish = Wish(count=record["wish"]["count"], cards=tuple(record["wish"]["cards"]))
    return CardRequest(**{**record, "kind": Kind(record["kind"]), "wish": wish})


@dataclass(frozen=True, kw_only=True, slots=True)
class Candidate:
    """A card in its current state. ``refusal`` is why it cannot be granted, in words; ``None`` if it can.

    ``may_be_accepted``: the refusal is only an unknown state, which a request may accept. ``free_since_ms`` is when its
    last process or allocation ended (Unix ms), ``None`` if unknown. ``whole``: a whole GPU; only those are granted by
    count. ``parent`` is the GPU of a MIG instance. ``uids`` and ``containers`` are those of the processes on the card,
    and ``held_by`` names their users.
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
    """A granted reservation. ``lifeline`` is the file descriptor to pass to its command, ``None`` for a manual one."""

    reservation: Reservation
    lifeline: int | None
    indices: tuple[int, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class Waiting:
    """State of a request in the queue: ``position`` from 1, and ``ahead``, the number of requests before it.

    The first one has ``missing``, the number of missing cards, and ``reasons`` by UUID; ``trouble`` is why the cards
    cannot be read at present.
    """

    position: int
    ahead: int
    missing: int | None = None
    reasons: Mapping[str, str] = field(default_factory=dict)
    trouble: str | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Surroundings:
    """Access of the ``Desk`` to its host; ``log`` writes a message to the log.

    ``probe`` reads the current cards from the driver, and raises UnavailableError if it cannot. ``start_ticks`` returns
    the start of a process in kernel ticks, ``None`` if it does not run. ``boot_seconds`` is CLOCK_BOOTTIME of the boot
    ``boot_id`` [s]: it cannot be set and includes suspend.
    """

    probe: Callable[[], Sequence[Candidate]]
    start_ticks: Callable[[int], int | None]
    wall_ms: Callable[[], int] = lambda: time.time_ns() // 1_000_000
    boot_seconds: Callable[[], float] = lambda: time.clock_gettime(time.CLOCK_BOOTTIME)
    boot_id: str | None = None
    log: Callable[[str], None] = lambda _: None

    def boot_ms(self) -> int:
        """Return the time on the boot clock [ms]."""
        return round(self.boot_seconds() * 1000)

    def is_running(self, requester: Requested) -> bool:
        """Return whether the requesting process still runs; always true for a request without a pid."""
        return requester.pid is None or self.start_ticks(requester.pid) == requester.start_ticks


class Reserved(NamedTuple):
    """Holders in words: ``cards`` by UUID of a reserved card, ``in_part`` by UUID of a GPU with a reserved instance."""

    cards: Mapping[str, str]
    in_part: Mapping[str, str] = MappingProxyType({})


@dataclass(frozen=True, kw_only=True, slots=True)
class Refused:
    """No grant at present: ``missing`` is the number of missing cards. ``never`` is why waiting cannot help, or None.

    ``reasons`` are why cards are excluded, by UUID; for a request of named cards only theirs.
    """

    missing: int
    reasons: Mapping[str, str]
    never: str | None = None


def choose(
    wish: Wish,
    candidates: Sequence[Candidate],
    reserved: Reserved,
    *,
    last_cards: Sequence[str] = (),
    accept_unknown: bool = False,
) -> tuple[str, ...] | Refused:
    """Return the UUIDs of the cards for a request, in the order of their indices, or why it gets none.

    A reserved GPU excludes its instances and a reserved instance its GPU, however it was partitioned since. Cards by
    count are whole GPUs of one model. The order of preference: the user's last ones (``last_cards``, newest first), the
    longest free, the lowest index.
    """
    known = {candidate.uuid: candidate for candidate in candidates}
    reasons = {
        each.uuid: reason for each in candidates if (reason := _reason(each, reserved, accept_unknown=accept_unknown))
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
            return tuple(card.uuid for card in sorted(of_model, key=lambda card: card.index))
    most = max((len(of_model) for of_model in by_model.values()), default=0)
    return Refused(missing=wish.size - most, reasons=reasons)


def _reason(card: Candidate, reserved: Reserved, *, accept_unknown: bool) -> str | None:
    for uuid in (card.uuid, card.parent):
        if uuid is not None and uuid in reserved.cards:
            return reserved.cards[uuid]
    if card.uuid in reserved.in_part and card.whole:
        return reserved.in_part[card.uuid]
    if card.refusal is not None and not (accept_unknown and card.may_be_accepted):
        return card.refusal
    return None
