"""The agent's status object as text; it is untrusted, so invalid values show as unknown."""

import time
from collections.abc import Hashable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final

from gua.core.moments import to_rfc3339
from gua.core.plaintext import cells, few
from gua.core.rules import Reason, State
from gua.core.untrusted import count_in, is_moment, list_in, number_in, object_in, objects_in, text_in
from gua.core.words import AllocationStatus, Mig, ProcessList, ProcessType, Use
from gua.report.kit import figures
from gua.report.kit.basis import gib, size
from gua.report.kit.figures import NONE, percent, plural, ranges
from gua.report.kit.style import Style
from gua.report.kit.tables import Table, TableColumn, columns, shown_width
from gua.report.kit.words import COMMANDS, GUA, LEFT_OVER, RECOVERY, few_sentences, recovery_in_words

WORST_FIRST: Final = (Use.EMPTY, Use.USED_BY_OTHERS, Use.UNKNOWN, Use.HELD, Use.USED)
_LONGEST: Final = 40
_LONGEST_REASON: Final = 160
_MOST_SOURCES: Final = 8
NEW: Final = "new"
"""The use of a reservation that began after the last tick."""


def span(seconds: float | None) -> str:
    """Return a duration as text: ``4ms``, ``12s``, ``3h 12m``, ``2d 4h``; rounded down."""
    if seconds is None:
        return NONE
    return f"{int(seconds * 1000)}ms" if seconds < 1 else figures.span(seconds * 1000)


def lasting(seconds: float | None, style: Style, *, is_lower_bound: object) -> str:
    """Return a duration as text, with ≥ if it is a lower bound; a missing flag means none."""
    mark = ("≥" if style.unicode else ">=") if is_lower_bound is True and seconds is not None else ""
    return mark + span(seconds)


def sources_in_words(status: Mapping[str, Any], style: Style) -> str | None:
    """Return the allocation sources and their health; ``None`` if the agent does not report them."""
    if not isinstance(status.get("allocation_sources"), list):
        return None
    sources = objects_in(status["allocation_sources"])
    return "; ".join(_source(source, style) for source in sources[:_MOST_SOURCES]) or "not looked at"


def _source(source: Mapping[str, Any], style: Style) -> str:
    name = style.name(text_in(source.get("source")) or NONE, _LONGEST)
    if source.get("ok") is True:
        return f"{name} ok"
    reason = style.name(text_in(source.get("reason")) or NONE, _LONGEST_REASON)
    return f"{name} failed for {span(number_in(source.get('seconds')))}: {reason}"


def allocation_in_words(card: Mapping[str, Any], style: Style, width: int) -> str:
    """Return a card's allocations and their use within ``width`` columns; empty if allocation is off.

    For an unallocated card: how long it is free if that is shorter than its idle time, or that it is in use.
    """
    free = _free(card, style)
    if free:
        return free
    match card.get("allocation"):
        case AllocationStatus.ALLOCATED:
            return _fitting(objects_in(card.get("allocations")), number_in(card.get("allocations_total")), style, width)
        case AllocationStatus.UNKNOWN:
            return "allocation unknown"
        case AllocationStatus.UNALLOCATED if card.get("state") in {State.ACTIVE, State.IDLE_HELD}:
            return "unallocated"
    return ""


def _free(card: Mapping[str, Any], style: Style) -> str:
    """Return how long a card is free, and its previous owner; empty if that equals the time in its state."""
    seconds, state_seconds = number_in(card.get("free_seconds")), number_in(card.get("state_seconds"))
    if seconds is None or state_seconds is None or seconds >= state_seconds:
        return ""
    owner = owner_of(object_in(card.get("free_after")))
    before = "" if owner is None else f", before that allocated to {style.name(owner, _LONGEST)}"
    return f"free for {lasting(seconds, style, is_lower_bound=card.get('free_is_lower_bound'))}{before}"


def _fitting(allocations: Sequence[Mapping[str, Any]], total: float | None, style: Style, width: int) -> str:
    """Return the allocations that fit, the worst use first, and the number of the rest."""
    ordered = sorted(allocations, key=rank)
    count = max(int(total or 0), len(ordered))
    if not ordered:
        return "allocated, and just released" if not count else f"allocated {plural(count, 'time')}"
    long, short, shortest = ([_allocation(each, style, words=words) for each in ordered] for words in (3, 2, 1))
    for parts in (long, *(short[:shown] for shown in range(len(short), 0, -1)), shortest[:1]):
        more = f" and {count - len(parts)} more" if count > len(parts) else ""
        line = f"allocated to {'; '.join(parts)}{more}"
        if cells(line) <= width:
            return line
    return style.name(f"allocated to {shortest[0]}", width)


