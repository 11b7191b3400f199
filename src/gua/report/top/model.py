"""Data and view state of ``gua top``: every card and holder as of the newest tick, from agent or store."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Annotated, Any, Final

from gua.core.plaintext import safe
from gua.core.rules import ProcessState
from gua.core.view import Count, Moment, Named
from gua.core.words import AllocationStatus, Mig, Use
from gua.report.kit.fields import Seconds, Timestamp
from gua.report.states import STATES, UNOBSERVED

ALL_STATES: Final = (*STATES, UNOBSERVED)
STALE_INTERVALS: Final = 3  # as in gua.current_cards


@dataclass(frozen=True, kw_only=True, slots=True)
class TopAllocation:
    """An allocation of a card: ``owner`` is a user, a pod or a user id; ``use`` is one of the seven uses.

    ``use_ms`` is how long that use has lasted, ``None`` if unknown, at least so long if a lower bound. ``until_ms`` is
    its end (Unix ms), ``None`` if unknown.
    """

    source: str
    id: Annotated[str, Named("allocation_id")]
    owner: str | None
    job_name: str | None
    use: str
    use_ms: Seconds[int | None]
    use_is_lower_bound: Annotated[bool, Named("use_since_is_lower_bound")]
    until_ms: Timestamp[int | None] = None


@dataclass(frozen=True, kw_only=True, slots=True)
class TopCard:
    """A card at its newest tick, ``age_ms`` ago: a row of ``gua_report.top_cards``. ``None`` is unknown.

    ``now_ms`` is the time of the query (Unix ms). ``state_ms`` is how long the state had lasted at the newest tick. An
    unobserved card was in ``last_state`` then. ``free_ms`` is how long the card had been truly-idle and unallocated by
    then. Lower bounds mean at least so long. ``without_process``: it was active without a process and held memory.
    ``allocation`` is allocated, unallocated or unknown, ``None`` where allocation is off; ``allocations`` have the
    worst use first. Utilization is a ratio.
    """

    host: str
    gpu: str
    index: Count | None
    name: str | None
    mig: str | None
    state: str
    last_state: str
    reason: str | None
    state_ms: Seconds[Count | None]
    state_is_lower_bound: bool = False
    age_ms: Seconds[int]
    utilization: float | None
    held_lower_bytes: Count | None
    memory_used_bytes: Count | None
    memory_limit_bytes: Count | None
    power_watts: float | None
    temperature_celsius: float | None
    interval_ms: Count | None
    now_ms: Moment
    free_ms: Seconds[Count | None]
    free_is_lower_bound: bool = False
    without_process: bool | None
    allocation: str | None
    allocations: tuple[TopAllocation, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class TopHolder:
    """A process on a card at the card's newest tick: a row of ``gua_report.top_holders``.

    ``state`` is active, idle, unknown or unobserved. ``idle_ms`` is how long it has been idle, ``None`` if it is not or
    unknown, at least so long if a lower bound.
    """

    host: str
    gpu: str
    index: Count | None
    card_name: str | None
    pid: Count | None
    created_ms: Timestamp[Moment | None]
    owner: str | None
    program: str | None
    type: str | None
    state: str
    idle_ms: Seconds[Count | None]
    idle_is_lower_bound: bool = False
    memory_bytes: Count | None
    utilization: float | None
    container_id: str | None
    pod_uid: str | None
    slurm_job_id: str | None
    systemd_unit: str | None


@dataclass(frozen=True, kw_only=True, slots=True)
class Snapshot:
    """All cards and holders at ``taken_ms`` (Unix ms) from ``source`` (agent or store) at ``where``.

    ``conditions`` are the problems that the source reports.
    """

    source: str
    where: str
    taken_ms: int
    cards: tuple[TopCard, ...]
    holders: tuple[TopHolder, ...]
    conditions: tuple[str, ...] = ()

    @property
    def hosts(self) -> tuple[str, ...]:
        """Return the hosts of the cards, sorted."""
        return tuple(sorted({card.host for card in self.cards}))

    @property
    def states(self) -> Mapping[str, int]:
        """Return the number of cards by state, unobserved included; partitioned GPUs do not count."""
        found = Counter(card.state for card in self.cards if card.mig != Mig.PARENT)
        return {state: found[state] for state in ALL_STATES}

    @property
    def allocated(self) -> tuple[int, int] | None:
        """Return the number of allocated cards, and of empty ones among them; ``None`` where allocation is off."""
        known = [card for card in self.cards if card.mig != Mig.PARENT and card.state != UNOBSERVED]
        if all(card.allocation is None for card in known):
            return None
        allocated = [card for card in known if card.allocation == AllocationStatus.ALLOCATED]
        return len(allocated), sum(any(one.use == Use.EMPTY for one in card.allocations) for card in allocated)

    @property
    def due_ms(self) -> int | None:
        """Return the time until the next tick of any card [ms]; ``None`` if none is expected."""
        due = [
            max(card.interval_ms - card.age_ms, 0)
            for card in self.cards
            if card.state != UNOBSERVED and card.interval_ms is not None
        ]
        return min(due, default=None)


def aged(snapshot: Snapshot, elapsed_ms: int) -> Snapshot:
    """Return the snapshot as of ``elapsed_ms`` later: cards without a tick for three intervals are unobserved."""
    cards: list[TopCard] = []
    silent: dict[str, Any] = {
        **dict.fromkeys(("free_ms", "without_process")),
        "state": UNOBSERVED,
        "reason": "silent",
        "state_is_lower_bound": False,
    }
    for card in snapshot.cards:
        age_ms = card.age_ms + elapsed_ms
        is_new = card.interval_ms is None or age_ms <= STALE_INTERVALS * card.interval_ms
        is_stale = card.state == UNOBSERVED or not is_new
        cards.append(replace(card, age_ms=age_ms, **({"state_ms": age_ms, **silent} if is_stale else {})))
    stale = {(card.host, card.gpu) for card in cards if card.state == UNOBSERVED}
    holders = tuple(
        replace(holder, state=UNOBSERVED, idle_ms=None) if (holder.host, holder.gpu) in stale else holder
        for holder in snapshot.holders
    )
    return replace(snapshot, cards=tuple(cards), holders=holders)


def is_idle(holder: TopHolder) -> bool:
    """Return whether a holder is known to be idle."""
    return holder.state == ProcessState.IDLE


SORTS: Final = ("idle", "memory", "utilization", "owner", "program", "card")
PANES: Final = ("both", "cards", "holders")
MOVES: Final = {"up": -1, "k": -1, "down": 1, "j": 1, "page-up": -10, "page-down": 10}
_LONGEST_FILTER: Final = 200
# Order of states for several hosts: actionable ones first.
_CARD_ORDER: Final = ("idle-held", "unknown", "active", "truly-idle", UNOBSERVED)


@dataclass(frozen=True, kw_only=True, slots=True)
class TopView:
    """View state: sort order, filters, and the modes of the screen."""

    sort: str = SORTS[0]
    text: str = ""
    only_idle: bool = False
    panes: str = PANES[0]
    typing: bool = False
    paused: bool = False
    helping: bool = False
    offset: int = 0


def press(view: TopView, key: str) -> TopView | None:
    """Return the view after a key, ``None`` if it quits. An unknown key changes nothing."""
    if view.typing:
        return _typed(view, key)
    if view.helping and key != "q":
        return replace(view, helping=False)
    if key == "q":
        return None
    if key in MOVES:
        return replace(view, offset=max(view.offset + MOVES[key], 0))
    if key.isascii() and key.isdigit() and 1 <= int(key) <= len(SORTS):
        return replace(view, sort=SORTS[int(key) - 1], offset=0)
    change = _KEYS.get(key)
    return view if change is None else change(view)


_KEYS: Final[dict[str, Callable[[TopView], TopView]]] = {
    "s": lambda view: replace(view, sort=_next(SORTS, view.sort), offset=0),
    "v": lambda view: replace(view, panes=_next(PANES, view.panes), offset=0),
    "/": lambda view: replace(view, typing=True),
    "i": lambda view: replace(view, only_idle=not view.only_idle, offset=0),
    "p": lambda view: replace(view, paused=not view.paused),
    " ": lambda view: replace(view, paused=not view.paused),
    "h": lambda view: replace(view, helping=True),
    "?": lambda view: replace(view, helping=True),
    "escape": lambda view: replace(view, text="", offset=0),
}


def _typed(view: TopView, key: str) -> TopView:
    if key == "enter":
        return replace(view, typing=False)
    if key == "escape":
        return replace(view, typing=False, text="", offset=0)
    if key == "backspace":
        return replace(view, text=view.text[:-1], offset=0)
    typed = key if key == " " else safe(key) if len(key) == 1 and key.isprintable() else ""
    return replace(view, text=(view.text + typed)[:_LONGEST_FILTER], offset=0)


def _next(names: tuple[str, ...], name: str) -> str:
    return names[(names.index(name) + 1) % len(names)]


def chosen_cards(snapshot: Snapshot, view: TopView) -> list[TopCard]:
    """Return the cards to show, those of one host by index, those of several hosts with the worst first.

    A card matches the filter by its own text or by that of any of its holders.
    """
    held = {(holder.host, holder.gpu) for holder in snapshot.holders if _holder_has(holder, view.text)}
    idle = {(holder.host, holder.gpu) for holder in snapshot.holders if is_idle(holder)}
    cards = [
        card
        for card in snapshot.cards
        if (_card_has(card, view.text) or (card.host, card.gpu) in held)
        and (not view.only_idle or card.state == "idle-held" or (card.host, card.gpu) in idle)
    ]
    several = len(snapshot.hosts) > 1

    def order(card: TopCard) -> Any:  # noqa: ANN401 - a key to sort by
        by_index = (card.index is None, card.index or 0)
        if not several:  # unobserved ones last
            return card.state == UNOBSERVED, *by_index, card.mig == Mig.INSTANCE, card.gpu
        place = _CARD_ORDER.index(card.state) if card.state in _CARD_ORDER else len(_CARD_ORDER)
        return place, _descending(card.state_ms), card.host, *by_index, card.gpu

    return sorted(cards, key=order)


def chosen_holders(snapshot: Snapshot, view: TopView) -> list[TopHolder]:
    """Return the holders to show in the chosen order; unknown values come last."""
    holders = [
        holder
        for holder in snapshot.holders
        if _holder_has(holder, view.text) and (not view.only_idle or is_idle(holder))
    ]
    return sorted(holders, key=lambda holder: (_ORDERS[view.sort](holder), _ORDERS[SORTS[0]](holder)))


def _descending(value: float | None) -> float:
    return 1.0 if value is None else -float(value)


def _ascending(value: str | None) -> tuple[bool, str]:
    return value is None, (value or "").casefold()


_ORDERS: Final[dict[str, Callable[[TopHolder], Any]]] = {
    "idle": lambda one: (_descending(one.idle_ms), _descending(one.memory_bytes), one.host, one.gpu, one.pid or 0),
    "memory": lambda one: _descending(one.memory_bytes),
    "utilization": lambda one: _descending(one.utilization),
    "owner": lambda one: _ascending(one.owner),
    "program": lambda one: _ascending(one.program),
    "card": lambda one: (one.host, one.index is None, one.index or 0, one.gpu),
}


def _card_has(card: TopCard, text: str) -> bool:
    allocations = (word for each in card.allocations for word in (each.owner, each.id, each.job_name, each.use))
    return _has(text, (card.host, card.gpu, card.name, card.state, card.reason, card.allocation, *allocations))


def _holder_has(one: TopHolder, text: str) -> bool:
    runs_in = (one.container_id, one.pod_uid, one.slurm_job_id, one.systemd_unit, str(one.pid or ""))
    return _has(text, (one.host, one.gpu, one.card_name, one.owner, one.program, one.state, *runs_in))


def _has(text: str, words: Iterable[str | None]) -> bool:
    wanted = text.strip().casefold()
    return not wanted or any(wanted in word.casefold() for word in words if word)
