"""Groups: hosts, clusters, models or labels, one line each, as many columns as fit."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from gua.core.plaintext import cells, pad, safe
from gua.report.kit.draw import STACKED_BELOW
from gua.report.kit.figures import HourFormat, percent, percents, plural
from gua.report.kit.style import Style
from gua.report.kit.tables import Drawn, Heading, Part, Table, TableColumn
from gua.report.model import Report
from gua.report.sections.groups.model import Group, Grouping, Groupings
from gua.report.sections.groups.query import BY_HOST, added
from gua.report.states import IDLE_HELD, STATES, TRULY_IDLE

MOST_GROUPS: Final = 40
UNKNOWN_NAME: Final = "(unknown)"
_NAME_WIDTH: Final = 40
_SHORTEST_NAME: Final = 12
_WIDE_GAP_FROM: Final = 96
_BAR_WIDTH: Final = 10
_WIDEST_BAR: Final = 30
_HOURS: Final = "GPU-hours"
_COVERAGE: Final = "observed %"
_HOSTS: Final = "hosts"
_CARDS: Final = "cards"


def title(report: Report) -> str:
    """Return the heading of the first groups."""
    return f"Per {safe(report[Groupings][0].by, _NAME_WIDTH)}"


def groups(report: Report, style: Style, hours: HourFormat) -> Iterator[Part]:
    """Yield a table for each key; of very many groups those that stood idle longest, and the rest as one."""
    for number, grouping in enumerate(report[Groupings]):
        if number:
            yield Heading(f"Per {style.name(grouping.by, _NAME_WIDTH)}")
        shown, rest = _shown(grouping, style)
        yield _says(grouping)
        yield Table(
            columns=[
                TableColumn(title=style.name(grouping.by, _NAME_WIDTH), left=True),
                *map(_column, (_HOSTS, _CARDS, *STATES, _HOURS, _COVERAGE)),
            ],
            rows=[[name, *figures_of(group, hours).values()] for name, group in shown],
        )
        if rest:
            yield _REST


def drawn(report: Report, style: Style, hours: HourFormat) -> Iterator[Part]:
    """Yield the same with a bar a group, where there is room."""
    if style.width < STACKED_BELOW:
        yield from groups(report, style, hours)
        return
    for number, grouping in enumerate(report[Groupings]):
        if number:
            yield Heading(f"Per {style.name(grouping.by, _NAME_WIDTH)}")
        shown, rest = _shown(grouping, style)
        yield _says(grouping)
        columns = _Columns(grouping.by, shown, style, hours)
        yield Drawn(columns.header())
        yield from (Drawn(columns.row(name, group)) for name, group in shown)
        if rest:
            yield _REST


_REST: Final = "others: those with less idle time; --json has every one."


def _column(title: str) -> TableColumn:
    return TableColumn(title=title)


def _says(grouping: Grouping) -> str:
    return f"% of each {'host' if grouping.by == BY_HOST else 'group'}'s observed GPU-hours"


def _shown(grouping: Grouping, style: Style) -> tuple[list[tuple[str, Group]], int]:
    """Return the groups that are shown, each with its name, and how many others the last one adds up."""
    shown, rest = _most_idle(grouping.groups)
    rows = [(_name(group, style), group) for group in shown]
    left_out = len(grouping.groups) - len(shown)
    if rest is not None:
        rows.append((plural(left_out, "other"), rest))
    return rows, left_out


def _most_idle(every: Sequence[Group]) -> tuple[list[Group], Group | None]:
    """Return what is shown, in its order, and the sum of what is not."""
    if len(every) <= MOST_GROUPS:
        return list(every), None
    by_idle = sorted(range(len(every)), key=lambda place: -_idle_ms(every[place]))
    kept = set(by_idle[: MOST_GROUPS - 1])
    return [group for place, group in enumerate(every) if place in kept], added(
        [group for place, group in enumerate(every) if place not in kept]
    )


def _idle_ms(group: Group) -> float:
    return group.states[IDLE_HELD].gpu_ms + group.states[TRULY_IDLE].gpu_ms


def _name(group: Group, style: Style) -> str:
    return UNKNOWN_NAME if group.name is None else style.name(group.name, _NAME_WIDTH) or '""'


class _Columns:
    """The columns that fit; what there is no room for is left out, states and cards never."""

    def __init__(self, by: str, rows: Sequence[tuple[str, Group]], style: Style, hours: HourFormat) -> None:
        self._style = style
        self._by = by
        self._figures = [figures_of(group, hours) for _, group in rows]
        self._of = {id(group): figures for (_, group), figures in zip(rows, self._figures, strict=True)}
        wanted = max(cells(name) for name in (by if len(by) < _NAME_WIDTH else "", *(name for name, _ in rows)))
        gap = 1 if style.width < _WIDE_GAP_FROM else 2
        self._gap = " " * gap
        self._columns = [_CARDS, *STATES]
        self._widths = {
            name: max(cells(name), *(len(figures[name]) for figures in self._figures))
            for name in (_HOSTS, _CARDS, *STATES, _HOURS, _COVERAGE)
        }
        room = style.width - 2 - sum(self._widths[name] + gap for name in self._columns)
        for name in (_HOURS, _COVERAGE, *([] if by == BY_HOST else [_HOSTS])):
            if room - self._widths[name] - gap >= min(wanted, _SHORTEST_NAME):
                self._columns.insert(0 if name == _HOSTS else len(self._columns), name)
                room -= self._widths[name] + gap
        self._name_width = min(max(wanted, 4), room)
        spare = room - self._name_width - 2
        self._bar_width = min(spare, _WIDEST_BAR) if spare >= _BAR_WIDTH else 0

    def header(self) -> str:
        """Return the line of column names."""
        label = self._style.name(self._by, self._name_width)
        line = self._line(label, {name: name for name in self._columns})
        for state in STATES:
            line = self._style.state(line, state)
        return line

    def row(self, name: str, group: Group) -> str:
        """Return the line of a group."""
        line = self._line(self._style.name(name, self._name_width), self._of[id(group)])
        return f"{line}  {self._style.split(group.states, self._bar_width)}".rstrip() if self._bar_width else line

    def _line(self, label: str, figures: dict[str, str]) -> str:
        columns = self._gap.join(f"{figures[name]:>{self._widths[name]}}" for name in self._columns)
        return f"  {pad(label, self._name_width)}{self._gap}{columns}"


def figures_of(group: Group, hours: HourFormat) -> dict[str, str]:
    """Return a group's figures by the title of their column, in the order in which they stand."""
    return {
        _HOSTS: f"{group.hosts:,}",
        _CARDS: f"{group.cards:,}",
        **dict(zip(STATES, percents([group.states[state].gpu_ms for state in STATES]), strict=True)),
        _HOURS: hours.of(group.observed_gpu_ms),
        _COVERAGE: percent(group.ratio),
    }
