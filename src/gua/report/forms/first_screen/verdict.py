"""The verdict: how much was held and did nothing, in one sentence, and how all of the time was spent."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from gua.core.words import Use
from gua.report.answers import Answers, EmptyPromise, Wasted
from gua.report.forms.first_screen.lines import flow
from gua.report.forms.warnings import just_begun_ms
from gua.report.kit.amounts import sentence, written
from gua.report.kit.basis import REASONS
from gua.report.kit.figures import NONE, HourFormat, percent, percents
from gua.report.kit.style import Style
from gua.report.model import Report
from gua.report.sections.allocation import use_share, use_units
from gua.report.states import ACTIVE, IDLE_HELD, STATES, TRULY_IDLE, UNKNOWN, observed_ms

_MUCH: Final = 0.1  # of the expected time
_MUCH_EMPTY: Final = 0.05  # of the time in which allocation was looked at
_BESIDE_FROM: Final = 44
_COLOURED_FROM: Final = 36


def verdict(report: Report, told: Answers, style: Style, hours: HourFormat) -> Iterator[str]:
    """Yield the sentence, the bar of all expected time, and each state's part."""
    for line in style.wrap(" ".join(sentences(report, told, style, hours)), indent=0):
        yield style.title(line)
    if observed_ms(report.headline.states):
        covered = f"{percent(report.coverage.ratio)} % observed"
        beside = style.width >= _BESIDE_FROM
        yield _bar(report, style, f"  {covered}" if beside else "")
        # Colours are no words to break lines at.
        plain = style if style.width >= _COLOURED_FROM else replace(style, colour=False)
        yield from flow([*_states(report, plain, hours), *([] if beside else [covered])], style)


def sentences(report: Report, told: Answers, style: Style, hours: HourFormat) -> Iterator[str]:
    """Yield what was held and did nothing, what was promised and empty where that is much, and what nobody knows.

    The larger of the first two comes first.
    """
    wasted = told.wasted
    states = report.headline.states
    observed = observed_ms(states)
    if not observed:
        expected = hours.of(report.coverage.expected_gpu_ms)
        yield f"Nothing was observed: nobody knows what happened in the {expected} GPU-hours expected."
        return
    written, shares = _written(report, hours)
    if states[UNKNOWN].gpu_ms == observed:
        yield f"Nothing is known of the {hours.of(observed)} GPU-hours observed: {_reason(report)}."
    elif states[IDLE_HELD].gpu_ms:
        held = (
            f"{written[IDLE_HELD]} of {hours.of(observed)} GPU-hours observed ({shares[IDLE_HELD]} %) were "
            f"held and did nothing{_gpus(wasted)}{_money(wasted, style, hours)}."
        )
        yield from _worst_first(held, report, told, style, hours)
    elif told.empty is not None and _is_much(told.empty):
        yield _empty(report, told.empty, style, hours)
    else:
        yield (
            f"No GPU was held without being used: of {hours.of(observed)} GPU-hours observed, "
            f"{written[ACTIVE]} were active and {written[TRULY_IDLE]} truly-idle."
        )
    # In the first hour the ticks that are still to come weigh much.
    unobserved_ms = 0 if just_begun_ms(report) is not None else report.coverage.unobserved_gpu_ms
    dark_ms = unobserved_ms + states[UNKNOWN].gpu_ms
    expected_ms = report.coverage.expected_gpu_ms
    if expected_ms and dark_ms >= _MUCH * expected_ms and states[UNKNOWN].gpu_ms < observed:
        yield (
            f"Nobody knows what happened in {percent(dark_ms / expected_ms)} % of the expected time: it counts as no "
            "state."
        )


def _worst_first(held: str, report: Report, told: Answers, style: Style, hours: HourFormat) -> Iterator[str]:
    empty, is_more = told.empty, told.empty is not None and told.empty.gpu_ms > told.wasted.gpu_ms
    if empty is None or not (_is_much(empty) or is_more):
        yield held
        return
    both = [held, _empty(report, empty, style, hours)]
    yield from reversed(both) if is_more else both


def _is_much(empty: EmptyPromise) -> bool:
    return (empty.share or 0) >= _MUCH_EMPTY


def _empty(report: Report, empty: EmptyPromise, style: Style, hours: HourFormat) -> str:
    cost = "" if empty.cost is None or not empty.cost.amounts else f": {written(empty.cost, style.name)}"
    told, share = hours.written(empty.gpu_ms, use_units(report, hours)[Use.EMPTY]), use_share(report, Use.EMPTY)
    return f"{told} GPU-hours ({share} %) were allocated and nobody was there{cost}."


def _gpus(wasted: Wasted) -> str:
    if wasted.gpus is None or wasted.of_gpus is None:
        return ""
    whole = _tenths(wasted.of_gpus)
    return f": as much as {_tenths(wasted.gpus)} of {whole} GPU{'' if whole == '1' else 's'}"


def _money(wasted: Wasted, style: Style, hours: HourFormat) -> str:
    cost = sentence(wasted.cost, style.name, hours)
    return "" if cost is None else f", {cost}"


def _tenths(value: float) -> str:
    return "<0.1" if 0 < value < 0.05 else f"{value:,.1f}".removesuffix(".0")


def _reason(report: Report) -> str:
    reasons = [REASONS.get(one.reason) for one in sorted(report.unknown, key=lambda one: -one.gpu_ms)]
    return next(filter(None, reasons), "the values that decide could not be read")


def _bar(report: Report, style: Style, label: str) -> str:
    ratio = report.coverage.ratio
    width = style.width - 2 - len(label)
    # What was not observed is blank; of what was, every state is seen.
    filled = max(len(STATES), width if ratio is None else round(width * min(ratio, 1)))
    return f"  {style.split(report.headline.states, filled)}{' ' * (width - filled)}{label}".rstrip()


def _states(report: Report, style: Style, hours: HourFormat) -> Iterator[str]:
    written, shares = _written(report, hours)
    for state in STATES:
        share = "" if shares[state] == NONE else f" ({shares[state]} %)"
        yield f"{style.paint(state, style.fill[state])} {style.paint(state, state)} {written[state]}{share}"
    if report.coverage.unobserved_gpu_ms > 0:
        yield f"unobserved {hours.of(report.coverage.unobserved_gpu_ms)}"


def _written(report: Report, hours: HourFormat) -> tuple[dict[str, str], dict[str, str]]:
    """Return the hours and the share of each state as they are written everywhere in the report."""
    values = [report.headline.states[state].gpu_ms for state in STATES]
    return dict(zip(STATES, hours.parts(values), strict=True)), dict(zip(STATES, percents(values), strict=True))
