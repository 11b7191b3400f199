"""The rules' lines for a card tick and its allocations, as text with the deciding values.

The decisions are made by :func:`gua.core.rules.classify` and :func:`gua.core.allocation.use`. Numbers and letters of
the lines are those of docs/rules.md.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from gua.core.allocation import use
from gua.core.facts import CardFacts
from gua.core.rules import UNKNOWN_RESERVE_BYTES, Line, Reason, Rules, State, Why, classify, ignored
from gua.core.words import ProcessList, Relation, Use
from gua.report.explain.model import ExplainedPartRow, ratio_text
from gua.report.kit.basis import size
from gua.report.kit.figures import plural

_NO_USAGE: Final = "the card's memory usage is not"
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


_TEXTS: Final = {
    ("1", Why.STATUS): "the card's status is {status}",
    ("2", Why.UTILIZATION_UNKNOWN): "no utilization is known",
    ("2", Why.COMPARED): "utilization {utilizations}",
    ("3", Why.COUNTED_MEMORY_UNKNOWN): "{counted} not have known memory: somebody is there",
    ("3a", Why.HELD_UPPER_UNKNOWN): "held at most is not known: {why_no_upper}",
    ("3a", Why.COMPARED): "held at most {comparison}",
    ("3b", Why.HELD_UPPER_UNKNOWN): "held at most is not known",
    ("3b", Why.RESERVE_KNOWN): "the driver reports its reserve, so what is above the threshold is not that",
    ("3b", Why.LIST_UNKNOWN): "{no_list}",
    ("3b", Why.IGNORED_MEMORY_UNKNOWN): "{ignored}",
    ("3b", Why.COMPARED): (
        "the driver does not report its reserve, which may be up to {reserve}: held at least {comparison}"
    ),
    ("3c", Why.HELD_UPPER_KNOWN): "held at most is known, so it decides",
    ("3c", Why.LIST_UNKNOWN): "{no_list}",
    ("3c", Why.UTILIZATION_UNKNOWN): "counted processes hold {comparison}, but general utilization is not known",
    ("3c", Why.COMPARED): "counted processes hold {comparison}",
    ("4", Why.UTILIZATION_UNKNOWN): "general utilization is not known, so it cannot be called low",
    ("4a", Why.COMPARED): "held at least {comparison}{why_no_more}",
    ("4b", Why.COUNTED_MEMORY_UNKNOWN): "{counted} not have known memory: one is there",
    ("4b", Why.COUNTED_MEMORY_KNOWN): "the memory of every counted process is known",
    ("4b", Why.LIST_UNKNOWN): "{no_list}",
    ("4c", Why.LIST_KNOWN): "the list of processes is known, so held at least decides",
    ("4c", Why.RESERVE_UNKNOWN): (
        "neither the list of processes nor the driver's reserve is known: what is in use may be the reserve"
    ),
    ("4c", Why.HELD_UPPER_UNKNOWN): "held at most is not known: {why_no_upper}",
    ("4c", Why.COMPARED): "held at most {comparison}: it is somebody's, whoever that is",
    ("5", Why.UTILIZATION_UNKNOWN): "general utilization is not known while something may be held",
    ("5", Why.LIST_UNKNOWN): "{no_list}",
    ("5", Why.IGNORED_MEMORY_UNKNOWN): "{ignored}",
}


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
    return _TEXTS[line.number, line.why].format(
        status=_STATUS[facts.failed],
        utilizations=f"{ratio_text(line.value)} {'>=' if line.fits else '<'} {ratio_text(line.limit)}, {largest}",
        comparison=comparison,
        counted=plural(line.value or 0, "counted process does", "counted processes do"),
        ignored=_ignored_of_unknown_memory(facts),
        reserve=size(UNKNOWN_RESERVE_BYTES),
        no_list=_no_list(facts),
        why_no_upper=_NO_USAGE if facts.memory_used_bytes is None else _SHARED,
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
_ALLOCATION_NOT_KNOWN: Final = "whether it was allocated is unknown"


class UseLine(NamedTuple):
    """One line of the rules of use: its letter in docs/rules.md, whether it fits, and why."""

    line: str
    fits: bool
    text: str


def is_allocation_known(row: ExplainedPartRow) -> bool:
    """Return whether it is known if the part was allocated, and to which allocation."""
    return bool(row.source) or row.relation is None


def use_lines(state: State, row: ExplainedPartRow) -> tuple[UseLine, ...]:
    """Return the lines up to the first that fits, which decides; the last line always fits."""
    is_known = is_allocation_known(row)
    relation = Relation(row.relation) if row.source and row.relation in set(Relation) else None
    there = THERE[relation or Relation.UNKNOWN]
    is_idle, is_sole = state is State.TRULY_IDLE, relation is Relation.SOLE
    is_owners = relation in {Relation.OWNER, Relation.BOTH} or (is_sole and not is_idle)
    every = (
        UseLine("a", state is State.UNKNOWN, f"the card is {state}"),
        UseLine("b", not is_known, "whether it was allocated is known" if is_known else _ALLOCATION_NOT_KNOWN),
        UseLine("c", not row.source, "allocated to an owner" if row.source else f"{NOBODYS}, and the card is {state}"),
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


def decided(state: State, row: ExplainedPartRow) -> Use:
    """Return the use according to the rules in Python."""
    if not row.source:
        return use(state, None) if is_allocation_known(row) else Use.UNKNOWN
    return use(state, Relation(row.relation) if row.relation in set(Relation) else Relation.UNKNOWN)
