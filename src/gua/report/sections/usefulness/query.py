"""Idle seconds of active and idle-held cards."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import groupby
from typing import Final, NamedTuple

from gua.core.parameters import READ
from gua.core.view import Count, StateName, View
from gua.report.asking import Asking, Finish
from gua.report.model import Card, Headline
from gua.report.questions import ask
from gua.report.sections.usefulness.activity import (
    ActivityRow,
    ask_activity,
    means_of,
    owners_of,
    runs_of,
)
from gua.report.sections.usefulness.model import CardIdleTime, IdleTime, Usefulness
from gua.report.states import ACTIVE, IDLE_HELD


class IdleTimeRow(NamedTuple):
    """A card's GPU time in one state, in us, and the energy of what power samples cover of its idle time, in mJ."""

    host: str
    gpu: str
    gpu_index: Count | None
    model: str | None
    state: StateName
    gpu_us: Count
    sampled_us: Count
    idle_us: Count
    powered_us: Count
    idle_mj: Count


IDLE_TIME: Final = View("idle_time", IdleTimeRow, READ)


def usefulness(asking: Asking) -> Finish:
    """Ask for the idle seconds of each card, and for what its performance counters tell."""
    idle, activity = ask(asking.reader, IDLE_TIME, asking.read), ask_activity(asking)

    def finish(_headline: Headline, _cards: Sequence[Card]) -> Usefulness:
        found = usefulness_of(idle(), activity.cards())
        return replace(
            found,
            owners=owners_of(row for answer in activity.owners for row in answer()),
            busy_with_few_sms=runs_of(row for answer in activity.runs for row in answer()),
        )

    return finish


def usefulness_of(rows: Iterable[IdleTimeRow], activity: Sequence[ActivityRow] = ()) -> Usefulness:
    """Return the rows of ``gua_report.idle_time`` as cards, in the order of their indexes, and all of them together."""
    found = sorted(rows, key=lambda row: (row.host, row.gpu_index is None, row.gpu_index or 0, row.gpu))
    told: dict[tuple[str, str], list[ActivityRow]] = {}
    for row in activity:
        told.setdefault((row.host, row.gpu), []).append(row)
    return Usefulness(
        states=_by_state(found),
        loaded=_added(found, ACTIVE, IDLE_HELD),
        cards=tuple(
            _card(list(of_card), told.get((host, gpu), ()))
            for (host, _, gpu), of_card in groupby(found, key=lambda row: (row.host, row.gpu_index, row.gpu))
        ),
        activity=means_of(activity),
    )


def _card(rows: list[IdleTimeRow], activity: Sequence[ActivityRow]) -> CardIdleTime:
    return CardIdleTime(
        host=rows[0].host,
        gpu=rows[0].gpu,
        index=rows[0].gpu_index,
        model=rows[0].model,
        states=_by_state(rows),
        activity=means_of(activity),
    )


def _by_state(rows: list[IdleTimeRow]) -> dict[str, IdleTime]:
    return {state: _added(rows, state) for state in (ACTIVE, IDLE_HELD)}


def _added(rows: Iterable[IdleTimeRow], *states: str) -> IdleTime:
    chosen = [row for row in rows if row.state in states]
    sampled_us, idle_us = sum(row.sampled_us for row in chosen), sum(row.idle_us for row in chosen)
    powered_us = sum(row.powered_us for row in chosen)
    return IdleTime(
        gpu_ms=sum(row.gpu_us for row in chosen) / 1000,
        sampled_gpu_ms=sampled_us / 1000,
        idle_gpu_ms=idle_us / 1000,
        idle_share=idle_us / sampled_us if sampled_us else None,
        measured_gpu_ms=powered_us / 1000,
        idle_joules=sum(row.idle_mj for row in chosen) / 1000 if powered_us else None,
    )
