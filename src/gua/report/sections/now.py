"""Section now: the processes idle on cards at this moment, worst first, and the free cards."""

from collections.abc import Callable, Iterator, Sequence
from typing import Final

from gua.report.allocations import ALLOCATION_NAMES
from gua.report.context import Finish, ReportContext
from gua.report.costs import with_currencies
from gua.report.kit.amounts import WASTED, Amounts
from gua.report.kit.basis import at, size
from gua.report.kit.fields import Cell, Cells, cells, columns, of_card
from gua.report.kit.figures import NONE, HourFormat, amount, at_least, percent, plural, span
from gua.report.kit.style import WIDEST, Style
from gua.report.kit.tables import Heading, Part, more, placed_rows
from gua.report.kit.words import NAME_WIDTH, card_name, cards_in_words, known
from gua.report.model import NamedCard, Report
from gua.report.section import Csv, Section
from gua.report.sections.card_streaks import query_card_streaks
from gua.report.sections.now_rows import (
    HOLDERS,
    SILENT,
    AllocatedCard,
    FreeCard,
    Holder,
    Now,
    current_since_ms,
    gigabyte_hours,
    now_of,
)
from gua.report.states import STATES, TRULY_IDLE

MOST_HOLDERS: Final = 10
MOST_FREE: Final = 10
_ID_WIDTH: Final = 20
UNLISTED: Final = "(unlisted)"


def _text(report: Report, style: Style, hours: HourFormat) -> Iterator[Part]:
    """Yield the cards by state, the idle holders, and the free cards; at most ten rows each."""
    found = report.get(Now)
    if found is None:
        return
    yield counts(found, report)
    yield Heading("Holders that are idle, worst first")
    yield from _holders(found.holders, report, style, hours) if found.holders else ("none",)
    yield Heading("Free cards: nothing holds them")
    yield from _free(found.free, report, style) if found.free else ("none",)
    if (sentence := allocated_to(found, report)) is not None:
        yield sentence
    allocated = {of_card(one) for one in found.allocated_idle}
    if allocated:
        yield f"{plural(len(allocated), 'other card')} that nothing holds: allocated (section allocation)."
    if found.maybe_allocated:
        yield Heading("Nothing holds them, and whether they are allocated is unknown")
        yield from _free(found.maybe_allocated, report, style)


def allocated_to(found: Now, report: Report) -> str | None:
    """Return a sentence on the allocation of the free cards, ``None`` if there are none and a source is configured."""
    if not report.allocation_sources:
        return "No allocation source is read: a card that nothing holds may be allocated."
    without_source = sum(one.allocation is None for one in found.free)
    if without_source:
        return f"{without_source:,} of them without an allocation source: they may be allocated."
    return "They are not allocated." if found.free else None


def counts(found: Now, report: Report) -> str:
    """Return the number of GPUs and MIG instances in each state, and how many are silent."""
    every = cards_in_words(card.mig for card in report.cards)
    sentence = f"{every} at {at(found.as_of_ms, report.window)}: "
    sentence += ", ".join(f"{found.cards[state]:,} {state}" for state in STATES)
    if not found.cards[SILENT]:
        return f"{sentence}, none silent."
    return f"{sentence}, {found.cards[SILENT]:,} silent (no tick for three intervals: what they do is not known)."


def _holders(holders: Sequence[Holder], report: Report, style: Style, hours: HourFormat) -> Iterator[Part]:
    amounts = Amounts.of_report(report)
    rows = placed_rows(report, style, holders, MOST_HOLDERS * style.times)
    rows.add("owner", lambda one: _whose(one, style)[0], left=True, shortest=10, is_head=True)
    rows.add("program", lambda one: _whose(one, style)[1], left=True, shortest=8, is_head=True)
    rows.add("GPU-h", lambda one: hours.of(one.wasted_gpu_ms))
    titles = amounts.titles(WASTED, style.name)
    rows.add(titles, lambda one: amounts.cells(one.wasted_cost), leaves=1)
    rows.add("pid", lambda one: NONE if one.pid is None else str(one.pid))
    rows.add("memory", lambda one: NONE if one.memory_bytes is None else size(one.memory_bytes), leaves=2)
    rows.add("idle for", lambda one: at_least(one.idle_ms, is_lower_bound=one.is_lower_bound))
    if style.width >= WIDEST:
        rows.add("idle since", lambda one: at(one.idle_since_ms, report.window), left=True, leaves=8)
    rows.add("active 24 h", lambda one: span(one.active_24h_ms), leaves=4)
    rows.add("GB-h", lambda one: amount(one.wasted_byte_ms and gigabyte_hours(one.wasted_byte_ms)), leaves=3)
    rows.add("card is", lambda one: style.name(one.card_state, NAME_WIDTH), left=True, leaves=5)
    rows.add("alone", lambda one: "yes" if one.is_alone else "no", left=True, leaves=6)
    rows.add("in", lambda one: home(one, style), left=True, shortest=8, leaves=7)
    yield rows.table(notes={**_NOTES, **dict.fromkeys(titles, "what these GPU-hours cost, estimated")})
    yield from more(rows.rest, "holder", _EVERY)


