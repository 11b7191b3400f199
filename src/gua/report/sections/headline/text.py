"""Where the GPU-hours went: the split of all observed time, and what the idle-held hours are made of."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from gua.report.costs import wasted
from gua.report.kit.amounts import sentence
from gua.report.kit.figures import HourFormat, percent, percents, plural, within
from gua.report.kit.style import Style, table
from gua.report.kit.tables import STACKED_BELOW, Drawn, Part, Table, TableColumn
from gua.report.kit.words import skipped
from gua.report.model import Report
from gua.report.sections.headline.model import IdleSplit
from gua.report.states import IDLE_HELD, STATES

_COLUMNS: Final = (
    TableColumn(title="", left=True),
    TableColumn(title="GPU-hours"),
    TableColumn(title="share %"),
    TableColumn(title="card ticks"),
)
NEVER_USED: Final = "never used"
LOW: Final = "low"
STREAKS_UNKNOWN: Final = "not known"


def headline(report: Report, style: Style, hours: HourFormat) -> Iterator[Part]:
    """Yield the split of all observed time."""
    yield Table(columns=_COLUMNS, rows=rows(report, hours, before=f"{IDLE_HELD}: "))
    yield from _sentences(report, style, hours)


def drawn(report: Report, style: Style, hours: HourFormat) -> Iterator[Part]:
    """Yield the same, each state with a bar."""
    if style.width < STACKED_BELOW:
        yield from headline(report, style, hours)
        return
    written = rows(report, hours, before="  ")
    lines = table([[column.title for column in _COLUMNS], *written], left=1)
    width = style.width - max(map(len, lines)) - 2
    yield Drawn(lines[0])
    for (state, *_), line in zip(written, lines[1:], strict=True):
        if state not in STATES:
            yield Drawn(line)
            continue
        room = " " * (max(map(len, lines)) - len(line))
        bar = style.paint(state, style.bar(report.headline.shares[state] or 0, width))
        yield Drawn(f"{style.state(line, state)}{room}  {bar}".rstrip())
    yield from _sentences(report, style, hours)


def rows(report: Report, hours: HourFormat, *, before: str) -> list[list[str]]:
    """Return a row a state, and below idle-held its parts, marked by what stands before their names.

    Parts add up to their state as written.
    """
    split = report.headline
    values = [split.states[state].gpu_ms for state in STATES]
    written = zip(STATES, hours.parts(values), percents(values), strict=True)
    found = []
    for state, of_state, part in written:
        found.append([state, of_state, part, f"{split.states[state].card_ticks or 0:,}"])
        if state == IDLE_HELD:
            found += [[f"{before}{name}", *figures, ""] for name, *figures in _idle_parts(report, hours)]
    return found


def _idle_parts(report: Report, hours: HourFormat) -> list[tuple[str, str, str]]:
    split = report.get(IdleSplit)
    if split is None:
        return []
    parts = {NEVER_USED: split.never_used_gpu_ms, LOW: split.low_gpu_ms}
    if split.unknown_gpu_ms > 0:
        parts[STREAKS_UNKNOWN] = split.unknown_gpu_ms
    values = [report.headline.states[state].gpu_ms for state in STATES]
    place, of_parts = STATES.index(IDLE_HELD), list(parts.values())
    return list(zip(parts, hours.within(values, place, of_parts), within(values, place, of_parts), strict=True))


def _sentences(report: Report, style: Style, hours: HourFormat) -> Iterator[str]:
    split = report.get(IdleSplit)
    if split is not None:
        never_used, low = hours.parts((split.never_used_long_gpu_ms, split.low_long_gpu_ms))
        yield (
            f"{hours.of(split.long_gpu_ms)} idle-held GPU-hours lie in streaks of 30 minutes and more: "
            f"{never_used} never used (no engine or process above 0 in the whole streak), "
            f"{low} low"
        )
        if split.unknown_gpu_ms > 0:
            yield f"{STREAKS_UNKNOWN}: hours whose ticks are gone and whose streaks nobody kept"
    elif report.streaks_skipped is not None:
        yield skipped(report, "How much of idle-held was never used")
    if (cost := sentence(wasted(report.headline.costs), style.name, hours)) is not None:
        yield f"idle-held time cost {cost}"
    coverage = report.coverage
    yield (
        f"observed {hours.of(coverage.observed_gpu_ms)} GPU-hours, {percent(coverage.ratio)} % of what was expected; "
        f"unobserved {hours.of(coverage.unobserved_gpu_ms)}, {plural(coverage.gaps, 'gap')}"
    )


def state_hours(report: Report, hours: HourFormat) -> dict[str, str]:
    """Return each state's hours, written so that they add up to the observed hours, the same in every section."""
    units = state_units(report, hours)
    return {state: hours.written(report.headline.states[state].gpu_ms, units[state]) for state in STATES}


def state_units(report: Report, hours: HourFormat) -> dict[str, int]:
    """Return the same as how many of the last decimal are written."""
    return dict(zip(STATES, hours.units([report.headline.states[state].gpu_ms for state in STATES]), strict=True))
