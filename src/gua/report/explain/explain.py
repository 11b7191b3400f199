"""Explanation of a card's state at a time: the ticks around it, all values, and the deciding line of the rules.

States and reasons come from the store's views. The rules in Python yield the lines; a different result (a store with
rules of another version) is reported.
"""

import re
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final, NamedTuple

from gua.core.allocation import use
from gua.core.errors import UnavailableError, UsageError
from gua.core.facts import CardFacts
from gua.core.moments import parse_duration_ms, parse_moment_ms, to_rfc3339, zone
from gua.core.plaintext import few, safe
from gua.core.ports import ViewReader
from gua.core.rules import UNKNOWN_RESERVE_BYTES, Line, Reason, Rules, State, classify, ignored
from gua.core.words import Mig, ProcessList, Relation, Use
from gua.report.explain.model import (
    DECLARED,
    EXPLAIN_ALLOCATIONS,
    EXPLAIN_CARDS,
    EXPLAIN_MOMENTS,
    EXPLAIN_PROCESSES,
    EXPLAIN_TICKS,
    ExplainedCard,
    ExplainedPartRow,
    ExplainedProcessRow,
    MomentRow,
    TickRow,
    facts_of,
    ratio_text,
)
from gua.report.kit.basis import size
from gua.report.kit.fields import grouped
from gua.report.kit.figures import plural
from gua.report.model import Setting
from gua.report.questions import ask
from gua.report.rows import EXTENT, RULES
from gua.report.window import choose_extents, names

_SHARED: Final = "the card shares its memory with the host, whose usage is everybody's"
_STATUS: Final = {None: "not known, which is no failure", False: "ok", True: "failed: lost, or needs a reset"}


class Branch(NamedTuple):
    """One line of the rules: its number in docs/rules.md, its state, whether it fits, and why."""

    line: str
    state: State
    reason: Reason | None
    fits: bool
    text: str


def branches(facts: CardFacts, rules: Rules) -> tuple[Branch, ...]:
    """Return the lines up to the first that fits, which decides; the last line always fits."""
    return tuple(
        Branch(line.number, line.state, line.reason, line.fits, line_text(line, facts))
        for line in classify(facts, rules).lines
    )


def line_text(line: Line, facts: CardFacts) -> str:
    """Return the reason why a line fits or does not."""
    comparison = "" if line.value is None or line.limit is None else compared(line.value, line.limit)
    why_no_more = ""
    if facts.process_list is not ProcessList.KNOWN:
        why_no_more = f" ({_no_list(facts)})"
    elif ignored(facts).unknown:
        why_no_more = f" ({_ignored_of_unknown_memory(facts)})"
    each = {
        "general": facts.utilization,
        "encoder": facts.utilization_encoder,
        "decoder": facts.utilization_decoder,
        "busiest process": facts.process_utilization_max,
    }
    values = ", ".join(f"{what} {ratio_text(value)}" for what, value in each.items() if value != 0)
    largest = f"the largest of {values}" if values else "no engine and no process above 0"
    text: str = DECLARED["line"][line.number][line.why]
    return text.format(
        status=_STATUS[facts.failed],
        utilizations=f"{ratio_text(line.value)} {'>=' if line.fits else '<'} {ratio_text(line.limit)}, {largest}",
        comparison=comparison,
        counted=plural(line.value or 0, "counted process does", "counted processes do"),
        ignored=_ignored_of_unknown_memory(facts),
        reserve=size(UNKNOWN_RESERVE_BYTES),
        no_list=_no_list(facts),
        why_no_upper="the card's memory usage is not" if facts.memory_used_bytes is None else _SHARED,
        why_no_more=why_no_more,
    )


def compared(amount: int, threshold: int) -> str:
    """Return bytes compared with the threshold: ``1.2 GiB > threshold 100 MiB``; exact bytes if they look equal."""
    relation = ">" if amount > threshold else "<="
    left, right = size(amount), size(threshold)
    if left == right and amount != threshold:
        left, right = f"{amount:,} bytes", f"{threshold:,} bytes"
    return f"{left} {relation} threshold {right}"


