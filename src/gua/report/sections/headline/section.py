"""Headline and idle capacity: where the hours went, and what stood idle."""

from __future__ import annotations

from collections.abc import Iterator

from gua.report.asking import Asking, Finish
from gua.report.costs import COST_COLUMNS, Cost, cost_json, costs_json, with_currencies
from gua.report.kit.fields import Cell, Cells, Json, hours, json_of, ratio
from gua.report.model import Report
from gua.report.section import Csv, Section, on_page
from gua.report.sections.headline import idle_capacity, text
from gua.report.sections.headline.model import LONG_STREAK_MS, IdleSplit
from gua.report.sections.now.cut import ask_split
from gua.report.states import IDLE_HELD, MS_PER_HOUR, TRULY_IDLE, observed_ms


def _collect(asking: Asking) -> Finish | None:
    if not asking.splits_idle:
        return None
    split = ask_split(asking)
    return lambda _headline, _cards: split()


def _json(report: Report) -> Json:
    states = {
        state: {
            "card_ticks": part.card_ticks,
            "gpu_hours": hours(part.gpu_ms),
            "share": ratio(report.headline.shares[state]),
        }
        for state, part in report.headline.states.items()
    }
    costs = report.headline.costs
    return {
        "card_ticks": report.headline.card_ticks,
        "states": states,
        "costs": None if costs is None else costs_json(costs),
        "idle_held": _idle_held(report),
        "idle_seconds": None if report.headline.idle_seconds is None else json_of(report.headline.idle_seconds),
    }


def _idle_held(report: Report) -> Json | None:
    split = report.get(IdleSplit)
    if split is None:
        return None
    total = observed_ms(report.headline.states)

    def part(gpu_ms: float, long_gpu_ms: float | None) -> Json:
        return {
            "gpu_hours": hours(gpu_ms),
            "share": ratio(gpu_ms / total) if total else None,
            "gpu_hours_in_long_streaks": None if long_gpu_ms is None else hours(long_gpu_ms),
        }

    return {
        "never_used": part(split.never_used_gpu_ms, split.never_used_long_gpu_ms),
        "low": part(split.low_gpu_ms, split.low_long_gpu_ms),
        "unknown": part(split.unknown_gpu_ms, None),
        "gpu_hours_in_long_streaks": hours(split.long_gpu_ms),
        "long_streak_seconds": LONG_STREAK_MS // 1000,
    }


def _rows(report: Report, _report: Report) -> Iterator[Cells]:
    split = report.get(IdleSplit)
    for state, part in report.headline.states.items():
        row: dict[str, Cell] = {
            "state": state,
            "gpu_hours": part.gpu_ms / MS_PER_HOUR,
            "share": report.headline.shares[state],
            "card_ticks": part.card_ticks,
        }
        if split is not None and state == IDLE_HELD:
            row |= {
                "never_used_gpu_hours": split.never_used_gpu_ms / MS_PER_HOUR,
                "low_gpu_hours": split.low_gpu_ms / MS_PER_HOUR,
                "unknown_gpu_hours": split.unknown_gpu_ms / MS_PER_HOUR,
                "in_long_streaks_gpu_hours": split.long_gpu_ms / MS_PER_HOUR,
            }
        yield from with_currencies(row, _cost(report, state), ["state"])


def _cost(report: Report, state: str) -> Cost | None:
    return None if report.headline.costs is None else report.headline.costs[state]


_OF_IDLE_HELD = ("never_used_gpu_hours", "low_gpu_hours", "unknown_gpu_hours", "in_long_streaks_gpu_hours")
HEADLINE = Section(
    name="headline",
    title="Where the GPU-hours went",
    model=Report,
    collect=_collect,
    text=text.headline,
    drawn=text.drawn,
    html=on_page(__package__, "headline"),
    json=_json,
    csv=Csv(("state", "gpu_hours", "share", "card_ticks", *_OF_IDLE_HELD, *COST_COLUMNS), _rows),
)


def _idle_json(report: Report) -> Json:
    return {
        state: {
            "gpu_hours": hours(report.headline.states[state].gpu_ms),
            "equivalent_gpus": ratio(report.headline.equivalent_gpus[state]),
            "cost": None if report.headline.costs is None else cost_json(report.headline.costs[state]),
        }
        for state in (IDLE_HELD, TRULY_IDLE)
    }


def _idle_rows(report: Report, _report: Report) -> Iterator[Cells]:
    for state in (IDLE_HELD, TRULY_IDLE):
        gpu_hours = report.headline.states[state].gpu_ms / MS_PER_HOUR
        row = {"state": state, "gpu_hours": gpu_hours, "equivalent_gpus": report.headline.equivalent_gpus[state]}
        yield from with_currencies(row, _cost(report, state), ["state"])


IDLE_CAPACITY = Section(
    name="idle-capacity",
    title="Idle capacity",
    model=Report,
    text=idle_capacity.idle_capacity,
    drawn=idle_capacity.drawn,
    json=_idle_json,
    csv=Csv(("state", "gpu_hours", "equivalent_gpus", *COST_COLUMNS), _idle_rows),
)
