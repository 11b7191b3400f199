"""Text of ``gua top`` for terminals from 20 columns on: the screen, its two tables, and the JSON object.

Columns that do not fit are left out.
"""

import json
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

from gua.core.moments import to_rfc3339
from gua.core.plaintext import cells
from gua.core.rules import Reason
from gua.core.words import AllocationStatus, ProcessList, Use
from gua.report.kit.basis import gib, size
from gua.report.kit.fields import Json, json_of
from gua.report.kit.figures import NONE, percent, plural, span
from gua.report.kit.style import Style
from gua.report.kit.tables import Rows, Table, columns, fits
from gua.report.kit.words import cards_in_words
from gua.report.states import UNOBSERVED
from gua.report.status.text import LISTS, NO_PROCESS, REASONS, short_name
from gua.report.top.model import (
    ALL_STATES,
    SORTS,
    Snapshot,
    TopCard,
    TopHolder,
    TopView,
    chosen_cards,
    chosen_holders,
)

SCHEMA: Final = "gua.top/1"
_HOST_WIDTH: Final = 28
_FILTER_WIDTH: Final = 22
_SORT_NAMES: Final = dict(zip(SORTS, ("idle for", "memory", "utilization", "owner", "program", "card"), strict=True))
_HELP: Final = (
    ("s, 1 to 6", "sort holders by: " + ", ".join(f"{n} {name}" for n, name in enumerate(_SORT_NAMES.values(), 1))),
    (
        "/",
        "only rows with a text, of host, card, owner, program, pid, state or job; enter keeps it, escape drops it",
    ),
    ("i", "only idle holders and idle-held cards, or all again"),
    ("v", "cards and holders, cards alone, holders alone"),
    ("up, down", "move the list, also with k and j, page up and page down"),
    ("p, space", "pause, and resume"),
    ("h, ?", "this help; any key leaves it"),
    ("q", "quit"),
)
_BAR: Final = 10
_NAME_WIDTH: Final = 22
_LONGEST: Final = 64
_SHORTEST_CARD: Final = 8
_SHORTEST_WHO: Final = 11
_SHORTEST_NAME: Final = 12
_SHORT_ID: Final = 12
_NOT_ALLOCATED: Final[Mapping[str, str]] = {
    AllocationStatus.UNALLOCATED: "nobody",
    AllocationStatus.UNKNOWN: "unknown",
}
_REASONS: Final[Mapping[str, str]] = {
    **REASONS,
    Reason.PID_NAMESPACE: LISTS[ProcessList.PID_NAMESPACE],
    Reason.PROCESSES: LISTS[ProcessList.FAILED],
}


