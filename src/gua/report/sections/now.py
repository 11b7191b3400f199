"""What to do now: who is idle on a card at this moment, worst first, and which cards nothing holds."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final

from gua.core.plaintext import safe
from gua.report.allocation_sources import ask_sources
from gua.report.asking import Asking, Finish
from gua.report.costs import with_currencies
from gua.report.kit.amounts import WASTED, WASTED_NOTE, Amounts
from gua.report.kit.basis import at, size
from gua.report.kit.fields import Cell, Cells, cells, columns
from gua.report.kit.figures import NONE, HourFormat, amount, at_least, percent, plural, span
from gua.report.kit.html import (
    BAR,
    CLASSES,
    NUMBER,
    HtmlColumn,
    Markup,
    join,
    name,
    of_state,
    paragraph,
    single,
    table,
    tag,
    two_lines,
)
from gua.report.kit.style import Style
from gua.report.kit.tables import Heading, Part, Table, TableColumn
from gua.report.kit.words import NAME_WIDTH, NOT_KNOWN, NOT_LISTED, card_name, cards_in_words, index, known, skipped
from gua.report.model import Report
from gua.report.promises import ask_allocation_names
from gua.report.section import Csv, Section
from gua.report.sections.card_streaks import ask_cards
from gua.report.sections.now_rows import SILENT, FreeCard, Holder, Now, gigabyte_hours, now_of
from gua.report.sections.usage_rows import OWNER_AND_PROGRAM, CardProcess, ask_holders, ask_usage
from gua.report.states import STATES, TRULY_IDLE

MOST_HOLDERS: Final = 10
MOST_FREE: Final = 10
_ID_WIDTH: Final = 20
UNLISTED: Final = "(unlisted)"
_HOLDER: Final = (
    TableColumn(title="gpu"),
    TableColumn(title="owner", left=True, shortest=10),
    TableColumn(title="program", left=True, shortest=8),
    TableColumn(title="pid"),
    TableColumn(title="memory", leaves=2),
    TableColumn(title="idle for"),
    TableColumn(title="active 24 h", leaves=4),
    TableColumn(title="GPU-h"),
)
_PLACE: Final = (
    TableColumn(title="GB-h", leaves=3),
    TableColumn(title="card is", left=True, leaves=5),
    TableColumn(title="alone", left=True, leaves=6),
    TableColumn(title="in", left=True, shortest=8, leaves=7),
)
_FREE: Final = (
    TableColumn(title="gpu"),
    TableColumn(title="name", left=True, shortest=8),
    TableColumn(title="free for"),
    TableColumn(title="free at this hour %", leaves=1),
)
_HOST: Final = TableColumn(title="host", left=True, shortest=8)


def _text(report: Report, style: Style, hours: HourFormat) -> Iterator[Part]:
    """Yield how the cards are, the holders that are idle, and the free cards; at most ten rows each."""
    found = report.get(Now)
    if found is None:
        yield skipped(report, "Who is idle at this moment")
        return
    yield counts(found, report)
    several = len(report.hosts) > 1
    yield Heading("Holders that are idle, worst first")
    if found.holders:
        yield _holders(found.holders[:MOST_HOLDERS], style, hours, Amounts.of_report(report), several=several)
        yield from _more(len(found.holders) - MOST_HOLDERS, "holder")
    else:
        yield "none"
    yield Heading("Free cards: nothing holds them")
    if found.free:
        yield _free(found.free[:MOST_FREE], style, several=several)
        yield from _more(len(found.free) - MOST_FREE, "card")
    else:
        yield "none"
    if (told := promised_to(found, report)) is not None:
        yield told
    if (also := also_promised(found)) is not None:
        yield also
    if found.maybe_promised:
        yield Heading(MAYBE_PROMISED)
        yield _free(found.maybe_promised[:MOST_FREE], style, several=several)
        yield from _more(len(found.maybe_promised) - MOST_FREE, "card")


def also_promised(found: Now) -> str | None:
    """Return how many cards that nothing holds are promised, ``None`` where none is."""
    promised = {(one.host, one.gpu) for one in found.allocations if one.card_state == TRULY_IDLE}
    if not promised:
        return None
    return f"{plural(len(promised), 'other card')} that nothing holds: promised to somebody (section allocation)."


MAYBE_PROMISED: Final = "Nothing holds them, and whether they are promised is not known"


def promised_to(found: Now, report: Report) -> str | None:
    """Return whether somebody was promised the free cards, ``None`` where there are none and allocation is known."""
    if not report.is_allocation_looked_at:
        return "Allocation by a scheduler is not looked at: a card that nothing holds may be promised to somebody."
    unlooked = sum(one.allocation is None for one in found.free)
    if unlooked:
        return f"Of {unlooked:,} of them nobody looks at allocation: they may be promised to somebody."
    return "Nobody was promised them." if found.free else None


def counts(found: Now, report: Report) -> str:
    """Return how many GPUs and MIG instances are in each state, and how many of them are silent."""
    every = cards_in_words(card.mig for card in report.cards)
    told = f"{every} at {at(found.as_of_ms, report.window)}: "
    told += ", ".join(f"{found.cards[state]:,} {state}" for state in STATES)
    if not found.cards[SILENT]:
        return f"{told}, none silent."
    return f"{told}, {found.cards[SILENT]:,} silent (no tick for three intervals: what they do is not known)."


def _more(rest: int, what: str) -> Iterator[str]:
    if rest > 0:
        yield f"and {plural(rest, f'more {what}')}: --csv now and --json have all of them."


def _holders(holders: Sequence[Holder], style: Style, hours: HourFormat, amounts: Amounts, *, several: bool) -> Table:
    rows = [_holder(one, style, hours, amounts) for one in holders]
    titles = amounts.titles(WASTED, style.name)
    hosts = [[style.name(one.host, NAME_WIDTH)] if several else [] for one in holders]
    return Table(
        columns=[
            *([_HOST] if several else []),
            *_HOLDER,
            *(TableColumn(title=title, leaves=1) for title in titles),
            *_PLACE,
        ],
        rows=[[*host, *row] for host, row in zip(hosts, rows, strict=True)],
        heads=3 + several,
        notes=[*_NOTES, *((title, "what these GPU-hours cost, estimated") for title in titles)],
    )


_NOTES: Final = (
    ("GPU-h", "its GPU-hours in the window while its card was idle-held; of (unlisted) memory, of this streak"),
    ("GB-h", "its memory in that time, in GB-hours of 10^9 bytes"),
    ("alone", "no other process is listed on the card"),
)


def _holder(one: Holder, style: Style, hours: HourFormat, amounts: Amounts) -> list[str]:
    return [
        index(one.index, one.gpu, style),
        *_who(one, style),
        NONE if one.memory_bytes is None else size(one.memory_bytes),
        at_least(one.idle_ms, is_lower_bound=one.is_lower_bound),
        span(one.active_24h_ms),
        hours.of(one.wasted_gpu_ms),
        *amounts.cells(one.wasted_cost),
        NONE if one.wasted_byte_ms is None else amount(gigabyte_hours(one.wasted_byte_ms)),
        style.name(one.card_state, NAME_WIDTH),
        "yes" if one.is_alone else "no",
        home(one, style),
    ]


def _who(one: Holder, style: Style) -> list[str]:
    if one.pid is None and one.owner is None and one.program is None:
        return [UNLISTED, NONE, NONE]
    return [known(one.owner, style), known(one.program, style), NONE if one.pid is None else str(one.pid)]


def home(one: Holder, style: Style) -> str:
    """Return what a process runs in: its job, pod, container or unit, whichever is told first."""
    for word, value in (
        ("job", one.slurm_job_id),
        ("pod", one.pod_uid),
        ("container", one.container_id),
        ("unit", one.systemd_unit),
    ):
        if value:
            return f"{word} {style.name(value, _ID_WIDTH)}"
    return NONE


def _free(cards: Sequence[FreeCard], style: Style, *, several: bool) -> Table:
    return Table(
        columns=[*([_HOST] if several else []), *_FREE],
        rows=[
            [
                *([style.name(one.host, NAME_WIDTH)] if several else []),
                index(one.index, one.gpu, style),
                card_name(one.card_name, one.gpu, style),
                at_least(one.free_ms, is_lower_bound=one.is_lower_bound),
                percent(one.free_ratio_at_this_hour),
            ]
            for one in cards
        ],
        heads=2 + several,
    )


MOST_HOLDERS_ON_PAGE: Final = 50
MOST_FREE_ON_PAGE: Final = 50


def _page(report: Report, hours: HourFormat) -> Markup | None:
    """Return the list that ends the discussion, and the free cards; why there is none if it was too much."""
    found = report.get(Now)
    if found is None:
        return paragraph(skipped(report, "Who is idle at this moment"))
    return join([tag("p", counts(found, report)), _holders_page(found, report, hours), _free_page(found, report)])


def _holders_page(found: Now, report: Report, hours: HourFormat) -> Markup:
    if not found.holders:
        return tag("p", "No process is known to be idle on a card.")
    shown = found.holders[:MOST_HOLDERS_ON_PAGE]
    longest = max(holder.idle_ms for holder in shown)
    amounts = Amounts.of_report(report)
    columns = [
        HtmlColumn("owner, program"),
        HtmlColumn("GPU-hours wasted", NUMBER),
        *(HtmlColumn(title, NUMBER, title=WASTED_NOTE) for title in amounts.titles(WASTED, safe)),
        HtmlColumn("idle for"),
        HtmlColumn("where"),
        HtmlColumn("memory held", NUMBER),
        HtmlColumn("active in last 24 h", NUMBER),
        HtmlColumn("GB-hours wasted", NUMBER),
        HtmlColumn("runs in"),
        HtmlColumn("card is"),
        HtmlColumn("alone", title="whether no other process is listed on the card"),
    ]
    rows = [_holder_cells(holder, longest, report, hours, amounts) for holder in shown]
    rest = len(found.holders) - len(shown)
    note = f"And {plural(rest, 'more holder')}; --json has all." if rest else None
    return table(
        (
            "Holders that are idle now, the worst first. Wasted: in this window, the card idle-held; of memory that no "
            "listed process owns, in this streak. Alone: no other process is listed on the card"
        ),
        columns,
        rows,
        note=note,
    )


def _holder_cells(holder: Holder, longest_ms: int, report: Report, hours: HourFormat, amounts: Amounts) -> list[str]:
    told = at_least(holder.idle_ms, is_lower_bound=holder.is_lower_bound)
    memory = NONE if holder.memory_bytes is None else size(holder.memory_bytes)
    return [
        _who_cell(holder.owner, holder.program, holder.pid),
        hours.of(holder.wasted_gpu_ms),
        *amounts.cells(holder.wasted_cost),
        join(
            [
                two_lines(told, f"since {at(holder.idle_since_ms, report.window)}"),
                single("h", holder.idle_ms / longest_ms if longest_ms else 0, f"idle for {told}", class_="bar thin"),
            ]
        ),
        _where(holder.host, holder.gpu, holder.index, holder.card_name),
        memory,
        span(holder.active_24h_ms),
        NONE if holder.wasted_byte_ms is None else amount(gigabyte_hours(holder.wasted_byte_ms)),
        join(_places(holder)) or NONE,
        of_state(holder.card_state) if holder.card_state in CLASSES else name(holder.card_state),
        "yes" if holder.is_alone else "no",
    ]


def _who_cell(owner: str | None, program: str | None, pid: int | None) -> Markup:
    if pid is None and owner is None and program is None:
        return two_lines(NOT_LISTED, "memory that no listed process owns")
    who = NOT_KNOWN if owner is None else name(owner, 28)
    what = join([NOT_KNOWN if program is None else name(program, 28), None if pid is None else f" · pid {pid}"])
    return two_lines(who, what)


def _where(host: str, gpu: str, index: int | None, card_name: str | None) -> Markup:
    card = join(
        [f"GPU {index} · " if index is not None else None, name((card_name or gpu).removeprefix("NVIDIA "), 28)]
    )
    return two_lines(name(host, 28), card)


def _places(holder: Holder) -> Iterator[Markup]:
    for label, value in (
        ("Slurm job", holder.slurm_job_id),
        ("pod", holder.pod_uid),
        ("container", None if holder.container_id is None else holder.container_id[:12]),
        ("unit", holder.systemd_unit),
    ):
        if value:
            yield tag("span", f"{label} ", name(value, 20), class_="line")


def _free_page(found: Now, report: Report) -> Markup:
    promised = also_promised(found)
    if not found.free and not found.maybe_promised:
        return join([tag("p", "No card is known to be free."), paragraph(promised)])
    of_scheduler = "Free cards. Allocation is not looked at: a scheduler may have promised them to somebody"
    caption = f"Free cards. {promised_to(found, report)}" if report.is_allocation_looked_at else of_scheduler
    return join(
        [
            tag("h3", "Cards that nobody holds now") if found.free else None,
            _free_cards(found.free, caption, report) if found.free else None,
            paragraph(promised),
            tag("h3", MAYBE_PROMISED) if found.maybe_promised else None,
            _free_cards(found.maybe_promised, MAYBE_PROMISED, report) if found.maybe_promised else None,
            paragraph(
                "Usually free: the part of this hour of the day, in this window, in which nothing held the card."
            ),
        ]
    )


def _free_cards(free: Sequence[FreeCard], caption: str, report: Report) -> Markup:
    shown = free[:MOST_FREE_ON_PAGE]
    columns = [
        HtmlColumn("card"),
        HtmlColumn("free for"),
        HtmlColumn("", BAR),
        HtmlColumn("usually free at this hour %", NUMBER),
    ]
    rest = len(free) - len(shown)
    note = f"And {plural(rest, 'more free card')}; --json has all." if rest else None
    return table(caption, columns, [_free_card(card, report) for card in shown], note=note)


def _free_card(card: FreeCard, report: Report) -> list[str]:
    usual = percent(card.free_ratio_at_this_hour)
    told = at_least(card.free_ms, is_lower_bound=card.is_lower_bound)
    return [
        _where(card.host, card.gpu, card.index, card.card_name),
        two_lines(told, f"since {at(card.free_since_ms, report.window)}"),
        single("t", card.free_ratio_at_this_hour, f"usually free at this hour: {usual} %"),
        usual,
    ]


# Holders, free cards and allocations have these columns in common.
_SINCE = {
    "idle_since": "since",
    "idle_seconds": "for_seconds",
    "free_since": "since",
    "free_seconds": "for_seconds",
    "use_since": "since",
    "in_use_seconds": "for_seconds",
}
_OF_ALLOCATION = (
    "allocation",
    "source",
    "allocation_id",
    "allocation_kind",
    "job_name",
    "promised_since",
    "promised_until",
    "use",
)


def _collect(asking: Asking) -> Finish | None:
    if not asking.tells_now:
        return None
    rows = ask_cards(asking)
    listed = _listed(asking)
    promises = asking.promises()
    names = asking.once(ask_allocation_names, asking.once(ask_sources))
    return lambda _headline, cards: now_of(
        list(rows()),
        listed(),
        promises(),
        names(),
        cards=cards,
        extents=asking.extents,
        window=asking.window,
        now_ms=asking.request.now_ms,
        prices=asking.prices,
    )


def _listed(asking: Asking) -> Callable[[], Iterable[CardProcess]]:
    """Ask who is on each card now: usage of owners tells it besides, but of large fleets."""
    if asking.tells_holders_apart:
        return asking.once_of_now(ask_holders, asking.prices)
    owners = asking.once(ask_usage, OWNER_AND_PROGRAM, asking.prices)
    return lambda: (process for row in owners() for process in row.holders)


def _rows(found: Now, _report: Report) -> Iterator[Cells]:
    for holder in found.holders:
        row = _row("holder", cells(holder))
        yield from with_currencies(row, holder.wasted_cost, ("kind", "host", "gpu", "owner", "program", "pid"))
    for card in (*found.free, *found.maybe_promised):
        yield _row("free card", {"card_state": TRULY_IDLE, **cells(card)})
    for promised in found.allocations:
        yield _row("allocation", cells(promised))


def _row(kind: str, row: Cells) -> dict[str, Cell]:
    return {"kind": kind, **{_SINCE.get(column, column): cell for column, cell in row.items()}}


NOW_SECTION = Section(
    name="now",
    title=lambda report: f"What to do now (as of {at(report.window.until_ms, report.window)})",
    model=Now,
    collect=_collect,
    text=_text,
    html=_page,
    csv=Csv(
        (
            "kind",
            *(_SINCE.get(column, column) for column in columns(Holder)),
            "free_ratio_at_this_hour",
            *_OF_ALLOCATION,
        ),
        _rows,
    ),
    has=lambda report: report.get(Now) is not None or report.streaks_skipped is not None,
    streaks="wanted",
)
