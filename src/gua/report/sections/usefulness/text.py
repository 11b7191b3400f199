"""How much of the active and idle-held hours was idle seconds, of all cards and of each."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from gua.core.idle_time import ACTIVE_FROM
from gua.report.kit.figures import NONE, HourFormat, amount, amounts, percent
from gua.report.kit.style import Style
from gua.report.kit.tables import Heading, Part, Table, TableColumn, card_table
from gua.report.model import Report
from gua.report.sections.energy.text import JOULES_PER_KWH
from gua.report.sections.headline.text import state_units
from gua.report.sections.usefulness.activity_text import activity
from gua.report.sections.usefulness.model import CardIdleTime, IdleTime, Usefulness
from gua.report.states import ACTIVE, IDLE_HELD

_STATES: Final = (
    TableColumn(title="", left=True),
    TableColumn(title="GPU-hours"),
    TableColumn(title="samples tell of"),
    TableColumn(title="idle of that"),
    TableColumn(title="%"),
    TableColumn(title="kWh", leaves=2),
    TableColumn(title="of idle hours", leaves=2),
)
_KWH_DECIMALS: Final = 2
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
        rows=_by_state(report, hours),
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


def _by_state(report: Report, hours: HourFormat) -> list[list[str]]:
    """Return a row for each state and one for both, to which each column adds up.

    Hours are written as in the headline, and what samples tell of the active ones as on the first screen.
    """
    found = report[Usefulness]
    parts = list(found.states.values())
    every = [*parts, found.loaded]

    def told(values: Sequence[float]) -> list[str]:
        (both,) = hours.units([sum(values)])
        first = min(hours.units(values[:1])[0], both)
        return [*map(hours.written, [*values, sum(values)], [first, both - first, both])]

    times = [part.gpu_ms for part in parts]
    units = [state_units(report, hours)[state] for state in (ACTIVE, IDLE_HELD)]
    energies = [(part.idle_joules or 0) / JOULES_PER_KWH for part in parts]
    columns = (
        [*found.states, "both"],
        [*map(hours.written, [*times, sum(times)], [*units, sum(units)])],
        told([part.sampled_gpu_ms for part in parts]),
        _known(told([part.idle_gpu_ms for part in parts]), (part.sampled_gpu_ms > 0 for part in every)),
        [percent(part.idle_share) for part in every],
        _known(
            [*amounts(energies, _KWH_DECIMALS), amount(sum(energies), _KWH_DECIMALS)],
            (part.idle_joules is not None for part in every),
        ),
        told([part.measured_gpu_ms for part in parts]),
    )
    return [list(row) for row in zip(*columns, strict=True)]


def _known(written: Sequence[str], are_known: Iterable[bool]) -> list[str]:
    return [one if is_known else NONE for one, is_known in zip(written, are_known, strict=True)]


def _told(part: IdleTime, hours: HourFormat) -> list[str]:
    """Return hours, those that samples tell of, and the idle ones of them: of what nothing tells, none is not 0."""
    return [
        hours.of(part.gpu_ms),
        hours.of(part.sampled_gpu_ms),
        hours.of(part.idle_gpu_ms) if part.sampled_gpu_ms else NONE,
        percent(part.idle_share),
    ]
