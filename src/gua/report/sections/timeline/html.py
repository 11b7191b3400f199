"""Each card's states over time as a strip, with a lane for each of those who were longest on it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from gua.core.plaintext import safe
from gua.core.words import Mig
from gua.report.kit.axis import marks
from gua.report.kit.basis import at
from gua.report.kit.figures import NONE, percent, percents, plural, span
from gua.report.kit.html import CLASSES, UNOBSERVED, Markup, caption_of, join, name, paragraph, swatch, tag
from gua.report.kit.words import LEFT_OVER, NOT_KNOWN
from gua.report.model import Report, Window
from gua.report.sections.timeline.model import CardTimeline, Presence, Timeline
from gua.report.sections.timeline.strip import HEIGHT, Strip, strip_of
from gua.report.states import ACTIVE, IDLE_HELD, STATES, TRULY_IDLE, UNKNOWN

MOST_CARDS: Final = 128
_FEW_CARDS: Final = 16
_LANES: Final = 2  # a card, where there are many cards
_MOST_COLUMNS: Final = 480  # of a strip: about a pixel and a half each on a wide screen
_COLUMNS_IN_ALL: Final = 30_000  # keep the page of a large fleet below 3 MB
_LANE_HEIGHT: Final = 6
_LAST_WORDS: Final = 0.88  # a mark later than that has no room for its words
_NUMBERS: Final = (ACTIVE, IDLE_HELD, TRULY_IDLE, UNKNOWN, UNOBSERVED)


def timeline(report: Report, _hours: object) -> Markup | None:
    """Return a table with a strip and the percents of each card, and lanes of its holders below."""
    drawn = report[Timeline]
    if not drawn.cards:
        return None
    held = sorted(range(len(drawn.cards)), key=lambda place: -sum(cell[1] for cell in drawn.cards[place].cells))
    shown = [drawn.cards[place] for place in sorted(held[:MOST_CARDS])]
    places = marks(drawn.since_ms, drawn.until_ms, report.window.timezone)
    axis = tag(
        "div",
        *(_mark(place, label) for place, label in places),
        class_="axis",
    )
    numbers = [tag("th", swatch(CLASSES[state]), state, scope="col", class_="n") for state in _NUMBERS]
    head = tag("tr", tag("th", "card, holders", scope="col"), tag("th", axis, scope="col", class_="strip"), *numbers)
    mig = {(card.host, card.gpu): card.mig for card in report.cards}
    pen = _Pen(drawn, _grid([place for place, _ in places]), report.window, mig)
    lanes = None if len(shown) <= _FEW_CARDS else _LANES
    cells_a_column = _cells_a_column(drawn, len(shown))
    bodies = [pen.card(card, lanes, cells_a_column) for card in shown]
    caption = (
        f"States of each card from {at(drawn.since_ms, report.window)} to "
        f"{at(drawn.until_ms, report.window)} {report.window.timezone}, % of the whole time"
    )
    body = tag("table", caption_of(caption), tag("thead", head), *bodies, class_="timeline")
    rest = len(drawn.cards) - len(shown)
    return join(
        [
            tag("div", body, class_="scroll", role="region", aria_label=caption, tabindex=0),
            paragraph(
                "A column that holds several states is split from the bottom up: active, idle-held, truly-idle, "
                "unknown. Unobserved time is hatched. A thin bar is a process on the card, from its first tick there "
                "to its last; beside it stands how long it was observed there and how much of that idle."
            ),
            paragraph(f"And {rest:,} more with less idle-held time." if rest else None),
        ]
    )


def _cells_a_column(drawn: Timeline, cards: int) -> int:
    """Return how many neighbouring cells make one column."""
    cells = max(len(card.cells) for card in drawn.cards)
    most_columns = max(24, min(_MOST_COLUMNS, _COLUMNS_IN_ALL // cards))
    return -(-cells // most_columns) or 1


@dataclass(frozen=True, slots=True)
class _Pen:
    """What all rows have in common: the window, the lines of its axis, and which cards are parts of others."""

    drawn: Timeline
    grid: Markup
    window: Window
    mig: Mapping[tuple[str, str], str | None]

    def card(self, card: CardTimeline, lanes: int | None, cells_a_column: int) -> Markup:
        """Return the rows of one card: its strip, and a lane for each of its first holders."""
        told = self._percents(card)
        words = ", ".join(f"{state} {part} %" for state, part in zip(_NUMBERS, told, strict=True))
        shown_as = _card_label(card.index, card.card_name, card.gpu, self.mig.get((card.host, card.gpu)))
        label = join([shown_as, tag("span", name(card.host, 28), class_="sub")])
        row = tag(
            "tr",
            tag("th", label, scope="row"),
            tag(
                "td", _svg(strip_of(card, self.drawn, cells_a_column), f"Timeline: {words}"), self.grid, class_="strip"
            ),
            *(tag("td", part, class_="n") for part in told),
        )
        shown = card.holders[:lanes]
        rows = [self._lane(holder) for holder in shown]
        more = card.more_holders + len(card.holders) - len(shown)
        if more:
            words = f"and {plural(more, 'more process', 'more processes')}"
            rows.append(tag("tr", tag("td", words, colspan=2 + len(_NUMBERS)), class_="lane"))
        return tag("tbody", row, *rows)

    def _percents(self, card: CardTimeline) -> list[str]:
        """Return each state's part of the whole window, and what is unobserved of it."""
        sums = [sum(cell[place] for cell in card.cells) for place in range(len(STATES))]
        whole = self.drawn.until_ms - self.drawn.since_ms
        return percents([*sums, max(whole - sum(sums), 0)])

    def _lane(self, holder: Presence) -> Markup:
        whole = self.drawn.until_ms - self.drawn.since_ms
        since = max(holder.since_ms, self.drawn.since_ms)
        there = max(min(holder.until_ms, self.drawn.until_ms) - since, 0)
        start, wide = (100 * part / whole if whole else 0 for part in (since - self.drawn.since_ms, there))
        observed = holder.observed_ms
        idle = percent(holder.idle_ms / observed) if observed else NONE
        seen = f"from {at(holder.since_ms, self.window)} to {at(holder.until_ms, self.window)}"
        told = f"{span(observed)}, {idle} % idle"
        if holder.unknown_ms and observed:
            told += f", {percent(holder.unknown_ms / observed)} % unknown"
        bar = tag("rect", x=f"{start:.2f}%", width=f"{wide:.2f}%", height=_LANE_HEIGHT)
        owner = NOT_KNOWN if holder.owner is None else name(holder.owner, 16)
        program = NOT_KNOWN if holder.program is None else name(holder.program, 20)
        return tag(
            "tr",
            tag("td", owner, " · ", program, tag("span", f" {holder.pid}", class_="pid")),
            tag("td", tag("svg", bar, role="img", aria_label=f"on the card {seen}, {told}"), self.grid, class_="strip"),
            tag("td", told, colspan=len(_NUMBERS), title=seen),
            class_="lane",
        )


