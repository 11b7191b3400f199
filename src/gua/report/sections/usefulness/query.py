"""Idle seconds of active and idle-held cards."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from itertools import groupby
from typing import Final, NamedTuple

from gua.core.parameters import READ
from gua.core.ports import ViewReader
from gua.core.view import Count, StateName, View
from gua.report.questions import ask
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


def usefulness(reader: ViewReader, read: Mapping[str, object]) -> Callable[[], Usefulness]:
    """Ask for the idle seconds of each card; call what is returned for it.

    ``read`` is {since_ms, until_ms, hosts, tick_hours, use_hourly}.
    """
    answer = ask(reader, IDLE_TIME, read)
    return lambda: usefulness_of(answer())


def usefulness_of(rows: Iterable[IdleTimeRow]) -> Usefulness:
    """Return the rows of ``gua_report.idle_time`` as cards, in the order of their indexes, and all of them together."""
    found = sorted(rows, key=lambda row: (row.host, row.gpu_index is None, row.gpu_index or 0, row.gpu))
    return Usefulness(
        states=_by_state(found),
        loaded=_added(found, ACTIVE, IDLE_HELD),
        cards=tuple(
            _card(list(of_card)) for _, of_card in groupby(found, key=lambda row: (row.host, row.gpu_index, row.gpu))
        ),
    )


def _card(rows: list[IdleTimeRow]) -> CardIdleTime:
    return CardIdleTime(
        host=rows[0].host,
        gpu=rows[0].gpu,
        index=rows[0].gpu_index,
        model=rows[0].model,
        states=_by_state(rows),
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
