"""``gua status --all``: every host of a store with its last contact and the current state of its cards."""

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from gua.core.moments import to_rfc3339
from gua.core.ports import ViewReader
from gua.core.view import Count, Moment, View
from gua.report.allocations import newest_sources
from gua.report.kit.fields import grouped
from gua.report.kit.figures import NONE, plural
from gua.report.kit.style import Style
from gua.report.kit.tables import Rows, columns
from gua.report.kit.words import few_sentences
from gua.report.model import ReportedSource
from gua.report.states import STATES
from gua.report.status.text import span

SCHEMA: Final = "gua.status.all/1"
SILENT: Final = 1
_AHEAD_MS: Final = 2_000  # as in gua_report.fleet
_BEHIND_MS: Final = 60_000
_SHORTEST_NAME: Final = 12
_WIDEST_NAME: Final = 40
_LONGEST: Final = 4096

Host = Mapping[str, Any]


class InventoryRow(NamedTuple):
    """A host of the store: its cards, its agent, and its newest tick."""

    host: str
    source: str
    version: str
    interval_ms: Count
    cards: Count
    first_ms: Moment
    last_ms: Moment
    newest_delay_ms: int | None
    least_delay_ms: int | None
    silent_after_ms: Count
    is_silent: bool
    agents: Count
    labels: Mapping[str, str]
    now_ms: Moment


class CurrentRow(NamedTuple):
    """A host's cards by state at their newest tick; how many are allocated, empty, and covered by a source."""

    host: str
    active_cards: Count
    idle_held_cards: Count
    truly_idle_cards: Count
    unknown_cards: Count
    allocated_cards: Count
    empty_cards: Count
    source_cards: Count


INVENTORY: Final = View("host_status", InventoryRow)
CURRENT: Final = View("current_cards", CurrentRow, ("since_ms", "hosts"))


def hosts_now(reader: ViewReader) -> list[Host]:
    """Return one JSON-ready object a host: silent ones first, then by name.

    ``states`` counts cards by state at their newest tick; ``None`` for a silent host. ``allocation`` counts allocated
    and empty cards and has the sources; ``None`` for a silent host and where allocation is off.
    """
    rows = INVENTORY.rows(reader, {})
    if not rows:
        return []
    now_ms = rows[0].now_ms
    since_ms = now_ms - max(row.silent_after_ms for row in rows)
    current = {row.host: row for row in CURRENT.rows(reader, {"since_ms": since_ms, "hosts": []})}
    sources = grouped(newest_sources(reader, now_ms), lambda source: source.host)
    hosts = [_host(row, current.get(row.host), sources.get(row.host, ())) for row in rows]
    return sorted(hosts, key=lambda host: (not host["silent"], str(host["host"])))


def to_json(hosts: Sequence[Host]) -> str:
    """Return the hosts as one JSON object, schema ``gua.status.all/1``."""
    silent = sum(bool(host["silent"]) for host in hosts)
    document = {"schema": SCHEMA, "hosts_total": len(hosts), "silent_total": silent, "hosts": list(hosts)}
    return json.dumps(document, indent=2, allow_nan=False) + "\n"


def to_text(hosts: Sequence[Host], style: Style) -> str:
    """Return a line a host, none wider than the style's width, and warnings below."""
    return "\n".join([*_lines(hosts, style)]) + "\n"


