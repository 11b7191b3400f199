"""What to do now: holders that are idle at this moment, worst first, and cards that nobody holds."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from gua.report.kit.bars import CLASSES, of_state, single
from gua.report.kit.basis import moment, size
from gua.report.kit.figures import NONE, HourFormat, amount, at_least, percent, plural, span
from gua.report.kit.html_tables import BAR, NUMBER, HtmlColumn, paragraph, table, two_lines
from gua.report.kit.markup import Markup, join, name, tag
from gua.report.kit.words import NOT_KNOWN, NOT_LISTED, skipped
from gua.report.model import Report
from gua.report.sections.now.model import SILENT, FreeCard, Holder, Now, gigabyte_hours
from gua.report.states import ACTIVE, IDLE_HELD, TRULY_IDLE, UNKNOWN

MOST_HOLDERS: Final = 50
MOST_FREE: Final = 50


def now(report: Report, hours: HourFormat) -> Markup | None:
    """Return the list that ends the discussion, and the free cards; why there is none if it was too much."""
    found = report.get(Now)
    if found is None:
        return paragraph(skipped(report, "Who is idle at this moment"))
    return join([_counts(found, report), _holders(found, report, hours), _free(found, report)])


def _counts(now: Now, report: Report) -> Markup:
    at = moment(now.as_of_ms, report.window.timezone)
    cards = f"{now.cards[ACTIVE]:,} active, {now.cards[IDLE_HELD]:,} idle-held, {now.cards[TRULY_IDLE]:,} free"
    unknown = f", {now.cards[UNKNOWN]:,} unknown" if now.cards[UNKNOWN] else ""
    silent = f"; {plural(now.cards[SILENT], 'card')} silent, what they do is not known" if now.cards[SILENT] else ""
    return tag("p", f"Cards as of {at}: {cards}{unknown}{silent}.")


def _holders(now: Now, report: Report, hours: HourFormat) -> Markup:
    if not now.holders:
        return tag("p", "No process is known to be idle on a card.")
    shown = now.holders[:MOST_HOLDERS]
    longest = max(holder.idle_ms for holder in shown)
    columns = [
        HtmlColumn("owner, program"),
        HtmlColumn("where"),
        HtmlColumn("idle for"),
        HtmlColumn("memory held", NUMBER),
        HtmlColumn("active in last 24 h", NUMBER),
        HtmlColumn("GPU-hours wasted", NUMBER),
        HtmlColumn("GB-hours wasted", NUMBER),
        HtmlColumn("runs in"),
        HtmlColumn("card is"),
        HtmlColumn("alone", title="whether no other process is listed on the card"),
    ]
    rows = [_holder(holder, longest, report, hours) for holder in shown]
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


def _holder(holder: Holder, longest_ms: int, report: Report, hours: HourFormat) -> list[str]:
    told = at_least(holder.idle_ms, is_lower_bound=holder.is_lower_bound)
    memory = NONE if holder.memory_bytes is None else size(holder.memory_bytes)
    return [
        _who(holder.owner, holder.program, holder.pid),
        _where(holder.host, holder.gpu, holder.index, holder.card_name),
        join(
            [
                two_lines(told, f"since {moment(holder.idle_since_ms, report.window.timezone)}"),
                single("h", holder.idle_ms / longest_ms if longest_ms else 0, f"idle for {told}", class_="bar thin"),
            ]
        ),
        memory,
        span(holder.active_24h_ms),
        hours.of(holder.wasted_gpu_ms),
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
    if not now.free:
        return tag("p", "No card is known to be free.")
    shown = now.free[:MOST_FREE]
    columns = [
        HtmlColumn("card"),
        HtmlColumn("free for"),
        HtmlColumn("", BAR),
        HtmlColumn("usually free at this hour %", NUMBER),
    ]
    rows = [_free_card(card, report) for card in shown]
    rest = len(now.free) - len(shown)
    return join(
        [
            tag("h3", "Cards that nobody holds now"),
            table(
                "Free cards. Allocation is not looked at: a scheduler may have promised them to somebody",
                columns,
                rows,
                note=f"And {plural(rest, 'more free card')}; --json has all." if rest else None,
            ),
            paragraph(
                "Usually free: the part of this hour of the day, in this window, in which nothing held the card."
            ),
        ]
    )


def _free_card(card: FreeCard, report: Report) -> list[str]:
    usual = percent(card.free_ratio_at_this_hour)
    told = at_least(card.free_ms, is_lower_bound=card.is_lower_bound)
    return [
        _where(card.host, card.gpu, card.index, card.card_name),
        two_lines(told, f"since {moment(card.free_since_ms, report.window.timezone)}"),
        single("t", card.free_ratio_at_this_hour, f"usually free at this hour: {usual} %"),
        usual,
    ]
