"""Cards that were slowed down or had errors, by name."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from gua.core.clock_reasons import ROW_REMAPS
from gua.report.kit.figures import NONE, HourFormat, percent, plural
from gua.report.kit.style import Style
from gua.report.kit.tables import Part, Table, TableColumn
from gua.report.kit.words import NAME_WIDTH, card_name, index
from gua.report.model import Report
from gua.report.sections.slow_cards.model import SlowCard, SlowCards

MOST_CARDS: Final = 24
_CARDS: Final = (
    TableColumn(title="gpu"),
    TableColumn(title="name", left=True, shortest=8),
    TableColumn(title="hours told", leaves=2),
    TableColumn(title="heat"),
    TableColumn(title="hardware"),
    TableColumn(title="power cap"),
    TableColumn(title="XID events"),
    TableColumn(title="ECC errors", leaves=1),
    TableColumn(title="rows", left=True, leaves=1),
)
_HOST: Final = TableColumn(title="host", left=True, shortest=8)


def slow_cards(report: Report, style: Style, hours: HourFormat) -> Iterator[Part]:
    """Yield the cards of which the driver tells something, the most slowed first."""
    found = report[SlowCards].cards
    told_ms = sum(card.told_ms for card in found)
    if not told_ms and not any(card.is_noteworthy for card in found):
        yield "Not known: no tick tells why clocks were held down, or of errors."
        return
    share = told_ms / max(sum(card.observed_ms for card in found), 1)
    yield (
        "Hours in which clocks were held down when the card was read, which may overlap; a power cap is usual under "
        f"full load. Told for {percent(share)} % of the cards' hours. Errors are asked for once a minute: at least "
        "so many."
    )
    shown = [card for card in found if card.is_noteworthy]
    if not shown:
        yield "Nothing of the kind was told of any card."
        return
    most = MOST_CARDS * style.times
    several = len(report.hosts) > 1
    yield Table(
        columns=[*([_HOST] if several else []), *_CARDS],
        rows=[
            [*([style.name(card.host, NAME_WIDTH)] if several else []), *_card(card, style, hours)]
            for card in shown[:most]
        ],
        heads=2 + several,
    )
    if len(shown) > most:
        yield f"and {plural(len(shown) - most, 'more card')}: --csv slow-cards has every one."


def _card(card: SlowCard, style: Style, hours: HourFormat) -> list[str]:
    held_down = (card.heat_ms, card.hardware_ms, card.power_cap_ms)
    newest = "" if card.xid is None else f" ({card.xid})"
    return [
        index(card.index, card.gpu, style),
        card_name(card.model, card.gpu, style),
        hours.of(card.told_ms),
        *(hours.of(ms) if card.told_ms else NONE for ms in held_down),
        NONE if card.xid_errors is None else f"{card.xid_errors:,}{newest}",
        NONE if card.ecc_errors is None else f"{card.ecc_errors:,}",
        NONE if card.row_remap is None else ROW_REMAPS.get(card.row_remap, str(card.row_remap)),
    ]
