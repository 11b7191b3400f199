"""Input of the state rules: one card in one tick, in stored units and resolution."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from gua.core.words import ProcessList, ProcessType

if TYPE_CHECKING:
    from gua.core.tick import CardReading, ProcessReading

RATIO_SCALE = 10_000


@dataclass(frozen=True, slots=True)
class TypeTotals:
    """Totals of the processes of one type on one card: count, known memory, and count of unknown memory."""

    count: int = 0
    memory_bytes: int = 0
    unknown: int = 0


_PLACES = {kind: 3 * number for number, kind in enumerate(ProcessType)}


@dataclass(frozen=True, kw_only=True, slots=True)
class CardFacts:
    """The stored columns of a card tick that decide its state.

    Utilizations are in 1/10,000 (``utilization=1000`` is 10 %). ``processes`` is ``None`` if the list is unknown,
    because its metrics are absent then. A type that is missing from it has no process.
    """

    utilization: int | None = None
    utilization_encoder: int | None = None
    utilization_decoder: int | None = None
    process_utilization_max: int | None = None
    memory_used_bytes: int | None = None
    memory_limit_bytes: int | None = None
    memory_reserved_bytes: int | None = None
    memory_shared: bool | None = None
    process_list: ProcessList = ProcessList.ABSENT
    processes: dict[ProcessType, TypeTotals] | None = None
    failed: bool | None = None


def ratio(value: float | None) -> int | None:
    """Return a ratio in 1/10,000, rounded half to even as ClickHouse's ``round`` does."""
    return None if value is None else round(value * RATIO_SCALE)


def type_totals(processes: tuple[ProcessReading, ...]) -> list[int]:
    """Return count, known memory [bytes] and count of unknown memory for each process type in order, as one list."""
    totals = [0] * (3 * len(_PLACES))
    for process in processes:
        place = _PLACES[process.type]
        totals[place] += 1
        if process.memory_bytes is None:
            totals[place + 2] += 1
        else:
            totals[place + 1] += process.memory_bytes
    return totals


def totals_by_type(processes: tuple[ProcessReading, ...]) -> dict[ProcessType, TypeTotals]:
    """Return the totals of every process type, including types without a process."""
    totals = type_totals(processes)
    return {kind: TypeTotals(*totals[place : place + 3]) for kind, place in _PLACES.items()}


def busiest(processes: tuple[ProcessReading, ...]) -> float | None:
    """Return the largest known utilization of any process, ``None`` if none is known."""
    return max([process.utilization for process in processes if process.utilization is not None], default=None)


def card_facts(card: CardReading) -> CardFacts:
    """Return the rules' input for a reading: exactly the values that the store has."""
    return CardFacts(
        utilization=ratio(card.utilization),
        utilization_encoder=ratio(card.utilization_encoder),
        utilization_decoder=ratio(card.utilization_decoder),
        process_utilization_max=ratio(busiest(card.processes)),
        processes=totals_by_type(card.processes) if card.process_list is ProcessList.KNOWN else None,
        memory_used_bytes=card.memory_used_bytes,
        memory_limit_bytes=card.memory_limit_bytes,
        memory_reserved_bytes=card.memory_reserved_bytes,
        memory_shared=card.memory_shared,
        process_list=card.process_list,
        failed=card.failed,
    )
