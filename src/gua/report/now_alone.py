"""The section ``now`` alone, by fewer queries than a report: for notices, which ask for it every few minutes."""

from dataclasses import dataclass

from gua.core.ports import ViewReader
from gua.report.context import ReportContext
from gua.report.hours import HOURS, hours_of, most_of_a_part, parts_of, read_of, ticks_an_hour
from gua.report.model import Extent, Setting
from gua.report.prices import Prices
from gua.report.questions import ask
from gua.report.rows import EXTENT, NAMED_CARDS, RULES
from gua.report.sections.now import query_now
from gua.report.sections.now_rows import Now
from gua.report.window import ReportRequest, choose_extents, choose_window, no_data


@dataclass(frozen=True, kw_only=True, slots=True)
class NowAlone:
    """The section ``now`` without costs, the store's rules, and the extents of the hosts."""

    now: Now
    rules: tuple[Setting, ...]
    extents: tuple[Extent, ...]


def collect_now(reader: ViewReader, request: ReportRequest) -> NowAlone:
    """Return the section ``now`` of a window and hosts.

    Raises UsageError for an invalid host, moment or time zone, UnavailableError without ticks.
    """
    extents = choose_extents(
        sorted(EXTENT.rows(reader, {"hosts": []}), key=lambda e: (e.host, e.source)), request.hosts
    )
    window = choose_window(extents, request)
    bounds = {"since_ms": window.since_ms, "until_ms": window.until_ms, "hosts": list(request.hosts)}
    hours = hours_of(reader, bounds, HOURS.rows(reader, bounds), most_an_hour=ticks_an_hour(extents))
    context = ReportContext(
        reader=reader,
        request=request,
        window=window,
        extents=extents,
        labels={},
        hours=hours,
        bounds=bounds,
        read=read_of(bounds, hours),
        prices=Prices.within((), since_ms=window.since_ms, until_ms=window.until_ms),
        parts=parts_of(extents, len(hours), most_of_a_part(reader)),
    )
    finish = query_now(context)
    rules, cards = ask(reader, RULES, {}), context.rows(NAMED_CARDS)()
    if not cards:
        raise no_data(window, extents)
    return NowAlone(now=finish(cards), rules=tuple(rules()), extents=extents)
