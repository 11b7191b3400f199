"""What programs took of the memory of cards, and what they would have fitted, by the peaks of ticks."""

from __future__ import annotations

import math
import re
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
from gua.report.prices import PricedTime, Prices
from gua.report.section import Csv, Section
from gua.report.size_limit import MOST_CARD_HOURS_OF_TICKS
from gua.report.states import ACTIVE, IDLE_HELD, UNKNOWN

RESERVE_DOUBT: Final = 1 << 30
"""Memory that a driver may keep for itself where it does not tell, as in the rules [bytes]."""
# What the profiles of the MIG user guide leave of their part of a card's memory: 0.91 (1g.18gb of an H200) to 0.97.
_LEFT_BY_PROFILE: Final = 0.9
# Of 1g, 2g and 3g: https://docs.nvidia.com/datacenter/tesla/mig-user-guide/supported-mig-profiles.html
_EIGHTHS: Final = (("1/8", 1 / 8), ("1/4", 1 / 4), ("1/2", 1 / 2))
# Each part is half of the next: an instance of half a GPU has 0.45 to 0.5 of its memory.
_SMALLER: Final = 0.75
_QUARTERS: Final = (("1/4", 1 / 4), ("1/2", 1 / 2))
_SLICES: Final = (
    (re.compile(r"\b(A30|RTX PRO 6000)\b"), _QUARTERS),
    (re.compile(r"\b(A100|H100|H800|A800|H20|H200|GH200|B100|B200|GB200|B300|GB300)\b"), _EIGHTHS),
)


@dataclass(frozen=True, slots=True)
class CardSize:
    """A card's memory: ``usable_bytes`` without the driver's reserve; ``None`` where nothing can be said of it.

    Of a MIG instance ``whole_bytes`` is the memory of the GPU that it is a part of.
    """

    index: int | None
    model: str | None
    limit_bytes: int | None
    usable_bytes: int | None
    is_instance: bool = False
    whole_bytes: int | None = None


class ModelSize(NamedTuple):
    """The least memory of a model's cards, in total and what programs can have of it [bytes]."""

    limit_bytes: int
    usable_bytes: int


class Peak(NamedTuple):
    """The largest memory of ticks that tell; ``is_whole`` where all of them did."""

    bytes: int | None
    is_whole: bool

    def within(self, most_bytes: float | None) -> bool | None:
        """Return whether it lies within so much: too large is certain, small enough only where every tick tells."""
        if most_bytes is None or self.bytes is None:
            return None
        return False if self.bytes > most_bytes else True if self.is_whole else None


def usable(limit_bytes: int | None, reserved_bytes: int | None, *, is_told: bool) -> int | None:
    """Return what programs can have of a card; ``None`` where its memory is unknown, or ``is_told`` is false."""
    if not is_told or not limit_bytes:
        return None
    return max(0, limit_bytes - (RESERVE_DOUBT if reserved_bytes is None else reserved_bytes))


def fits_half(peak: Peak, card: CardSize) -> bool | None:
    """Return whether two of these would have had room on the card."""
    return peak.within(None if card.usable_bytes is None else card.usable_bytes / 2)


def fits_slice(peak: Peak, card: CardSize) -> tuple[bool | None, str | None]:
    """Return whether a MIG slice of the GPU would have done, by memory alone, and the smallest part that does.

    Of an instance only parts count that are smaller than what it has.
    """
    whole_bytes = card.whole_bytes if card.is_instance else card.limit_bytes
    if card.usable_bytes is None or not card.limit_bytes or not whole_bytes or card.model is None:
        return None, None
    parts = next((parts for pattern, parts in _SLICES if pattern.search(card.model)), None)
    if parts is None and card.is_instance:  # it can be cut, and nobody knows how
        return None, None
    found: bool | None = False
    for name, part in parts or ():
        if part > _SMALLER * card.limit_bytes / whole_bytes:
            break
        fits = peak.within(whole_bytes * part * _LEFT_BY_PROFILE)
        if fits:
            return True, name
        found = None if fits is None else found
    return found, None


def fits_smaller(peak: Peak, card: CardSize, models: Mapping[str, ModelSize]) -> tuple[bool | None, str | None]:
    """Return whether another model with less memory would have done, of ``models``, and which.

    Totals are compared: of two hosts one may have a driver that does not tell its reserve, and no smaller cards.
    """
    if card.usable_bytes is None or card.limit_bytes is None:
        return None, None
    smaller = [
        (size.usable_bytes, model)
        for model, size in models.items()
        if model != card.model and size.limit_bytes < card.limit_bytes
    ]
    found: bool | None = False
    for usable_bytes, model in sorted(smaller):
        fits = peak.within(usable_bytes)
        if fits:
            return True, model
        found = None if fits is None else found
    return found, None


def models_of(cards: Iterable[CardSize]) -> Mapping[str, ModelSize]:
    """Return the least memory of each model's whole cards; of those of which nothing can be said, nothing."""
    found: dict[str, ModelSize] = {}
    for card in cards:
        if card.is_instance or card.model is None:
            continue
        if card.limit_bytes is not None and card.usable_bytes is not None:
            least = found.get(card.model, ModelSize(card.limit_bytes, card.usable_bytes))
            found[card.model] = ModelSize(
                min(card.limit_bytes, least.limit_bytes), min(card.usable_bytes, least.usable_bytes)
            )
    return found


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