_EVERY: Final = "--csv now and --json have all of them"
_NOTES: Final = {
    "GPU-h": "its GPU-hours in the window while its card was idle-held; of (unlisted) memory, of this streak",
    "GB-h": "its memory in that time, in GB-hours of 10^9 bytes",
    "alone": "no other process is listed on the card",
}


def _whose(one: Holder, style: Style) -> tuple[str, str]:
    """Return the owner and the program."""
    is_unlisted = one.pid is None and one.owner is None and one.program is None
    return (UNLISTED, NONE) if is_unlisted else (known(one.owner, style), known(one.program, style))


def home(one: Holder, style: Style) -> str:
    """Return where a process runs: its Slurm job, pod, container and systemd unit, only the first on narrow pages."""
    places = {"job": one.slurm_job_id, "pod": one.pod_uid, "container": one.container_id and one.container_id[:12]}
    places["unit"] = one.systemd_unit
    found = [f"{word} {style.name(value, _ID_WIDTH)}" for word, value in places.items() if value]
    return ", ".join(found if style.width >= WIDEST else found[:1]) or NONE


def _free(cards: Sequence[FreeCard], report: Report, style: Style) -> Iterator[Part]:
    rows = placed_rows(report, style, cards, MOST_FREE * style.times)
    rows.add("name", lambda one: card_name(one.card_name, one.gpu, style), left=True, shortest=8, is_head=True)
    rows.add("free for", lambda one: at_least(one.free_ms, is_lower_bound=one.is_lower_bound))
    rows.add("free at this hour %", lambda one: percent(one.free_ratio_at_this_hour), leaves=1)
    if style.width >= WIDEST:
        rows.add("free since", lambda one: at(one.free_since_ms, report.window), left=True, leaves=2)
    yield rows.table()
    yield from more(rows.rest, "card", _EVERY)


# Holders, free cards and allocations share these CSV columns.
_SINCE = {
    "idle_since": "since",
    "idle_seconds": "for_seconds",
    "free_since": "since",
    "free_seconds": "for_seconds",
    "use_since": "since",
    "in_use_seconds": "for_seconds",
}
_OF_ALLOCATION = tuple(column for column in columns(AllocatedCard) if column not in {*columns(Holder), *_SINCE})


def query_now(context: ReportContext) -> Callable[[Sequence[NamedCard]], Now]:
    """Start the queries of the section; the result makes it of the window's cards."""
    since_ms = current_since_ms(context.extents, context.window, context.request.now_ms)
    listed = context.rows(HOLDERS, current_since_ms=since_ms, batched=True)
    rows, allocations = query_card_streaks(context), context.allocations()
    names = context.rows(ALLOCATION_NAMES, only_if=context.sources())
    return lambda cards: now_of(
        list(rows()),
        listed(),
        allocations(),
        names(),
        cards=cards,
        extents=context.extents,
        window=context.window,
        now_ms=context.request.now_ms,
        prices=context.prices,
    )


def _collect(context: ReportContext) -> Finish:
    made = query_now(context)
    return lambda _headline, cards: made(cards)


def _rows(found: Now, _report: Report) -> Iterator[Cells]:
    for holder in found.holders:
        row = _row("holder", cells(holder))
        yield from with_currencies(row, holder.wasted_cost, ("kind", "host", "gpu", "owner", "program", "pid"))
    for card in (*found.free, *found.maybe_allocated):
        yield _row("free card", {"card_state": TRULY_IDLE, **cells(card)})
    for allocated in found.allocations:
        yield _row("allocation", cells(allocated))


def _row(kind: str, row: Cells) -> dict[str, Cell]:
    return {"kind": kind, **{_SINCE.get(column, column): cell for column, cell in row.items()}}


NOW_SECTION = Section(
    name="now",
    title=lambda report: f"What to do now (as of {at(report.window.until_ms, report.window)})",
    model=Now,
    collect=_collect,
    text=_text,
    csv=Csv(
        (
            "kind",
            *(_SINCE.get(column, column) for column in columns(Holder)),
            "free_ratio_at_this_hour",
            "allocation",
            *_OF_ALLOCATION,
        ),
        _rows,
    ),
)