def _no_list(facts: CardFacts) -> str:
    if facts.process_list is ProcessList.PID_NAMESPACE:
        return "the agent does not see the host's processes (PID namespace)"
    return f"the list of processes is not known ({facts.process_list})"


def _ignored_of_unknown_memory(facts: CardFacts) -> str:
    processes = plural(ignored(facts).unknown, "ignored process does", "ignored processes do")
    return f"{processes} not have known memory, which may be all that is in use"


THERE: Final = {
    Relation.OWNER: "its owner has processes on it",
    Relation.BOTH: "its owner and others have processes on it",
    Relation.OTHERS: "only others have processes on it",
    Relation.CO_OWNERS: "only owners of the card's other allocations have processes on it",
    Relation.NOBODY: "it has no process",
    Relation.SOLE: "its processes are unknown, and the card had no other allocation",
    Relation.UNKNOWN: "the owners of its processes are unknown",
}
NOBODYS: Final = "not allocated"


class UseLine(NamedTuple):
    """One line of the rules of use: its letter in docs/rules.md, whether it fits, and why."""

    line: str
    fits: bool
    text: str


MOST_TICKS: Final = 1000
# A card's index as reports write it; a UUID prefix of up to 4 digits counts as an index.
_NUMBERED: Final = re.compile(r"(?:gpu[ -]?)?([0-9]{1,4})", re.ASCII | re.IGNORECASE)
_MOST_NAMED: Final = 16
_LONGEST: Final = 60
_INDEX: Final = re.compile("[0-9]{1,4}", re.ASCII)  # a time has more digits
_NEAR_MS: Final = 86_400_000
_FIRST_MS: Final = 172_800_000  # the bounds of gua_public.idle_streaks: within the range of ClickHouse's Date
_LAST_MS: Final = 4_102_444_800_000


@dataclass(frozen=True, kw_only=True, slots=True)
class ExplainRequest:
    """A request for an explanation as typed: a card by index or UUID prefix, optionally with host and time.

    ``words`` are ``CARD``, ``HOST CARD``, ``CARD TIME`` or ``HOST CARD TIME``; ``around`` is a number of ticks or a
    duration. ``timezone`` is that of the output; ``clock`` is that of a time without an offset, if different.
    """

    words: tuple[str, ...]
    around: str
    timezone: str
    clock: str | None = None
    now_ms: int


@dataclass(frozen=True, slots=True)
class ExplainedPart:
    """A part of a tick: its stored row, and the card's state."""

    row: ExplainedPartRow
    state: State

    @property
    def relation(self) -> Relation:
        """Return the allocation's relation to the card's processes; unknown for a word of another version."""
        return Relation(self.row.relation) if self.row.relation in set(Relation) else Relation.UNKNOWN

    @property
    def lines(self) -> tuple[UseLine, ...]:
        """Return the rules' lines on use up to the first that fits, which decides; the last line always fits."""
        state, relation, is_known = self.state, self.relation, self.row.is_allocation_known
        there, is_allocated = THERE[relation], bool(self.row.source)
        is_idle, is_sole = state is State.TRULY_IDLE, relation is Relation.SOLE
        is_owners = relation in {Relation.OWNER, Relation.BOTH} or (is_sole and not is_idle)
        holder = "allocated to an owner" if is_allocated else f"{NOBODYS}, and the card is {state}"
        every = (
            UseLine("a", state is State.UNKNOWN, f"the card is {state}"),
            UseLine("b", not is_known, f"whether it was allocated is {'known' if is_known else 'unknown'}"),
            UseLine("c", not is_allocated, holder),
            UseLine("d", is_owners, f"{there}, and the card is {state}"),
            UseLine("e", relation is Relation.OTHERS, there),
            UseLine(
                "f",
                relation is Relation.CO_OWNERS or (is_idle and (is_sole or relation is Relation.NOBODY)),
                there if relation is Relation.CO_OWNERS else f"{there}, and the card is {state}",
            ),
            UseLine("g", True, f"{there}, though the card is {state}" if relation is Relation.NOBODY else there),  # noqa: FBT003 - the last line fits
        )
        decides = next(place for place, one in enumerate(every) if one.fits)
        return every[: decides + 1]

    @property
    def agrees(self) -> bool:
        """Return whether the rules in Python yield the stored use."""
        if not self.row.source and not self.row.is_allocation_known:
            return self.row.use == Use.UNKNOWN
        return self.row.use == use(self.state, self.relation if self.row.source else None)


