"""What the reader of ``gua top`` chose to see, and what a key changes. Pure: no terminal is needed to try keys."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any, Final

from gua.core.plaintext import safe
from gua.core.words import Mig
from gua.report.top.model import UNOBSERVED, Snapshot, TopCard, TopHolder, is_idle

SORTS: Final = ("idle", "memory", "utilization", "owner", "program", "card")
PANES: Final = ("both", "cards", "holders")
ESCAPE: Final = "escape"
ENTER: Final = "enter"
BACKSPACE: Final = "backspace"
MOVES: Final = {"up": -1, "k": -1, "down": 1, "j": 1, "page-up": -10, "page-down": 10}
_LONGEST_FILTER: Final = 200
# Worst first, where cards of many hosts are listed: what somebody could do something about.
_CARD_ORDER: Final = ("idle-held", "unknown", "active", "truly-idle", UNOBSERVED)


@dataclass(frozen=True, kw_only=True, slots=True)
class TopView:
    """By what holders are sorted, which rows are shown, and what the screen does at the moment."""

    sort: str = SORTS[0]
    text: str = ""
    only_idle: bool = False
    panes: str = PANES[0]
    typing: bool = False
    paused: bool = False
    helping: bool = False
    offset: int = 0


def press(view: TopView, key: str) -> TopView | None:
    """Return the view after a key, ``None`` where it ends the program. A key without a meaning changes nothing."""
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
    ESCAPE: lambda view: replace(view, text="", offset=0),
}


def _typed(view: TopView, key: str) -> TopView:
    if key == ENTER:
        return replace(view, typing=False)
    if key == ESCAPE:
        return replace(view, typing=False, text="", offset=0)
    if key == BACKSPACE:
        return replace(view, text=view.text[:-1], offset=0)
    typed = key if key == " " else safe(key) if len(key) == 1 and key.isprintable() else ""
    return replace(view, text=(view.text + typed)[:_LONGEST_FILTER], offset=0)


def _next(names: tuple[str, ...], name: str) -> str:
    return names[(names.index(name) + 1) % len(names)]


def _texts(card: TopCard) -> tuple[str | None, ...]:
    promises = (text for each in card.allocations for text in (each.owner, each.id, each.job_name, each.use))
    return (card.host, card.gpu, card.name, card.state, card.reason, card.allocation, *promises)


def chosen_cards(snapshot: Snapshot, view: TopView) -> list[TopCard]:
    """Return the cards to show: of one host as one walks along them, of several the worst first.

    A card stays if it has the text itself, or any of its holders has.
    """
    held = {(holder.host, holder.gpu) for holder in snapshot.holders if _holder_has(holder, view.text)}
    idle = {(holder.host, holder.gpu) for holder in snapshot.holders if is_idle(holder)}
    cards = [
        card
        for card in snapshot.cards
        if (_has(view.text, _texts(card)) or (card.host, card.gpu) in held)
        and (not view.only_idle or card.state == "idle-held" or (card.host, card.gpu) in idle)
    ]
    return sorted(cards, key=_walk if len(snapshot.hosts) == 1 else _worst)


def chosen_holders(snapshot: Snapshot, view: TopView) -> list[TopHolder]:
    """Return the holders to show, in the order that was chosen; what is not known comes last."""
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


def _walk(card: TopCard) -> Any:  # noqa: ANN401 - a key to sort by
    """Return the key by which one walks along the cards of a host, those that are gone last."""
    return (
        card.state == UNOBSERVED,
        card.index is None,
        card.index or 0,
        card.mig == Mig.INSTANCE,
        card.gpu,
    )


def _worst(card: TopCard) -> Any:  # noqa: ANN401 - a key to sort by
    place = _CARD_ORDER.index(card.state) if card.state in _CARD_ORDER else len(_CARD_ORDER)
    return (place, _descending(card.state_ms), card.host, card.index is None, card.index or 0, card.gpu)


def _holder_has(holder: TopHolder, text: str) -> bool:
    return _has(
        text,
        (
            holder.host,
            holder.gpu,
            holder.card_name,
            holder.owner,
            holder.program,
            holder.state,
            holder.container_id,
            holder.pod_uid,
            holder.slurm_job_id,
            holder.systemd_unit,
            None if holder.pid is None else str(holder.pid),
        ),
    )


def _has(text: str, words: Iterable[str | None]) -> bool:
    wanted = text.strip().casefold()
    return not wanted or any(wanted in word.casefold() for word in words if word)
