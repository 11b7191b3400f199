"""Section slow-cards: throttle reasons and errors that the driver reports per card."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from gua.core.parameters import READ
from gua.core.view import Count, View
from gua.core.words import ROW_REMAPS
from gua.report.context import model_of
from gua.report.kit.fields import Hours, cells, columns
from gua.report.kit.figures import NONE, HourFormat, count, percent
from gua.report.kit.style import Style
from gua.report.kit.tables import Part, card_rows, more
from gua.report.kit.words import recoveries
from gua.report.model import OfCard, Report
from gua.report.section import Csv, Section


@dataclass(frozen=True, kw_only=True, slots=True)
class SlowCard(OfCard):
    """A card's observed time, and the part for which the driver reported throttle reasons (``known_ms``).

    ``heat_ms``, ``power_cap_ms`` and ``hardware_ms`` are the times of ticks with that reason when the card was read;
    they may overlap. ``slowed_ms`` is heat or hardware. Error counts are lower bounds, ``None`` where not reported.
    ``xid`` is the newest XID, ``row_remap`` the newest state: 0 neither, 1 pending, 2 failed, 3 both. The newest
    ``recovery_action`` is 0 if none is needed.
    """

    observed_ms: Hours[Count]
    known_ms: Hours[Count]
    heat_ms: Hours[Count]
    power_cap_ms: Hours[Count]
    hardware_ms: Hours[Count]
    slowed_ms: Hours[Count]
    xid_errors: Count | None
    xid: Count | None
    ecc_errors: Count | None
    row_remap: Count | None
    recovery_action: Count | None

    @property
    def is_noteworthy(self) -> bool:
        """Return whether the driver reported a slowdown, a power cap, an error, row remapping or a recovery action."""
        errors = (self.xid_errors, self.ecc_errors, self.row_remap, self.recovery_action)
        return any((self.slowed_ms, self.power_cap_ms, *errors))


@dataclass(frozen=True, kw_only=True, slots=True)
class SlowCards:
    """Every card, the longest slowed by heat or hardware first."""

    cards: tuple[SlowCard, ...]


SLOW_CARDS_VIEW: Final = View("slow_cards", SlowCard, READ)


def _order(card: SlowCard) -> tuple[object, ...]:
    """Return the sort key of cards: the most slowed first, then by errors, power cap, host and index."""
    errors = (card.xid_errors or 0) + (card.ecc_errors or 0)
    return (-card.slowed_ms, -errors, -card.power_cap_ms, *card.place())


def _text(report: Report, style: Style, hours: HourFormat) -> Iterator[Part]:
    """Yield the cards with a reported slowdown or error, the most slowed first."""
    found = report[SlowCards].cards
    known_ms = sum(card.known_ms for card in found)
    if not known_ms and not any(card.is_noteworthy for card in found):
        yield "Unknown: no tick has reasons for reduced clocks, or errors."
        return
    share = known_ms / max(sum(card.observed_ms for card in found), 1)
    yield (
        "Hours in which clocks were held down when the card was read, which may overlap; a power cap is usual under "
        f"full load. Known for {percent(share)} % of the cards' hours. Errors are read once a minute: lower bounds, "
        "with the newest XID number in brackets."
    )
    shown = [card for card in found if card.is_noteworthy]
    if not shown:
        yield "No card reported any of these."
        return
    yield from recoveries(report, style, always=True)
    rows = card_rows(report, style, shown)
    rows.add("hours known", lambda card: hours.of(card.known_ms), leaves=3)
    rows.add(
        ("heat", "hardware", "power cap"),
        lambda card: [
            hours.of(ms) if card.known_ms else NONE for ms in (card.heat_ms, card.hardware_ms, card.power_cap_ms)
        ],
    )
    rows.add("XID events", _xid_events)
    rows.add("ECC errors", lambda card: count(card.ecc_errors), leaves=2)
    rows.add("memory rows", _memory_rows, left=True, leaves=1)
    yield rows.table()
    yield from more(rows.rest, "card", "--csv slow-cards has every one")


def _xid_events(card: SlowCard) -> str:
    newest = "" if card.xid is None else f" ({card.xid})"
    return NONE if card.xid_errors is None else f"{card.xid_errors:,}{newest}"


def _memory_rows(card: SlowCard) -> str:
    return NONE if card.row_remap is None else ROW_REMAPS.get(card.row_remap, str(card.row_remap))


SLOW_CARDS_SECTION = Section(
    name="slow-cards",
    title="What slowed cards down",
    model=SlowCards,
    collect=model_of(SLOW_CARDS_VIEW, lambda rows, _window: SlowCards(cards=tuple(sorted(rows, key=_order)))),
    text=_text,
    csv=Csv(columns(SlowCard), lambda found, _report: map(cells, found.cards)),
)
