"""What to do now: who is idle on a card at this moment, and which cards are free."""

from __future__ import annotations

from collections.abc import Iterator

from gua.core.durations import to_rfc3339
from gua.report.asking import Asking, Finish
from gua.report.kit.basis import moment
from gua.report.kit.fields import Cell, Cells, Json, cells, columns, to_json
from gua.report.model import Report
from gua.report.section import Csv, Section
from gua.report.sections.now import html, text
from gua.report.sections.now.model import Holder, Now
from gua.report.sections.now.query import ask_card_streaks, now
from gua.report.sections.usage.query import IDENTITY, ask_who
from gua.report.states import ACTIVE, IDLE_HELD, TRULY_IDLE, UNKNOWN

# Holders and free cards have these columns in common.
_SINCE = {"idle_since": "since", "idle_seconds": "for_seconds", "free_since": "since", "free_seconds": "for_seconds"}


def _collect(asking: Asking) -> Finish | None:
    if not asking.makes_streaks:
        return None
    rows = asking.once(ask_card_streaks, asking.window)
    processes = asking.once(ask_who, IDENTITY)
    return lambda _headline, cards: now(
        list(rows()),
        processes(),
        cards=cards,
        extents=asking.extents,
        window=asking.window,
        now_ms=asking.request.now_ms,
    )


def _json(report: Report) -> Json:
    found = report.get(Now)
    if found is None:
        return {"now": None}
    counts = {
        ACTIVE: found.active_cards,
        IDLE_HELD: found.idle_held_cards,
        TRULY_IDLE: found.free_cards,
        UNKNOWN: found.unknown_cards,
        "silent": found.silent_cards,
    }
    return {
        "now": {
            "as_of": to_rfc3339(found.as_of_ms),
            "cards": counts,
            "holders": to_json(found.holders),
            "free": to_json(found.free),
        }
    }


def _rows(report: Report) -> Iterator[Cells]:
    found = report.get(Now)
    for holder in found.holders if found else ():
        yield _row("holder", cells(holder))
    for card in found.free if found else ():
        yield _row("free card", {"card_state": TRULY_IDLE, **cells(card)})


def _row(kind: str, row: Cells) -> dict[str, Cell]:
    return {"kind": kind, **{_SINCE.get(column, column): cell for column, cell in row.items()}}


NOW = Section(
    name="now",
    title=lambda report: f"What to do now (as of {moment(report.window.until_ms, report.window.timezone)})",
    model=Now,
    collect=_collect,
    text=text.now,
    html=html.now,
    json=_json,
    csv=Csv(
        ("kind", *(_SINCE.get(column, column) for column in columns(Holder)), "free_ratio_at_this_hour"),
        _rows,
    ),
    has=lambda report: report.get(Now) is not None or report.streaks_skipped is not None,
    is_default=True,
    streaks="wanted",
)
