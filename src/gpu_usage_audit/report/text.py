"""The report as text: five sections, then what they rest on. Every bar has its number, every name is harmless."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Final

from gpu_usage_audit.report.basis import basis, chosen, length, moment
from gpu_usage_audit.report.cards import cards
from gpu_usage_audit.report.figures import HourFormat, gpus, percent, percents, plural
from gpu_usage_audit.report.groups import groups
from gpu_usage_audit.report.identities import identities
from gpu_usage_audit.report.model import IDLE_HELD, STATES, TRULY_IDLE, Report, share
from gpu_usage_audit.report.style import Style, table
from gpu_usage_audit.report.troubles import troubles
from gpu_usage_audit.report.window import names

_LOW_COVERAGE: Final = 0.9
_SHADE_WIDTH: Final = 3
_CELL: Final = max(map(len, STATES))
_APART: Final = "   "
_TWO_HALVES_FROM: Final = 118

Section = Callable[[Report, Style, HourFormat], Iterator[str]]


def render_text(report: Report, style: Style) -> str:
    """Return the report for a terminal or a file, no line wider than the style's width."""
    hours = HourFormat.fitting(report.coverage.expected_gpu_ms)
    grouped: Sequence[Section] = (groups,) if report.rollups else ()
    sections: Sequence[Section] = (
        heading,
        headline,
        idle_capacity,
        *grouped,
        cards,
        identities,
        time_of_day,
        basis,
    )
    blocks = ("\n".join(section(report, style, hours)) for section in sections)
    return "\n\n".join(blocks) + "\n"


def heading(report: Report, style: Style, hours: HourFormat) -> Iterator[str]:
    """Yield what the report is about, and what makes it doubtful."""
    window = report.window
    yield from style.wrap(
        f"GPU usage from {moment(window.since_ms, window.timezone)} to "
        f"{moment(window.until_ms, window.timezone)} {window.timezone} ({length(window.until_ms - window.since_ms)})",
        indent=0,
    )
    where = names(style.name(host, 24) for host in report.hosts)
    yield from style.wrap(
        f"{plural(len(report.cards), 'card')} on {plural(len(report.hosts), 'host')}: {where}", indent=0
    )
    if report.filters:
        yield from style.wrap(f"only {chosen(report, style)}", indent=0)
    for text in warnings(report, style, hours):
        for line in style.wrap(f"! {text}", indent=0, hanging=2):
            yield style.paint("warning", line)


def warnings(report: Report, style: Style, hours: HourFormat) -> Iterator[str]:
    """Yield what makes the report doubtful, a sentence each."""
    coverage = report.coverage
    if any(extent.source == "simulator" for extent in report.extents):
        yield "Simulated: no real machine was measured."
    if coverage.ratio is not None and coverage.ratio < _LOW_COVERAGE:
        yield (
            f"Only {percent(coverage.ratio)} % of the expected time was observed: "
            f"{hours.of(coverage.unobserved_gpu_ms)} GPU-hours are unobserved, and nothing below says what happened "
            "in them."
        )
    for overlap in report.overlaps:
        observed, elapsed = hours.of(overlap.observed_ms), hours.of(overlap.elapsed_ms)
        yield (
            f"Host {style.name(overlap.host, 32)} has {observed} observed hours of a card in {elapsed} hours of time: "
            "two agents run under this name, or its clock was set back. Its numbers are too high."
        )
    yield from troubles(report, style)


def headline(report: Report, style: Style, hours: HourFormat) -> Iterator[str]:
    """Yield the split of all observed time."""
    split = report.headline
    written = _state_hours(report, hours)
    parts = percents([split.states[state].gpu_ms for state in STATES])
    rows = [("", "GPU-hours", "share %", "card ticks")] + [
        (state, written[state], part, f"{split.states[state].card_ticks:,}")
        for state, part in zip(STATES, parts, strict=True)
    ]
    lines = table(rows, left=1)
    width = style.width - max(map(len, lines)) - 2
    yield style.title("1. Where the GPU-hours went")
    yield lines[0]
    for state, line in zip(STATES, lines[1:], strict=True):
        bar = style.paint(state, style.bar(split.shares[state] or 0, width))
        yield f"{style.state(line, state)}  {bar}".rstrip()
    coverage = report.coverage
    yield from style.wrap(
        f"observed {hours.of(coverage.observed_gpu_ms)} GPU-hours, {percent(coverage.ratio)} % of what was expected; "
        f"unobserved {hours.of(coverage.unobserved_gpu_ms)}, {plural(coverage.gaps, 'gap')}"
    )


def _state_hours(report: Report, hours: HourFormat) -> dict[str, str]:
    """Return each state's hours, written so that they add up to the observed hours, the same in every section."""
    return dict(zip(STATES, hours.parts([report.headline.states[state].gpu_ms for state in STATES]), strict=True))


def idle_capacity(report: Report, style: Style, hours: HourFormat) -> Iterator[str]:
    """Yield what stood idle, in hours and in whole GPUs over the whole window."""
    split = report.headline
    threshold = next(setting.value for setting in report.rules if setting.key == "active_utilization")
    meanings = {
        IDLE_HELD: f"memory held, utilization below {threshold * 100:.4g} %",
        TRULY_IDLE: "nothing holds them; allocation is not looked at",
    }
    written = _state_hours(report, hours)
    yield style.title("2. Idle capacity")
    rows = [("", "GPU-hours", "GPUs")] + [
        (state, written[state], gpus(split.equivalent_gpus[state])) for state in meanings
    ]
    lines = table(rows, left=1)
    yield lines[0]
    for (state, meaning), line in zip(meanings.items(), lines[1:], strict=True):
        first, *rest = style.wrap(meaning, indent=len(line) + 2)
        yield f"{style.state(line, state)}  {first.lstrip()}"
        yield from rest
    whole = sum(value for value in split.equivalent_gpus.values() if value is not None)
    yield from style.wrap(f"GPUs: as many as if they had been idle all the time, of {gpus(whole)} expected.")


def time_of_day(report: Report, style: Style, _hours: HourFormat) -> Iterator[str]:
    """Yield the heatmap: for each hour of the day every state's share, shaded and as a number."""
    yield style.title(f"5. Time of day ({report.window.timezone})")
    marks = ", ".join(f"{shade} {words}" for shade, words in zip(style.shades, _SHADE_WORDS, strict=True))
    yield from style.wrap(f"% of what was observed in the hour; {marks}")
    header = "  hour   " + "  ".join(" " * (_CELL - len(state)) + style.paint(state, state) for state in STATES)
    rows = [_hour(report, style, hour) for hour in range(len(report.time_of_day))]
    if style.width < _TWO_HALVES_FROM:
        yield header
        yield from rows
        return
    half = len(rows) // 2
    yield header + _APART + header
    yield from (left + _APART + right for left, right in zip(rows[:half], rows[half:], strict=True))


_SHADE_WORDS: Final = ("below 25", "below 50", "below 75", "75 or more")


def _hour(report: Report, style: Style, hour: int) -> str:
    states = report.time_of_day[hour]
    parts = percents([states[state].gpu_ms for state in STATES])
    shown = (
        f"{style.paint(state, style.shade(share(states, state), _SHADE_WIDTH))}{part:>{_CELL - _SHADE_WIDTH}}"
        for state, part in zip(STATES, parts, strict=True)
    )
    return f"  {hour:02d}-{(hour + 1) % 24:02d}  " + "  ".join(shown)