@dataclass(frozen=True, kw_only=True, slots=True)
class ExplainedTick:
    """One tick: its stored row, its processes, and the rules' lines up to the one that fits.

    ``parts`` are its allocations and the unallocated rest, each with its use; empty where allocation is off.
    """

    row: TickRow
    processes: tuple[ExplainedProcessRow, ...]
    branches: tuple[Branch, ...]
    parts: tuple[ExplainedPart, ...] = ()

    @property
    def start_ms(self) -> int:
        """Return the start of the tick's range (start, ts] in Unix ms."""
        return self.row.ts_ms - self.row.duration_ms

    @property
    def agrees(self) -> bool:
        """Return whether the rules in Python yield the stored state, reason and uses."""
        last = self.branches[-1]
        uses_agree = all(part.agrees for part in self.parts)
        return (last.state, last.reason) == (self.row.state, self.row.reason) and uses_agree


@dataclass(frozen=True, kw_only=True, slots=True)
class Explanation:
    """The ticks around a time of a card; ``covering`` is the one that covers it, ``None`` if unobserved.

    ``before`` and ``after`` are the nearest ticks as (start, end) in Unix ms, ``None`` without one.
    """

    card: ExplainedCard
    at_ms: int
    timezone: str
    settings: tuple[Setting, ...]
    covering: ExplainedTick | None
    ticks: tuple[ExplainedTick, ...]
    before: tuple[int, int] | None
    after: tuple[int, int] | None


def check_explain(request: ExplainRequest) -> None:
    """Raise UsageError for a request that no store could answer."""
    zone(request.timezone)
    _around(request.around)
    words = _joined(request.words)
    if len(words) == 3:
        _moment_ms(request, words[2], request.now_ms)


def _moment_ms(request: ExplainRequest, time: str, newest_ms: int) -> int:
    clock = zone(request.clock or request.timezone)
    return parse_moment_ms(time, now_ms=request.now_ms, newest_ms=newest_ms, timezone=clock)


def explain(reader: ViewReader, request: ExplainRequest) -> Explanation:
    """Return the explanation of a card's state from a store.

    Raises UsageError for an unknown host or card (it lists the known ones) or a future time. Raises UnavailableError
    for an empty store, or if only hourly rollups of the card remain.
    """
    ticks_around, around_ms = _around(request.around)
    rule_rows = ask(reader, RULES, {})
    extents = EXTENT.rows(reader, {"hosts": []})
    host, wanted, time = _addressed(request.words, sorted({extent.host for extent in choose_extents(extents, ())}))
    of_host = choose_extents(extents, (host,))
    live = any(extent.source == "agent" for extent in of_host)
    newest_ms = max(extent.last_ms for extent in of_host)
    since_ms = request.now_ms if live else newest_ms
    at_ms = newest_ms if time is None else _moment_ms(request, time, since_ms)
    if at_ms > max(request.now_ms, newest_ms):
        raise UsageError(f"{to_rfc3339(at_ms)} is in the future: it is {to_rfc3339(request.now_ms)} now")
    cards = EXPLAIN_CARDS.rows(reader, {"hosts": [host]})
    card = choose_card(cards, wanted, at_ms=at_ms)

    moments = _moments(reader, card, at_ms, max(ticks_around, 1))
    if around_ms:
        bounds = (at_ms - around_ms - 1, at_ms + around_ms)
        before, after = _sides(moments, at_ms)
        around = _query_moments(reader, card, at_ms, MOST_TICKS + 1, bounds)
        moments = sorted({*before[-1:], *after[:1], *around})
        if len(moments) > MOST_TICKS:
            raise UsageError(f"--around {request.around} is more than {MOST_TICKS:,} ticks: give fewer")
    if not moments:
        raise UnavailableError(f"there are no ticks of {card.gpu} of {host} any more: only its hourly rollups remain")
    spans = [(end - duration, end) for end, duration in moments]
    settings = tuple(rule_rows())
    ticks = _explained(reader, card, moments, settings)
    return Explanation(
        card=card,
        at_ms=at_ms,
        timezone=request.timezone,
        settings=settings,
        covering=next((tick for tick in ticks if tick.start_ms < at_ms <= tick.row.ts_ms), None),
        ticks=ticks,
        before=next((span for span in reversed(spans) if span[1] < at_ms), None),
        after=next((span for span in spans if span[0] >= at_ms), None),
    )


