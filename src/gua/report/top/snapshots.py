"""Snapshots for ``gua top``: from an agent's status object, each value validated, or from a store's newest ticks."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any, Final, NamedTuple

from gua.core.durations import to_ms
from gua.core.ports import ViewReader
from gua.core.rules import ProcessState, State
from gua.core.untrusted import count_in, list_in, number_in, object_in, objects_in, text_in
from gua.core.view import Moment, View
from gua.core.words import AllocationStatus, ProcessType, Use
from gua.report.allocations import newest_sources
from gua.report.kit.fields import filled, grouped, of_card
from gua.report.questions import ask
from gua.report.rows import EXTENT
from gua.report.status.text import WORST_FIRST, owner_of, rank
from gua.report.top.model import Snapshot, TopAllocation, TopCard, TopHolder, aged
from gua.report.uses import UseName
from gua.report.window import choose_extents

_SURROUNDINGS: Final = ("container_id", "pod_uid", "slurm_job_id", "systemd_unit")
_NOBODY_WORKS = {State.IDLE_HELD, State.TRULY_IDLE}


def snapshot_of_agent(status: Mapping[str, Any], *, where: str) -> Snapshot:
    """Return the snapshot of a status object "gua.status/1"; invalid values become unknown."""
    agent = object_in(status.get("agent"))
    host = text_in(agent.get("host")) or "this host"
    interval_seconds = number_in(agent.get("interval_seconds"))
    interval_ms = None if interval_seconds is None else round(interval_seconds * 1000)
    now_ms = time.time_ns() // 1_000_000
    objects = objects_in(status.get("cards"))
    cards = tuple(_card(one, host, interval_ms, now_ms) for one in objects)
    conditions = [one for one in map(text_in, list_in(status.get("conditions"))) if one]
    if status.get("stalled") is True:
        conditions.insert(0, "the agent is stalled: its last tick is older than two intervals; see its log")
    for source in objects_in(status.get("allocation_sources")):
        if source.get("ok") is not True:
            name, reason = (text_in(source.get(key)) or "?" for key in ("source", "reason"))
            conditions.append(f"allocations by {name} cannot be read: {reason}")
    return aged(
        Snapshot(
            source="agent",
            where=where,
            taken_ms=now_ms,
            cards=cards,
            holders=tuple(
                holder for card, one in zip(cards, objects, strict=True) for holder in _holders(card, one, now_ms)
            ),
            conditions=tuple(conditions),
        ),
        0,
    )


def _card(one: Mapping[str, Any], host: str, interval_ms: int | None, now_ms: int) -> TopCard:
    state = text_in(one.get("state"))
    age_seconds = number_in(one.get("sample_age_seconds")) or 0.0
    allocation = text_in(one.get("allocation"))
    return TopCard(
        host=host,
        gpu=text_in(one.get("uuid")) or "?",
        state=state if state in set(State) else State.UNKNOWN,
        last_state=state if state in set(State) else State.UNKNOWN,
        state_ms=_milliseconds(one.get("state_seconds")),
        state_is_lower_bound=one.get("state_is_lower_bound") is True,
        interval_ms=interval_ms,
        now_ms=now_ms,
        age_ms=round(age_seconds * 1000),
        allocation=allocation if allocation in set(AllocationStatus) else None,
        allocations=tuple(_allocations(one)),
        free_ms=_milliseconds(one.get("free_seconds")),
        free_is_lower_bound=one.get("free_is_lower_bound") is True,
        **_known(one, text_in, "name", "mig", "reason"),
        **_known(one, count_in, "index", "held_lower_bytes", "memory_used_bytes", "memory_limit_bytes"),
        **_known(one, number_in, "utilization", "power_watts", "temperature_celsius"),
    )


def _known(one: Mapping[str, Any], check: Callable[[object], object], *names: str) -> dict[str, Any]:
    """Return the named values that pass ``check``, ``None`` for the others."""
    return {name: check(one.get(name)) for name in names}


def _allocations(one: Mapping[str, Any]) -> Iterator[TopAllocation]:
    for each in sorted(objects_in(one.get("allocations")), key=rank):
        use = text_in(each.get("use"))
        yield TopAllocation(
            source=text_in(each.get("source")) or "?",
            id=text_in(each.get("id")) or "?",
            owner=owner_of(each),
            job_name=text_in(each.get("job_name")),
            use=use if use in set(Use) else Use.UNKNOWN,
            use_ms=_milliseconds(each.get("use_seconds")),
            use_is_lower_bound=each.get("use_is_lower_bound") is True,
            until_ms=_moment(each.get("until")),
        )


def _holders(card: TopCard, one: Mapping[str, Any], now_ms: int) -> Iterator[TopHolder]:
    for holder in objects_in(one.get("holders")):
        if holder.get("type") == ProcessType.IGNORED:
            continue
        state = text_in(holder.get("state"))
        created_ms = _moment(holder.get("since"))
        idle_ms = None
        if state == ProcessState.IDLE and card.state in _NOBODY_WORKS and card.state_ms is not None:
            # While the whole card was idle, each of its processes was, since its start.
            age_ms = math.inf if created_ms is None else max(now_ms - card.age_ms - created_ms, 0)
            idle_ms = round(min(card.state_ms, age_ms))
        yield TopHolder(
            host=card.host,
            gpu=card.gpu,
            index=card.index,
            card_name=card.name,
            created_ms=created_ms,
            program=text_in(holder.get("comm")),
            state=state if state in set(ProcessState) else ProcessState.UNKNOWN,
            idle_ms=idle_ms,
            idle_is_lower_bound=idle_ms is not None,
            utilization=number_in(holder.get("utilization")),
            **_known(holder, count_in, "pid", "memory_bytes"),
            **_known(holder, text_in, "owner", "type", *_SURROUNDINGS),
        )


def _milliseconds(value: object) -> int | None:
    seconds = number_in(value)
    return None if seconds is None else round(seconds * 1000)


def _moment(value: object) -> int | None:
    try:
        return to_ms(datetime.fromisoformat(value)) if isinstance(value, str) else None
    except (ValueError, TypeError):  # invalid, or without an offset
        return None


class CurrentAllocationRow(NamedTuple):
    """An allocation of a card at its newest tick, which ends at ``last_ms`` (Unix ms)."""

    host: str
    gpu: str
    source: str
    allocation_id: str
    owner: str | None
    job_name: str | None
    last_ms: Moment
    use: UseName
    use_since_ms: Moment
    use_since_is_lower_bound: bool
    until_ms: Moment | None


CURRENT_ALLOCATIONS: Final = View("current_allocations", CurrentAllocationRow, ("hosts",))
TOP_CARDS: Final = View("top_cards", TopCard, ("hosts",))
TOP_HOLDERS: Final = View("top_holders", TopHolder, ("hosts",))


def snapshot_of_store(reader: ViewReader, *, where: str, hosts: Sequence[str] = ()) -> Snapshot:
    """Return the snapshot of a store now, of the named hosts or of all.

    Raises UsageError for an unknown host, UnavailableError for an empty store.
    """
    parameters = {"hosts": list(hosts)}
    cards, holders = ask(reader, TOP_CARDS, parameters), ask(reader, TOP_HOLDERS, parameters)
    found = cards()
    now_ms = found[0].now_ms if found else 0
    has_source = any(row.allocation is not None for row in found)
    allocations = grouped(ask(reader, CURRENT_ALLOCATIONS, parameters)() if has_source else (), of_card)
    known = {row.host for row in found}
    if not found or set(hosts) - known:
        choose_extents(EXTENT.rows(reader, {"hosts": []}), hosts)
    return Snapshot(
        source="store",
        where=where,
        taken_ms=now_ms,
        cards=tuple(
            replace(card, allocations=tuple(_current(allocations.get((card.host, card.gpu), ())))) for card in found
        ),
        holders=tuple(holders()),
        conditions=tuple(
            f"allocations by {one.source} on {one.host} cannot be read: {one.reason or '?'}"
            for one in (newest_sources(reader, now_ms, hosts) if has_source else ())
            if not one.ok
        ),
    )


def _current(rows: Iterable[CurrentAllocationRow]) -> Iterator[TopAllocation]:
    """Yield the allocations of a card, the worst use first."""
    for row in sorted(rows, key=lambda row: WORST_FIRST.index(Use(row.use))):
        use_ms, is_lower_bound = row.last_ms - row.use_since_ms, row.use_since_is_lower_bound
        yield filled(TopAllocation, row, id=row.allocation_id, use_ms=use_ms, use_is_lower_bound=is_lower_bound)
