"""Groups: hosts, clusters, models or labels, one line each, as many columns as fit."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Final

from gua.core.plaintext import safe
from gua.report.costs import wasted
from gua.report.kit.amounts import AMOUNT_WIDTH, WASTED, Amounts
from gua.report.kit.figures import HourFormat, percent, percents, plural
from gua.report.kit.style import Style
from gua.report.kit.tables import STACKED_BELOW, Drawn, Heading, Part, Table, TableColumn, lay
from gua.report.model import Report
from gua.report.sections.groups.model import Group, Grouping, Groupings
from gua.report.sections.groups.query import added
from gua.report.states import IDLE_HELD, STATES, TRULY_IDLE
from gua.report.window import BY_HOST

MOST_GROUPS: Final = 40
UNKNOWN_NAME: Final = "(unknown)"
_NAME_WIDTH: Final = 40
_SHORTEST_NAME: Final = 12
_HOURS: Final = "GPU-hours"
_COVERAGE: Final = "observed %"
_HOSTS: Final = "hosts"
_GPUS: Final = "GPUs"


def title(report: Report) -> str:
    """Return the heading of the first groups."""
    return f"Per {safe(report[Groupings][0].by, _NAME_WIDTH)}"


def groups(report: Report, style: Style, hours: HourFormat) -> Iterator[Part]:
    """Yield a table for each key; of very many groups those that stood idle longest, and the rest as one."""
    for number, grouping in enumerate(report[Groupings]):
        if number:
            yield Heading(f"Per {style.name(grouping.by, _NAME_WIDTH)}")
        yield f"% of each {'host' if grouping.by == BY_HOST else 'group'}'s observed GPU-hours"
        table, rest = _table(report, grouping, style, hours)
        yield table
        if rest:
            yield _REST


def drawn(report: Report, style: Style, hours: HourFormat) -> Iterator[Part]:
    """Yield the same with a bar a group, where there is room."""
    is_narrow = style.width - AMOUNT_WIDTH * len(Amounts.of_report(report).currencies) < STACKED_BELOW
    for part in groups(report, style, hours):
        if is_narrow or not isinstance(part, Table):
            yield part
        else:
            yield from map(Drawn, lay(_without_hosts(part) if part.columns[0].title == BY_HOST else part, style)[0])


def _without_hosts(table: Table) -> Table:
    return replace(
        table, columns=[table.columns[0], *table.columns[2:]], rows=[[row[0], *row[2:]] for row in table.rows]
    )


def _table(report: Report, grouping: Grouping, style: Style, hours: HourFormat) -> tuple[Table, int]:
    """Return the table of a key, and how many groups its last row adds up."""
    amounts = Amounts.of_report(report)
    shown, rest = _shown(grouping, style)
    costs = amounts.rows([wasted(group.costs) for _, group in shown])
    titles = (_HOSTS, _GPUS, *STATES, *amounts.titles(WASTED, style.name), _HOURS, _COVERAGE)
    return Table(
        columns=[
            TableColumn(title=style.name(grouping.by, _NAME_WIDTH), left=True, shortest=_SHORTEST_NAME),
            *(TableColumn(title=title, leaves=_LEAVES.get(title, 0)) for title in titles),
        ],
        rows=[
            [
                name,
                f"{group.hosts:,}",
                f"{group.gpus:,}",
                *percents([group.states[state].gpu_ms for state in STATES]),
                *cost,
                hours.of(group.observed_gpu_ms),
                percent(group.ratio),
            ]
            for (name, group), cost in zip(shown, costs, strict=True)
        ],
        bars=[group.states for _, group in shown],
    ), rest


_REST: Final = "others: those with less idle time; --json has every one."


_LEAVES: Final = {_HOURS: 1, _COVERAGE: 2, _HOSTS: 3}


def _shown(grouping: Grouping, style: Style) -> tuple[list[tuple[str, Group]], int]:
    """Return the groups that are shown, each with its name, and how many others the last one adds up."""
    shown, rest = _most_idle(grouping.groups, MOST_GROUPS * style.times)
    rows = [(_name(group, style), group) for group in shown]
    left_out = len(grouping.groups) - len(shown)
    if rest is not None:
        rows.append((plural(left_out, "other"), rest))
    return rows, left_out


def _most_idle(every: Sequence[Group], most: int) -> tuple[list[Group], Group | None]:
    """Return what is shown, in its order, and the sum of what is not."""
    if len(every) <= most:
        return list(every), None
    by_idle = sorted(range(len(every)), key=lambda place: -_idle_ms(every[place]))
    kept = set(by_idle[: most - 1])
    return [group for place, group in enumerate(every) if place in kept], added(
        [group for place, group in enumerate(every) if place not in kept]
    )


def _idle_ms(group: Group) -> float:
    return group.states[IDLE_HELD].gpu_ms + group.states[TRULY_IDLE].gpu_ms


def _name(group: Group, style: Style) -> str:
    return UNKNOWN_NAME if group.name is None else style.name(group.name, _NAME_WIDTH) or '""'
