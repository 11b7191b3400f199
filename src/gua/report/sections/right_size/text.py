"""What would have fitted half a card, a MIG slice or a smaller model, and the programs with the most such hours."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from gua.report.kit.amounts import Amounts
from gua.report.kit.figures import NONE, HourFormat, amount, apportion_rest, percent, percents, plural
from gua.report.kit.style import Style
from gua.report.kit.tables import Heading, Part, Table, TableColumn
from gua.report.kit.words import card_name, known
from gua.report.model import Report
from gua.report.sections.right_size.model import ProgramOnCard, RightSize

MOST_PROGRAMS: Final = 24
_GIB: Final = 1 << 30
_MODEL_WIDTH: Final = 12
_NOTES: Final = (
    ("fits", "the smallest part of the GPU, or a model here, that would have done"),
    ("peak GiB", "largest memory of its processes on one card"),
    ("95 %", "GiB that 95 % of the time did not exceed"),
    ("of GiB", "what the card has for programs"),
    ("busy %", "largest utilization of a process"),
    ("SMs %", "of the card, not exceeded for 95 % of the time"),
)
_SMS: Final = TableColumn(title="SMs %", leaves=6)
_PROGRAMS: Final = (
    TableColumn(title="owner", left=True, shortest=6),
    TableColumn(title="program", left=True, shortest=6),
    TableColumn(title="on", left=True, shortest=6),
    TableColumn(title="fits", left=True),
    TableColumn(title="GPU-hours"),
    TableColumn(title="peak GiB", leaves=3),
    TableColumn(title="95 %", leaves=5),
    TableColumn(title="of GiB", leaves=2),
    TableColumn(title="busy %", leaves=4),
    _SMS,
)


def right_size(report: Report, style: Style, hours: HourFormat) -> Iterator[Part]:
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
    amounts = Amounts.of_report(report)
    yield Table(
        columns=[
            TableColumn(title="would have fitted", left=True),
            TableColumn(title="GPU-hours"),
            TableColumn(title="%"),
            *(TableColumn(title=title, leaves=1) for title in amounts.titles("cost", style.name)),
        ],
        rows=_fit_rows(found, hours, amounts),
    )
    yield (
        f"Of {hours.of(found.held_gpu_ms)} held GPU-hours, processes in ticks tell of {hours.of(found.every.gpu_ms)}: "
        "the rest had no listed process, or its ticks are gone."
    )
    groups = _programs(found.workloads)
    if not groups:
        return
    yield Heading("Programs that would have fitted less, the most GPU-hours first")
    most = MOST_PROGRAMS * style.times
    with_sms = any(one.p95_sm_utilization is not None for group in groups for one in group)
    columns = _PROGRAMS if with_sms else tuple(column for column in _PROGRAMS if column is not _SMS)
    yield Table(
        columns=columns,
        rows=[_program(group, style, hours, with_sms=with_sms) for group in groups[:most]],
        heads=3,
        notes=_NOTES,
    )
    if len(groups) > most:
        yield f"and {plural(len(groups) - most, 'more program')}: --csv right-size has every one."


def _fit_rows(found: RightSize, hours: HourFormat, amounts: Amounts) -> list[list[str]]:
    """Return a row for each fit: the last three add up to all that is told, the others are no more than any of them."""
    others = (("half a card", found.half), ("a MIG slice", found.slice), ("a smaller model here", found.smaller))
    whole = (("any of these", found.any), ("none of these", found.none), ("not known", found.not_known))
    values = [part.gpu_ms for _, part in whole]
    in_hours = [*(hours.of(part.gpu_ms) for _, part in others), *hours.parts(values, apportion_rest)]
    in_shares = [*(percent(part.share) for _, part in others), *percents(values, apportion_rest)]
    return [
        [name, of_all, share, *amounts.cells(part.cost)]
        for (name, part), of_all, share in zip((*others, *whole), in_hours, in_shares, strict=True)
    ]


def _programs(workloads: Sequence[ProgramOnCard]) -> list[list[ProgramOnCard]]:
    """Return what fits less, together by owner, program and model, the most GPU time first."""
    groups: dict[tuple[object, ...], list[ProgramOnCard]] = defaultdict(list)
    for one in workloads:
        if one.fits:
            groups[one.owner, one.program, one.model, one.is_instance].append(one)
    return sorted(groups.values(), key=lambda group: -sum(one.gpu_ms for one in group))


def _program(group: Sequence[ProgramOnCard], style: Style, hours: HourFormat, *, with_sms: bool) -> list[str]:
    """Return a program's row: of its cards and jobs the largest peaks, and what all of them would have fitted."""
    first = group[0]
    largest = max(group, key=lambda one: one.peak_bytes or 0)
    name = card_name(first.model, first.gpu, style)
    return [
        known(first.owner, style),
        known(first.program, style),
        f"MIG {name}" if first.is_instance else name,
        _fits(group, largest, style),
        hours.of(sum(one.gpu_ms for one in group)),
        _gib(largest.peak_bytes),
        _gib(max((one.p95_bytes for one in group if one.p95_bytes is not None), default=None)),
        _gib(largest.usable_bytes),
        _largest(one.peak_utilization for one in group),
        *([_largest(one.p95_sm_utilization for one in group)] if with_sms else []),
    ]


def _largest(ratios: Iterable[float | None]) -> str:
    return percent(max((ratio for ratio in ratios if ratio is not None), default=None))


def _fits(group: Sequence[ProgramOnCard], largest: ProgramOnCard, style: Style) -> str:
    """Return what all of a program's workloads fit, by the largest of them."""
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
