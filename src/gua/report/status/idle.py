"""Whether a card, or what a process, user, job, pod or container has on cards, has been idle for some time."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

from gua.core.moments import format_duration
from gua.core.rules import ProcessState, State
from gua.core.untrusted import is_number, objects_in
from gua.core.words import ProcessList, ProcessType, Use

_KEYS: Final[Mapping[str, tuple[str, ...]]] = {
    "pid": ("pid",),
    "user": ("owner", "uid"),
    "job": ("slurm_job_id", "id"),
    "pod": ("pod_uid", "pod_name"),
    "container": ("container_id",),
}
"""Keys of a holder or an allocation in a status that identify what is selected by each kind."""


class IdleVerdict(StrEnum):
    """Answer of the probe."""

    IDLE = "idle"
    IN_USE = "in use"
    UNKNOWN = "unknown"


@dataclass(frozen=True, kw_only=True, slots=True)
class JudgedPart:
    """One card, process or allocation that was judged: what it is, the verdict, and why, in words."""

    what: str
    verdict: IdleVerdict
    why: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Idleness:
    """Answer of the probe: idle if every part is, in use if any is, else unknown."""

    verdict: IdleVerdict
    reason: str
    parts: tuple[JudgedPart, ...]


def idleness(status: Mapping[str, Any], kind: str, value: str, *, for_ms: int) -> Idleness:
    """Return whether the selected have been idle for ``for_ms`` by an agent's status ("gua.status/1").

    ``kind`` is card, pid, user, job, pod or container, or empty for all cards. Raises ValueError for a malformed
    status.
    """
    if status.get("stalled"):
        return _of([JudgedPart(what="agent", verdict=IdleVerdict.UNKNOWN, why="the agent makes no ticks")])
    cards = [card for card in objects_in(status["cards"]) if kind != "card" or _is_card(card, value)]
    if not cards:
        what = f"card {value}" if kind == "card" else "card"
        return _of([JudgedPart(what=what, verdict=IdleVerdict.UNKNOWN, why="the agent has no such card")])
    if kind in {"", "card"}:
        return _of([_card(card, for_ms) for card in cards])
    parts = [part for card in cards for part in (*_on_card(card, kind, value, for_ms), *_unlisted(card))]
    absent = JudgedPart(
        what=f"{kind} {value}", verdict=IdleVerdict.UNKNOWN, why="it has no process and no allocation on any card"
    )
    return _of(parts or [absent])


def _of(parts: list[JudgedPart]) -> Idleness:
    for verdict in (IdleVerdict.IN_USE, IdleVerdict.UNKNOWN, IdleVerdict.IDLE):
        first = next((part for part in parts if part.verdict is verdict), None)
        if first is not None:
            return Idleness(verdict=verdict, reason=f"{first.what}: {first.why}", parts=tuple(parts))
    raise ValueError("nothing to judge")


def _is_card(card: Mapping[str, Any], value: str) -> bool:
    return value in {str(card.get("index")), str(card.get("uuid"))}


def _name(card: Mapping[str, Any]) -> str:
    return f"GPU {card['index']}" if card.get("index") is not None else str(card.get("uuid"))


def _card(card: Mapping[str, Any], for_ms: int) -> JudgedPart:
    state, seconds = str(card.get("state")), card.get("idle_seconds")
    if state == State.ACTIVE:
        return JudgedPart(what=_name(card), verdict=IdleVerdict.IN_USE, why="it is active")
    if state == State.UNKNOWN or not is_number(seconds):
        return JudgedPart(
            what=_name(card), verdict=IdleVerdict.UNKNOWN, why=f"its state is unknown ({card.get('reason')})"
        )
    return _lasting(_name(card), state, seconds, for_ms, is_lower_bound=card.get("idle_is_lower_bound") is True)


def _lasting(what: str, state: str, seconds: Any, for_ms: int, *, is_lower_bound: bool) -> JudgedPart:  # noqa: ANN401 - a checked number
    """Return the part for something idle for ``seconds``; a shorter time whose start was not observed is unknown."""
    length = format_duration(int(seconds) * 1000) if seconds >= 1 else "less than 1s"
    if seconds * 1000 >= for_ms:
        return JudgedPart(what=what, verdict=IdleVerdict.IDLE, why=f"{state} for {length}")
    if is_lower_bound:
        return JudgedPart(what=what, verdict=IdleVerdict.UNKNOWN, why=f"{state}, observed for {length} only")
    return JudgedPart(what=what, verdict=IdleVerdict.IN_USE, why=f"{state} for {length} only")


def _unlisted(card: Mapping[str, Any]) -> Iterator[JudgedPart]:
    """Yield an unknown part for a card that may have further processes of whatever is selected."""
    if card.get("process_list") != ProcessList.KNOWN:
        yield JudgedPart(what=_name(card), verdict=IdleVerdict.UNKNOWN, why="its processes are unknown")
    elif card.get("holders_total") != len(card.get("holders", ())):
        yield JudgedPart(
            what=_name(card), verdict=IdleVerdict.UNKNOWN, why="it has too many processes to list them all"
        )


def _matches(one: Mapping[str, Any], kind: str, value: str) -> bool:
    if kind == "pod" and "/" in value:
        return value == f"{one.get('pod_namespace')}/{one.get('pod_name')}"
    return any(one.get(key) is not None and str(one[key]) == value for key in _KEYS[kind])


def _on_card(card: Mapping[str, Any], kind: str, value: str, for_ms: int) -> Iterator[JudgedPart]:
    """Yield the selected processes of a card, and the selected allocations without a process there."""
    for holder in objects_in(card.get("holders", [])):
        if holder.get("type") == ProcessType.IGNORED or not _matches(holder, kind, value):
            continue
        what, seconds = f"process {holder.get('pid')} on {_name(card)}", holder.get("idle_seconds")
        if holder.get("state") == ProcessState.ACTIVE:
            yield JudgedPart(what=what, verdict=IdleVerdict.IN_USE, why="it is active")
        elif holder.get("state") != ProcessState.IDLE or not is_number(seconds):
            yield JudgedPart(what=what, verdict=IdleVerdict.UNKNOWN, why="its utilization is unknown")
        else:
            yield _lasting(what, "idle", seconds, for_ms, is_lower_bound=False)
    for allocation in objects_in(card.get("allocations", [])):
        if not _matches(allocation, kind, value):
            continue
        what, seconds = f"allocation {allocation.get('id')} of {_name(card)}", allocation.get("use_seconds")
        if allocation.get("use") == Use.EMPTY and is_number(seconds):
            is_lower_bound = allocation.get("use_is_lower_bound") is True
            yield _lasting(what, "no process", seconds, for_ms, is_lower_bound=is_lower_bound)
        elif allocation.get("use") == Use.UNKNOWN:
            yield JudgedPart(what=what, verdict=IdleVerdict.UNKNOWN, why="its use is unknown")
