"""How much of the active and idle-held hours was idle seconds, of all cards and of each."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from gua.core.idle_time import ACTIVE_FROM
from gua.report.kit.card_tables import card_table
from gua.report.kit.figures import NONE, HourFormat, amount, percent
from gua.report.kit.style import Style
from gua.report.kit.tables import Heading, Part, Table, TableColumn
from gua.report.model import Report
from gua.report.sections.energy.text import JOULES_PER_KWH
from gua.report.sections.usefulness.activity_text import activity
from gua.report.sections.usefulness.model import CardIdleTime, IdleTime, Usefulness
from gua.report.states import ACTIVE

_STATES: Final = (
    TableColumn(title="", left=True),
    TableColumn(title="GPU-hours"),
    TableColumn(title="samples tell of"),
    TableColumn(title="idle of that"),
    TableColumn(title="%"),
    TableColumn(title="kWh", leaves=2),
    TableColumn(title="of idle hours", leaves=2),
)
_CARDS: Final = (
    TableColumn(title="active"),
    TableColumn(title="samples tell of"),
    TableColumn(title="idle of that"),
    TableColumn(title="%"),
)


def usefulness(report: Report, style: Style, hours: HourFormat) -> Iterator[Part]:
    """Yield idle seconds, then what performance counters tell of active hours."""
    yield from _idle_seconds(report, style, hours)
    yield from activity(report, style, hours)


def _idle_seconds(report: Report, style: Style, hours: HourFormat) -> Iterator[Part]:
    """Yield the idle seconds of each state over all cards, and of the active hours of each card."""
    found = report[Usefulness]
    if not found.loaded.sampled_gpu_ms:
        yield "Not known: no sample tells busy from idle seconds of any active or idle-held card."
        return
    yield (
        "A card is active where the mean of a tick is. Idle of that: seconds whose samples lie below "
        f"{ACTIVE_FROM * 100:.4g} %, the agents' threshold. What no sample tells of is not known. kWh: by power "
        "samples, of as many idle hours."
    )
    yield Table(
        columns=_STATES,
        rows=[
            *([state, *_state(part, hours)] for state, part in found.states.items()),
            ["both", *_state(found.loaded, hours)],
        ],
    )
    yield (
        f"While a program may have been loaded, {percent(found.loaded.idle_share)} % of what samples tell of was idle "
        "(execution-idle, arXiv 2604.04745)."
    )
    shown = sorted((card for card in found.cards if card.states[ACTIVE].gpu_ms), key=_most_idle)
    if not shown:
        return
    yield Heading("Active hours by card, the most idle first")
    told = [(card, _told(card.states[ACTIVE], hours)) for card in shown]
    yield from card_table(report, style, "usefulness", _CARDS, told)


def _most_idle(card: CardIdleTime) -> float:
    return -card.states[ACTIVE].idle_gpu_ms


def _state(part: IdleTime, hours: HourFormat) -> list[str]:
    return [
        *_told(part, hours),
        NONE if part.idle_joules is None else amount(part.idle_joules / JOULES_PER_KWH, 2),
        hours.of(part.measured_gpu_ms),
    ]


def _told(part: IdleTime, hours: HourFormat) -> list[str]:
    """Return hours, those that samples tell of, and the idle ones of them: of what nothing tells, none is not 0."""
    return [
        hours.of(part.gpu_ms),
        hours.of(part.sampled_gpu_ms),
        hours.of(part.idle_gpu_ms) if part.sampled_gpu_ms else NONE,
        percent(part.idle_share),
    ]
