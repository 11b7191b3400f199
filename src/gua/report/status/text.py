"""The agent's status object as text; it is untrusted, so invalid values show as unknown."""

from __future__ import annotations

import time
from collections.abc import Hashable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, Final

from gua.core.plaintext import cells, few
from gua.core.rules import Reason
from gua.core.untrusted import count_in, list_in, number_in, object_in, objects_in, text_in
from gua.core.words import Mig, ProcessList, ProcessType
from gua.report.kit.basis import gib, size
from gua.report.kit.figures import NONE, percent, plural, ranges
from gua.report.kit.style import Style
from gua.report.kit.tables import Table, TableColumn, columns, shown_width
from gua.report.kit.words import LEFT_OVER
from gua.report.status.allocation import allocation_in_words, cards_now, lasting, sources_in_words, span

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


def render_status(status: Mapping[str, Any], style: Style) -> str:
    """Return the status for a terminal, no line wider than the style's width."""
    lines = [*_agent(status, style), "", *_cards(cards_now(status, time.time_ns() // 1_000_000), style)]
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
        holders = _Holders(card, style).fitting(style.width - (used if is_beside else len(below)))
        blank = " " * (used - shown_width(line))
        yield f"{line}{blank}{holders}".rstrip() if is_beside else line
        allocation = allocation_in_words(card, style, style.width - len(below))
        yield from (below + text for text in ("" if is_beside else holders, allocation) if text)


def _alike(cards: Sequence[Mapping[str, Any]], style: Style) -> list[list[Mapping[str, Any]]]:
    """Return the cards in their order, grouped where all shown values but the index are equal."""
    found: dict[Hashable, list[Mapping[str, Any]]] = {}
    for place, card in enumerate(cards):
        whole = card.get("index") in range(_MOST_CARDS) and card.get("mig") not in {Mig.INSTANCE, Mig.PARENT}
        words = (_Holders(card, style).fitting(style.width), allocation_in_words(card, style, style.width))
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


class _Holders:
    """The holders of a card, shortened to a width."""

    def __init__(self, card: Mapping[str, Any], style: Style) -> None:
        self._style = style
        counted = [one for one in objects_in(card.get("holders")) if one.get("type") != ProcessType.IGNORED]
        ignored = len(objects_in(card.get("holders"))) - len(counted)
        total = number_in(card.get("holders_total"))
        self._total = len(counted) if total is None else max(int(total) - ignored, len(counted))
        self._each = [self._one(one) for one in counted]
        reason, listed = card.get("reason"), card.get("process_list")
        self._notes = [note for note in (REASONS.get(str(reason)), LISTS.get(str(listed))) if note]

    def fitting(self, width: int) -> str:
        """Return the notes, the holders that fit, and the number of the rest."""
        text = ", ".join([*self._notes, *self._each])
        if self._total == len(self._each) and cells(text) <= width:
            return text
        for shown in range(len(self._each), -1, -1):
            more = f"and {self._total - shown} more" if shown else plural(self._total, "process", "processes")
            parts = [*self._notes, *self._each[:shown]]
            text = ", ".join(parts) + (" " if shown else ", " if parts else "") + more if self._total > shown else text
            if cells(text) <= width:
                return text
        return self._style.name(", ".join(self._notes) or text, width)

    def _one(self, one: Mapping[str, Any]) -> str:
        style, memory = self._style, number_in(one.get("memory_bytes"))
        names = (one.get(name) for name in ("owner", "comm"))
        who = "/".join("?" if name is None else _text(name, style, 16) for name in names)
        text = f"{who} {_text(one.get('pid'), style)} {'memory unknown' if memory is None else size(memory)}"
        model = one.get("workload_model")
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
