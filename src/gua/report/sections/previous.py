"""Section previous: this window compared with the window of the same length before it."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Annotated

from gua.core.moments import to_rfc3339
from gua.core.ports import ViewReader
from gua.report.context import Finish, ReportContext
from gua.report.hours import Parts, choose_hours, read_of
from gua.report.kit.basis import at, length
from gua.report.kit.fields import AS_IS, ByState, Cells, Timestamp, Unit, gpu_hours, json_of, shares, state_columns
from gua.report.kit.figures import HourFormat, percent, percents, points
from gua.report.kit.style import Style
from gua.report.kit.tables import Part, TableColumn, table_of
from gua.report.model import Coverage, Report, Window
from gua.report.questions import start
from gua.report.rows import OVERVIEW, OverviewRow, coverage_of, states_of
from gua.report.section import Csv, Section
from gua.report.states import STATES, observed_ms, times

_OBSERVED = Unit(
    # A comparison window needs no effective bounds.
    json=lambda coverage: {key: value for key, value in json_of(coverage).items() if not key.startswith("effective_")},
    cell=AS_IS.cell,
)


@dataclass(frozen=True, kw_only=True, slots=True)
class Previous:
    """The window of the same length just before this one, (since, until] in Unix ms; it may have no observed time."""

    since_ms: Timestamp[int]
    until_ms: Timestamp[int]
    coverage: Annotated[Coverage | None, _OBSERVED]
    states: ByState


def before(
    reader: ViewReader, window: Window, hosts: object, *, from_ticks: bool = False, parts: Parts = ()
) -> Callable[[], Previous]:
    """Start querying the window of the same length just before this one; return a callable for the result.

    Its coverage is ``None`` where no card was expected in it. ``parts`` are batches of hosts, each of one query.
    """
    earlier_ms = window.since_ms - (window.until_ms - window.since_ms)
    bounds = {"since_ms": max(earlier_ms, 0), "until_ms": window.since_ms, "hosts": hosts}

    def rows() -> list[OverviewRow]:
        read = read_of(bounds, choose_hours(reader, bounds, from_ticks=from_ticks))
        of_parts = [{**read, "hosts": list(part)} for part in parts] or [read]
        return [row for part in of_parts for row in OVERVIEW.rows(reader, part)]

    answer = start(reader, rows)

    def previous() -> Previous:
        cards = answer()
        coverage = coverage_of(cards) if cards else None
        return Previous(since_ms=earlier_ms, until_ms=window.since_ms, coverage=coverage, states=states_of(cards))

    return previous


def _text(report: Report, _style: Style, hours: HourFormat) -> Iterator[Part]:
    """Yield each state's share in both windows, and the change in percentage points."""
    found = report[Previous]
    yield (
        f"Against the {length(found.until_ms - found.since_ms)} before: {at(found.since_ms, report.window)} to "
        f"{at(found.until_ms, report.window)} {report.window.timezone}."
    )
    if not observed_ms(found.states):
        yield "Nothing of that time was observed."
        return
    if found.coverage is not None:
        yield (
            f"observed {percent(found.coverage.ratio)} % of what was expected then, "
            f"{percent(report.coverage.ratio)} % now"
        )
    here = times(report.headline.states)
    there = times(found.states)
    yield table_of(
        {
            TableColumn(title="", left=True): STATES,
            TableColumn(title="GPU-hours", leaves=2): hours.parts(here),
            TableColumn(title="share %"): percents(here),
            TableColumn(title="before", leaves=1): hours.parts(there),
            TableColumn(title="before %"): percents(there),
            TableColumn(title="change, points"): points(here, there),
        }
    )


def _collect(context: ReportContext) -> Finish:
    from_ticks, hosts = context.request.from_ticks, context.bounds["hosts"]
    answer = before(context.reader, context.window, hosts, from_ticks=from_ticks, parts=context.parts)
    return lambda _headline, _cards: answer()


def _rows(found: Previous, report: Report) -> Iterator[Cells]:
    both = (("this", report.window, report.headline.states), ("previous", found, found.states))
    for name, window, states in both:
        bounds = {"since": to_rfc3339(window.since_ms), "until": to_rfc3339(window.until_ms)}
        yield {"window": name, **bounds, **gpu_hours(states), **shares(states)}


PREVIOUS_SECTION = Section(
    name="previous",
    title="This window and the one before",
    model=Previous,
    collect=_collect,
    text=_text,
    csv=Csv(("window", "since", "until", *state_columns("gpu_hours"), *state_columns("share")), _rows),
)
