"""Sections headline and idle-capacity: observed time by state, and idle-held time by kind of streak."""

from collections.abc import Iterator
from typing import Final

from gua.report.costs import COST_COLUMNS, cost_json, costs_json, wasted, with_currencies
from gua.report.kit.amounts import Amounts, sentence
from gua.report.kit.fields import Cell, Cells, Json, hours, json_of, ratio, states_json, to_json
from gua.report.kit.figures import HourFormat, amount, percent, percents, plural, span, within
from gua.report.kit.html import CLASSES, Markup, draw_parts, join, stacked
from gua.report.kit.style import Style
from gua.report.kit.tables import STACKED_BELOW, Drawn, Part, Rows, Table, TableColumn, draw, shown_width
from gua.report.kit.words import Places, places
from gua.report.model import Report
from gua.report.section import Csv, Section
from gua.report.sections.card_streaks import LONG_STREAK_MS, STUCK_MS, IdleSplit, query_split
from gua.report.states import ACTIVE, IDLE_HELD, MS_PER_HOUR, STATES, TRULY_IDLE, UNOBSERVED, observed_ms, times

_COLUMNS: Final = (
    TableColumn(title="", left=True),
    TableColumn(title="GPU-hours"),
    TableColumn(title="share %"),
    TableColumn(title="card ticks"),
)
NEVER_USED: Final = "never used"
LOW: Final = "low"


def _text(report: Report, style: Style, hours: HourFormat) -> Iterator[Part]:
    """Yield the observed time by state."""
    yield Table(columns=_COLUMNS, rows=rows(report, hours, before=f"{IDLE_HELD}: "))
    yield from _sentences(report, style, hours)


def _drawn(report: Report, style: Style, hours: HourFormat) -> Iterator[Part]:
    """Yield the observed time by state with a bar per state."""
    if style.width < STACKED_BELOW:
        yield from _text(report, style, hours)
        return
    written = rows(report, hours, before="  ")
    head, *lines = draw(Table(columns=_COLUMNS, rows=written), style)
    used = max(map(shown_width, (head, *lines)))
    yield Drawn(head)
    for (state, *_), line in zip(written, lines, strict=True):
        part = report.headline.shares[state] or 0 if state in STATES else 0
        bar = style.paint(state, style.bar(part, style.width - used - 2)) if part else ""
        yield Drawn(f"{line}{' ' * (used - shown_width(line))}  {bar}".rstrip())
    yield from _sentences(report, style, hours)


def rows(report: Report, hours: HourFormat, *, before: str) -> list[list[str]]:
    """Return a row per state; the parts of idle-held follow it, their names prefixed by ``before``.

    Rounded parts add up to their state.
    """
    states, split = report.headline.states, report.get(IdleSplit)
    values = times(states)
    found = [
        [state, of_state, part, f"{states[state].card_ticks or 0:,}"]
        for state, of_state, part in zip(STATES, hours.parts(values), percents(values), strict=True)
    ]
    if split is not None:
        place, parts = STATES.index(IDLE_HELD), (split.never_used_gpu_ms, split.low_gpu_ms)
        figures = zip((NEVER_USED, LOW), hours.within(values, place, parts), within(values, place, parts), strict=True)
        found[place + 1 : place + 1] = [[f"{before}{name}", of_part, part, ""] for name, of_part, part in figures]
    return found


def _sentences(report: Report, style: Style, hours: HourFormat) -> Iterator[str]:
    split = report.get(IdleSplit)
    if split is not None:
        never_used, low = hours.parts((split.never_used_long_gpu_ms, split.low_long_gpu_ms))
        yield (
            f"{hours.of(split.long_gpu_ms)} idle-held GPU-hours lie in streaks of 30 minutes and more: "
            f"{never_used} never used (no engine or process above 0 in the whole streak), "
            f"{low} low"
        )
    if (cost := sentence(wasted(report.headline.costs), style.name, hours)) is not None:
        yield f"idle-held time cost {cost}"
    if (active := without_process(report, hours, places(report, style))) is not None:
        yield active
    coverage = report.coverage
    yield (
        f"observed {hours.of(coverage.observed_gpu_ms)} GPU-hours, {percent(coverage.ratio)} % of what was expected; "
        f"unobserved {hours.of(coverage.unobserved_gpu_ms)}, {plural(coverage.gaps, 'gap')}"
    )