def _joined(words: tuple[str, ...]) -> tuple[str, ...]:
    """Return the words with a card in report notation, ``GPU 3``, merged into one word."""
    for place, (word, following) in enumerate(pairwise(words)):
        if word.casefold() == "gpu" and _INDEX.fullmatch(following):
            return (*words[:place], f"{word} {following}", *words[place + 2 :])
    return words


def _addressed(words: tuple[str, ...], hosts: Sequence[str]) -> tuple[str, str, str | None]:
    """Return host, card and time; the host defaults to the only one, the time to ``None`` (newest tick)."""
    words = _joined(words)
    if len(words) > 3:
        raise UsageError(f"{len(words)} words are too many: gua explain [HOST] CARD [TIME]")
    if len(words) == 3:
        return words[0], words[1], words[2]
    first, second = words[0], words[1] if len(words) == 2 else None
    is_host = first in hosts or len(hosts) > 1 or (second is not None and _INDEX.fullmatch(second) is not None)
    if second is not None and is_host:
        return first, second, None
    if len(hosts) > 1:
        example = f"gua explain {shlex.quote(hosts[0])} {shlex.quote(first)}"
        raise UsageError(f"the store has several hosts, {names(hosts)}: name one, as in {example}")
    return hosts[0], first, second


def choose_card(cards: Sequence[ExplainedCard], text: str, *, at_ms: int) -> ExplainedCard:
    """Return the card with this index or UUID. Raises UsageError if none or several match.

    Of several cards with an index, also written ``GPU 3``, whole cards win over MIG instances, then the card that had
    it at ``at_ms`` (Unix ms). A UUID may be a prefix, with or without ``GPU-`` or ``MIG-``.
    """
    numbered = _NUMBERED.fullmatch(text.strip())
    wanted = numbered[1] if numbered else text.strip()
    if numbered:
        found = [card for card in cards if card.gpu_index == int(wanted)]
        found = [card for card in found if card.mig != Mig.INSTANCE] or found
        found = [card for card in found if card.first_ms < at_ms <= card.last_ms] or found
    else:
        found = [card for card in cards if wanted and _begins(card.gpu.casefold(), wanted.casefold())]
        found = [card for card in found if card.gpu.casefold() == wanted.casefold()] or found
    if len(found) == 1:
        return found[0]
    host = cards[0].host if cards else "that host"
    shown = safe(wanted, _LONGEST)
    if not found:
        raise UsageError(f"{host} has no card {shown!r}: there are {_named(cards)}")
    msg = f"{shown!r} may be any of {len(found)} cards of {host}: write more of its UUID, of {_named(found)}"
    raise UsageError(msg)


def _begins(uuid: str, text: str) -> bool:
    return uuid.startswith(text) or uuid.partition("-")[2].startswith(text)


