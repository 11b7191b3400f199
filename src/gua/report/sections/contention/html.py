"""Contention: what somebody in want of a card found, by host."""

from __future__ import annotations

from typing import Final

from gua.report.kit.bars import stacked
from gua.report.kit.figures import HourFormat, percents, plural
from gua.report.kit.html_cards import most
from gua.report.kit.html_tables import BAR, NUMBER, HtmlColumn, table
from gua.report.kit.markup import Markup, name
from gua.report.model import Report
from gua.report.sections.contention.model import Contention, Contentions

MOST_HOSTS: Final = 100


def contention(report: Report, hours: HourFormat) -> Markup:
    """Return how often no card was free while idle-held ones existed, by host."""
    every = report[Contentions]
    shown = most(every, MOST_HOSTS, _worst)
    rest = len(every) - len(shown)
    columns = [
        HtmlColumn("host"),
        HtmlColumn("cards", NUMBER),
        HtmlColumn("", BAR),
        HtmlColumn("a card free %", NUMBER, "t"),
        HtmlColumn("none free, some idle-held %", NUMBER, "h"),
        HtmlColumn("all active %", NUMBER, "a"),
        HtmlColumn("not known %", NUMBER, "u"),
        HtmlColumn("idle-held GPU-hours meanwhile", NUMBER),
    ]
    return table(
        "% of the time: what somebody in want of a card found. None free while some were idle-held is waiting that "
        "could have been avoided",
        columns,
        [_host(one, hours) for one in shown],
        note=f"And {plural(rest, 'more host')} with less of it; --json has all." if rest else None,
    )


def _worst(one: Contention) -> float:
    return float("inf") if one.host is None else float(one.contended_ms)


def _host(one: Contention, hours: HourFormat) -> list[str]:
    values = (one.free_ms, one.contended_ms, one.busy_ms, one.unknown_ms)
    parts = percents(values)
    words = ("a card was free", "none free, some idle-held", "all active", "not known")
    label = ", ".join(f"{word} {part} %" for word, part in zip(words, parts, strict=True))
    return [
        "(all cards)" if one.host is None else name(one.host),
        f"{one.cards:,}",
        stacked([(kind, "", value) for kind, value in zip("thau", values, strict=True)], label),
        *parts,
        hours.of(one.contended_gpu_ms),
    ]