_LEAST_MS: Final = MS_PER_HOUR
_LEAST_SHARE: Final = 0.01
"""Active time without a process is a sentence from one GPU-hour, or from 1 % of the active time, on."""


def without_process(report: Report, hours: HourFormat, where: Places) -> str | None:
    """Return the sentence on active time without a process, ``None`` below the limits or where it is unknown.

    ``where`` returns the label of a card from its host and UUID.
    """
    found, split = report.headline.active_without_process, report.get(IdleSplit)
    if not found.gpu_ms or (found.gpu_ms < _LEAST_MS and (found.share or 0) < _LEAST_SHARE):
        return None
    active = report.headline.states[ACTIVE].gpu_ms
    known = f", of {hours.of(found.known_gpu_ms)} with known processes" if found.known_gpu_ms < 0.99 * active else ""
    text = (
        f"{hours.of(found.gpu_ms)} of {state_hours(report, hours)[ACTIVE]} active GPU-hours had no process and no held "
        f"memory ({percent(found.share)} %{known})"
    )
    if split is None or not split.stuck:
        return f"{text}."
    worst, stuck_ms = split.stuck[0], sum(one.gpu_ms for one in split.stuck)
    lasts = " so far" if worst.is_current and report.is_now(worst.until_ms) else ""
    on = f"{where(worst.host, worst.gpu)} for {span(worst.longest_ms)}{lasts}"
    return (
        f"{text}, {hours.of(stuck_ms)} of them in stretches over {STUCK_MS // 60_000} minutes (stuck utilization), the "
        f"longest on {on}: gua doctor there has the causes."
    )


def state_hours(report: Report, hours: HourFormat) -> dict[str, str]:
    """Return each state's hours, rounded so that they add up to the observed hours, the same in every section."""
    return dict(zip(STATES, hours.parts(times(report.headline.states)), strict=True))


def state_units(report: Report, hours: HourFormat) -> dict[str, int]:
    """Return each state's hours in units of the last decimal, as :func:`state_hours` writes them."""
    return dict(zip(STATES, hours.units(times(report.headline.states)), strict=True))


def state_percents(report: Report) -> dict[str, str]:
    """Return each state's percentage of the observed time, rounded so that they add up to 100."""
    return dict(zip(STATES, percents(times(report.headline.states)), strict=True))


def _idle_text(report: Report, style: Style, hours: HourFormat) -> Iterator[Part]:
    """Yield idle-held and truly-idle, each with its definition."""
    written, amounts, costs = state_hours(report, hours), Amounts.of_report(report), report.headline.costs
    threshold = next(setting.value for setting in report.rules if setting.key == "active_utilization")
    allocated = "some may be allocated" if report.allocation_sources else "no allocation source is read"
    meanings = {
        IDLE_HELD: f"memory held, utilization below {threshold * 100:.4g} %",
        TRULY_IDLE: f"nothing holds them; {allocated}",
    }
    rows = Rows((IDLE_HELD, TRULY_IDLE))
    rows.add("", lambda state: state, left=True)
    rows.add("GPU-hours", lambda state: written[state])
    rows.add("GPUs", lambda state: amount(report.headline.equivalent_gpus[state], 2))
    rows.add(amounts.titles("", style.name), lambda state: amounts.cells(costs[state] if costs else None))
    rows.add("that is", lambda state: meanings[state], left=True)
    yield rows.table()
    whole = amount(report.headline.expected_gpus or 0, 2)
    yield f"GPUs: as many as if they had been idle all the time, of {whole} expected."


def _page(report: Report, hours: HourFormat) -> Markup:
    """Return the bar of all expected time, and the table of states."""
    written = state_hours(report, hours)
    unobserved_ms = report.coverage.unobserved_gpu_ms
    parts = [
        *(
            (CLASSES[state], f"{state}: {written[state]} GPU-hours", report.headline.states[state].gpu_ms)
            for state in STATES
        ),
        (CLASSES[UNOBSERVED], f"{UNOBSERVED}: {hours.of(unobserved_ms)} GPU-hours", unobserved_ms),
    ]
    label = "All expected GPU time. " + ", ".join(called for _, called, _ in parts)
    return join(
        [
            stacked(parts, label, class_="bar tall"),
            draw_parts(_text(report, Style(), hours), "Share of what was observed, by state"),
        ]
    )


