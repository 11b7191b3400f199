"""Cards that were slowed down or had errors, by name."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from gua.core.clock_reasons import ROW_REMAPS
from gua.report.kit.figures import NONE, HourFormat, percent
from gua.report.kit.style import Style
from gua.report.kit.tables import Part, TableColumn, card_table
from gua.report.model import Report
from gua.report.sections.slow_cards.model import SlowCard, SlowCards

_CARDS: Final = (
    TableColumn(title="hours told", leaves=3),
    TableColumn(title="heat"),
    TableColumn(title="hardware"),
    TableColumn(title="power cap"),
    TableColumn(title="XID events"),
    TableColumn(title="ECC errors", leaves=2),
    TableColumn(title="memory rows", left=True, leaves=1),
)


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
        "so many, and in brackets the newest XID number."
    )
    shown = [card for card in found if card.is_noteworthy]
    if not shown:
        yield "Nothing of the kind was told of any card."
        return
    yield from card_table(report, style, "slow-cards", _CARDS, [(card, _card(card, hours)) for card in shown])


def _card(card: SlowCard, hours: HourFormat) -> list[str]:
    held_down = (card.heat_ms, card.hardware_ms, card.power_cap_ms)
    newest = "" if card.xid is None else f" ({card.xid})"
    return [
        hours.of(card.told_ms),
        *(hours.of(ms) if card.told_ms else NONE for ms in held_down),
        NONE if card.xid_errors is None else f"{card.xid_errors:,}{newest}",
        NONE if card.ecc_errors is None else f"{card.ecc_errors:,}",
        NONE if card.row_remap is None else ROW_REMAPS.get(card.row_remap, str(card.row_remap)),
    ]