def rank(allocation: Mapping[str, Any]) -> int:
    """Return an allocation's sort key: the worst use first."""
    used = allocation.get("use")
    return WORST_FIRST.index(used) if isinstance(used, str) and used in WORST_FIRST else len(WORST_FIRST)


def _allocation(allocation: Mapping[str, Any], style: Style, *, words: int) -> str:
    """Return an allocation with source, job and end (``words`` 3), with source and end (2), or owner alone (1)."""
    source, identity, job = (text_in(allocation.get(name)) for name in ("source", "id", "job_name"))
    owner = owner_of(allocation)
    command = COMMANDS.get(str(allocation.get("kind"))) if source == GUA else None
    named = command or style.name(source or NONE, _LONGEST)
    named += f" {style.name(identity, _LONGEST)}" if identity and identity != owner and not command else ""
    named += f", {style.name(job, _LONGEST)}" if job and words == 3 else ""
    model = text_in(allocation.get("workload_model"))
    named += f", for {style.name(model, _LONGEST)}" if model and words == 3 else ""
    named += _until(allocation.get("until")) if words > 1 else ""
    ago = span(number_in(allocation.get("allocated_seconds")))
    by = f" ({named})" if words > 1 else ""
    return f"{style.name(owner or '?', _LONGEST)}{by} {ago} ago, {use_in_words(allocation, style)}"


def _until(moment: object) -> str:
    """Return an allocation's end in local time, with the date if it is not today."""
    try:
        until = datetime.fromisoformat(str(moment)).astimezone()
        today = datetime.now(UTC).astimezone().date()
    except (ValueError, OverflowError):
        return ""
    return f", until {until:{'%H:%M' if until.date() == today else '%Y-%m-%d %H:%M'}}"


def owner_of(allocation: Mapping[str, Any]) -> str | None:
    """Return the owner of an allocation: a user, else a pod, else a user id."""
    pod = text_in(allocation.get("pod_name"))
    namespace = text_in(allocation.get("pod_namespace"))
    uid = number_in(allocation.get("uid"))
    owner = text_in(allocation.get("owner")) or (pod and (f"{namespace}/{pod}" if namespace else pod))
    return owner or (None if uid is None else f"{uid:.0f}")


def use_in_words(allocation: Mapping[str, Any], style: Style) -> str:
    """Return the use of an allocation and its duration: ``empty for 1h 5m``."""
    used = allocation.get("use")
    if used == NEW:
        return "newer than the last tick"
    if used not in WORST_FIRST or used == Use.UNKNOWN:
        return "use unknown"
    seconds, is_lower_bound = number_in(allocation.get("use_seconds")), allocation.get("use_is_lower_bound")
    length = "" if seconds is None else f" for {lasting(seconds, style, is_lower_bound=is_lower_bound)}"
    return str(used).replace("-", " ") + length


def cards_now(status: Mapping[str, Any], now_ms: int) -> list[Mapping[str, Any]]:
    """Return the status object's cards with the reservations as of ``now_ms`` (Unix ms)."""
    cards = objects_in(status.get("cards"))
    if not isinstance(status.get("reservations"), list):
        return list(cards)
    reservations = objects_in(status["reservations"])
    return [_now(card, [one for one in reservations if _has(one, card)], now_ms) for card in cards]


def _has(reservation: Mapping[str, Any], card: Mapping[str, Any]) -> bool:
    """Return whether a reservation has the card or its parent GPU."""
    cards = list_in(reservation.get("cards"))
    return any(uuid in cards for uuid in (card.get("uuid"), card.get("parent")) if isinstance(uuid, str))


def _now(card: Mapping[str, Any], reservations: Sequence[Mapping[str, Any]], now_ms: int) -> Mapping[str, Any]:
    allocations = objects_in(card.get("allocations"))
    ids = [one.get("id") for one in reservations]
    there = [one for one in allocations if one.get("source") != GUA or one.get("id") in ids]
    known = [one.get("id") for one in there if one.get("source") == GUA]
    new = [_new(one, now_ms) for one in reservations if one.get("id") not in known]
    if not new and len(there) == len(allocations):
        return card
    ended = len(allocations) - len(there)
    total = card.get("allocations_total")
    return {
        **{name: value for name, value in card.items() if not name.startswith("free_")},
        # Unknown until the next tick for a card whose reservation just ended.
        "allocation": AllocationStatus.ALLOCATED if there or new else None,
        "allocations": [*there, *new],
        "allocations_total": (total if isinstance(total, int) else len(allocations)) - ended + len(new),
    }


