"""Section right-size: peak memory of programs, and which smaller cards or slices they would have fitted."""

import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple, TypeVar

from gua.core.facts import RATIO_SCALE
from gua.core.metrics import ACTIVITY_SCALE
from gua.core.parameters import BOUNDS, PRICED, READ
from gua.core.view import Count, View
from gua.report.context import Finish, ReportContext
from gua.report.costs import OneCost, added, with_currencies
from gua.report.hours import MOST_CARD_HOURS_OF_TICKS, NO_HOUR
from gua.report.kit.amounts import Amounts
from gua.report.kit.basis import gib
from gua.report.kit.fields import Cells, Hours, Ratio, cells, columns, filled, grouped, of_card
from gua.report.kit.figures import HourFormat, apportion_rest, percent, percents
from gua.report.kit.style import Style
from gua.report.kit.tables import Heading, Part, Rows, more
from gua.report.kit.words import card_name, known
from gua.report.model import Card, Headline, OfCard, Report
from gua.report.prices import PricedTime, Prices
from gua.report.section import Csv, Section
from gua.report.states import ACTIVE, IDLE_HELD, UNKNOWN

RESERVE_DOUBT: Final = 1 << 30
"""Memory that the driver may reserve where it does not report its reserve, as in docs/rules.md [bytes]."""
# MIG profiles offer 0.91 (1g.18gb of an H200) to 0.97 of their fraction of a GPU's memory (MIG user guide).
_LEFT_BY_PROFILE: Final = 0.9
# Profiles 1g, 2g and 3g: https://docs.nvidia.com/datacenter/tesla/mig-user-guide/supported-mig-profiles.html
_EIGHTHS: Final = (("1/8", 1 / 8), ("1/4", 1 / 4), ("1/2", 1 / 2))
# Excludes an instance's own size: that of half a GPU has 0.45 to 0.5 of the memory, the next smaller half of that.
_SMALLER: Final = 0.75
_QUARTERS: Final = (("1/4", 1 / 4), ("1/2", 1 / 2))
_SLICES: Final = (
    (re.compile(r"\b(A30|RTX PRO 6000)\b"), _QUARTERS),
    (re.compile(r"\b(A100|H100|H800|A800|H20|H200|GH200|B100|B200|GB200|B300|GB300)\b"), _EIGHTHS),
)


class CardSize(NamedTuple):
    """A card's memory [bytes], and whether it was partitioned (``is_cut``) or is the host's memory (``is_shared``).

    ``whole_bytes`` is the memory of an instance's GPU.
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

    @property
    def usable_bytes(self) -> int | None:
        """Return the memory without the driver's reserve; ``None`` where unknown, partitioned or shared."""
        if self.is_cut or self.is_shared or not self.limit_bytes:
            return None
        return max(0, self.limit_bytes - (RESERVE_DOUBT if self.reserved_bytes is None else self.reserved_bytes))


class ModelSize(NamedTuple):
    """The smallest memory of a model's cards: total, and usable by programs [bytes]."""

    limit_bytes: int
    usable_bytes: int


class Peak(NamedTuple):
    """The largest memory of the ticks that report it; ``is_whole`` if all of them do."""

    bytes: int | None
    is_whole: bool

    def within(self, most_bytes: float | None) -> bool | None:
        """Return whether the peak is within the limit; ``None`` if unknown, or if it fits but some ticks lack it."""
        if most_bytes is None or self.bytes is None:
            return None
        return False if self.bytes > most_bytes else True if self.is_whole else None


def fits_half(peak: Peak, card: CardSize) -> bool | None:
    """Return whether two programs of this peak would have fitted on the card; ``None`` if unknown."""
    return peak.within(None if card.usable_bytes is None else card.usable_bytes / 2)


def fits_slice(peak: Peak, card: CardSize) -> tuple[bool | None, str | None]:
    """Return whether a MIG slice of the GPU would have sufficed, by memory alone, and the smallest one.

    For an instance only smaller slices count. Both are ``None`` where that is unknown.
    """
    whole_bytes = card.whole_bytes if card.is_instance else card.limit_bytes
    if card.usable_bytes is None or not card.limit_bytes or not whole_bytes or card.model is None:
        return None, None
    parts = next((parts for pattern, parts in _SLICES if pattern.search(card.model)), None)
    if parts is None and card.is_instance:  # it is partitioned, but the profiles of its model are unknown
        return None, None
    most = _SMALLER * card.limit_bytes / whole_bytes
    return _first_fit(
        peak, [(whole_bytes * part * _LEFT_BY_PROFILE, name) for name, part in parts or () if part <= most]
    )


def _first_fit(peak: Peak, sizes: Iterable[tuple[float, str]]) -> tuple[bool | None, str | None]:
    """Return whether the peak is within one of the sizes [bytes], ascending, and the name of the first one."""
    found: bool | None = False
    for most_bytes, name in sizes:
        fits = peak.within(most_bytes)
        if fits:
            return True, name
        found = None if fits is None else found
    return found, None


