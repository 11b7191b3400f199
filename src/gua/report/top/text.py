"""The screen of ``gua top`` as lines: of any width from 20 columns on, and of any height."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from gua.core.plaintext import cells
from gua.report.kit.figures import apportion, plural
from gua.report.kit.style import Style
from gua.report.kit.words import cards_in_words
from gua.report.top.model import ALL_STATES, UNOBSERVED, Snapshot
from gua.report.top.tables import card_lines, holder_lines, painted
from gua.report.top.view import SORTS, TopView, chosen_cards, chosen_holders

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
    ("p, space", "stop asking, and go on"),
    ("h, ?", "this help; any key leaves it"),
    ("q", "quit"),
)


def render_top(
    snapshot: Snapshot, view: TopView, style: Style, *, height: int | None = None, note: str | None = None
) -> list[str]:
    """Return the lines of the screen, at most ``height`` of them; without a height all rows, and no keys.

    ``note`` is why the newest question was not answered.
    """
    if view.helping:
        return _fitting([*_help(style)], height)
    cards, holders = chosen_cards(snapshot, view), chosen_holders(snapshot, view)
    head = [*_head(snapshot, style), *_notes(snapshot, style, note)]
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
    return _fitting([*body, *[""] * (height - len(foot) - len(body)), *foot], height)


def _fitting(lines: list[str], height: int | None) -> list[str]:
    return lines if height is None else lines[:height]


def _window(lines: list[str], room: int, offset: int, style: Style) -> list[str]:
    """Return the head of a table and as many of its rows as there is room for, and how many there are besides."""
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
    told = ", ".join(f"{count:,} {state}" for state, count in states.items() if count)
    every = cards_in_words(card.mig for card in cards)
    promised = snapshot.promised
    if promised is not None:
        told += f"; {promised[0]:,} promised, {promised[1] or 'none'} of them empty"
    for line in style.wrap(f"{every} of {of}: {told or 'no MIG instance'}", indent=0, hanging=2):
        coloured = line
        for state in ALL_STATES:
            coloured = coloured.replace(f" {state}", f" {painted(state, state, style)}", 1)
        yield coloured
    yield _split(states, min(style.width, 80), style)


def _split(states: Mapping[str, int], width: int, style: Style) -> str:
    """Return a bar of all cards, the states in the order in which the line above it tells them."""
    parts = apportion([*states.values()], width)
    for place, count in enumerate(states.values()):  # a state that occurs is seen, at the cost of the widest
        if count and not parts[place]:
            parts[place] += 1
            parts[parts.index(max(parts))] -= 1
    fill = {**style.fill, UNOBSERVED: "░" if style.unicode else "_"}
    return "".join(painted(state, fill[state] * part, style) for state, part in zip(states, parts, strict=True))


def _notes(snapshot: Snapshot, style: Style, note: str | None) -> Iterator[str]:
    for text in (*([note] if note else []), *snapshot.conditions):
        for line in style.wrap(f"! {style.name(text)}", indent=0, hanging=2):
            yield style.paint("warning", line)


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


def _help(style: Style) -> Iterator[str]:
    yield style.title("Keys")
    for keys, text in _HELP:
        yield from style.term(keys, text)
