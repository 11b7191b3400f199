"""What to do now: who is idle on a card at this moment, worst first, and which cards nothing holds."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from gua.report.kit.amounts import WASTED, Amounts
from gua.report.kit.basis import at, size
from gua.report.kit.figures import NONE, HourFormat, amount, at_least, percent, plural, span
from gua.report.kit.style import Style
from gua.report.kit.tables import Heading, Part, Table, TableColumn
from gua.report.kit.words import NAME_WIDTH, card_name, cards_in_words, index, known, skipped
from gua.report.model import Report
from gua.report.sections.now.model import SILENT, FreeCard, Holder, Now, gigabyte_hours
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


def now(report: Report, style: Style, hours: HourFormat) -> Iterator[Part]:
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
