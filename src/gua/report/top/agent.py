"""What ``gua top`` shows of this host's agent: its status object, which came over a socket, checked value by value."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any

from gua.core.durations import to_ms
from gua.core.rules import ProcessState, State
from gua.core.untrusted import count_in, list_in, number_in, object_in, objects_in, text_in
from gua.core.words import AllocationStatus, ProcessType, Use
from gua.report.status.allocation import owner_of, rank
from gua.report.top.model import Snapshot, TopAllocation, TopCard, TopHolder, aged

_NOBODY_WORKS = {State.IDLE_HELD, State.TRULY_IDLE}


def snapshot_of_agent(status: Mapping[str, Any], *, where: str) -> Snapshot:
    """Return a status object "gua.status/1" as what is shown; whatever is not what it should be is unknown."""
    agent = object_in(status.get("agent"))
    host = text_in(agent.get("host")) or "this host"
    interval_seconds = number_in(agent.get("interval_seconds"))
    interval_ms = None if interval_seconds is None else round(interval_seconds * 1000)
    now_ms = time.time_ns() // 1_000_000
    told = objects_in(status.get("cards"))
    cards = tuple(_card(one, host, interval_ms, now_ms) for one in told)
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
                holder for card, one in zip(cards, told, strict=True) for holder in _holders(card, one, now_ms)
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
        index=count_in(one.get("index")),
        name=text_in(one.get("name")),
        mig=text_in(one.get("mig")),
        state=state if state in set(State) else State.UNKNOWN,
        last_state=state if state in set(State) else State.UNKNOWN,
        reason=text_in(one.get("reason")),
        state_ms=_milliseconds(one.get("state_seconds")),
        state_is_lower_bound=one.get("state_is_lower_bound") is True,
        utilization=number_in(one.get("utilization")),
        held_lower_bytes=count_in(one.get("held_lower_bytes")),
        memory_used_bytes=count_in(one.get("memory_used_bytes")),
        memory_limit_bytes=count_in(one.get("memory_limit_bytes")),
        power_watts=number_in(one.get("power_watts")),
        temperature_celsius=number_in(one.get("temperature_celsius")),
        interval_ms=interval_ms,
        now_ms=now_ms,
        age_ms=round(age_seconds * 1000),
        allocation=allocation if allocation in set(AllocationStatus) else None,
        allocations=tuple(_allocations(one)),
        free_ms=_milliseconds(one.get("free_seconds")),
        free_is_lower_bound=one.get("free_is_lower_bound") is True,
    )


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
            # As long as no engine or process of the card was at work, this one was not, since it began.
            age_ms = math.inf if created_ms is None else max(now_ms - card.age_ms - created_ms, 0)
            idle_ms = round(min(card.state_ms, age_ms))
        yield TopHolder(
            host=card.host,
            gpu=card.gpu,
            index=card.index,
            card_name=card.name,
            pid=count_in(holder.get("pid")),
            created_ms=created_ms,
            owner=text_in(holder.get("owner")),
            program=text_in(holder.get("comm")),
            type=text_in(holder.get("type")),
            state=state if state in set(ProcessState) else ProcessState.UNKNOWN,
            idle_ms=idle_ms,
            idle_is_lower_bound=idle_ms is not None,
            memory_bytes=count_in(holder.get("memory_bytes")),
            utilization=number_in(holder.get("utilization")),
            container_id=text_in(holder.get("container_id")),
            pod_uid=text_in(holder.get("pod_uid")),
            slurm_job_id=text_in(holder.get("slurm_job_id")),
            systemd_unit=text_in(holder.get("systemd_unit")),
        )


def _milliseconds(value: object) -> int | None:
    seconds = number_in(value)
    return None if seconds is None else round(seconds * 1000)


def _moment(value: object) -> int | None:
    try:
        return to_ms(datetime.fromisoformat(value)) if isinstance(value, str) else None
    except (ValueError, TypeError):  # no time, or one without an offset
        return None
