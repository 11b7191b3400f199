"""The comparison with the rule of gpu-usage-audit 1.0 to 1.8 as text and as JSON."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Final

from gua.core.durations import to_rfc3339
from gua.core.plaintext import cells
from gua.core.ports import ViewReader
from gua.report.kit.figures import NONE, HourFormat, plural
from gua.report.kit.style import Style, table
from gua.report.legacy_v1.rules import NOT_COUNTED, THEIRS, WHY, OlderCard, OlderRules, collect_older_rules
from gua.report.states import MS_PER_HOUR, STATES
from gua.report.window import ReportRequest

SCHEMA: Final = "gua.older-rules/1"
_RULE: Final = (
    "Its rule, tick by tick: a general utilization of 10 % or more is active; else more than 100 MiB held by listed "
    "processes is idle-held; else truly-idle. Every tick counts once, however long."
)
_NAME_WIDTH: Final = 30


def render_other_rules(reader: ViewReader, request: ReportRequest, style: Style, *, as_json: bool) -> str:
    """Return the comparison of the window and hosts asked for, as text or JSON.

    Raises UsageError for what cannot be understood, UnavailableError where there is no data.
    """
    found = collect_older_rules(reader, request)
    return render_older_json(found) if as_json else render_older_text(found, style)


def render_older_json(found: OlderRules) -> str:
    """Return one JSON object: counts and hours as numbers, times RFC 3339 in UTC, what is not known ``null``."""
    document = {
        "schema": SCHEMA,
        "window": {"since": to_rfc3339(found.window.since_ms), "until": to_rfc3339(found.window.until_ms)},
        "card_ticks": found.card_ticks,
        "cards": [
            {
                "host": card.host,
                "gpu": card.gpu,
                "index": card.index,
                "name": card.name,
                "gpu-usage-audit": dict(card.theirs),
                "gua": dict(card.ours),
            }
            for card in found.cards
        ],
        "cross": [
            {
                "gpu-usage-audit": cell.theirs,
                "gua": cell.ours,
                "reason": cell.why or None,
                "card_ticks": cell.card_ticks,
                "gpu_hours": round(cell.gpu_ms / MS_PER_HOUR, 6),
            }
            for cell in found.cells
        ],
    }
    return json.dumps(document, allow_nan=False, indent=2) + "\n"


def render_older_text(found: OlderRules, style: Style) -> str:
    """Return the comparison for a terminal or a file, no line wider than the style's width."""
    blocks = (_heading(found, style), _cards(found, style), _cross(found, style), _differences(found, style))
    return "\n\n".join("\n".join(block) for block in blocks) + "\n"


def _heading(found: OlderRules, style: Style) -> Iterator[str]:
    window = found.window
    span = f"{to_rfc3339(window.since_ms)} to {to_rfc3339(window.until_ms)}"
    yield from style.wrap(f"The rule of gpu-usage-audit 1.0 to 1.8 over the ticks from {span}", indent=0)
    yield from style.wrap(_RULE, indent=0)


def _cards(found: OlderRules, style: Style) -> Iterator[str]:
    yield from _title("1. Card ticks by its rule", style)
    several = len({card.host for card in found.cards}) > 1
    columns = THEIRS if not any(card.theirs[NOT_COUNTED] for card in found.cards) else (*THEIRS, NOT_COUNTED)
    rows = [
        (_label(card, style, with_host=several), *(f"{card.theirs[state]:,}" for state in columns))
        for card in found.cards
    ]
    yield from _table((("card", *columns), *rows), style)


def _cross(found: OlderRules, style: Style) -> Iterator[str]:
    yield from _title("2. Its states (rows) and ours (columns), in card ticks", style)
    sums = {
        (theirs, ours): sum(cell.card_ticks for cell in found.cells if (cell.theirs, cell.ours) == (theirs, ours))
        for theirs in (*THEIRS, NOT_COUNTED)
        for ours in STATES
    }
    shown = [
        theirs for theirs in (*THEIRS, NOT_COUNTED) if theirs in THEIRS or any(sums[theirs, one] for one in STATES)
    ]
    rows = [(theirs, *(f"{sums[theirs, ours]:,}" for ours in STATES)) for theirs in shown]
    yield from _table((("", *STATES), *rows), style)
    same = sum(cell.card_ticks for cell in found.cells if not cell.why)
    share = f"{100 * same / found.card_ticks:.2f}" if same in {0, found.card_ticks} else f"{_inexact(same, found):.2f}"
    yield from style.wrap(f"{same:,} of {plural(found.card_ticks, 'card tick')} are the same by both ({share} %).")


def _inexact(same: int, found: OlderRules) -> float:
    """Return a share in percent that does not round to all or nothing."""
    return min(max(100 * same / found.card_ticks, 0.01), 99.99)


def _differences(found: OlderRules, style: Style) -> Iterator[str]:
    yield from _title("3. Where ours differs, and why", style)
    different = [cell for cell in found.cells if cell.why]
    if not different:
        yield from style.wrap("Nowhere.")
    hours = HourFormat.fitting(sum(cell.gpu_ms for cell in found.cells))
    for cell in different:
        first = f"{cell.theirs} by it, {cell.ours} by ours: {plural(cell.card_ticks, 'card tick')}"
        because = WHY.get(cell.why, cell.why)
        yield from style.wrap(f"{first}, {hours.of(cell.gpu_ms)} GPU-hours: {because}.", indent=2, hanging=4)


def _title(text: str, style: Style) -> Iterator[str]:
    yield from (style.title(line) for line in style.wrap(text, indent=0))


def _table(rows: Sequence[Sequence[str]], style: Style) -> Iterator[str]:
    """Yield a table, or where it does not fit a sentence for each row."""
    lines = table(rows, left=1)
    if max(map(cells, lines)) <= style.width:
        yield from lines
        return
    head, *body = rows
    for row in body:
        written = ", ".join(f"{name} {cell}" for name, cell in zip(head[1:], row[1:], strict=True))
        yield from style.wrap(f"{row[0]}: {written}", indent=2, hanging=4)


def _label(card: OlderCard, style: Style, *, with_host: bool) -> str:
    index = NONE if card.index is None else str(card.index)
    host = f"{style.name(card.host, _NAME_WIDTH)} " if with_host else ""
    return f"{host}{index} {style.name(card.gpu, _NAME_WIDTH)}"
