"""Groups: a line each, with its split as a bar and as numbers."""

from __future__ import annotations

from typing import Final

from gua.core.plaintext import safe
from gua.report.kit.bars import states_bar
from gua.report.kit.figures import HourFormat, percent, plural
from gua.report.kit.html_cards import idle_ms, most, shares
from gua.report.kit.html_tables import BAR, NUMBER, HtmlColumn, state_columns, table
from gua.report.kit.markup import Markup, join, name, tag
from gua.report.model import Report
from gua.report.sections.groups.model import Group, Grouping, Groupings
from gua.report.sections.groups.text import UNKNOWN_NAME

MOST_GROUPS: Final = 100


def groups(report: Report, hours: HourFormat) -> Markup:
    """Return a table for each key that cards are added up by."""
    first, *others = report[Groupings]  # the section's title says by what the first one is
    return join(
        [
            _grouping(first, hours),
            *(join([tag("h3", "Per ", name(grouping.by)), _grouping(grouping, hours)]) for grouping in others),
        ]
    )


def _grouping(grouping: Grouping, hours: HourFormat) -> Markup:
    shown = most(grouping.groups, MOST_GROUPS, lambda group: idle_ms(group.states))
    rest = len(grouping.groups) - len(shown)
    columns = [
        HtmlColumn(safe(grouping.by, 40)),
        HtmlColumn("hosts", NUMBER),
        HtmlColumn("cards", NUMBER),
        HtmlColumn("", BAR),
        *state_columns(),
        HtmlColumn("GPU-hours", NUMBER),
        HtmlColumn("observed %", NUMBER, "n"),
    ]
    return table(
        "% of what was observed of each; the bar is of all expected time",
        columns,
        [_group(group, hours) for group in shown],
        note=f"And {plural(rest, 'more')} with less idle time; --json has every one." if rest else None,
    )


def _group(group: Group, hours: HourFormat) -> list[str]:
    return [
        UNKNOWN_NAME if group.name is None else name(group.name, 32),
        f"{group.hosts:,}",
        f"{group.cards:,}",
        states_bar(group.states, unobserved_ms=group.unobserved_gpu_ms),
        *shares(group.states),
        hours.of(group.observed_gpu_ms),
        percent(group.ratio),
    ]
