"""Conditions of ``--fail-on`` for cron and CI: ``idle-held > 2h``, ``coverage < 90%``; unknown never passes."""

import operator
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Final

from gua.core.errors import UsageError
from gua.core.moments import parse_duration_ms
from gua.core.words import Use
from gua.report.filters import short
from gua.report.kit.figures import amount, percent, span
from gua.report.model import Report
from gua.report.sections.allocation import AllocatedHours
from gua.report.sections.headline import state_percents
from gua.report.sections.now_rows import Now
from gua.report.states import IDLE_HELD, MS_PER_HOUR, STATES, UNOBSERVED
from gua.report.uses import USES

COVERAGE: Final = "coverage"
STREAK: Final = "streak"
IDLE_NOW: Final = "idle-held-now"
EMPTY_NOW: Final = "empty-now"
ALLOCATED: Final = "allocated"
OF_USES: Final = (*(use.value for use in USES if use is not Use.UNKNOWN), ALLOCATED)
METRICS: Final = (*STATES, UNOBSERVED, COVERAGE, STREAK, IDLE_NOW, *OF_USES, EMPTY_NOW)
GRAMMAR: Final = (
    "write METRIC > VALUE or < VALUE, as in 'idle-held > 2h', 'empty > 20%', 'coverage < 90%', 'streak > 8h' "
    f"or 'idle-held-now > 3'; metrics are {', '.join(METRICS)}"
)
_NOW: Final = "now"  # the sections that have the metric
_ALLOCATION: Final = "allocation"
_NUMBERS: Final = {IDLE_NOW, EMPTY_NOW}
_WRITTEN: Final = re.compile(r"\s*([a-z-]+?)\s*(>=|<=|>|<)\s*([^\s<>=].*?)\s*", re.DOTALL)
_NUMBER: Final = re.compile(r"([0-9]+(?:\.[0-9]+)?)\s*(%?)", re.ASCII)
_OPERATORS: Final[Mapping[str, Callable[[float, float], bool]]] = {
    ">": operator.gt,
    ">=": operator.ge,
    "<": operator.lt,
    "<=": operator.le,
}
_ROUNDING: Final = 1e-9  # relative: a sum of floats may miss 20 % by rounding


@dataclass(frozen=True, kw_only=True, slots=True)
class Condition:
    """A metric, a comparison operator and a value: GPU time [ms], a ratio or a number of cards, by ``unit``."""

    text: str
    metric: str
    operator: str
    value: float
    unit: str

    @property
    def section(self) -> str | None:
        """Return the section that has the metric; ``None`` if every report has it."""
        if self.metric in {STREAK, *_NUMBERS}:
            return _NOW
        return _ALLOCATION if self.metric in OF_USES else None


@dataclass(frozen=True, kw_only=True, slots=True)
class ConditionResult:
    """Whether a condition is met, ``None`` if that is unknown, and a sentence with the reason."""

    is_met: bool | None
    why: str


def parse_condition(text: str) -> Condition:
    """Return the parsed condition. Raises UsageError with a one-line message for an invalid one."""
    written = _WRITTEN.fullmatch(text)
    if written is None:
        raise _wrong(text, GRAMMAR)
    metric = written[1]
    if metric not in METRICS:
        near = get_close_matches(metric, METRICS, n=1)
        raise _wrong(text, f"{GRAMMAR}; did you mean {near[0]}?" if near else GRAMMAR)
    value, unit = _value(text, metric, written[3])
    return Condition(text=text.strip(), metric=metric, operator=written[2], value=value, unit=unit)


def _value(text: str, metric: str, value: str) -> tuple[float, str]:
    """Return the value that a metric is compared with, and its unit: ``%``, ``cards`` or ``h`` [ms]."""
    number = _NUMBER.fullmatch(value)
    if number is not None and number[2]:
        if metric in {STREAK, *_NUMBERS}:
            raise _wrong(text, f"{metric} has no share: {_EXAMPLES[metric]}")
        return float(number[1]) / 100, "%"
    if metric in _NUMBERS:
        if number is None:
            raise _wrong(text, f"it is a number of cards: {_EXAMPLES[metric]}")
        return float(number[1]), "cards"
    if metric == COVERAGE:
        raise _wrong(text, f"it is a share: {_EXAMPLES[metric]}")
    if number is not None and float(number[1]) == 0:
        return 0, "h"
    try:
        return parse_duration_ms(value), "h"
    except UsageError:
        raise _wrong(text, f"give a unit: {_EXAMPLES.get(metric, _EXAMPLES[''])}") from None


_EXAMPLES: Final = {
    STREAK: "'streak > 8h'",
    IDLE_NOW: "'idle-held-now > 3'",
    EMPTY_NOW: "'empty-now > 3'",
    COVERAGE: "'coverage < 90%'",
    "": "'idle-held > 2h' (GPU-hours) or 'idle-held > 20%' (of what was observed)",
}


def _wrong(text: str, hint: str) -> UsageError:
    return UsageError(f"--fail-on {short(text)!r} is no condition: {hint}")