def fits_smaller(peak: Peak, card: CardSize, models: Mapping[str, ModelSize]) -> tuple[bool | None, str | None]:
    """Return whether another model in ``models`` with less memory would have sufficed, and the smallest one.

    Total memory decides which model is smaller: the usable memory of equal cards differs with unreported reserves.
    """
    if card.usable_bytes is None or card.limit_bytes is None:
        return None, None
    smaller = [
        (size.usable_bytes, model)
        for model, size in models.items()
        if model != card.model and size.limit_bytes < card.limit_bytes
    ]
    return _first_fit(peak, sorted(smaller))


def models_of(cards: Iterable[CardSize]) -> Mapping[str, ModelSize]:
    """Return the smallest memory of each model's whole cards; cards of unknown usable memory are left out."""
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
    """The resources that one owner's program, or one Slurm job of it, took of a card, over all its processes there.

    ``is_instance``: the card is a MIG instance. Memory and utilization are sampled at ticks only. ``peak_bytes`` is the
    maximum, ``p95_bytes`` the 95th percentile by time, both of the ticks with known memory. ``unknown_gpu_ms`` is the
    approximate GPU time of the other ticks. ``usable_bytes`` is the card's memory without the driver's reserve;
    ``None`` for partitioned GPUs and for memory shared with the host. Utilization is that of the busiest process.
    ``p95_sm_utilization`` is the card's SM activity, by any process, of ticks with counters. ``fits_half``,
    ``fits_slice`` and ``fits_smaller`` are ``None`` where unknown. ``slice`` is the smallest sufficient part of the
    GPU's memory, ``smaller_model`` the smallest sufficient model of the fleet.
    """

    is_instance: bool
    owner: str | None
    program: str | None
    job: str | None
    gpu_ms: Hours[float]
    unknown_gpu_ms: Hours[float]
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
        """Return whether any of the three fits; ``None`` where that is unknown."""
        every = (self.fits_half, self.fits_slice, self.fits_smaller)
        return True if True in every else None if None in every else False


@dataclass(frozen=True, kw_only=True, slots=True)
class FitTime:
    """Workloads, each on one card: their number, GPU time, share of all workloads' time (0 to 1), and cost."""

    workloads: int
    gpu_ms: Hours[float]
    share: Ratio[float | None]
    cost: OneCost


@dataclass(frozen=True, kw_only=True, slots=True)
class RightSize:
    """Workloads that would have fitted half a card, a MIG slice or a smaller model; any, none, or unknown.

    ``every`` is the sum of ``any``, ``none`` and ``not_known``. ``held_gpu_ms`` is the headline's time that was not
    truly-idle; ``every`` is the part of it with listed processes in ticks.
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
_NOTHING_KNOWN: Final = CardSize("", "", None, None, None, None, 0, is_instance=False, whole_bytes=None, is_shared=0)


class RightSizeRow(NamedTuple):
    """The resources that a program, or one Slurm job of it, took of a card.

    GPU time in us, memory in bytes, utilization in 1/10,000, SM activity in 1/200.
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


RIGHT_SIZE_VIEW: Final = View("right_size", RightSizeRow, (*BOUNDS, "tick_hours", *PRICED))
CARD_SIZES: Final = View("card_sizes", CardSize, READ)


def _collect(context: ReportContext) -> Finish:
    """Query the programs' use of cards and the cards' sizes, for a large fleet in batches of hosts."""
    hours = [hour.hour for hour in context.hours] or [NO_HOUR]
    rows = context.rows_of_ticks(RIGHT_SIZE_VIEW, context.hours, tick_hours=hours)
    sizes = context.rows_of_ticks(CARD_SIZES, [hour for hour in context.hours if not hour.is_counted])

    def finish(headline: Headline, _cards: Sequence[Card]) -> RightSize:
        held_ms = sum(headline.states[state].gpu_ms for state in (ACTIVE, IDLE_HELD, UNKNOWN))
        return right_size_of(rows(), sizes(), context.prices, held_ms)

    return finish


def right_size_of(rows: Iterable[RightSizeRow], sizes: Iterable[CardSize], prices: Prices, held_ms: float) -> RightSize:
    """Return the workloads compared with the cards' sizes, largest GPU time first."""
    cards = {of_card(row): row for row in sizes}
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


