"""Section timeline: each card's states over time, one row per card, and its longest processes."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from itertools import groupby
from typing import Annotated, Final, NamedTuple

from gua.core.moments import begin_ms, local_day, local_time, to_rfc3339, zone
from gua.core.parameters import READ
from gua.core.plaintext import safe
from gua.core.view import Count, Moment, Named, View
from gua.core.words import Mig
from gua.report.context import Finish, ReportContext
from gua.report.hours import MOST_CARD_HOURS_IN_PARTS
from gua.report.kit.basis import at
from gua.report.kit.fields import (
    AS_IS,
    NO_OUTPUT,
    Cells,
    Seconds,
    Timestamp,
    Unit,
    cells,
    filled,
    grouped,
    of_card,
    state_columns,
)
from gua.report.kit.figures import NONE, HourFormat, apportion, percent, percents, plural, span
from gua.report.kit.html import CLASSES, Markup, caption_of, join, name, paragraph, swatch, tag
from gua.report.kit.style import Style
from gua.report.kit.tables import Drawn, Part, Rows
from gua.report.kit.words import LEFT_OVER, NAME_WIDTH, NOT_KNOWN, card_name, index, known, short_name
from gua.report.model import Card, Placed, Report, Window
from gua.report.section import Csv, Section, zoned
from gua.report.states import ACTIVE, IDLE_HELD, STATES, TRULY_IDLE, UNKNOWN, UNOBSERVED

_CELLS = Unit(json=lambda cells: [[part / 1000 for part in cell] for cell in cells], cell=AS_IS.cell)


@dataclass(frozen=True, kw_only=True, slots=True)
class Presence:
    """One of the processes with the longest time on a card, clipped to the window (Unix ms).

    ``observed_ms`` is its time covered by ticks; ``idle_ms`` and ``unknown_ms`` are the idle and unknown parts.
    ``place`` is its rank, of ``processes`` in total.
    """

    host: str = field(metadata=NO_OUTPUT)
    gpu: str = field(metadata=NO_OUTPUT)
    owner: str | None
    program: str | None
    pid: Count
    since_ms: Annotated[Timestamp[Moment], Named("first_ms")]
    until_ms: Annotated[Timestamp[Moment], Named("last_ms")]
    observed_ms: Seconds[Count]
    idle_ms: Seconds[Count]
    unknown_ms: Seconds[Count]
    processes: Count = field(metadata=NO_OUTPUT)
    place: Count = field(metadata=NO_OUTPUT)


@dataclass(frozen=True, kw_only=True, slots=True)
class CardTimeline(Placed):
    """One card's states over time.

    ``cells`` has the milliseconds in each state per cell of the window, oldest first, in the order of ``STATES``; the
    rest of a cell is unobserved. ``holders``: the processes with the longest time on it, longest first.
    """

    card_name: Annotated[str | None, Named("name")]
    cells: Annotated[tuple[tuple[int, int, int, int], ...], _CELLS]
    holders: tuple[Presence, ...]
    more_holders: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Timeline:
    """The window (since, until] divided into cells of ``cell_ms``; the last may extend beyond it."""

    since_ms: Timestamp[int]
    until_ms: Timestamp[int]
    cell_ms: Seconds[int]
    states: tuple[str, ...] = STATES
    cards: tuple[CardTimeline, ...]


MOST_CELLS: Final = 400
MOST_PRESENCES: Final = 6
_CELLS_MS: Final = tuple(
    minutes * 60_000 for minutes in (1, 2, 5, 10, 15, 30, 60, 120, 180, 240, 360, 720, 1440, 2880, 10_080, 43_200)
)


class TimelineCell(NamedTuple):
    """One cell of a card's timeline by its number, with the milliseconds in each state."""

    number: Count
    active_ms: Count
    idle_held_ms: Count
    truly_idle_ms: Count
    unknown_ms: Count


class TimelineRow(NamedTuple):
    """The cells of a card that have ticks."""

    host: str
    gpu: str
    cells: tuple[TimelineCell, ...]


TIMELINE: Final = View("timeline", TimelineRow, (*READ, "cell_ms"))
PRESENCES: Final = View("timeline_processes", Presence, (*READ, "limit"))