def _host(row: InventoryRow, current: CurrentRow | None, sources: Sequence[ReportedSource]) -> Host:
    counted = allocation = None
    if current is not None and not row.is_silent:
        counted = {state: getattr(current, f"{state.replace('-', '_')}_cards") for state in STATES}
        if current.source_cards:
            allocation = {
                "allocated_cards": current.allocated_cards,
                "empty_cards": current.empty_cards,
                "sources": [
                    {
                        "source": one.source,
                        "ok": one.ok,
                        "reason": None if one.ok or one.reason is None else one.reason[:_LONGEST],
                    }
                    for one in sources
                ],
            }
    return {
        "host": row.host,
        "source": row.source,
        "version": row.version or None,
        "interval_seconds": row.interval_ms / 1000 or None,
        "cards": row.cards,
        "states": counted,
        "allocation": allocation,
        "first_seen": to_rfc3339(row.first_ms),
        "last_seen": to_rfc3339(row.last_ms),
        "age_seconds": (row.now_ms - row.last_ms) / 1000,
        "delay_seconds": None if row.newest_delay_ms is None else row.newest_delay_ms / 1000,
        "least_delay_seconds": None if row.least_delay_ms is None else row.least_delay_ms / 1000,
        "silent": row.is_silent,
        "agents": row.agents,
        "labels": {key: value[:_LONGEST] for key, value in row.labels.items()},
    }


def _lines(hosts: Sequence[Host], style: Style) -> Iterator[str]:
    if not hosts:
        yield "no host yet: the store holds no ticks"
        return
    silent = sum(bool(host["silent"]) for host in hosts)
    cards = sum(host["cards"] for host in hosts)
    yield from style.wrap(
        f"{plural(len(hosts), 'host')}, {plural(cards, 'card')}; {silent or 'none'} silent"
        f"{' (no recent ticks)' if silent else ''}",
        indent=0,
    )
    yield ""
    rows = Rows(hosts)
    rows.add("host", lambda host: style.name(host["host"], _WIDEST_NAME), left=True, shortest=_SHORTEST_NAME)
    rows.add("cards", lambda host: f"{host['cards']:,}", leaves=2)
    rows.add(STATES, lambda host: _counted(host["states"], STATES))
    if any(host["allocation"] for host in hosts):
        rows.add("allocated", lambda host: _counted(host["allocation"], ["allocated_cards"])[0], leaves=1)
        rows.add("empty", lambda host: _counted(host["allocation"], ["empty_cards"])[0])
    rows.add("age", lambda host: f"{'SILENT ' if host['silent'] else ''}{span(max(host['age_seconds'], 0.0))}")
    rows.add("delay", lambda host: _delay(host["delay_seconds"]), leaves=3)
    head, *lines = columns(rows.table(), style)
    yield head
    for host, line in zip(hosts, lines, strict=True):
        yield style.paint("warning", line) if host["silent"] else line
    clocks = [text for host in hosts for text in _clock(host, style)]
    sources = [text for host in hosts for text in _failed_sources(host, style)]
    for text in [
        *few_sentences(clocks, "clock disagree with the server's", "clocks disagree with the server's"),
        *few_sentences(sources, "source of allocations cannot be read", "sources of allocations cannot be read"),
    ]:
        yield from style.warning(text)


def _failed_sources(host: Host, style: Style) -> Iterator[str]:
    for source in host["allocation"]["sources"] if host["allocation"] else ():
        if not source["ok"]:
            why = f": {style.name(source['reason'], _WIDEST_NAME)}" if source["reason"] else ""
            name = f"{style.name(source['source'], _WIDEST_NAME)} on {style.name(host['host'], _WIDEST_NAME)}"
            yield f"Allocations cannot be read from {name}{why}."


def _counted(numbers: Mapping[str, int] | None, keys: Sequence[str]) -> list[str]:
    return [NONE if numbers is None else f"{numbers[key]:,}" for key in keys]


def _delay(seconds: float | None) -> str:
    return f"-{span(-seconds)}" if seconds is not None and seconds < 0 else span(seconds)


def _clock(host: Host, style: Style) -> Iterator[str]:
    newest, least = host["delay_seconds"], host["least_delay_seconds"]
    name = style.name(host["host"], _WIDEST_NAME)
    if newest is not None and newest * 1000 < -_AHEAD_MS:
        yield f"The clock of {name} is at least {span(-newest)} ahead of the server's."
    elif least is not None and least * 1000 >= _BEHIND_MS and not host["silent"]:
        yield f"The clock of {name} is {span(least)} behind the server's, or all its ticks come that late."
