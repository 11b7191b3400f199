"""One line per card, or per host for many cards; and the hours of the day."""

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Final

from gua.core.plaintext import cells
from gua.report.costs import wasted
from gua.report.forms.first_screen.answers import when
from gua.report.kit.amounts import Amounts
from gua.report.kit.figures import NONE, HourFormat, at_least, percents, plural
from gua.report.kit.style import Style
from gua.report.kit.tables import Rows, Table, draw
from gua.report.kit.words import NAME_WIDTH, card_name, places
from gua.report.model import Card, Report
from gua.report.sections.calendar import TimeOfDay
from gua.report.sections.groups import Group, Groupings, added
from gua.report.sections.now_rows import SILENT, CardNow, Now
from gua.report.states import IDLE_HELD, STATES, share, times
from gua.report.window import BY_HOST

MOST_CARDS: Final = 10
MOST_HOSTS: Final = 8


def cards(report: Report, style: Style, hours: HourFormat) -> Iterator[str]:
    """Yield GPU-hours by state with the current state of each card; with many cards, of each host."""
    shown = sorted(report.cards, key=lambda card: -card.states[IDLE_HELD].gpu_ms)
    if len(shown) <= MOST_CARDS:
        yield from draw(_table(report, shown, style, hours), style)
    elif len(hosts := next((one.groups for one in report.get(Groupings) or () if one.by == BY_HOST), ())) > 1:
        yield from draw(_table_of_hosts(report, hosts, style, hours), style)
    else:
        yield from draw(_table(report, shown[: MOST_CARDS - 1], style, hours), style)
        rest = len(shown) - MOST_CARDS + 1
        yield from style.wrap(f"and {rest:,} more with less idle-held time: --section cards")


def _table_of_hosts(report: Report, hosts: Sequence[Group], style: Style, hours: HourFormat) -> Table:
    worst = sorted(hosts, key=lambda host: -host.states[IDLE_HELD].gpu_ms)
    shown = [(style.name(host.name or "", NAME_WIDTH), host) for host in worst]
    if len(shown) > MOST_HOSTS + 1:
        rest = worst[MOST_HOSTS:]
        shown = [*shown[:MOST_HOSTS], (plural(len(rest), "other host"), added(rest))]
    money = Amounts.of_report(report)
    costs = money.rows([wasted(host.costs) for _, host in shown], 0)
    lines = Rows([(name, host, cost) for (name, host), cost in zip(shown, costs, strict=True)])
    lines.add("GPU-hours of", lambda row: row[0], left=True, shortest=12)
    lines.add("GPUs", lambda row: f"{row[1].gpus:,}")
    lines.add(STATES, lambda row: _hours(row[1], hours))
    lines.add(money.titles("", style.name), lambda row: row[2], leaves=1)
    if (found := report.get(Now)) is not None:
        held = Counter(one.host for one in found.by_card if one.state == IDLE_HELD)
        lines.add(f"idle-held {when(report)}", lambda row: "" if row[1].name is None else f"{held[row[1].name]:,}")
    return lines.table()


def _table(report: Report, shown: Sequence[Card], style: Style, hours: HourFormat) -> Table:
    found = report.get(Now)
    newest = {} if found is None else {(one.host, one.gpu): one for one in found.by_card}
    where, money = places(report, style), Amounts.of_report(report)
    lines = Rows(shown)
    lines.add("GPU-hours of", lambda card: where(card.host, card.gpu), left=True)
    if newest:
        lines.add(when(report), lambda card: _now(newest.get((card.host, card.gpu)))[0], left=True)
        lines.add("for", lambda card: _now(newest.get((card.host, card.gpu)))[1])
    lines.add(STATES, lambda card: _hours(card, hours))
    lines.add(money.titles("", style.name), lambda card: money.cells(wasted(card.costs), 0), leaves=1)
    lines.add(
        "model",
        lambda card: card_name(card.name, card.gpu, style).partition(" MIG ")[0],
        left=True,
        shortest=6,
        leaves=2,
    )
    return lines.table()


def _now(one: CardNow | None) -> list[str]:
    if one is None:
        return ["", ""]
    if one.state == SILENT or one.in_state_ms is None:
        return [one.state, ""]
    return [one.state, at_least(one.in_state_ms, is_lower_bound=one.is_lower_bound)]


def _hours(one: Card | Group, hours: HourFormat) -> list[str]:
    written = hours.parts(times(one.states))
    return [NONE if not one.observed_gpu_ms else part for part in written]


_HOURS_OF_DAY: Final = 24
_LABEL: Final = max(map(len, STATES))
_EVERY: Final = 6
_STRIP_FROM: Final = _HOURS_OF_DAY + 4


def day(report: Report, style: Style) -> Iterator[str]:
    """Yield a sparkline by hour of the day for each state that occurred, with its peak hour.

    In a narrow terminal the label and the peak hour are above the sparkline.
    """
    hours = report.get(TimeOfDay)
    if hours is None:
        return
    rows = [row for row in (_state_row(hours, state) for state in STATES) if any(row[1])]
    if not rows:
        return
    zone = report.window.timezone
    for columns in (2, 1):
        before = 2 + _LABEL + 2 + columns * _HOURS_OF_DAY + 2
        if before + max(cells(text) for text in (zone, *(peak for _, _, peak in rows))) <= style.width:
            yield f"  {'By hour':{_LABEL}}  {_marks(columns)}  {zone}"
            for state, parts, peak in rows:
                strip = _strip(parts, style, columns)
                yield f"  {style.paint(state, f'{state:<{_LABEL}}')}  {style.paint(state, strip)}  {peak}"
            return
    yield from style.wrap(f"By hour, {zone}:", indent=0)
    if style.width >= _STRIP_FROM:
        yield f"    {_marks(1)}".rstrip()
    for state, parts, peak in rows:
        yield from (style.state(line, state) for line in style.wrap(f"{state}, {peak}"))
        if style.width >= _STRIP_FROM:
            yield f"    {style.paint(state, _strip(parts, style, 1).rstrip())}"


def _state_row(hours: TimeOfDay, state: str) -> tuple[str, Sequence[float], str]:
    """Return a state, its share of each hour, and its peak hour, rounded as in the section."""
    parts = [share(hour.states, state) or 0 for hour in hours]
    most = max(range(_HOURS_OF_DAY), key=parts.__getitem__)
    written = percents(times(hours[most].states))[STATES.index(state)]
    return state, parts, f"most {most:02d}: {written} %"


def _marks(columns: int) -> str:
    return "".join(f"{hour:<{_EVERY * columns}}" for hour in range(0, _HOURS_OF_DAY, _EVERY))


def _strip(parts: Sequence[float], style: Style, columns: int) -> str:
    return "".join(style.height(part) * columns for part in parts)