def _new(reservation: Mapping[str, Any], now_ms: int) -> dict[str, Any]:
    """Return a reservation that began after the last tick, as an allocation of the card."""
    since_ms, until_ms = reservation.get("since_ms"), reservation.get("until_ms")
    return {
        "source": GUA,
        **{name: reservation.get(name) for name in ("id", "owner", "uid", "kind", "workload_kind", "workload_model")},
        "until": to_rfc3339(until_ms) if isinstance(until_ms, int) and is_moment(until_ms) else None,
        "allocated_seconds": max(0, now_ms - since_ms) / 1000 if isinstance(since_ms, int) else None,
        "use": NEW,
    }


_NAME_WIDTH: Final = 24
_LONGEST_MODEL: Final = 40
_COLUMNS: Final = (
    TableColumn(title="gpu"),
    TableColumn(title="name", left=True, shortest=8),
    TableColumn(title="state", left=True),
    TableColumn(title="for"),
    TableColumn(title="util %", leaves=2),
    TableColumn(title="memory", leaves=1),
    TableColumn(title="age", leaves=3),
)
_HOLDERS_BESIDE: Final = 34
_MOST_ERRORS: Final = 5
_MOST_CARDS: Final = 1000
_MOST_WAITING: Final = 3
LISTS: Final[Mapping[str, str]] = {
    ProcessList.FAILED: "processes cannot be read",
    ProcessList.PID_NAMESPACE: "processes hidden (PID namespace)",
    ProcessList.ABSENT: "processes not known",
}
REASONS: Final[Mapping[str, str]] = {
    Reason.LOST: "lost, or needs a reset",
    Reason.UTILIZATION: "utilization cannot be read",
    Reason.MEMORY: "held memory is unknown",
}
NO_PROCESS: Final = "no process"
"""Note of a card that is active without a process and held memory."""