def _svg(strip: Strip, label: str) -> Markup:
    paths = (
        tag("path", d=path, class_=f"f-{CLASSES[state]}")
        for state, path in zip(STATES, strip.paths, strict=True)
        if path
    )
    return tag(
        "svg",
        tag("rect", width=f"{strip.width:g}", height=HEIGHT, class_="f-n"),
        *paths,
        viewBox=f"0 0 {strip.width:g} {HEIGHT}",
        preserveAspectRatio="none",
        role="img",
        aria_label=label,
    )


def _mark(place: float, label: str) -> Markup:
    if place > _LAST_WORDS:
        label = ""
    weekday, _, rest = label.partition(" ")
    words = join([tag("span", f"{weekday} ", class_="weekday"), rest]) if rest else label
    return tag("span", words, class_="mark", style=f"left:{100 * place:.2f}%")


def _grid(places: Sequence[float]) -> Markup:
    """Return the lines below the marks of the axis."""
    lines = (tag("i", style=f"left:{100 * place:.2f}%") for place in places)
    return tag("span", *lines, class_="grid", aria_hidden="true")


def _card_label(index: int | None, called: str | None, gpu: str, mig: str | None = None) -> Markup:
    """Return ``0 H100 80GB HBM3``; the UUID shows where one points."""
    shown = (called or gpu).removeprefix("NVIDIA ").removeprefix("GeForce ")
    if mig == Mig.PARENT:
        shown = LEFT_OVER
    number = NONE if index is None else str(index)
    return tag("span", tag("span", number, class_="index"), " ", name(shown, 28), title=safe(gpu, 80))
