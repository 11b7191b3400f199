"""Where the hours went: the whole time in one bar, what the idle-held hours are made of, and idle capacity."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from gua.report.kit.bars import CLASSES, UNOBSERVED, of_state, stacked, swatch
from gua.report.kit.figures import HourFormat, gpus, percent, percents, plural
from gua.report.kit.html_tables import BAR, NUMBER, HtmlColumn, paragraph, table
from gua.report.kit.markup import Markup, join, tag
from gua.report.kit.words import skipped
from gua.report.model import Report
from gua.report.sections.headline.model import IdleSplit
from gua.report.sections.headline.text import state_hours
from gua.report.states import IDLE_HELD, STATES, TRULY_IDLE

_LONG: Final = "30 minutes and more"


def headline(report: Report, hours: HourFormat) -> Markup:
    """Return the sentence, the bar of all expected time, and the split with its numbers."""
    split, idle_split = _split(report, hours), _idle_split(report, hours)
    return join(
        [
            _sentence(report, hours),
            _whole(report, hours),
            split if idle_split is None else tag("div", tag("div", split), tag("div", idle_split), class_="two"),
        ]
    )


def _sentence(report: Report, hours: HourFormat) -> Markup:
    split = report.headline
    if split.shares[IDLE_HELD] is None:
        return tag("p", "Nothing was observed in this window.", class_="lead")
    written = state_hours(report, hours)
    parts = percents([split.states[state].gpu_ms for state in STATES])
    held = parts[STATES.index(IDLE_HELD)]
    return tag(
        "p",
        tag("strong", f"{held} %"),
        " of the observed GPU time was ",
        tag("b", IDLE_HELD),
        f": memory held, nothing computed. That is {written[IDLE_HELD]} GPU-hours, as much as ",
        tag("b", f"{gpus(split.equivalent_gpus[IDLE_HELD])} GPUs"),
        " that do nothing all the time",
        _streaks_in_words(report.get(IdleSplit), hours),
        ". ",
        tag("b", f"{gpus(split.equivalent_gpus[TRULY_IDLE])} GPUs"),
        " were held by nobody.",
        class_="lead",
    )


def _streaks_in_words(split: IdleSplit | None, hours: HourFormat) -> str:
    if split is None:
        return ""
    return (
        f"; {hours.of(split.never_used_gpu_ms)} of these hours never used at all, {hours.of(split.long_gpu_ms)} in "
        f"streaks of {_LONG}"
    )


def _whole(report: Report, hours: HourFormat) -> Markup:
    written = state_hours(report, hours)
    coverage = report.coverage
    parts = [
        (CLASSES[state], f"{state}: {written[state]} GPU-hours", report.headline.states[state].gpu_ms)
        for state in STATES
    ]
    unobserved = f"{UNOBSERVED}: {hours.of(coverage.unobserved_gpu_ms)} GPU-hours"
    parts.append((CLASSES[UNOBSERVED], unobserved, coverage.unobserved_gpu_ms))
    label = "All expected GPU time. " + ", ".join(called for _, called, _ in parts)
    return join(
        [
            stacked(parts, label, class_="bar tall"),
            tag(
                "p",
                f"{hours.of(coverage.observed_gpu_ms)} of {hours.of(coverage.expected_gpu_ms)} expected GPU-hours were "
                f"observed ({percent(coverage.ratio)} %, {plural(coverage.gaps, 'gap')}); ",
                swatch("n"),
                f"{hours.of(coverage.unobserved_gpu_ms)} are unobserved and belong to no state.",
                class_="note",
            ),
        ]
    )


def _split(report: Report, hours: HourFormat) -> Markup:
    split, written = report.headline, state_hours(report, hours)
    values = [split.states[state].gpu_ms for state in STATES]
    most = max(values)
    rows = [
        (
            of_state(state),
            stacked([(CLASSES[state], "", value)], f"{state} {part} %", of=most),
            part,
            written[state],
            gpus(split.equivalent_gpus[state]),
            f"{split.states[state].card_ticks:,}",
        )
        for state, part, value in zip(STATES, percents(values), values, strict=True)
    ]
    columns = [
        HtmlColumn("state"),
        HtmlColumn("", BAR),
        HtmlColumn("share %", NUMBER),
        HtmlColumn("GPU-hours", NUMBER),
        HtmlColumn("GPUs", NUMBER, title="as many as if they had been in this state all the time"),
        HtmlColumn("card ticks", NUMBER),
    ]
    return table("Share of what was observed, by state", columns, rows)


def _idle_split(report: Report, hours: HourFormat) -> Markup | None:
    split = report.get(IdleSplit)
    if split is None:
        return (
            None
            if report.streaks_skipped is None
            else paragraph(skipped(report, "How much of idle-held was never used"))
        )
    values = [value for _, _, value in _parts_of(split)]
    place = STATES.index(IDLE_HELD)
    written = hours.within([report.headline.states[state].gpu_ms for state in STATES], place, values)
    shares = percents(values)
    rows = [
        (
            join([swatch(kind), words]),
            stacked([(kind, "", value)], f"{words} {part} %", of=max(values)),
            part,
            amount,
        )
        for (kind, words, value), part, amount in zip(_parts_of(split), shares, written, strict=True)
    ]
    columns = [
        HtmlColumn("streaks"),
        HtmlColumn("", BAR),
        HtmlColumn("of idle-held %", NUMBER),
        HtmlColumn("GPU-hours", NUMBER),
    ]
    told = "not told: hours whose ticks are gone and whose streaks nobody kept" if split.unknown_gpu_ms > 0 else None
    return table("What idle-held is made of: never used is 0 in every tick of a streak", columns, rows, note=told)


def _parts_of(split: IdleSplit) -> Iterator[tuple[str, str, float]]:
    never_short = split.never_used_gpu_ms - split.never_used_long_gpu_ms
    yield "h", "never used, 30 min and more", split.never_used_long_gpu_ms
    yield "h2", "never used, shorter", max(never_short, 0)
    yield "l", "low, 30 min and more", split.low_long_gpu_ms
    yield "l2", "low, shorter", max(split.low_gpu_ms - split.low_long_gpu_ms, 0)
    if split.unknown_gpu_ms > 0:
        yield "u", "not told", split.unknown_gpu_ms


def idle_capacity(report: Report, hours: HourFormat) -> Markup:
    """Return what stood idle, in hours and in whole GPUs over the whole window."""
    split, written = report.headline, state_hours(report, hours)
    threshold = next((setting.value for setting in report.rules if setting.key == "active_utilization"), None)
    low = "low utilization" if threshold is None else f"utilization below {threshold * 100:.4g} %"
    meanings = {IDLE_HELD: f"memory held, {low}", TRULY_IDLE: "nothing holds them; allocation is not looked at"}
    whole = sum(value for value in split.equivalent_gpus.values() if value is not None)
    rows = [
        (
            of_state(state),
            stacked(
                [(CLASSES[state], "", split.equivalent_gpus[state] or 0)],
                f"{gpus(split.equivalent_gpus[state])} of {gpus(whole)} GPUs",
                of=whole,
            ),
            gpus(split.equivalent_gpus[state]),
            written[state],
            meaning,
        )
        for state, meaning in meanings.items()
    ]
    columns = [
        HtmlColumn("state"),
        HtmlColumn("", BAR),
        HtmlColumn("GPUs", NUMBER),
        HtmlColumn("GPU-hours", NUMBER),
        HtmlColumn("meaning"),
    ]
    return table(f"As many GPUs as if they had been idle all the time, of {gpus(whole)} expected", columns, rows)
