"""Every card with its split, one line each, as many columns as fit."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Final

from gua.core.plaintext import cells, pad
from gua.report.kit.draw import STACKED_BELOW
from gua.report.kit.figures import NONE, HourFormat, percents, plural
from gua.report.kit.style import Style
from gua.report.kit.tables import Drawn, Part, Table, TableColumn
from gua.report.model import Card, Report
from gua.report.states import IDLE_HELD, STATES, TRULY_IDLE

MOST_CARDS: Final = 100
MOST_OF_A_FLEET: Final = 24  # its hosts are told one by one above
_NAME_WIDTH: Final = 30
_BAR_WIDTH: Final = 10
_WIDEST_BAR: Final = 30
_ID_WIDTH: Final = 13
_SHORTEST_NAME: Final = 12
_WIDE_GAP_FROM: Final = 96


_ALL: Final = (
    TableColumn(title="gpu"),
    TableColumn(title="name", left=True, shortest=_SHORTEST_NAME),
    TableColumn(title="uuid", left=True),
    *(TableColumn(title=state) for state in STATES),
    TableColumn(title="observed"),
    TableColumn(title="unobserved"),
)
_HOST: Final = TableColumn(title="host", left=True, shortest=_SHORTEST_NAME)


def cards(report: Report, style: Style, hours: HourFormat) -> Iterator[Part]:
    """Yield a line a card; where there are very many cards, those that stood idle longest."""
    shown = _shown(report)
    several = len(report.hosts) > 1
    twins = _twins(shown)
    yield _SAYS
    yield Table(
        columns=[*([_HOST] if several else []), *_ALL],
        rows=[
            [
                *([style.name(card.host, _NAME_WIDTH)] if several else []),
                _index(card),
                _label(card, twins, style),
                style.name(card.gpu, _ID_WIDTH),
                *percents([card.states[state].gpu_ms for state in STATES]),
                hours.of(card.observed_gpu_ms),
                hours.of(card.unobserved_gpu_ms),
            ]
            for card in shown
        ],
        heads=2 + several,
    )
    yield from _notes(report, shown, hours)


def drawn(report: Report, style: Style, hours: HourFormat) -> Iterator[Part]:
    """Yield the same, a block a host, with a bar a card where there is room."""
    if style.width < STACKED_BELOW:
        yield from cards(report, style, hours)
        return
    shown = _shown(report)
    columns = _Columns(shown, _twins(shown), style, hours)
    yield _SAYS + columns.legend()
    yield Drawn(columns.header())
    for host, group in groupby(shown, key=lambda card: card.host):
        if len(report.hosts) > 1:
            yield style.name(host)
        yield from (Drawn(columns.row(card)) for card in group)
    yield from _notes(report, shown, hours)


_SAYS: Final = "% of each card's observed GPU-hours"


def _shown(report: Report) -> list[Card]:
    return _most_idle(report.cards, MOST_CARDS if len(report.hosts) == 1 else MOST_OF_A_FLEET)


def _notes(report: Report, shown: Sequence[Card], hours: HourFormat) -> Iterator[str]:
    kept = {(card.host, card.gpu) for card in shown}
    left_out = [card for card in report.cards if (card.host, card.gpu) not in kept]
    if left_out:
        idle = sum(card.states[IDLE_HELD].gpu_ms + card.states[TRULY_IDLE].gpu_ms for card in left_out)
        yield (
            f"{plural(len(left_out), 'card')} with less idle time left out, {hours.of(idle)} idle GPU-hours together; "
            "--json has every card."
        )
    if any(card.mig for card in shown if card.mig not in {None, "none"}):
        yield "MIG: an instance counts with its part of a GPU, unallocated MIG slices with theirs."


def _most_idle(every: Sequence[Card], most: int) -> list[Card]:
    if len(every) <= most:
        return list(every)
    longest = sorted(every, key=lambda card: -card.states[IDLE_HELD].gpu_ms - card.states[TRULY_IDLE].gpu_ms)
    kept = {(card.host, card.gpu) for card in longest[:most]}
    return [card for card in every if (card.host, card.gpu) in kept]


def _twins(every: Sequence[Card]) -> set[tuple[str, int | None, str]]:
    """Return what would be on two lines of one host: index and name alone do not tell such cards apart."""
    counted = Counter((card.host, card.index, _name(card)) for card in every)
    return {label for label, count in counted.items() if count > 1}


def _name(card: Card) -> str:
    name = (card.name or card.model or "").removeprefix("NVIDIA ").removeprefix("GeForce ")
    if card.mig == "parent":
        return "unallocated MIG slices"
    if card.mig == "instance":
        _, profile, slices = name.partition("MIG ")
        return profile + slices if slices else f"MIG of {name}" if name else "MIG"
    return name


class _Columns:
    """The columns that fit; the rest is left out from the right, state by state never."""

    def __init__(
        self, shown: Sequence[Card], twins: set[tuple[str, int | None, str]], style: Style, hours: HourFormat
    ) -> None:
        self._style = style
        self._hours = hours
        self._labels = {(card.host, card.gpu): _label(card, twins, style) for card in shown}
        self._widths = {
            "gpu": max([3, *(len(_index(card)) for card in shown)]),
            **{state: max(len(state), 5) for state in STATES},
            "observed": max([8, *(len(hours.of(card.observed_gpu_ms)) for card in shown)]),
            "unobserved": max([10, *(len(hours.of(card.unobserved_gpu_ms)) for card in shown)]),
        }
        wanted = max([4, *map(cells, self._labels.values())])
        gap = 1 if style.width < _WIDE_GAP_FROM else 2
        fixed = 2 + self._widths["gpu"] + 2 + sum(self._widths[state] + gap for state in STATES)
        hour_columns = self._widths["observed"] + self._widths["unobserved"] + 2 * gap
        room = style.width - fixed
        self._gap = " " * gap
        self._with_hours = room - hour_columns >= min(wanted, _SHORTEST_NAME)
        room -= hour_columns if self._with_hours else 0
        self._with_id = room - 2 - _ID_WIDTH >= wanted
        room -= 2 + _ID_WIDTH if self._with_id else 0
        self._name_width = min(wanted, room)
        spare = room - self._name_width - 2
        self._bar_width = min(spare, _WIDEST_BAR) if spare >= _BAR_WIDTH else 0

    def legend(self) -> str:
        """Return what the characters of the bar mean, nothing where there is no bar."""
        if not self._bar_width:
            return ""
        return "; bar: " + ", ".join(f"{self._style.fill[state]} {state}" for state in STATES)

    def header(self) -> str:
        """Return the line of column names."""
        cols = [f"{state:>{self._widths[state]}}" for state in STATES]
        if self._with_hours:
            cols += [f"{name:>{self._widths[name]}}" for name in ("observed", "unobserved")]
        identity = "  " + pad("uuid", _ID_WIDTH) if self._with_id else ""
        line = f"  {'gpu':>{self._widths['gpu']}}  {pad('name', self._name_width)}{identity}{self._gap}"
        line += self._gap.join(cols)
        for state in STATES:
            line = self._style.state(line, state)
        return line

    def row(self, card: Card) -> str:
        """Return the line of a card."""
        style = self._style
        parts = percents([card.states[state].gpu_ms for state in STATES])
        cols = [f"{part:>{self._widths[state]}}" for state, part in zip(STATES, parts, strict=True)]
        if self._with_hours:
            cols.append(f"{self._hours.of(card.observed_gpu_ms):>{self._widths['observed']}}")
            cols.append(f"{self._hours.of(card.unobserved_gpu_ms):>{self._widths['unobserved']}}")
        identity = "  " + pad(style.name(card.gpu, _ID_WIDTH), _ID_WIDTH) if self._with_id else ""
        name = style.name(self._labels[card.host, card.gpu], self._name_width)
        line = f"  {_index(card):>{self._widths['gpu']}}  {pad(name, self._name_width)}{identity}{self._gap}"
        line += self._gap.join(cols)
        return f"{line}  {style.split(card.states, self._bar_width)}".rstrip() if self._bar_width else line


def _label(card: Card, twins: set[tuple[str, int | None, str]], style: Style) -> str:
    name = _name(card)
    if not name or (card.host, card.index, name) in twins:
        return style.name(card.gpu, _NAME_WIDTH)
    return style.name(name, _NAME_WIDTH)


def _index(card: Card) -> str:
    return NONE if card.index is None else str(card.index)