def _workload(row: RightSizeRow, card: CardSize, models: Mapping[str, ModelSize], prices: Prices) -> ProgramOnCard:
    peak = Peak(row.peak_bytes, is_whole=not row.unknown_ms)
    in_slice, part = fits_slice(peak, card)
    in_smaller, smaller = fits_smaller(peak, card, models)
    return filled(
        ProgramOnCard,
        row,
        card,
        unknown_gpu_ms=row.gpu_us / 1000 * row.unknown_ms / row.held_ms if row.held_ms else 0.0,
        cost=prices.cost(row.gpu_us, row.priced),
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


MOST_PROGRAMS: Final = 24
_MODEL_WIDTH: Final = 12


def _text(report: Report, style: Style, hours: HourFormat) -> Iterator[Part]:
    """Yield the GPU-hours that would have fitted less memory, and their programs."""
    found = report[RightSize]
    if not found.workloads:
        yield "Not known: no tick of the window has a listed process."
        return
    yield (
        "By memory alone, a card for itself: the peak of a program's processes at the moments of ticks, over its time "
        "in the window. What was between ticks is not known; a slice computes less, too. Of a MIG instance a slice is "
        "a smaller profile of its GPU."
    )
    amounts = Amounts.of_report(report)
    others = (("half a card", found.half), ("a MIG slice", found.slice), ("a smaller model here", found.smaller))
    whole = (("any of these", found.any), ("none of these", found.none), ("not known", found.not_known))
    values = [part.gpu_ms for _, part in whole]
    in_hours = [*(hours.of(part.gpu_ms) for _, part in others), *hours.parts(values, apportion_rest)]
    in_shares = [*(percent(part.share) for _, part in others), *percents(values, apportion_rest)]
    rows = Rows([*zip((*others, *whole), in_hours, in_shares, strict=True)])
    rows.add("would have fitted", lambda one: one[0][0], left=True)
    rows.add(("GPU-hours", "%"), lambda one: one[1:])
    rows.add(amounts.titles("cost", style.name), lambda one: amounts.cells(one[0][1].cost), leaves=1)
    yield rows.table()
    yield (
        f"Ticks list processes for {hours.of(found.every.gpu_ms)} of {hours.of(found.held_gpu_ms)} held GPU-hours: the "
        "rest had no listed process, or its ticks were deleted."
    )
    fitting = (one for one in found.workloads if one.fits)
    groups = grouped(fitting, lambda one: (one.owner, one.program, one.model, one.is_instance)).values()
    if groups:
        yield Heading("Programs that would have fitted less, the most GPU-hours first")
        largest_first = sorted(groups, key=lambda group: -sum(one.gpu_ms for one in group))
        yield from _programs_table(largest_first, style, hours)


def _programs_table(groups: Sequence[Sequence[ProgramOnCard]], style: Style, hours: HourFormat) -> Iterator[Part]:
    """Yield a row per program: the largest peaks of its workloads, and what all of them would have fitted."""
    rows = Rows(groups, MOST_PROGRAMS * style.times)
    rows.add("owner", lambda group: known(group[0].owner, style), left=True, shortest=6, is_head=True)
    rows.add("program", lambda group: known(group[0].program, style), left=True, shortest=6, is_head=True)
    rows.add("on", lambda group: _model(group[0], style), left=True, shortest=6, is_head=True)
    rows.add("fits", lambda group: _fits(group, style), left=True)
    rows.add("GPU-hours", lambda group: hours.of(sum(one.gpu_ms for one in group)))
    rows.add("peak GiB", lambda group: gib(_largest(group).peak_bytes), leaves=3)
    rows.add("95 %", lambda group: gib(_most(one.p95_bytes for one in group)), leaves=5)
    rows.add("of GiB", lambda group: gib(_largest(group).usable_bytes), leaves=2)
    rows.add("busy %", lambda group: percent(_most(one.peak_utilization for one in group)), leaves=4)
    if any(one.p95_sm_utilization is not None for group in groups for one in group):
        rows.add("SMs %", lambda group: percent(_most(one.p95_sm_utilization for one in group)), leaves=6)
    yield rows.table(notes=_NOTES)
    yield from more(rows.rest, "program", "--csv right-size has every one")


_NOTES: Final = {
    "fits": "the smallest part of the GPU, or a model here, that would have done",
    "peak GiB": "largest memory of its processes on one card",
    "95 %": "GiB that 95 % of the time did not exceed",
    "of GiB": "what the card has for programs",
    "busy %": "largest utilization of a process",
    "SMs %": "of the card, not exceeded for 95 % of the time",
}


def _largest(group: Sequence[ProgramOnCard]) -> ProgramOnCard:
    return max(group, key=lambda one: one.peak_bytes or 0)


def _most(figures: Iterable[N | None]) -> N | None:
    return max((figure for figure in figures if figure is not None), default=None)


def _model(one: ProgramOnCard, style: Style) -> str:
    return f"{'MIG ' if one.is_instance else ''}{card_name(one.model, one.gpu, style)}"


def _fits(group: Sequence[ProgramOnCard], style: Style) -> str:
    """Return what all of a program's workloads fit, named by the largest of them."""
    largest = _largest(group)
    words = []
    if all(one.fits_slice for one in group):
        words.append(f"MIG {largest.slice}")
    elif all(one.fits_half for one in group):
        words.append("half")
    if all(one.fits_smaller for one in group):
        words.append(card_name(largest.smaller_model, largest.gpu, style)[:_MODEL_WIDTH])
    return ", ".join(words) or "in part"


def _rows(found: RightSize, _report: Report) -> Iterator[Cells]:
    for one in found.workloads:
        yield from with_currencies(cells(one), one.cost, ("host", "gpu", "owner", "program", "job"))


RIGHT_SIZE_SECTION = Section(
    name="right-size",
    title="What would have fitted less memory",
    model=RightSize,
    collect=_collect,
    most_card_hours=MOST_CARD_HOURS_OF_TICKS,
    text=_text,
    csv=Csv(columns(ProgramOnCard), _rows),
)
