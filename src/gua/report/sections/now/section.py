"""What to do now: who is idle on a card at this moment, and which cards are free."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from gua.report.allocation_sources import ask_sources
from gua.report.asking import Asking, Finish
from gua.report.costs import with_currencies
from gua.report.kit.basis import at
from gua.report.kit.fields import Cell, Cells, cells, columns
from gua.report.model import Report
from gua.report.promises import ask_allocation_names
from gua.report.section import Csv, Section, on_page
from gua.report.sections.now import text
from gua.report.sections.now.cut import ask_cards
from gua.report.sections.now.model import Holder, Now
from gua.report.sections.now.query import now
from gua.report.sections.usage.query import OWNER_AND_PROGRAM, CardProcess, ask_holders, ask_usage
from gua.report.states import TRULY_IDLE

# Holders, free cards and allocations have these columns in common.
_SINCE = {
    "idle_since": "since",
    "idle_seconds": "for_seconds",
    "free_since": "since",
    "free_seconds": "for_seconds",
    "use_since": "since",
    "in_use_seconds": "for_seconds",
}
_OF_ALLOCATION = (
    "allocation",
    "source",
    "allocation_id",
    "allocation_kind",
    "job_name",
    "promised_since",
    "promised_until",
    "use",
)


def _collect(asking: Asking) -> Finish | None:
    if not asking.tells_now:
        return None
    rows = ask_cards(asking)
    listed = _listed(asking)
    promises = asking.promises()
    names = asking.once(ask_allocation_names, asking.once(ask_sources))
    return lambda _headline, cards: now(
        list(rows()),
        listed(),
        promises(),
        names(),
        cards=cards,
        extents=asking.extents,
        window=asking.window,
        now_ms=asking.request.now_ms,
        prices=asking.prices,
    )


def _listed(asking: Asking) -> Callable[[], Iterable[CardProcess]]:
    """Ask who is on each card now: usage of owners tells it besides, but of large fleets."""
    if asking.tells_holders_apart:
        return asking.once_of_now(ask_holders, asking.prices)
    owners = asking.once(ask_usage, OWNER_AND_PROGRAM, asking.prices)
    return lambda: (process for row in owners() for process in row.holders)


def _rows(found: Now, _report: Report) -> Iterator[Cells]:
    for holder in found.holders:
        row = _row("holder", cells(holder))
        yield from with_currencies(row, holder.wasted_cost, ("kind", "host", "gpu", "owner", "program", "pid"))
    for card in (*found.free, *found.maybe_promised):
        yield _row("free card", {"card_state": TRULY_IDLE, **cells(card)})
    for promised in found.allocations:
        yield _row("allocation", cells(promised))


def _row(kind: str, row: Cells) -> dict[str, Cell]:
    return {"kind": kind, **{_SINCE.get(column, column): cell for column, cell in row.items()}}


NOW = Section(
    name="now",
    title=lambda report: f"What to do now (as of {at(report.window.until_ms, report.window)})",
    model=Now,
    collect=_collect,
    text=text.now,
    html=on_page(__package__, "now"),
    csv=Csv(
        (
            "kind",
            *(_SINCE.get(column, column) for column in columns(Holder)),
            "free_ratio_at_this_hour",
            *_OF_ALLOCATION,
        ),
        _rows,
    ),
    has=lambda report: report.get(Now) is not None or report.streaks_skipped is not None,
    streaks="wanted",
)
