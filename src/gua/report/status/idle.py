"""Whether a card, or what a process, user, job, pod or container has on cards, has been idle for some time."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

from gua.core.moments import format_duration
from gua.core.rules import ProcessState, State
from gua.core.untrusted import is_number, objects_in
from gua.core.words import ProcessList, ProcessType, Relation, Use

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


@dataclass(frozen=True, slots=True)
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
        return _of([JudgedPart("agent", IdleVerdict.UNKNOWN, "the agent makes no ticks")])
    cards = [
        card
        for card in objects_in(status["cards"])
        if kind != "card" or value in {str(card.get("index")), str(card.get("uuid"))}
    ]
    if not cards:
        what = f"card {value}" if kind == "card" else "card"
        return _of([JudgedPart(what, IdleVerdict.UNKNOWN, "the agent has no such card")])
    if kind in {"", "card"}:
        return _of([_card(card, for_ms) for card in cards])
    parts = [part for card in cards for part in (*_on_card(card, kind, value, for_ms), *_unlisted(card))]
    absent = JudgedPart(f"{kind} {value}", IdleVerdict.UNKNOWN, "it has no process and no allocation on any card")
    return _of(parts or [absent])


def _of(parts: list[JudgedPart]) -> Idleness:
    for verdict in (IdleVerdict.IN_USE, IdleVerdict.UNKNOWN, IdleVerdict.IDLE):
        first = next((part for part in parts if part.verdict is verdict), None)
        if first is not None:
            return Idleness(verdict=verdict, reason=f"{first.what}: {first.why}", parts=tuple(parts))
    raise ValueError("nothing to judge")


def _name(card: Mapping[str, Any]) -> str:
    return f"GPU {card['index']}" if card.get("index") is not None else str(card.get("uuid"))


def _card(card: Mapping[str, Any], for_ms: int) -> JudgedPart:
    state, seconds = str(card.get("state")), card.get("idle_seconds")
    if state == State.ACTIVE:
        return JudgedPart(_name(card), IdleVerdict.IN_USE, "it is active")
    if state == State.UNKNOWN or not is_number(seconds):
        return JudgedPart(_name(card), IdleVerdict.UNKNOWN, f"its state is unknown ({card.get('reason')})")
    return _lasting(_name(card), state, seconds, for_ms, is_lower_bound=card.get("idle_is_lower_bound") is True)


def _lasting(what: str, state: str, seconds: Any, for_ms: int, *, is_lower_bound: bool) -> JudgedPart:  # noqa: ANN401 - a checked number
    """Return the part for something idle for ``seconds``; a shorter time whose start was not observed is unknown."""
    length = format_duration(int(seconds) * 1000) if seconds >= 1 else "less than 1s"
    if seconds * 1000 >= for_ms:
        return JudgedPart(what, IdleVerdict.IDLE, f"{state} for {length}")
    if is_lower_bound:
        return JudgedPart(what, IdleVerdict.UNKNOWN, f"{state}, observed for {length} only")
    return JudgedPart(what, IdleVerdict.IN_USE, f"{state} for {length} only")


def _unlisted(card: Mapping[str, Any]) -> Iterator[JudgedPart]:
    """Yield an unknown part for a card that may have further processes of whatever is selected."""
    if card.get("process_list") != ProcessList.KNOWN:
        yield JudgedPart(_name(card), IdleVerdict.UNKNOWN, "its processes are unknown")
    elif card.get("holders_total") != len(card.get("holders", ())):
        yield JudgedPart(_name(card), IdleVerdict.UNKNOWN, "it has too many processes to list them all")


def _matches(one: Mapping[str, Any], kind: str, value: str) -> bool:
    if kind == "pod" and "/" in value:
        return value == f"{one.get('pod_namespace')}/{one.get('pod_name')}"
    return any(one.get(key) is not None and str(one[key]) == value for key in _KEYS[kind])


def _on_card(card: Mapping[str, Any], kind: str, value: str, for_ms: int) -> Iterator[JudgedPart]:
    """Yield the selected processes of a card, and the selected allocations that these do not represent."""
    selected = [
        holder
        for holder in objects_in(card.get("holders", []))
        if holder.get("type") != ProcessType.IGNORED and _matches(holder, kind, value)
    ]
    for holder in selected:
        what, seconds = f"process {holder.get('pid')} on {_name(card)}", holder.get("idle_seconds")
        if holder.get("state") == ProcessState.ACTIVE:
            yield JudgedPart(what, IdleVerdict.IN_USE, "it is active")
        elif holder.get("state") != ProcessState.IDLE or not is_number(seconds):
            yield JudgedPart(what, IdleVerdict.UNKNOWN, "its utilization is unknown")
        else:
            yield _lasting(what, "idle", seconds, for_ms, is_lower_bound=False)
    for allocation in objects_in(card.get("allocations", [])):
        if _matches(allocation, kind, value):
            yield from _allocation(card, allocation, for_ms, is_listed=bool(selected))


def _allocation(
    card: Mapping[str, Any], allocation: Mapping[str, Any], for_ms: int, *, is_listed: bool
) -> Iterator[JudgedPart]:
    """Yield the part for a selected allocation; ``is_listed`` says that selected processes were judged instead.

    Without cgroups of Slurm or names of pods, its processes are known as its own only by ``use``.
    """
    what, use = f"allocation {allocation.get('id')} of {_name(card)}", allocation.get("use")
    seconds, is_lower_bound = allocation.get("use_seconds"), allocation.get("use_is_lower_bound") is True
    if use == Use.USED and (allocation.get("relation") == Relation.OWNER or not is_listed):
        yield JudgedPart(what, IdleVerdict.IN_USE, "it is used")
    elif use == Use.UNKNOWN or (use == Use.USED_BY_OTHERS and not is_listed):
        why = "its use is unknown" if use == Use.UNKNOWN else "others use it"
        yield JudgedPart(what, IdleVerdict.UNKNOWN, why)
    elif (use == Use.EMPTY or (use == Use.HELD and not is_listed)) and is_number(seconds):
        why = "no process" if use == Use.EMPTY else "idle-held"
        yield _lasting(what, why, seconds, for_ms, is_lower_bound=is_lower_bound)
