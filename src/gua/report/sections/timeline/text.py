"""Each card's states over time, one line a card, and who was longest on it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from gua.report.kit.basis import at
from gua.report.kit.figures import HourFormat, percents, plural, span
from gua.report.kit.style import Style
from gua.report.kit.tables import Drawn, Part, Table, TableColumn
from gua.report.kit.words import NAME_WIDTH, card_name, index, known
from gua.report.model import Report
from gua.report.sections.timeline.model import CardTimeline, Presence, Timeline
from gua.report.states import STATES

MOST_CARDS: Final = 24
MOST_HOLDERS: Final = 3
UNOBSERVED: Final = " "


def timeline(report: Report, style: Style, hours: HourFormat) -> Iterator[Part]:
    """Yield a table of the cards with the split of their time and who was longest on them."""
    shown = report[Timeline].cards[:MOST_CARDS]
    yield Table(
        columns=[
            TableColumn(title="card", left=True, shortest=8),
            *(TableColumn(title=f"{state} %") for state in STATES),
            TableColumn(title="longest on it", left=True, shortest=12),
        ],
        rows=[
            [label, *_split(card), "; ".join(_holders(card, style, hours))]
            for label, card in zip(_labels(report, shown, style), shown, strict=True)
        ],
    )
    yield from _rest(report, len(shown))


def drawn(report: Report, style: Style, hours: HourFormat) -> Iterator[Part]:
    """Yield each card's line of time: each character is the state that took most of what was observed of its time."""
    found = report[Timeline]
    room = max(style.width - 4, 8)
    cell_ms = (found.until_ms - found.since_ms) / room
    marks = ", ".join(f"{style.fill[state]} {state}" for state in STATES)
    zone = report.window.timezone
    yield (
        f"{at(found.since_ms, report.window)} to {at(found.until_ms, report.window)} {zone} from left to right, "
        f"{span(cell_ms)} a character: {marks}, blank mostly unobserved"
    )
    shown = found.cards[:MOST_CARDS]
    for label, card in zip(_labels(report, shown, style), shown, strict=True):
        shares = ", ".join(f"{state} {part} %" for state, part in zip(STATES, _split(card), strict=True))
        yield f"{label}: {shares}"
        yield Drawn(f"    {line_of(card, found, room, style)}".rstrip())
        for text in _holders(card, style, hours):
            yield from (Drawn(line) for line in style.wrap(text, indent=4, hanging=6))
    yield from _rest(report, len(shown))


def _rest(report: Report, shown: int) -> Iterator[str]:
    rest = len(report[Timeline].cards) - shown
    if rest > 0:
        yield f"and {rest:,} more: --csv timeline and --html have every one."


def line_of(card: CardTimeline, found: Timeline, room: int, style: Style) -> str:
    """Return the window in ``room`` characters: the state of most of each; blank if more than half is missing."""
    whole_ms = found.until_ms - found.since_ms
    to_ms = whole_ms / room
    sums = [[0.0] * len(STATES) for _ in range(room)]
    for place, cell in enumerate(card.cells):
        begin, end = place * found.cell_ms, min((place + 1) * found.cell_ms, whole_ms)
        first, last = int(begin / to_ms), min(int(end / to_ms), room - 1)
        for column in range(first, last + 1):
            part = min(end, (column + 1) * to_ms) - max(begin, column * to_ms)
            for state, milliseconds in enumerate(cell):
                sums[column][state] += milliseconds * max(part, 0) / (end - begin)
    return "".join(_mark(column, to_ms, style) for column in sums)


def _mark(sums: Sequence[float], cell_ms: float, style: Style) -> str:
    if 2 * sum(sums) < cell_ms - 1:  # ms, of sums of parts
        return UNOBSERVED
    state = STATES[max(range(len(STATES)), key=lambda place: sums[place])]
    return style.paint(state, style.fill[state])


def _split(card: CardTimeline) -> list[str]:
    return percents([sum(cell[place] for cell in card.cells) for place in range(len(STATES))])


def _labels(report: Report, cards: Sequence[CardTimeline], style: Style) -> Iterator[str]:
    mig = {(card.host, card.gpu): card.mig for card in report.cards}
    for card in cards:
        host = f"{style.name(card.host, NAME_WIDTH)} " if len(report.hosts) > 1 else ""
        called = card_name(card.card_name, card.gpu, style, mig.get((card.host, card.gpu)))
        yield f"{host}gpu {index(card.index, card.gpu, style)} {called}"


def _holders(card: CardTimeline, style: Style, hours: HourFormat) -> list[str]:
    told = [_holder(one, style, hours) for one in card.holders[:MOST_HOLDERS]]
    rest = len(card.holders) - len(told) + card.more_holders
    return [*told, *([f"and {plural(rest, 'other')}"] if rest > 0 else [])]


def _holder(one: Presence, style: Style, hours: HourFormat) -> str:
    unknown = f", {hours.of(one.unknown_ms)} unknown" if one.unknown_ms else ""
    return (
        f"{known(one.owner, style)} {known(one.program, style)} (pid {one.pid}): "
        f"{hours.of(one.observed_ms)} hours, {hours.of(one.idle_ms)} idle{unknown}"
    )
