"""What programs took of cards' memory, from ticks: asked for by host, as percentiles do not add up over hours."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from gua.core.facts import RATIO_SCALE
from gua.core.metrics import ACTIVITY_SCALE
from gua.core.parameters import BOUNDS, PRICED, READ
from gua.core.view import Count, View
from gua.report.asking import Asking, Finish
from gua.report.costs import added
from gua.report.model import Card, Headline
from gua.report.prices import PricedTime, Prices
from gua.report.questions import Answer, ask
from gua.report.sections.right_size.fits import (
    CardSize,
    ModelSize,
    Peak,
    fits_half,
    fits_slice,
    fits_smaller,
    models_of,
    usable,
)
from gua.report.sections.right_size.model import FitTime, ProgramOnCard, RightSize
from gua.report.states import ACTIVE, IDLE_HELD, UNKNOWN

_NO_HOUR: Final = -1  # an empty list of numbers has no type in SQL
_NOTHING_KNOWN: Final = CardSize(None, None, None, None)


class RightSizeRow(NamedTuple):
    """What a program, or a job of it, took of a card.

    GPU time in us, memory in bytes, utilization in 1/10,000, that of SMs in 1/200.
    """

    host: str
    gpu: str
    owner: str | None
    program: str | None
    job: str | None
    gpu_us: Count
    held_ms: Count
    unknown_ms: Count
    peak_bytes: Count | None
    p95_bytes: Count | None
    peak_utilization: Count | None
    p95_utilization: Count | None
    p95_sm_utilization: Count | None
    priced: tuple[PricedTime, ...]


class CardSizeRow(NamedTuple):
    """A card's memory in bytes, and whether nothing can be said by it: it was cut (MIG), or the host uses it, too.

    ``whole_bytes`` is that of the GPU which an instance is a part of.
    """

    host: str
    gpu: str
    gpu_index: Count | None
    model: str | None
    limit_bytes: Count | None
    reserved_bytes: Count | None
    is_cut: Count
    is_instance: Count
    whole_bytes: Count | None
    is_shared: Count


RIGHT_SIZE_VIEW: Final = View("right_size", RightSizeRow, (*BOUNDS, "tick_hours", *PRICED))
CARD_SIZES: Final = View("card_sizes", CardSizeRow, READ)


def right_size(asking: Asking) -> Finish:
    """Ask what programs took of cards, and what the cards have; a question for every few hosts of a large fleet."""
    hours = [hour.hour for hour in asking.hours] or [_NO_HOUR]
    every: list[Answer[RightSizeRow]] = []
    for hosts in asking.hosts_of_ticks(asking.hours):
        read = {**asking.bounds, "hosts": hosts, "tick_hours": hours}
        every.append(ask(asking.reader, RIGHT_SIZE_VIEW, {**read, **asking.prices.parameters}))
    from_ticks = [hour for hour in asking.hours if not hour.is_counted]
    of_cards: list[Answer[CardSizeRow]] = [
        ask(asking.reader, CARD_SIZES, {**asking.read, "hosts": hosts}) for hosts in asking.hosts_of_ticks(from_ticks)
    ]

    def finish(headline: Headline, _cards: Sequence[Card]) -> RightSize:
        held_ms = sum(headline.states[state].gpu_ms for state in (ACTIVE, IDLE_HELD, UNKNOWN))
        rows, sizes = [row for one in every for row in one()], [row for one in of_cards for row in one()]
        return right_size_of(rows, sizes, asking.prices, held_ms)

    return finish


def right_size_of(
    rows: Iterable[RightSizeRow], sizes: Iterable[CardSizeRow], prices: Prices, held_ms: float
) -> RightSize:
    """Return the rows of ``gua_report.right_size``, judged by the cards' sizes, those of the most GPU time first."""
    cards = {(row.host, row.gpu): _size(row) for row in sizes}
    models = models_of(cards.values())
    found = sorted(
        (_workload(row, cards.get((row.host, row.gpu), _NOTHING_KNOWN), models, prices) for row in rows if row.gpu_us),
        key=lambda one: (-one.gpu_ms, one.host, one.gpu, one.owner or "", one.program or "", one.job or ""),
    )
    return RightSize(
        held_gpu_ms=held_ms,
        every=_added(found, found, prices),
        half=_added([one for one in found if one.fits_half], found, prices),
        slice=_added([one for one in found if one.fits_slice], found, prices),
        smaller=_added([one for one in found if one.fits_smaller], found, prices),
        any=_added([one for one in found if one.fits], found, prices),
        none=_added([one for one in found if one.fits is False], found, prices),
        not_known=_added([one for one in found if one.fits is None], found, prices),
        workloads=tuple(found),
    )


def _size(row: CardSizeRow) -> CardSize:
    return CardSize(
        place=row.gpu_index,
        model=row.model,
        limit_bytes=row.limit_bytes,
        usable_bytes=usable(row.limit_bytes, row.reserved_bytes, is_told=not row.is_cut and not row.is_shared),
        is_instance=bool(row.is_instance),
        whole_bytes=row.whole_bytes,
    )


def _workload(row: RightSizeRow, card: CardSize, models: Mapping[str, ModelSize], prices: Prices) -> ProgramOnCard:
    peak = Peak(row.peak_bytes, is_whole=not row.unknown_ms)
    in_slice, part = fits_slice(peak, card)
    in_smaller, smaller = fits_smaller(peak, card, models)
    return ProgramOnCard(
        host=row.host,
        gpu=row.gpu,
        index=card.place,
        model=card.model,
        is_instance=card.is_instance,
        owner=row.owner,
        program=row.program,
        job=row.job,
        gpu_ms=row.gpu_us / 1000,
        untold_gpu_ms=row.gpu_us / 1000 * row.unknown_ms / row.held_ms if row.held_ms else 0.0,
        cost=prices.cost(row.gpu_us, row.priced),
        peak_bytes=row.peak_bytes,
        p95_bytes=row.p95_bytes,
        usable_bytes=card.usable_bytes,
        peak_utilization=_ratio(row.peak_utilization),
        p95_utilization=_ratio(row.p95_utilization),
        p95_sm_utilization=None if row.p95_sm_utilization is None else row.p95_sm_utilization / ACTIVITY_SCALE,
        fits_half=fits_half(peak, card),
        fits_slice=in_slice,
        slice=part,
        fits_smaller=in_smaller,
        smaller_model=smaller,
    )


def _ratio(stored: int | None) -> float | None:
    return None if stored is None else stored / RATIO_SCALE


def _added(some: Sequence[ProgramOnCard], every: Sequence[ProgramOnCard], prices: Prices) -> FitTime:
    gpu_ms, whole_ms = (math.fsum(one.gpu_ms for one in each) for each in (some, every))
    return FitTime(
        workloads=len(some),
        gpu_ms=gpu_ms,
        share=gpu_ms / whole_ms if whole_ms else None,
        cost=added((prices.cost(0, ()), *(one.cost for one in some))),
    )
