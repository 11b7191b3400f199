"""Top idle holders by waste in the window with their current cards, and free cards."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from gua.core.words import Use
from gua.report.answers import Answers, EmptyOwner, IdleOwner, TopOwner, Unowned
from gua.report.costs import Cost, added
from gua.report.kit.amounts import Amounts, written
from gua.report.kit.basis import since, size
from gua.report.kit.fields import grouped, of_card
from gua.report.kit.figures import NONE, HourFormat, apportion, at_least, percent, plural, span
from gua.report.kit.style import Style
from gua.report.kit.tables import Rows, Table, draw, shown_width
from gua.report.kit.words import NOT_KNOWN, Places, known, places
from gua.report.model import Report
from gua.report.sections.allocation import allocation_name, use_units
from gua.report.sections.headline import state_units
from gua.report.sections.now_rows import AllocatedCard, FreeCard, Now
from gua.report.states import IDLE_HELD


def flow(items: Iterable[str], style: Style, *, indent: int = 2, gap: str = "  ") -> Iterator[str]:
    """Yield items side by side, as many a line as fit; an item longer than a line is wrapped at spaces."""
    line = ""
    for item in items:
        longer = f"{line}{gap}{item}" if line else " " * indent + item
        if shown_width(longer) <= style.width:
            line = longer
            continue
        if line:
            yield line
        *before, line = uncut(item, style, indent=indent)
        yield from before
    if line:
        yield line


def uncut(text: str, style: Style, *, indent: int = 0, hanging: int | None = None) -> list[str]:
    """Return text wrapped between words, or as one line if a word is too long: commands must not be cut."""
    is_cut = any(indent + (hanging or 0) + shown_width(word) > style.width for word in text.split())
    if is_cut or indent + shown_width(text) <= style.width:
        return [" " * indent + text]
    return list(style.wrap(text, indent=indent, hanging=hanging))


MOST_OWNERS_SHOWN: Final = 5
MOST_BRIEFLY: Final = 3
NOBODY: Final = "(nobody)"  # no process; short enough never to be cut
_NOT_RECORDED: Final = "(unknown)"


def top_holders(report: Report, answers: Answers, style: Style, hours: HourFormat, *, most: int) -> Iterator[str]:
    """Yield the top idle holders, ``most`` of them, the rest in total, and memory without a listed process."""
    shown = answers.owners if len(answers.owners) <= most + 1 else answers.owners[:most]
    rest = answers.owners[len(shown) :]
    hours_of, of_rest, of_unowned = amounts(report, answers, shown, rest, hours)
    where = places(report, style)
    if shown:
        yield from draw(_owners(report, [*zip(shown, hours_of, strict=True)], where, style), style)
    elif report.headline.states[IDLE_HELD].gpu_ms:
        yield from style.wrap("Top idle holders: none; no listed process held a card without using it.", indent=0)
    if rest:
        cost = cost_suffix(added(one.cost for one in rest), style)
        yield from style.wrap(f"and {other_people(shown, rest)}: {of_rest}{cost}")
    if answers.unowned is not None:
        yield from style.wrap(unowned(report, answers.unowned, of_unowned, where, style), hanging=4)


def _owners(report: Report, wasted: Sequence[tuple[TopOwner, str]], where: Places, style: Style) -> Table:
    """Return a row for each owner: what it wasted, and if current holders were read, what it holds."""
    money, has_now = Amounts.of_report(report), report.get(Now) is not None
    lines = Rows([(one, gpu_hours, _holds(report, one, where, style)) for one, gpu_hours in wasted])
    # Without the column of current cards, mark owners of empty allocations here.
    lines.add(
        "Top idle holders",
        lambda row: known(row[0].owner, style) + ("" if isinstance(row[0], IdleOwner) or has_now else f" {NOBODY}"),
        left=True,
        shortest=11,
    )
    lines.add("wasted GPU-h", lambda row: row[1])
    lines.add(money.titles("", style.name), lambda row: money.cells(row[0].cost, 0))
    lines.add("idle %", lambda row: percent(row[0].wasted_gpu_ms / row[0].gpu_ms if row[0].gpu_ms else None), leaves=2)
    if has_now:
        lines.add(f"holds {when(report)}", lambda row: row[2][0], left=True)
        lines.add("idle for", lambda row: row[2][1])
        lines.add("memory", lambda row: row[2][2], leaves=1)
        lines.add("program", lambda row: row[2][3], left=True, shortest=8)
        if any(isinstance(one, EmptyOwner) for one, _ in wasted):
            lines.add("allocation", lambda row: row[2][4], left=True, shortest=10, leaves=3)
    return lines.table()


def other_people(shown: Sequence[TopOwner], rest: Sequence[TopOwner]) -> str:
    """Return the number of other owners in ``rest``, and whether it has further entries of shown ones."""
    already = {one.owner for one in shown}
    count = len({one.owner for one in rest} - already)
    more = "more of those above" if any(one.owner in already for one in rest) else ""
    return ", and ".join(part for part in (plural(count, "other") if count else "", more) if part)


def amounts(
    report: Report,
    answers: Answers,
    shown: Sequence[TopOwner],
    rest: Sequence[TopOwner],
    hours: HourFormat,
) -> tuple[list[str], str, str]:
    """Return the hours of each shown owner, of the rest, and of memory without a listed process.

    They are rounded to add up to the report's idle-held and empty hours.
    """
    held = [one for one in shown if isinstance(one, IdleOwner)]
    empty = [one for one in shown if isinstance(one, EmptyOwner)]
    rest_held_ms = sum(one.wasted_gpu_ms for one in rest if isinstance(one, IdleOwner))
    rest_empty_ms = sum(one.wasted_gpu_ms for one in rest if isinstance(one, EmptyOwner))
    unowned_ms = answers.unowned.wasted_gpu_ms if answers.unowned else 0
    units_of_uses = [use_units(report, hours).get(use, 0) for use in answers.uses]
    of_allocations, idle_held = sum(units_of_uses), state_units(report, hours)[IDLE_HELD] - sum(units_of_uses[1:])
    *of_held, rest_held, of_unowned = apportion(
        [*(one.wasted_gpu_ms for one in held), rest_held_ms, unowned_ms], max(idle_held, 0)
    )
    *of_empty, rest_empty = apportion([*(one.wasted_gpu_ms for one in empty), rest_empty_ms], of_allocations)
    units = {id(one): each for one, each in zip((*held, *empty), (*of_held, *of_empty), strict=True)}
    return (
        [hours.written(one.wasted_gpu_ms, units[id(one)]) for one in shown],
        hours.written(rest_held_ms + rest_empty_ms, rest_held + rest_empty),
        hours.written(unowned_ms, of_unowned),
    )


def when(report: Report) -> str:
    """Return ``now``, or ``at the end`` if the window ended earlier."""
    return "now" if report.ends_now else "at the end"


def cost_suffix(cost: Cost | None, style: Style) -> str:
    """Return the cost as ``, 12 EUR``, empty without a price."""
    return f", {written(cost, style.name, 0)}" if cost is not None and cost.amounts else ""


def _holds(report: Report, one: TopOwner, where: Places, style: Style) -> list[str]:
    """Return the cells of an owner's longest idle card: place, idle time, memory, program, and allocation.

    For an owner without cards they show how long ago it left; for an empty allocation its name.
    """
    if isinstance(one, EmptyOwner):
        if not one.holds:
            return ["none empty", "", "", NOBODY, ""]
        empty, more = one.holds[0], f", {len(one.holds) - 1} more" if len(one.holds) > 1 else ""
        length = at_least(empty.in_use_ms, is_lower_bound=empty.is_lower_bound)
        program = NOBODY if empty.use == Use.EMPTY else _NOT_RECORDED
        return [f"{where(empty.host, empty.gpu)}{more}", length, "", program, allocation_name(empty, style)]
    if not one.holds:
        if one.is_gone is None:
            return [NONE, "", "", "", ""]
        if not one.is_gone:
            return ["nothing", "", "", "", ""]
        ago = "" if one.last_ms is None else f"{span(report.window.until_ms - one.last_ms)} ago"
        return ["gone", ago, "", "", ""]
    worst = one.holds[0]
    others = len({(each.host, each.gpu) for each in one.holds}) - 1
    return [
        where(worst.host, worst.gpu) + (f", {others} more" if others else ""),
        "not idle" if worst.idle_ms is None else at_least(worst.idle_ms, is_lower_bound=worst.is_lower_bound),
        "" if worst.memory_bytes is None else size(worst.memory_bytes),
        known(worst.program, style),
        "",
    ]


def unowned(report: Report, found: Unowned, wasted: str, where: Places, style: Style) -> str:
    """Return the hours of memory without a listed process, its worst card, and the command that shows its holder."""
    memory = f"{wasted}{cost_suffix(found.cost, style)} in memory that no listed process owns"
    if not found.holds:
        return f"{memory}, none of it {when(report)}."
    worst = found.holds[0]
    others = f" and {plural(len(found.holds) - 1, 'other')}" if len(found.holds) > 1 else ""
    since = at_least(worst.idle_ms or 0, is_lower_bound=worst.is_lower_bound)
    # With several hosts the card's label names the host of the command.
    return (
        f"{memory}, {when(report)} on {where(worst.host, worst.gpu)}{others} for {since}. Next, there: sudo fuser -v "
        "/dev/nvidia*"
    )


MOST_FREE: Final = 4
MOST_ALLOCATED: Final = 2
_NAME_WIDTH: Final = 14
NOT_LOOKED_AT: Final = "No allocation source is read: it may be allocated."


def free(report: Report, style: Style, *, brief: bool = False) -> Iterator[str]:
    """Yield the free cards, and idle cards that are allocated or may be; nothing if they were not read.

    ``brief`` only counts the latter.
    """
    now = report.get(Now)
    if now is None:
        return
    first, *others = sentences_of_free(report, now, places(report, style), style)
    if brief:  # only the number of idle cards that are not, or may not be, free
        allocated, maybe = len(_by_card(now.allocated_idle)), len(now.maybe_allocated)
        is_allocated = (
            f"{allocated:,} that nothing holds {'is' if allocated == 1 else 'are'} allocated" if allocated else ""
        )
        parts = list(filter(None, (is_allocated, f"of {maybe:,} that is not known" if maybe else "")))
        others = [f"{', '.join(parts).capitalize()}."] if parts else []
    yield from style.wrap(" ".join([first, *others]), indent=0)


def sentences_of_free(report: Report, now: Now, where: Places, style: Style) -> Iterator[str]:
    """Yield sentences on free cards, on allocated idle cards, and on idle cards of unknown allocation."""
    if not now.free:
        yield f"Free {when(report)}: none."
    else:
        shown = [
            f"{where(one.host, one.gpu)} for {at_least(one.free_ms, is_lower_bound=one.is_lower_bound)}"
            f"{before(one, style)}"
            for one in now.free[:MOST_FREE]
        ]
        yield f"Free {when(report)}: {_listed(shown, len(now.free))}. {allocated_to(now.free)}"
    if cards := _by_card(now.allocated_idle):
        most = MOST_ALLOCATED if len(report.hosts) == 1 else 1  # labels with host names are longer
        allocated = [_allocated(report, of_card, where, style) for of_card in cards[:most]]
        yield f"Not free: {_listed(allocated, len(cards), '; ')}."
    if now.maybe_allocated:
        names = [where(one.host, one.gpu) for one in now.maybe_allocated[:MOST_FREE]]
        yield f"Unknown whether allocated: {_listed(names, len(now.maybe_allocated))}."


def allocated_to(cards: Sequence[FreeCard]) -> str:
    """Return whether the free cards are known to be unallocated, as far as allocation was read."""
    without_source = sum(one.allocation is None for one in cards)
    if without_source == len(cards):
        return NOT_LOOKED_AT
    if without_source:
        return f"{without_source:,} of them without an allocation source; the others are not allocated."
    return "It is not allocated." if len(cards) == 1 else "They are not allocated."


def _listed(shown: Iterable[str], total: int, between: str = ", ") -> str:
    every = list(shown)
    rest = total - len(every)
    return between.join(every) + (f"{between.rstrip(', ')} and {rest:,} more" if rest else "")


def _by_card(allocated: Sequence[AllocatedCard]) -> list[list[AllocatedCard]]:
    """Return the allocations grouped by card: cards with an empty allocation first, the longest first."""

    def order(of_card: Sequence[AllocatedCard]) -> tuple[bool, int]:
        empty = [one.in_use_ms for one in of_card if one.use == Use.EMPTY]
        return (not empty, -max(empty, default=0))

    return sorted(grouped(allocated, of_card).values(), key=order)


def before(card: FreeCard, style: Style) -> str:
    """Return the owner of a free card's previous allocation in brackets; empty if unknown."""
    owner = card.previous_owner
    return "" if owner is None else f" (before that allocated to {style.name(owner, _NAME_WIDTH)})"


def _allocated(report: Report, of_card: Sequence[AllocatedCard], where: Places, style: Style) -> str:
    """Return a card with its allocation, owner, and since when it is empty, as text."""
    first, rest = of_card[0], len(of_card) - 1
    owner = NOT_KNOWN if first.owner is None else style.name(first.owner, _NAME_WIDTH)
    text = (
        f"{where(first.host, first.gpu)}, allocated to {owner} "
        f"({allocation_name(first, style, _NAME_WIDTH)})"
        f"{f' and {rest:,} more' if rest else ''}"
    )
    if all(one.use == Use.EMPTY for one in of_card):
        before = "before " if first.is_lower_bound else ""
        return f"{text}, no process since {before}{since(first.use_since_ms, report.window)}"
    return text