def render_status(status: Mapping[str, Any], style: Style) -> str:
    """Return the status for a terminal, no line wider than the style's width."""
    cards = cards_now(status, time.time_ns() // 1_000_000)
    lines = [*_agent(status, style), *_recoveries(cards, style), "", *_cards(cards, style)]
    return "\n".join(lines) + "\n"


def _agent(status: Mapping[str, Any], style: Style) -> Iterator[str]:
    agent = object_in(status.get("agent"))
    last = object_in(status.get("last_tick"))
    ticks = object_in(status.get("ticks"))
    runs = "runs and is stalled" if status.get("stalled") is True else "runs"
    interval = number_in(agent.get("interval_seconds"))
    yield from style.wrap(
        f"The agent of {_text(agent.get('host'), style, 40)} {runs} since {_time(agent.get('started'), style)} "
        f"({span(number_in(agent.get('uptime_seconds')))}): gua {_text(agent.get('version'), style)}, "
        f"pid {_text(agent.get('pid'), style)}, a tick every {NONE if interval is None else f'{interval:g}s'}",
        indent=0,
        hanging=2,
    )
    if status.get("stalled") is True:
        yield from style.warning("STALLED: the last tick is older than two intervals; see its log, or gua doctor")
    for condition in list_in(status.get("conditions")):
        yield from style.warning(_text(condition, style))
    tick = "none yet"
    if last:
        tick = (
            f"{span(number_in(last.get('age_seconds')))} ago, {span(number_in(last.get('lateness_seconds')))} late, "
            f"took {span(number_in(last.get('duration_seconds')))}"
        )
    skipped = [
        f"{_count(count)} {_text(reason, style, 20)}" for reason, count in object_in(ticks.get("skipped")).items()
    ]
    terms = {
        "last tick": tick,
        "ticks": f"{_count(ticks.get('made'))} made" + (f"; skipped {', '.join(skipped)}" if skipped else ""),
        "spool": _spool(object_in(status.get("spool"))),
    }
    for label, text in terms.items():
        yield from style.term(label, text)
    for destination in objects_in(status.get("destinations")):
        name = destination.get("name")
        if isinstance(name, str):
            name = name.partition(" ")[0]  # the rest is the address, shown beside it
        yield from style.term(_text(name, style, 11), _delivery(destination, style))
    errors = objects_in(status.get("errors"))
    shown = [
        f"{_text(one.get('call'), style, 40)} {_text(one.get('code'), style, 30)} x {_count(one.get('count'))}"
        for one in errors[:_MOST_ERRORS]
    ]
    rest = {
        **_options(agent, last, style),
        "allocation": sources_in_words(status, style),
        "queue": queue_in_words(status, style),
        "errors": "; ".join([*shown, f"and {more} more kinds"] if (more := len(errors) - _MOST_ERRORS) > 0 else shown),
        "rules": _rules(object_in(status.get("rules"))),
    }
    for label, words in rest.items():
        if words:
            yield from style.term(label, words)


def _recoveries(cards: Sequence[Mapping[str, Any]], style: Style) -> Iterator[str]:
    """Yield a warning on each card for which the driver reports a recovery action, five at most."""
    sentences = []
    for card in cards:
        if action := count_in(card.get("recovery_action")):
            index, is_lower_bound = count_in(card.get("index")), card.get("recovery_is_lower_bound")
            length = lasting(number_in(card.get("recovery_seconds")), style, is_lower_bound=is_lower_bound)
            sentences.append(recovery_in_words(f"GPU {NONE if index is None else index} needs", action, index, length))
    for text in few_sentences(sentences, *RECOVERY):
        yield from style.warning(text)


def _spool(spool: Mapping[str, Any]) -> str:
    held = number_in(spool.get("bytes"))
    text = f"{_many_ticks(spool.get('ticks'))}, {NONE if held is None else size(held)}"
    if spool.get("in_memory_ticks"):
        text += f"; {_waiting(spool.get('in_memory_ticks'))} in memory, as the disk does not take more"
    return text + (f"; {_count(spool.get('dropped_ticks'))} dropped for ever" if spool.get("dropped_ticks") else "")


def _many_ticks(value: object) -> str:
    return f"{_count(value)} tick{'' if number_in(value) == 1 else 's'}"


def _waiting(value: object) -> str:
    return f"{_many_ticks(value)} wait{'s' if number_in(value) == 1 else ''}"


def _delivery(one: Mapping[str, Any], style: Style) -> str:
    text = f"{_text(one.get('where'), style, 60)}: {_waiting(one.get('waiting_ticks'))}"
    lag = number_in(one.get("lag_seconds"))
    if lag:
        text += f", the oldest {span(lag)} old"
    text += f"; {_count(one.get('delivered_ticks'))} delivered"
    ago = number_in(one.get("last_delivery_age_seconds"))
    text += "" if ago is None else f", the last {span(ago)} ago"
    if one.get("refused_ticks"):
        text += f"; {_count(one.get('refused_ticks'))} refused for good"
    if one.get("last_error") is not None:
        now = "failing now" if one.get("failing") is True else "last failure"
        text += f"; {now} ({_time(one.get('last_error_time'), style)}): {_text(one.get('last_error'), style, 200)}"
    return text


def _options(agent: Mapping[str, Any], last: Mapping[str, Any], style: Style) -> dict[str, str]:
    """Return the optional readings that the agent's options enable, by label."""
    options = {}
    if agent.get("detects_models") is True:
        options["models"] = "detected: arguments of processes on cards are read (--detect-models)"
    if agent.get("activity") is not None:
        cards = number_in(last.get("activity_cards"))
        read = f"; {NONE if cards is None else plural(int(cards), 'card')} in the last tick" if last else ""
        options["activity"] = f"read by {_text(agent.get('activity'), style, 10)} (--activity){read}"
    return options


def _rules(rules: Mapping[str, Any]) -> str:
    held, ratio = number_in(rules.get("held_memory_bytes")), number_in(rules.get("held_memory_ratio"))
    thresholds = [] if held is None or (ratio and not held) else [size(held)]
    thresholds += [f"{percent(ratio)} % of the card"] if ratio else []
    return (
        f"active from {percent(number_in(rules.get('active_utilization')))} % utilization, held above "
        f"{' or '.join(thresholds) or NONE} of memory"
    )


def queue_in_words(status: Mapping[str, Any], style: Style) -> str | None:
    """Return the queue in words, the first requesters by name; ``None`` if it is empty."""
    waiting = objects_in(status.get("queue"))
    if not waiting:
        return None
    requesters = [
        f"{style.name(text_in(each.get('owner')) or NONE, 20)} ({plural(count_in(each.get('count')) or 0, 'GPU')})"
        for each in waiting
    ]
    return f"{len(waiting)} wait{'s' if len(waiting) == 1 else ''} for cards: {few(requesters, _MOST_WAITING)}"


def _cards(cards: Sequence[Mapping[str, Any]], style: Style) -> Iterator[str]:
    if not cards:
        yield from style.wrap("no card was read yet", indent=0)
        return
    alike = _alike(cards, style)
    rows = [_figures(same[0], style) for same in alike]
    for row, same in zip(rows, alike, strict=True):
        row[0] = ranges(int(card["index"]) for card in same) if len(same) > 1 else row[0]
    head, *lines = columns(Table(columns=_COLUMNS, rows=rows), style)
    used = 2 + max(map(shown_width, (head, *lines)))
    is_beside = style.width - used >= _HOLDERS_BESIDE
    below = " " * head.index("name")
    yield f"{head:{used}}holders" if is_beside else head
    for (card, *_), line in zip(alike, lines, strict=True):
        holders = _holders(card, style, style.width - (used if is_beside else len(below)))
        blank = " " * (used - shown_width(line))
        yield f"{line}{blank}{holders}".rstrip() if is_beside else line
        allocation = allocation_in_words(card, style, style.width - len(below))
        yield from (below + text for text in ("" if is_beside else holders, allocation) if text)


def _alike(cards: Sequence[Mapping[str, Any]], style: Style) -> list[list[Mapping[str, Any]]]:
    """Return the cards in their order, grouped where all shown values but the index are equal."""
    found: dict[Hashable, list[Mapping[str, Any]]] = {}
    for place, card in enumerate(cards):
        whole = card.get("index") in range(_MOST_CARDS) and card.get("mig") not in {Mig.INSTANCE, Mig.PARENT}
        words = (_holders(card, style, style.width), allocation_in_words(card, style, style.width))
        found.setdefault((*_figures(card, style)[1:], *words) if whole else place, []).append(card)
    return list(found.values())


def _figures(card: Mapping[str, Any], style: Style) -> list[str]:
    """Return the cells of a card in the order of ``_COLUMNS``."""
    index, name, seconds = card.get("index"), card.get("name"), number_in(card.get("state_seconds"))
    used, limit = (gib(number_in(card.get(key))) for key in ("memory_used_bytes", "memory_limit_bytes"))
    named = style.name(short_name(str(name), card.get("mig")), _NAME_WIDTH)
    return [
        _text(index, style, 6),
        named if isinstance(name, str) else _text(card.get("uuid"), style, _NAME_WIDTH),
        _text(card.get("state"), style, 10),
        lasting(seconds, style, is_lower_bound=card.get("state_is_lower_bound")),
        percent(number_in(card.get("utilization"))),
        f"{used}/{limit} GiB",
        span(number_in(card.get("sample_age_seconds"))),
    ]


def short_name(name: str, mig: object) -> str:
    """Return a card's name without the vendor: a MIG instance's profile, or "left over" for its parent's rest."""
    if mig == Mig.PARENT:
        return LEFT_OVER
    profile = name.partition("MIG ")[2] if mig == Mig.INSTANCE else ""
    return (profile or name).removeprefix("NVIDIA ")


def _holders(card: Mapping[str, Any], style: Style, width: int) -> str:
    """Return the notes on a card, its holders that fit into ``width`` columns, and the number of the rest."""
    listed = objects_in(card.get("holders"))
    each = [_holder(one, style) for one in listed if one.get("type") != ProcessType.IGNORED]
    total = number_in(card.get("holders_total"))
    count = len(each) if total is None else max(int(total) - (len(listed) - len(each)), len(each))
    notes = [REASONS.get(str(card.get("reason"))), LISTS.get(str(card.get("process_list")))]
    if (seconds := number_in(card.get("without_process_seconds"))) is not None:
        notes.append(f"{NO_PROCESS} for {span(seconds)}")
    noted = ", ".join(filter(None, notes))
    for shown in range(len(each), -1, -1):
        text = ", ".join(filter(None, [noted, *each[:shown]]))
        if rest := count - shown:
            crowd = f"{', ' if text else ''}{plural(count, 'process', 'processes')}"
            text += f" and {rest} more" if shown else crowd
        if cells(text) <= width:
            return text
    return style.name(noted or text, width)


def _holder(one: Mapping[str, Any], style: Style) -> str:
    memory, model = number_in(one.get("memory_bytes")), one.get("workload_model")
    who = "/".join("?" if name is None else _text(name, style, 16) for name in (one.get("owner"), one.get("comm")))
    text = f"{who} {_text(one.get('pid'), style)} {'memory unknown' if memory is None else size(memory)}"
    return f"{text}, serves {style.name(model, _LONGEST_MODEL)}" if isinstance(model, str) else text


def _count(value: object) -> str:
    number = number_in(value)
    return NONE if number is None else f"{number:,.0f}"


def _time(value: object, style: Style) -> str:
    """Return an RFC 3339 time in local time, to the second."""
    try:
        return style.name(f"{datetime.fromisoformat(str(value)).astimezone():%Y-%m-%d %H:%M:%S %Z}")
    except (ValueError, OverflowError):
        return _text(value, style, 32)


def _text(value: object, style: Style, width: int | None = None) -> str:
    return style.name(str(value), width) if isinstance(value, (str, int)) else NONE