def judge(condition: Condition, report: Report) -> ConditionResult:
    """Return whether a report meets a condition, or that this is unknown."""
    if condition.section == _NOW:
        return _now(condition, report)
    if condition.metric in OF_USES:
        return _use(condition, report)
    if condition.metric == COVERAGE:
        return _ratio(
            condition, report.coverage.ratio, percent(report.coverage.ratio), "of what was expected was observed"
        )
    if condition.metric == UNOBSERVED:
        gpu_ms, of = report.coverage.unobserved_gpu_ms, "of what was expected is unobserved"
        part = None if report.coverage.ratio is None else gpu_ms / report.coverage.expected_gpu_ms
        written = percent(part)
    else:
        gpu_ms, of = report.headline.states[condition.metric].gpu_ms, f"of what was observed is {condition.metric}"
        part = report.headline.shares[condition.metric]
        written = state_percents(report)[condition.metric]
    if condition.unit == "%":
        return _ratio(condition, part, written, of)
    return _compared(condition, gpu_ms, f"{amount(gpu_ms / MS_PER_HOUR, 3)} GPU-hours are {condition.metric}")


def _ratio(condition: Condition, part: float | None, written: str, of: str) -> ConditionResult:
    """Compare a ratio; the result quotes it as the report prints it."""
    if part is None:
        return _unknown_result(condition, "nothing was observed")
    return _compared(condition, part, f"{written} % {of}", tolerance=_ROUNDING)


def _compared(condition: Condition, found: float, sentence: str, *, tolerance: float = 0) -> ConditionResult:
    bound = condition.value * (1 + (tolerance if condition.operator in {">", "<="} else -tolerance))
    return ConditionResult(is_met=_OPERATORS[condition.operator](found, bound), why=f"{condition.text}: {sentence}")


def _now(condition: Condition, report: Report) -> ConditionResult:
    """Judge a metric of the state at the window's end."""
    now = report.get(Now)
    if now is None:
        return _unknown_result(condition, "who is idle now was not looked at, choose a shorter window or fewer hosts")
    if condition.metric == EMPTY_NOW:
        return _empty_now(condition, now, report)
    if condition.metric == STREAK:
        return _streak(condition, now)
    return _compared(condition, now.cards[IDLE_HELD], f"{now.cards[IDLE_HELD]:,} cards are idle-held now")


def _streak(condition: Condition, now: Now) -> ConditionResult:
    holders = now.holders
    longest = max((one.idle_ms for one in holders), default=0)
    verdict = _compared(condition, longest, f"the longest current idle streak is {span(longest)}")
    open_ended = any(one.is_lower_bound for one in holders)
    grows_into = condition.operator in {">", ">="}
    # A streak whose beginning was not observed may be longer than its observed part.
    if open_ended and verdict.is_met != grows_into:
        return _unknown_result(condition, f"a streak is at least {span(longest)}, and nobody saw its beginning")
    return verdict


def _use(condition: Condition, report: Report) -> ConditionResult:
    """Judge GPU time by use: unknown time may have any use, so the result is unknown where it would decide."""
    found = report.get(AllocatedHours)
    if found is None or not found.has_source:
        return _unknown_result(condition, _NOBODY_LOOKS)
    if condition.metric == ALLOCATED:
        least_ms = sum(one.allocated_gpu_ms for one in found.allocated)
        most_ms = found.with_source_gpu_ms - found.uses[Use.FREE] - found.uses[Use.UNALLOCATED_USE]
    else:
        least_ms = found.uses[Use(condition.metric)]
        most_ms = least_ms + found.uses[Use.UNKNOWN]
    whole_ms = found.with_source_gpu_ms
    if condition.unit == "%" and not whole_ms:
        return _unknown_result(condition, "nothing was observed")
    if condition.unit == "%":
        bounds, tolerance = (least_ms / whole_ms, most_ms / whole_ms), _ROUNDING
        written = f"{percent(bounds[0])} % of what was looked at is {condition.metric}"
    else:
        bounds, tolerance = (least_ms, most_ms), 0
        written = f"{amount(least_ms / MS_PER_HOUR, 3)} GPU-hours are {condition.metric}"
    least, most = (_compared(condition, bound, written, tolerance=tolerance) for bound in bounds)
    if least.is_met == most.is_met:
        return least
    unknown = amount((most_ms - least_ms) / MS_PER_HOUR, 3)
    return _unknown_result(condition, f"at least {written}, and of {unknown} GPU-hours that is not known")


def _empty_now(condition: Condition, now: Now, report: Report) -> ConditionResult:
    if not report.allocation_sources:
        return _unknown_result(condition, _NOBODY_LOOKS)
    cards = len({(one.host, one.gpu) for one in now.empty})
    may_be = [(one.host, one.gpu) for one in now.maybe_allocated]
    unknown = len({*may_be, *((one.host, one.gpu) for one in now.allocations if one.use == Use.UNKNOWN)})
    sentence = f"{cards:,} cards are allocated and empty now"
    least, most = _compared(condition, cards, sentence), _compared(condition, cards + unknown, sentence)
    return least if least.is_met == most.is_met else _unknown_result(condition, f"{sentence}, and {unknown:,} may be")


_NOBODY_LOOKS: Final = "no source of allocations is looked at: gua daemon --allocation"


def _unknown_result(condition: Condition, why: str) -> ConditionResult:
    return ConditionResult(is_met=None, why=f"{condition.text}: unknown ({why})")