def cell_ms(window: Window) -> int:
    """Return the cell length [ms]: a round duration that gives at most :data:`MOST_CELLS` cells."""
    length = window.until_ms - window.since_ms
    return next((one for one in _CELLS_MS if length <= one * MOST_CELLS), -(-length // MOST_CELLS))


def timeline(
    rows: Iterable[TimelineRow], presences: Iterable[Presence], window: Window, cards: Sequence[Card]
) -> Timeline:
    """Return the timeline of every card, in the order of ``cards``."""
    length = cell_ms(window)
    count = -(-(window.until_ms - window.since_ms) // length)
    cells = {(row.host, row.gpu): row.cells for row in rows}
    present = grouped(presences, of_card)
    return filled(
        Timeline,
        window,
        cell_ms=length,
        cards=tuple(
            _card_timeline(card, cells.get((card.host, card.gpu), ()), present.get((card.host, card.gpu), []), count)
            for card in cards
        ),
    )


def _card_timeline(card: Card, cells: Iterable[TimelineCell], present: Sequence[Presence], count: int) -> CardTimeline:
    known = {number: (active, held, free, unknown) for number, active, held, free, unknown in cells}
    ordered = sorted(present, key=lambda row: row.place)
    return filled(
        CardTimeline,
        card,
        cells=tuple(known.get(number, (0, 0, 0, 0)) for number in range(count)),
        holders=tuple(ordered),
        more_holders=ordered[0].processes - len(ordered) if ordered else 0,
    )


MOST_CARDS: Final = 24
MOST_HOLDERS: Final = 3
BLANK: Final = " "


def _text(report: Report, style: Style, hours: HourFormat) -> Iterator[Part]:
    """Yield a table of the cards with their time by state and their longest processes."""
    shown = report[Timeline].cards[:MOST_CARDS]
    rows = Rows([*zip(_labels(report, shown, style), shown, strict=True)])
    rows.add("card", lambda one: one[0], left=True, shortest=8)
    rows.add([f"{state} %" for state in STATES], lambda one: _split(one[1]))
    rows.add("longest on it", lambda one: "; ".join(_holders(one[1], style, hours)), left=True, shortest=12)
    yield rows.table()
    yield from _rest(report, len(shown))


def _drawn(report: Report, style: Style, hours: HourFormat) -> Iterator[Part]:
    """Yield each card's timeline: each character is the state with most of the time observed in it."""
    found = report[Timeline]
    room = max(style.width - 4, 8)
    character_ms = (found.until_ms - found.since_ms) / room
    legend = ", ".join(f"{style.fill[state]} {state}" for state in STATES)
    yield (
        f"{at(found.since_ms, report.window)} to {at(found.until_ms, report.window)} {report.window.timezone} "
        f"from left to right, {span(character_ms)} a character: {legend}, blank mostly unobserved"
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
    """Return the window in ``room`` characters, each the longest state in it; blank if more than half is unobserved."""
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
    longest = (STATES[times.index(max(times))] for times in sums)
    return "".join(
        # 1 ms tolerance for sums of fractions
        BLANK if 2 * sum(times) < to_ms - 1 else style.paint(state, style.fill[state])
        for times, state in zip(sums, longest, strict=True)
    )


def _split(card: CardTimeline) -> list[str]:
    return percents([sum(cell[place] for cell in card.cells) for place in range(len(STATES))])


def _labels(report: Report, cards: Sequence[CardTimeline], style: Style) -> Iterator[str]:
    mig = {(card.host, card.gpu): card.mig for card in report.cards}
    for card in cards:
        host = f"{style.name(card.host, NAME_WIDTH)} " if len(report.hosts) > 1 else ""
        called = card_name(card.card_name, card.gpu, style, mig.get((card.host, card.gpu)))
        yield f"{host}gpu {index(card.index, card.gpu, style)} {called}"


def _holders(card: CardTimeline, style: Style, hours: HourFormat) -> list[str]:
    shown = [_holder(one, style, hours) for one in card.holders[:MOST_HOLDERS]]
    rest = len(card.holders) - len(shown) + card.more_holders
    return [*shown, *([f"and {plural(rest, 'other')}"] if rest > 0 else [])]


def _holder(one: Presence, style: Style, hours: HourFormat) -> str:
    unknown = f", {hours.of(one.unknown_ms)} unknown" if one.unknown_ms else ""
    return (
        f"{known(one.owner, style)} {known(one.program, style)} (pid {one.pid}): "
        f"{hours.of(one.observed_ms)} hours, {hours.of(one.idle_ms)} idle{unknown}"
    )


MOST_CARDS_ON_PAGE: Final = 128
_FEW_CARDS: Final = 16
_LANES: Final = 2  # per card, if there are many cards
_MOST_COLUMNS: Final = 480  # of a sparkline: about 1.5 pixels each on a wide screen
_COLUMNS_IN_ALL: Final = 30_000  # keeps the page of a large fleet below 3 MB
_LANE_HEIGHT: Final = 6
_LAST_WORDS: Final = 0.88  # a later mark has no space for its label
_NUMBERS: Final = (ACTIVE, IDLE_HELD, TRULY_IDLE, UNKNOWN, UNOBSERVED)


def _page(report: Report, _hours: object) -> Markup | None:
    """Return a table with a sparkline and percentages per card, and a lane below for each of its processes."""
    drawn = report[Timeline]
    if not drawn.cards:
        return None
    held = sorted(range(len(drawn.cards)), key=lambda place: -sum(cell[1] for cell in drawn.cards[place].cells))
    shown = [drawn.cards[place] for place in sorted(held[:MOST_CARDS_ON_PAGE])]
    places = marks(drawn.since_ms, drawn.until_ms, report.window.timezone)
    axis = tag("div", *(_mark(place, label) for place, label in places), class_="axis")
    numbers = [tag("th", swatch(CLASSES[state]), state, scope="col", class_="n") for state in _NUMBERS]
    head = tag("tr", tag("th", "card, holders", scope="col"), tag("th", axis, scope="col", class_="strip"), *numbers)
    mig = {(card.host, card.gpu): card.mig for card in report.cards}
    # Grid lines below the marks of the axis.
    lines = (tag("i", style=f"left:{100 * place:.2f}%") for place, _ in places)
    pen = _Pen(drawn, tag("span", *lines, class_="grid", aria_hidden="true"), report.window, mig)
    lanes = None if len(shown) <= _FEW_CARDS else _LANES
    most_columns = max(24, min(_MOST_COLUMNS, _COLUMNS_IN_ALL // len(shown)))
    cells_a_column = -(-max(len(card.cells) for card in drawn.cards) // most_columns) or 1
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


@dataclass(frozen=True, slots=True)
class _Pen:
    """The values shared by all rows: the timeline, the grid lines, the window, and the cards' parts in MIG."""

    drawn: Timeline
    grid: Markup
    window: Window
    mig: Mapping[tuple[str, str], str | None]

    def card(self, card: CardTimeline, lanes: int | None, cells_a_column: int) -> Markup:
        """Return the rows of one card: its sparkline, and a lane for each of its first processes."""
        # Of the whole window: of each state, and of unobserved time.
        sums = [sum(cell[place] for cell in card.cells) for place in range(len(STATES))]
        shares = percents([*sums, max(self.drawn.until_ms - self.drawn.since_ms - sum(sums), 0)])
        words = ", ".join(f"{state} {part} %" for state, part in zip(_NUMBERS, shares, strict=True))
        is_parent = self.mig.get((card.host, card.gpu)) == Mig.PARENT
        shown_as = name(LEFT_OVER if is_parent else short_name(card.card_name or card.gpu), 28)
        number = tag("span", NONE if card.index is None else str(card.index), class_="index")
        with_uuid = tag("span", number, " ", shown_as, title=safe(card.gpu, 80))
        strip = strip_of(card, self.drawn, cells_a_column)
        svg = tag(
            "svg",
            tag("rect", width=f"{strip.width:g}", height=HEIGHT, class_="f-n"),
            *(
                tag("path", d=path, class_=f"f-{CLASSES[state]}")
                for state, path in zip(STATES, strip.paths, strict=True)
                if path
            ),
            viewBox=f"0 0 {strip.width:g} {HEIGHT}",
            preserveAspectRatio="none",
            role="img",
            aria_label=f"Timeline: {words}",
        )
        row = tag(
            "tr",
            tag("th", with_uuid, tag("span", name(card.host, 28), class_="sub"), scope="row"),
            tag("td", svg, self.grid, class_="strip"),
            *(tag("td", part, class_="n") for part in shares),
        )
        shown = card.holders[:lanes]
        rows = [self._lane(holder) for holder in shown]
        more = card.more_holders + len(card.holders) - len(shown)
        if more:
            words = f"and {plural(more, 'more process', 'more processes')}"
            rows.append(tag("tr", tag("td", words, colspan=2 + len(_NUMBERS)), class_="lane"))
        return tag("tbody", row, *rows)

    def _lane(self, holder: Presence) -> Markup:
        whole = self.drawn.until_ms - self.drawn.since_ms
        since = max(holder.since_ms, self.drawn.since_ms)
        there = max(min(holder.until_ms, self.drawn.until_ms) - since, 0)
        start, wide = (100 * part / whole if whole else 0 for part in (since - self.drawn.since_ms, there))
        observed = holder.observed_ms
        idle = percent(holder.idle_ms / observed) if observed else NONE
        seen = f"from {at(holder.since_ms, self.window)} to {at(holder.until_ms, self.window)}"
        times = f"{span(observed)}, {idle} % idle"
        if holder.unknown_ms and observed:
            times += f", {percent(holder.unknown_ms / observed)} % unknown"
        bar = tag("rect", x=f"{start:.2f}%", width=f"{wide:.2f}%", height=_LANE_HEIGHT)
        owner = NOT_KNOWN if holder.owner is None else name(holder.owner, 16)
        program = NOT_KNOWN if holder.program is None else name(holder.program, 20)
        return tag(
            "tr",
            tag("td", owner, " · ", program, tag("span", f" {holder.pid}", class_="pid")),
            tag(
                "td", tag("svg", bar, role="img", aria_label=f"on the card {seen}, {times}"), self.grid, class_="strip"
            ),
            tag("td", times, colspan=len(_NUMBERS), title=seen),
            class_="lane",
        )


HEIGHT: Final = 24
_STEPS: Final = 12  # of a column with several states
_STEP: Final = HEIGHT // _STEPS
_WIDTH: Final = 1000  # about its width on a screen, so that patterns are not distorted
_PARTS: Final = len(STATES) + 1  # the states, and unobserved
Levels = tuple[int, ...]  # the steps of each state from the bottom up


@dataclass(frozen=True, slots=True)
class Strip:
    """Paths in the order of ``STATES``, empty where a state never occurs, in a box of ``width`` x ``HEIGHT``."""

    width: float
    paths: tuple[str, ...]


def strip_of(card: CardTimeline, drawn: Timeline, cells_a_column: int) -> Strip:
    """Return a card's sparkline with ``cells_a_column`` cells added up in each column."""
    column_ms = drawn.cell_ms * cells_a_column
    whole_ms = drawn.until_ms - drawn.since_ms
    count = -(-len(card.cells) // cells_a_column)
    unit = max(1, round(_WIDTH / count)) if count else 1
    width = unit * whole_ms / column_ms if column_ms else unit
    paths: list[list[str]] = [[] for _ in STATES]
    first = 0
    for levels, same in groupby(_levels(card, drawn, cells_a_column)):
        last = first + len(list(same))
        right = min(last * unit, width)
        bottom = HEIGHT
        for path, level in zip(paths, levels, strict=True):
            if level:
                high = level * _STEP
                path.append(f"M{first * unit} {bottom - high}H{right:g}v{high}H{first * unit}z")
                bottom -= high
        first = last
    return Strip(width, tuple("".join(path) for path in paths))


def _levels(card: CardTimeline, drawn: Timeline, cells_a_column: int) -> Iterator[Levels]:
    known: dict[tuple[int, ...], Levels] = {}
    for first in range(0, len(card.cells), cells_a_column):
        cells = card.cells[first : first + cells_a_column]
        since_ms = drawn.since_ms + first * drawn.cell_ms
        there_ms = min(len(cells) * drawn.cell_ms, drawn.until_ms - since_ms)
        sums = tuple(map(sum, zip(*cells, strict=True)))
        parts = (*sums, max(there_ms - sum(sums), 0))
        if parts not in known:
            # A state that occurs gets at least one step, taken from the largest.
            levels = apportion(parts, _STEPS)
            for place, part in enumerate(parts):
                if part > 0 and levels[place] == 0 and place < _PARTS - 1:
                    levels[levels.index(max(levels))] -= 1
                    levels[place] = 1
            known[parts] = tuple(levels[: _PARTS - 1])
        yield known[parts]


_MOST: Final = 9
_HOUR_STEPS: Final = (1, 2, 3, 6, 12)
_DAY_STEPS: Final = (1, 2, 7, 14, 28, 91, 182, 364, 1820)
_QUARTER_MS: Final = 900_000


def marks(since_ms: int, until_ms: int, timezone: str) -> list[tuple[float, str]]:
    """Return (place, label) of at most nine marks in a window, places from 0 to 1; midnights have their date."""
    if until_ms <= since_ms:
        return []
    length_hours = (until_ms - since_ms) / 3_600_000
    for step in _HOUR_STEPS:
        if length_hours / step <= _MOST:
            return list(_hour_marks(since_ms, until_ms, timezone, step))
    step = next((step for step in _DAY_STEPS if length_hours / 24 / step <= _MOST), _DAY_STEPS[-1])
    return list(_day_marks(since_ms, until_ms, timezone, step))


def _hour_marks(since_ms: int, until_ms: int, timezone: str, step: int) -> Iterator[tuple[float, str]]:
    for at_ms in range(-(-since_ms // _QUARTER_MS) * _QUARTER_MS, until_ms, _QUARTER_MS):  # UTC offsets use these
        local = local_time(at_ms, zone(timezone))
        place = (at_ms - since_ms) / (until_ms - since_ms)
        if local.minute == 0 and local.hour % step == 0:
            yield place, f"{local:%a %d %b}" if local.hour == 0 else f"{local:%H:%M}"


def _day_marks(since_ms: int, until_ms: int, timezone: str, step: int) -> Iterator[tuple[float, str]]:
    """Yield every ``step``-th local midnight; weeks begin on Mondays."""
    day = local_day(since_ms, zone(timezone))
    while True:
        midnight = begin_ms(day, zone(timezone))
        place = (midnight - since_ms) / (until_ms - since_ms)
        if place >= 1:
            return
        # Ordinal 1 is a Monday, so every seventh day from there is one.
        if place >= 0 and (day.toordinal() - 1) % step == 0:
            yield place, f"{day:%a %d %b}"
        day += timedelta(days=1)


def _mark(place: float, label: str) -> Markup:
    if place > _LAST_WORDS:
        label = ""
    weekday, _, rest = label.partition(" ")
    words = join([tag("span", f"{weekday} ", class_="weekday"), rest]) if rest else label
    return tag("span", words, class_="mark", style=f"left:{100 * place:.2f}%")


_SECONDS = state_columns("seconds")


def _collect(context: ReportContext) -> Finish:
    rows = context.rows(TIMELINE, cell_ms=cell_ms(context.window), batched=True)
    presences = context.rows(PRESENCES, limit=MOST_PRESENCES, batched=True)
    return lambda _headline, cards: timeline(rows(), presences(), context.window, cards)


def _rows(found: Timeline, _report: Report) -> Iterator[Cells]:
    for card in found.cards:
        whose = cells(card)
        for place, cell in enumerate(card.cells):
            seconds = dict(zip(_SECONDS, (part / 1000 for part in cell), strict=True))
            yield {**whose, "cell_begin": to_rfc3339(found.since_ms + place * found.cell_ms), **seconds}


TIMELINE_SECTION = Section(
    name="timeline",
    title=zoned("Timeline"),
    model=Timeline,
    collect=_collect,
    text=_text,
    drawn=_drawn,
    html=_page,
    csv=Csv(("host", "gpu", "index", "cell_begin", *_SECONDS), _rows),
    most_card_hours=MOST_CARD_HOURS_IN_PARTS,
)