def _json(report: Report) -> Json:
    costs = report.headline.costs
    return {
        "card_ticks": report.headline.card_ticks,
        "states": states_json(report.headline.states),
        "costs": None if costs is None else costs_json(costs),
        "idle_held": _idle_held(report),
        "idle_seconds": to_json(report.headline.idle_seconds),
        "active_without_process": _without_process_json(report),
    }


def _without_process_json(report: Report) -> Json:
    found, split = report.headline.active_without_process, report.get(IdleSplit)
    stuck = None if split is None or found.gpu_ms is None else split.stuck
    return {
        **json_of(found),
        "stuck_gpu_hours": None if stuck is None else hours(sum(one.gpu_ms for one in stuck)),
        "stuck_seconds": STUCK_MS // 1000,
        "stuck": to_json(stuck),
    }


def _idle_held(report: Report) -> Json | None:
    split = report.get(IdleSplit)
    if split is None:
        return None
    total = observed_ms(report.headline.states)

    def part(gpu_ms: float, long_gpu_ms: float) -> Json:
        return {
            "gpu_hours": hours(gpu_ms),
            "share": ratio(gpu_ms / total) if total else None,
            "gpu_hours_in_long_streaks": hours(long_gpu_ms),
        }

    return {
        "never_used": part(split.never_used_gpu_ms, split.never_used_long_gpu_ms),
        "low": part(split.low_gpu_ms, split.low_long_gpu_ms),
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
        without_ms = report.headline.active_without_process.gpu_ms
        if state == ACTIVE and without_ms is not None:
            row["without_process_gpu_hours"] = without_ms / MS_PER_HOUR
        if split is not None and state == IDLE_HELD:
            row |= {
                "never_used_gpu_hours": split.never_used_gpu_ms / MS_PER_HOUR,
                "low_gpu_hours": split.low_gpu_ms / MS_PER_HOUR,
                "unknown_gpu_hours": 0.0,
                "in_long_streaks_gpu_hours": split.long_gpu_ms / MS_PER_HOUR,
            }
        yield from with_currencies(row, (report.headline.costs or {}).get(state), ["state"])


_OF_IDLE_HELD = ("never_used_gpu_hours", "low_gpu_hours", "unknown_gpu_hours", "in_long_streaks_gpu_hours")
_OF_STATES = (*_OF_IDLE_HELD, "without_process_gpu_hours")
HEADLINE_SECTION = Section(
    name="headline",
    title="Where the GPU-hours went",
    model=Report,
    collect=query_split,
    text=_text,
    drawn=_drawn,
    html=_page,
    json=_json,
    csv=Csv(("state", "gpu_hours", "share", "card_ticks", *_OF_STATES, *COST_COLUMNS), _rows),
)


def _idle_rows(report: Report, _report: Report) -> Iterator[Cells]:
    for state in (IDLE_HELD, TRULY_IDLE):
        gpu_hours = report.headline.states[state].gpu_ms / MS_PER_HOUR
        row = {"state": state, "gpu_hours": gpu_hours, "equivalent_gpus": report.headline.equivalent_gpus[state]}
        yield from with_currencies(row, (report.headline.costs or {}).get(state), ["state"])


IDLE_CAPACITY_SECTION = Section(
    name="idle-capacity",
    title="Idle capacity",
    model=Report,
    text=_idle_text,
    json=lambda report: (
        {
            state: {
                "gpu_hours": hours(report.headline.states[state].gpu_ms),
                "equivalent_gpus": ratio(report.headline.equivalent_gpus[state]),
                "cost": None if report.headline.costs is None else cost_json(report.headline.costs[state]),
            }
            for state in (IDLE_HELD, TRULY_IDLE)
        }
    ),
    csv=Csv(("state", "gpu_hours", "equivalent_gpus", *COST_COLUMNS), _idle_rows),
)
