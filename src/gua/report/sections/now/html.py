"""What to do now: holders that are idle at this moment, worst first, and cards that nobody holds."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from gua.core.plaintext import safe
from gua.report.kit.amounts import WASTED, WASTED_NOTE, Amounts
from gua.report.kit.basis import at, size
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
from gua.report.kit.words import NOT_KNOWN, NOT_LISTED, skipped
from gua.report.model import Report
from gua.report.sections.now.model import FreeCard, Holder, Now, gigabyte_hours
from gua.report.sections.now.text import MAYBE_PROMISED, also_promised, counts, promised_to

MOST_HOLDERS: Final = 50
MOST_FREE: Final = 50


def now(report: Report, hours: HourFormat) -> Markup | None:
    """Return the list that ends the discussion, and the free cards; why there is none if it was too much."""
    found = report.get(Now)
    if found is None:
        return paragraph(skipped(report, "Who is idle at this moment"))
    return join([tag("p", counts(found, report)), _holders(found, report, hours), _free(found, report)])


def _holders(now: Now, report: Report, hours: HourFormat) -> Markup:
    if not now.holders:
        return tag("p", "No process is known to be idle on a card.")
    shown = now.holders[:MOST_HOLDERS]
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
    rows = [_holder(holder, longest, report, hours, amounts) for holder in shown]
    rest = len(now.holders) - len(shown)
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


def _holder(holder: Holder, longest_ms: int, report: Report, hours: HourFormat, amounts: Amounts) -> list[str]:
    told = at_least(holder.idle_ms, is_lower_bound=holder.is_lower_bound)
    memory = NONE if holder.memory_bytes is None else size(holder.memory_bytes)
    return [
        _who(holder.owner, holder.program, holder.pid),
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


def _who(owner: str | None, program: str | None, pid: int | None) -> Markup:
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


def _free(now: Now, report: Report) -> Markup:
    promised = also_promised(now)
    if not now.free and not now.maybe_promised:
        return join([tag("p", "No card is known to be free."), paragraph(promised)])
    of_scheduler = "Free cards. Allocation is not looked at: a scheduler may have promised them to somebody"
    caption = f"Free cards. {promised_to(now, report)}" if report.is_allocation_looked_at else of_scheduler
    return join(
        [
            tag("h3", "Cards that nobody holds now") if now.free else None,
            _free_cards(now.free, caption, report) if now.free else None,
            paragraph(promised),
            tag("h3", MAYBE_PROMISED) if now.maybe_promised else None,
            _free_cards(now.maybe_promised, MAYBE_PROMISED, report) if now.maybe_promised else None,
            paragraph(
                "Usually free: the part of this hour of the day, in this window, in which nothing held the card."
            ),
        ]
    )


def _free_cards(free: Sequence[FreeCard], caption: str, report: Report) -> Markup:
    shown = free[:MOST_FREE]
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