def render_top(
    snapshot: Snapshot, view: TopView, style: Style, *, height: int | None = None, note: str | None = None
) -> list[str]:
    """Return the screen's lines, at most ``height``; without a height all rows and no key help.

    ``note`` is the failure of the newest query.
    """
    if view.helping:
        lines = [style.title("Keys"), *(line for keys, text in _HELP for line in style.term(keys, text))]
        return lines[:height]
    cards, holders = chosen_cards(snapshot, view), chosen_holders(snapshot, view)
    warnings = map(style.name, (*([note] if note else []), *snapshot.conditions))
    notes = [line for text in warnings for line in style.warning(text)]
    head = [*_head(snapshot, style), *notes]
    foot = [] if height is None else [_foot(view, style)]
    of_cards = [] if view.panes == "holders" else [*card_lines(cards, snapshot, style)]
    of_holders = [] if view.panes == "cards" else [*holder_lines(holders, snapshot, style)]
    if height is None:
        return [*head, "", *of_cards, "", *of_holders]
    room = max(height - len(head) - len(foot) - 1, 0)
    if view.panes == "both":
        for_cards = min(len(of_cards), max(room // 2, room - len(of_holders) - 1, 0))
        shown = [
            *_window(of_cards, for_cards, 0, style),
            "",
            *_window(of_holders, room - for_cards - 1, view.offset, style),
        ]
    else:
        shown = _window(of_cards or of_holders, room, view.offset, style)
    body = [*head, "", *shown][: max(height - len(foot), 0)]
    return [*body, *[""] * (height - len(foot) - len(body)), *foot][:height]


def _window(lines: list[str], room: int, offset: int, style: Style) -> list[str]:
    """Return a table's heading, the rows that fit from ``offset`` on, and the number of the rest."""
    if room <= 0 or not lines:
        return []
    first, rows = lines[0], lines[1:]
    shown = room - 1
    offset = min(offset, max(len(rows) - max(shown, 1), 0))
    if offset + shown >= len(rows):
        return [first, *rows[offset:][: max(shown, 0)]]
    rest = len(rows) - offset - max(shown - 1, 0)
    return [first, *rows[offset : offset + max(shown - 1, 0)], style.paint("dim", f"and {rest:,} more")][:room]


def _head(snapshot: Snapshot, style: Style) -> Iterator[str]:
    hosts, cards = snapshot.hosts, snapshot.cards
    if not cards:
        yield from style.wrap("no card yet: no tick has one", indent=0)
        return
    of = style.name(hosts[0], _HOST_WIDTH) if len(hosts) == 1 else plural(len(hosts), "host")
    states = snapshot.states
    counts = ", ".join(f"{count:,} {state}" for state, count in states.items() if count)
    every = cards_in_words(card.mig for card in cards)
    allocated = snapshot.allocated
    if allocated is not None:
        counts += f"; {allocated[0]:,} allocated, {allocated[1] or 'none'} of them empty"
    for line in style.wrap(f"{every} of {of}: {counts or 'no MIG instance'}", indent=0, hanging=2):
        coloured = line
        for state in ALL_STATES:
            coloured = coloured.replace(f" {state}", f" {style.paint(state, state)}", 1)
        yield coloured
    yield style.split(states, min(style.width, 80)).rstrip()


def _foot(view: TopView, style: Style) -> str:
    if view.typing:
        return style.name(f"/{view.text}_", style.width)
    parts = []
    if view.paused:
        parts.append("PAUSED")
    if view.text:
        parts.append(f"/{style.name(view.text, _FILTER_WIDTH)}")
    if view.only_idle:
        parts.append("only idle")
    parts += [f"by {_SORT_NAMES[view.sort]}", "q quit", "h help", "s sort", "/ filter", "i idle", "v view", "p pause"]
    line = ""
    for part in parts:
        longer = f"{line}  {part}" if line else part
        if cells(longer) > style.width:
            break
        line = longer
    return style.paint("dim", line)


def render_top_json(snapshot: Snapshot, cards: Iterable[TopCard], holders: Iterable[TopHolder]) -> str:
    """Return cards and holders as JSON: seconds, bytes, ratios, watts; unknown is null, times RFC 3339 UTC."""
    allocated = snapshot.allocated
    document = {
        "schema": SCHEMA,
        "source": snapshot.source,
        "where": snapshot.where,
        "time": to_rfc3339(snapshot.taken_ms),
        "conditions": list(snapshot.conditions),
        "states": dict(snapshot.states),
        "allocated": None if allocated is None else {"allocated_cards": allocated[0], "empty_cards": allocated[1]},
        "cards": [
            {
                **_json(card, "interval_ms", "now_ms"),
                "last_state": card.last_state if card.state == UNOBSERVED else None,
            }
            for card in cards
        ],
        "holders": [_json(holder, "card_name") for holder in holders],
    }
    return json.dumps(document, indent=2, allow_nan=False) + "\n"


def _json(one: TopCard | TopHolder, *without: str) -> Json:
    return {name: value for name, value in json_of(one).items() if name not in without}


def card_lines(cards: Sequence[TopCard], snapshot: Snapshot, style: Style) -> Iterator[str]:
    """Yield the table of cards; the host is a line above its cards if its column does not fit."""
    several = len(snapshot.hosts) > 1
    table, before = _card_table(cards, style, several=several), None
    is_grouped = several and not fits(table, style)
    if is_grouped:
        hosts = list(dict.fromkeys(card.host for card in cards))
        cards = sorted(cards, key=lambda card: hosts.index(card.host))
        table = _card_table(cards, style, several=False)
    head, *lines = columns(table, style)
    yield style.title(head)
    for card, line in zip(cards, lines, strict=True):
        if is_grouped and card.host != before:
            yield style.title(style.name(card.host, style.width))
            before = card.host
        yield line


def _card_table(cards: Sequence[TopCard], style: Style, *, several: bool) -> Table:
    """Return a row per card; values of a stale tick are hidden."""
    rows = Rows(cards)
    place = "card" if several else "#"
    rows.add(place, lambda card: _place(card, style, several=several), left=True, shortest=_SHORTEST_CARD)
    rows.add("state", lambda card: style.paint(card.state, card.state), left=True)
    rows.add("for", lambda card: _length(card.state_ms, style, at_least=card.state_is_lower_bound))
    if any(_allocation(card, style) for card in cards):
        rows.add("allocated to", lambda card: _allocation(card, style), left=True, shortest=20, leaves=3)
    if any(map(_until, cards)):
        rows.add("until", _until, left=True, leaves=5)
    rows.add("name", lambda card: _name(card, style), left=True, shortest=14, leaves=4)
    rows.add("util %", lambda card: percent(card.utilization if _is_now(card) else None), leaves=1)
    rows.add("", lambda card: _busy(card, style), left=True, leaves=6)
    rows.add("memory", _memory, leaves=2)
    rows.add("W", lambda card: _whole(card, card.power_watts), leaves=7)
    rows.add("°C" if style.unicode else "C", lambda card: _whole(card, card.temperature_celsius), leaves=8)
    rows.add("note", _note, left=True, shortest=_SHORTEST_NAME, leaves=9)
    return rows.table()


def _is_now(card: TopCard) -> bool:
    return card.state != UNOBSERVED


def _name(card: TopCard, style: Style) -> str:
    return style.name(short_name(card.name or card.gpu, card.mig), _NAME_WIDTH)


def _busy(card: TopCard, style: Style) -> str:
    if not _is_now(card) or card.utilization is None:
        return ""
    return style.paint(card.state, style.bar(min(card.utilization, 1.0), _BAR))


def _memory(card: TopCard) -> str:
    return f"{gib(card.memory_used_bytes if _is_now(card) else None)}/{gib(card.memory_limit_bytes)} GiB"


def _whole(card: TopCard, value: float | None) -> str:
    return NONE if value is None or not _is_now(card) else f"{value:.0f}"


def _note(card: TopCard) -> str:
    if card.without_process:
        return NO_PROCESS
    return _REASONS.get(card.reason or "", "") if _is_now(card) else f"was {card.last_state}"


def _allocation(card: TopCard, style: Style) -> str:
    """Return a card's worst allocation with its use, as in ``ana: empty 1h 5m``, and the number of others.

    For a free card that was idle before it became unallocated: ``nobody 2m``.
    """
    if card.state == UNOBSERVED or card.allocation is None:
        return ""
    if not card.allocations:
        nobody = _NOT_ALLOCATED.get(card.allocation, "")
        if card.free_ms is None or card.state_ms is None or card.free_ms >= card.state_ms:
            return nobody
        return f"nobody {_length(card.free_ms, style, at_least=card.free_is_lower_bound)}"
    worst, more = card.allocations[0], len(card.allocations) - 1
    use = "use unknown" if worst.use == Use.UNKNOWN else worst.use.replace("-", " ")
    length = "" if worst.use_ms is None else f" {_length(worst.use_ms, style, at_least=worst.use_is_lower_bound)}"
    return f"{style.name(worst.owner or '?', _LONGEST)}: {use}{length}" + (f" +{more}" if more else "")


def _until(card: TopCard) -> str:
    """Return the end of the shown allocation in local time, with the date if it is not today."""
    until_ms = card.allocations[0].until_ms if card.allocations and card.state != UNOBSERVED else None
    if until_ms is None:
        return ""
    try:
        until, today = time.localtime(until_ms / 1000), time.localtime()
    except (OverflowError, OSError, ValueError):  # an agent may send an invalid time
        return ""
    form = "%H:%M" if until[:3] == today[:3] else "%m-%d %H:%M" if until[0] == today[0] else "%Y-%m-%d"
    return time.strftime(form, until)


def _place(one: TopCard | TopHolder, style: Style, *, several: bool) -> str:
    """Return a card's index, else the beginning of its UUID; with several hosts after the host's name."""
    place = style.name(one.gpu, _SHORT_ID) if one.index is None else str(one.index)
    return f"{style.name(one.host, _LONGEST)}/{place}" if several else place


def holder_lines(holders: Sequence[TopHolder], snapshot: Snapshot, style: Style) -> Iterator[str]:
    """Yield the table of holders, a line each below the heading."""
    several = len(snapshot.hosts) > 1
    rows = Rows(holders)
    rows.add("idle for", lambda one: _length(one.idle_ms, style, at_least=one.idle_is_lower_bound))
    rows.add("does", lambda one: style.paint(one.state, one.state), left=True, leaves=3)
    rows.add("owner/program", lambda one: _who(one, style), left=True, shortest=_SHORTEST_WHO)
    rows.add("memory", lambda one: "?" if one.memory_bytes is None else size(one.memory_bytes), leaves=2)
    rows.add("util %", lambda one: percent(None if one.state == UNOBSERVED else one.utilization), leaves=5)
    rows.add("card", lambda one: _place(one, style, several=several), left=True, leaves=1)
    rows.add("pid", lambda one: NONE if one.pid is None else str(one.pid), leaves=4)
    if any(_runs_in(one, style) for one in holders):
        rows.add("in", lambda one: _runs_in(one, style), left=True, shortest=_SHORTEST_NAME, leaves=6)
    head, *lines = columns(rows.table(), style)
    yield style.title(head)
    yield from lines or style.wrap("no process holds any of these cards", indent=0)


def _who(one: TopHolder, style: Style) -> str:
    return "/".join("?" if name is None else style.name(name, _NAME_WIDTH) for name in (one.owner, one.program))


def _runs_in(one: TopHolder, style: Style) -> str:
    """Return where a process runs, the job first: it is what an administrator would cancel."""
    container = one.container_id and one.container_id[:_SHORT_ID]
    places = {"job": one.slurm_job_id, "pod": one.pod_uid, "container": container, "unit": one.systemd_unit}
    return ", ".join(f"{what} {style.name(name, _LONGEST)}" for what, name in places.items() if name)


def _length(milliseconds: int | None, style: Style, *, at_least: bool) -> str:
    if milliseconds is None:
        return NONE
    return (("≥" if style.unicode else ">=") if at_least else "") + span(milliseconds)
