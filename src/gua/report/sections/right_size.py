"""What programs took of the memory of cards, and what they would have fitted, by the peaks of ticks."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple, TypeVar

from gua.core.facts import RATIO_SCALE
from gua.core.metrics import ACTIVITY_SCALE
from gua.core.parameters import BOUNDS, PRICED, READ
from gua.core.view import Count, View
from gua.report.asking import Asking, Finish
from gua.report.costs import OneCost, added, with_currencies
from gua.report.hours import NO_HOUR
from gua.report.kit.amounts import Amounts
from gua.report.kit.fields import Cells, Hours, Ratio, cells, columns, filled, grouped
from gua.report.kit.figures import NONE, HourFormat, amount, apportion_rest, percent, percents
from gua.report.kit.style import Style
from gua.report.kit.tables import Heading, Part, Rows, Table, more
from gua.report.kit.words import card_name, known
from gua.report.model import Card, Headline, OfCard, Report
from gua.report.parts import MOST_CARD_HOURS_OF_TICKS
from gua.report.prices import PricedTime, Prices
from gua.report.section import Csv, Section
from gua.report.sections.right_size_fits import (
    CardSize,
    ModelSize,
    Peak,
    fits_half,
    fits_slice,
    fits_smaller,
    models_of,
    usable,
)
from gua.report.states import ACTIVE, IDLE_HELD, UNKNOWN


@dataclass(frozen=True, kw_only=True, slots=True)
class ProgramOnCard(OfCard):
    """What one owner's program, or Slurm job of it, took of one card, of all its processes there together.

    ``is_instance`` is that of a MIG instance, whose slices are smaller parts of its GPU.
    Memory and utilization are of ticks, at the moments at which cards were read: what was between is not known.
    ``peak_bytes`` is the largest, ``p95_bytes`` what 95 % of the time did not exceed, both of the ticks that tell;
    ``untold_gpu_ms`` is about the GPU time of the others. ``usable_bytes`` is the card's memory without the driver's
    reserve; ``None`` for GPUs that were partitioned, and memory that the host uses, too.
    Utilization is that of the busiest process; ``p95_sm_utilization`` that of the card's SMs, whoever was on it, of the
    ticks whose counters tell. ``fits_half``, ``fits_slice`` and ``fits_smaller`` are ``None`` where
    that is not known; ``slice`` is the smallest part of the card's memory, ``smaller_model`` the smallest model of the
    fleet, of those that fit.
    """

    is_instance: bool
    owner: str | None
    program: str | None
    job: str | None
    gpu_ms: Hours[float]
    untold_gpu_ms: Hours[float]
    cost: OneCost
    peak_bytes: int | None
    p95_bytes: int | None
    usable_bytes: int | None
    peak_utilization: Ratio[float | None]
    p95_utilization: Ratio[float | None]
    p95_sm_utilization: Ratio[float | None]
    fits_half: bool | None
    fits_slice: bool | None
    slice: str | None
    fits_smaller: bool | None
    smaller_model: str | None

    @property
    def fits(self) -> bool | None:
        """Return whether it fits any of the three; ``None`` where that is not known."""
        every = (self.fits_half, self.fits_slice, self.fits_smaller)
        return True if True in every else None if None in every else False


@dataclass(frozen=True, kw_only=True, slots=True)
class FitTime:
    """Some workloads, a card each: their GPU time, its share of all of it, and what it cost."""

    workloads: int
    gpu_ms: Hours[float]
    share: Ratio[float | None]
    cost: OneCost


@dataclass(frozen=True, kw_only=True, slots=True)
class RightSize:
    """What would have fitted half a card, a MIG slice, a smaller model; any of these, none, and what is not known.

    ``every`` is these three last together; ``held_gpu_ms`` the held time of the headline, of which ``every`` is what
    processes in ticks tell of.
    """

    held_gpu_ms: Hours[float]
    every: FitTime
    half: FitTime
    slice: FitTime
    smaller: FitTime
    any: FitTime
    none: FitTime
    not_known: FitTime
    workloads: tuple[ProgramOnCard, ...]


N = TypeVar("N", int, float)
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
    is_instance: bool
    whole_bytes: Count | None
    is_shared: Count


RIGHT_SIZE_VIEW: Final = View("right_size", RightSizeRow, (*BOUNDS, "tick_hours", *PRICED))
CARD_SIZES: Final = View("card_sizes", CardSizeRow, READ)


def _collect(asking: Asking) -> Finish:
    """Query what programs took of cards, and what the cards have; of a large fleet a few hosts at a time."""
    hours = [hour.hour for hour in asking.hours] or [NO_HOUR]
    rows = asking.rows_of_ticks(RIGHT_SIZE_VIEW, asking.hours, tick_hours=hours)
    sizes = asking.rows_of_ticks(CARD_SIZES, [hour for hour in asking.hours if not hour.is_counted])

    def finish(headline: Headline, _cards: Sequence[Card]) -> RightSize:
        held_ms = sum(headline.states[state].gpu_ms for state in (ACTIVE, IDLE_HELD, UNKNOWN))
        return right_size_of(rows(), sizes(), asking.prices, held_ms)

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
    is_told = not row.is_cut and not row.is_shared
    return filled(CardSize, row, usable_bytes=usable(row.limit_bytes, row.reserved_bytes, is_told=is_told))


def _workload(row: RightSizeRow, card: CardSize, models: Mapping[str, ModelSize], prices: Prices) -> ProgramOnCard:
    peak = Peak(row.peak_bytes, is_whole=not row.unknown_ms)
    in_slice, part = fits_slice(peak, card)
    in_smaller, smaller = fits_smaller(peak, card, models)
    return filled(
        ProgramOnCard,
        row,
        card,
        untold_gpu_ms=row.gpu_us / 1000 * row.unknown_ms / row.held_ms if row.held_ms else 0.0,
        cost=prices.cost(row.gpu_us, row.priced),
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


MOST_PROGRAMS: Final = 24
_GIB: Final = 1 << 30
_MODEL_WIDTH: Final = 12


def _text(report: Report, style: Style, hours: HourFormat) -> Iterator[Part]:
    """Yield the hours that would have fitted less, and the programs that they are of."""
    found = report[RightSize]
    if not found.workloads:
        yield "Not known: no tick of the window has a listed process."
        return
    yield (
        "By memory alone, a card for itself: the peak of a program's processes at the moments of ticks, over its time "
        "in the window. What was between ticks is not known; a slice computes less, too. Of a MIG instance a slice is "
        "a smaller profile of its GPU."
    )
    yield _fits_table(found, style, hours, Amounts.of_report(report))
    yield (
        f"Of {hours.of(found.held_gpu_ms)} held GPU-hours, processes in ticks tell of {hours.of(found.every.gpu_ms)}: "
        "the rest had no listed process, or its ticks are gone."
    )
    groups = _programs(found.workloads)
    if groups:
        yield Heading("Programs that would have fitted less, the most GPU-hours first")
        yield from _programs_table(groups, style, hours)


def _fits_table(found: RightSize, style: Style, hours: HourFormat, amounts: Amounts) -> Table:
    """Return a row for each fit: the last three add up to all that is told, the others are no more than any of them."""
    others = (("half a card", found.half), ("a MIG slice", found.slice), ("a smaller model here", found.smaller))
    whole = (("any of these", found.any), ("none of these", found.none), ("not known", found.not_known))
    values = [part.gpu_ms for _, part in whole]
    in_hours = [*(hours.of(part.gpu_ms) for _, part in others), *hours.parts(values, apportion_rest)]
    in_shares = [*(percent(part.share) for _, part in others), *percents(values, apportion_rest)]
    rows = Rows([*zip((*others, *whole), in_hours, in_shares, strict=True)])
    rows.add("would have fitted", lambda one: one[0][0], left=True)
    rows.add(("GPU-hours", "%"), lambda one: one[1:])
    rows.add(amounts.titles("cost", style.name), lambda one: amounts.cells(one[0][1].cost), leaves=1)
    return rows.table()


def _programs(workloads: Sequence[ProgramOnCard]) -> list[list[ProgramOnCard]]:
    """Return what fits less, together by owner, program and model, the most GPU time first."""
    fitting = (one for one in workloads if one.fits)
    groups = grouped(fitting, lambda one: (one.owner, one.program, one.model, one.is_instance))
    return sorted(groups.values(), key=lambda group: -sum(one.gpu_ms for one in group))


def _programs_table(groups: Sequence[Sequence[ProgramOnCard]], style: Style, hours: HourFormat) -> Iterator[Part]:
    """Yield a row a program: of its cards and jobs the largest peaks, and what all of them would have fitted."""
    rows = Rows(groups, MOST_PROGRAMS * style.times)
    rows.add("owner", lambda group: known(group[0].owner, style), left=True, shortest=6, is_head=True)
    rows.add("program", lambda group: known(group[0].program, style), left=True, shortest=6, is_head=True)
    rows.add("on", lambda group: _model(group[0], style), left=True, shortest=6, is_head=True)
    rows.add(
        "fits",
        lambda group: _fits(group, style),
        left=True,
        note="the smallest part of the GPU, or a model here, that would have done",
    )
    rows.add("GPU-hours", lambda group: hours.of(sum(one.gpu_ms for one in group)))
    rows.add(
        "peak GiB",
        lambda group: _gib(_largest(group).peak_bytes),
        leaves=3,
        note="largest memory of its processes on one card",
    )
    rows.add(
        "95 %",
        lambda group: _gib(_most(one.p95_bytes for one in group)),
        leaves=5,
        note="GiB that 95 % of the time did not exceed",
    )
    rows.add(
        "of GiB",
        lambda group: _gib(_largest(group).usable_bytes),
        leaves=2,
        note="what the card has for programs",
    )
    rows.add(
        "busy %",
        lambda group: percent(_most(one.peak_utilization for one in group)),
        leaves=4,
        note="largest utilization of a process",
    )
    if any(one.p95_sm_utilization is not None for group in groups for one in group):
        rows.add(
            "SMs %",
            lambda group: percent(_most(one.p95_sm_utilization for one in group)),
            leaves=6,
            note="of the card, not exceeded for 95 % of the time",
        )
    yield rows.table()
    yield from more(rows.rest, "program", "--csv right-size has every one")


def _largest(group: Sequence[ProgramOnCard]) -> ProgramOnCard:
    return max(group, key=lambda one: one.peak_bytes or 0)


def _most(figures: Iterable[N | None]) -> N | None:
    return max((figure for figure in figures if figure is not None), default=None)


def _model(one: ProgramOnCard, style: Style) -> str:
    name = card_name(one.model, one.gpu, style)
    return f"MIG {name}" if one.is_instance else name


def _fits(group: Sequence[ProgramOnCard], style: Style) -> str:
    """Return what all of a program's workloads fit, by the largest of them."""
    largest = _largest(group)
    words = []
    if all(one.fits_slice for one in group):
        words.append(f"MIG {largest.slice}")
    elif all(one.fits_half for one in group):
        words.append("half")
    if all(one.fits_smaller for one in group):
        words.append(card_name(largest.smaller_model, largest.gpu, style)[:_MODEL_WIDTH])
    return ", ".join(words) or "in part"


def _gib(size: int | None) -> str:
    return NONE if size is None else amount(size / _GIB)


def _rows(found: RightSize, _report: Report) -> Iterator[Cells]:
    for one in found.workloads:
        yield from with_currencies(cells(one), one.cost, _WHOSE)


_WHOSE = ("host", "gpu", "owner", "program", "job")
RIGHT_SIZE_SECTION = Section(
    name="right-size",
    title="What would have fitted less memory",
    model=RightSize,
    collect=_collect,
    most_card_hours=MOST_CARD_HOURS_OF_TICKS,
    text=_text,
    csv=Csv(columns(ProgramOnCard), _rows),
)