def _named(cards: Sequence[ExplainedCard]) -> str:
    names = [f"{'-' if card.gpu_index is None else card.gpu_index} ({safe(card.gpu, _LONGEST)})" for card in cards]
    return few(names, _MOST_NAMED) or "none"


def _around(text: str) -> tuple[int, int]:
    """Return the number of ticks on each side, or the ms; the other is 0. Raises UsageError."""
    stripped = text.strip()
    if not stripped.isdecimal() or not stripped.isascii():
        return 0, parse_duration_ms(stripped)
    if int(stripped) > MOST_TICKS // 2:
        msg = f"--around {stripped} is too many ticks: give {MOST_TICKS // 2} or fewer, or a duration, as in 5m"
        raise UsageError(msg)
    return int(stripped), 0


def _moments(reader: ViewReader, card: ExplainedCard, at_ms: int, most: int) -> list[MomentRow]:
    """Return the ends of ticks near a time: up to ``most`` on each side of the covering one."""
    near = _query_moments(reader, card, at_ms, most + 1, (at_ms - _NEAR_MS, at_ms + _NEAR_MS))
    before, after = _sides(near, at_ms)
    is_short_before = len(before) <= most and card.first_ms < at_ms - _NEAR_MS
    is_short_after = len(after) <= most and card.last_ms > at_ms + _NEAR_MS
    if is_short_before or is_short_after:  # other ticks are farther away
        near = _query_moments(reader, card, at_ms, most + 1, (_FIRST_MS, _LAST_MS))
        before, after = _sides(near, at_ms)
    covered = bool(after) and after[0].ts_ms - after[0].duration_ms < at_ms
    return before[-most:] + after[: most + covered]


def _sides(moments: list[MomentRow], at_ms: int) -> tuple[list[MomentRow], list[MomentRow]]:
    """Return the ticks that end before a time, and the others."""
    return [tick for tick in moments if tick.ts_ms < at_ms], [tick for tick in moments if tick.ts_ms >= at_ms]


def _query_moments(
    reader: ViewReader, card: ExplainedCard, at_ms: int, most: int, bounds: tuple[int, int]
) -> list[MomentRow]:
    parameters = {
        "host": card.host,
        "gpu": card.gpu,
        "at_ms": max(at_ms, _FIRST_MS),
        "limit": most,
        "since_ms": max(bounds[0], _FIRST_MS),
        "until_ms": min(bounds[1], _LAST_MS),
    }
    return EXPLAIN_MOMENTS.rows(reader, parameters)


def _explained(
    reader: ViewReader, card: ExplainedCard, moments: list[MomentRow], settings: tuple[Setting, ...]
) -> tuple[ExplainedTick, ...]:
    values = {setting.key: setting.value for setting in settings}
    rules = Rules(
        active_utilization=values["active_utilization"],
        held_memory_bytes=int(values["held_memory_bytes"]),
        held_memory_ratio=values["held_memory_ratio"],
    )
    parameters = {"host": card.host, "gpu": card.gpu, "since_ms": moments[0].ts_ms - 1, "until_ms": moments[-1].ts_ms}
    process_rows = ask(reader, EXPLAIN_PROCESSES, parameters)
    ticks = EXPLAIN_TICKS.rows(reader, parameters)
    processes = grouped(process_rows(), lambda row: row.ts_ms)
    # Parts exist only with allocation, and this query takes as long as all others together.
    has_parts = any(row.allocation is not None for row in ticks)
    parts = grouped(EXPLAIN_ALLOCATIONS.rows(reader, parameters) if has_parts else (), lambda row: row.ts_ms)
    return tuple(
        ExplainedTick(
            row=row,
            processes=tuple(processes.get(row.ts_ms, ())),
            branches=branches(facts_of(row), rules),
            parts=tuple(ExplainedPart(part, State(row.state)) for part in parts.get(row.ts_ms, ())),
        )
        for row in ticks
    )
