"""The lines of the rules that were looked at for one card in one tick, in words with the numbers that decided.

:func:`gua.core.rules.classify` decides and says which lines those are; nothing is decided here.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from gua.core.facts import CardFacts
from gua.core.rules import UNKNOWN_RESERVE_BYTES, Line, Reason, Rules, State, Why, classify, ignored
from gua.core.words import ProcessList
from gua.report.kit.basis import size
from gua.report.kit.figures import plural

NOT_KNOWN: Final = "not known"
_STATUS: Final = {None: "not known, which is no failure", False: "ok", True: "failed: lost, or needs a reset"}


class Branch(NamedTuple):
    """One line of the rules: its number in docs/rules.md, the state it gives, whether it fits, and why."""

    line: str
    state: State
    reason: Reason | None
    fits: bool
    text: str


def branches(facts: CardFacts, rules: Rules) -> tuple[Branch, ...]:
    """Return the lines in their order up to the first that fits, which decides: the last one always does."""
    return tuple(
        Branch(line.number, line.state, line.reason, line.fits, line_text(line, facts))
        for line in classify(facts, rules).lines
    )


_TEXTS: Final = {
    ("1", Why.STATUS): "the card's status is {status}",
    ("2", Why.UTILIZATION_UNKNOWN): "no utilization is known",
    ("2", Why.COMPARED): "utilization {utilizations}",
    ("3", Why.COUNTED_MEMORY_UNKNOWN): "{counted} not tell how much memory: somebody is there",
    ("3a", Why.HELD_UPPER_UNKNOWN): "held at most is not known: {why_no_upper}",
    ("3a", Why.COMPARED): "held at most {comparison}",
    ("3b", Why.HELD_UPPER_UNKNOWN): "held at most is not known",
    ("3b", Why.RESERVE_KNOWN): "the driver tells its reserve, so what is above the threshold is not that",
    ("3b", Why.LIST_UNKNOWN): "{no_list}",
    ("3b", Why.IGNORED_MEMORY_UNKNOWN): "{ignored}",
    ("3b", Why.COMPARED): (
        "the driver does not tell its reserve, which may be up to {reserve}: held at least {comparison}"
    ),
    ("3c", Why.HELD_UPPER_KNOWN): "held at most is known, so it decides",
    ("3c", Why.LIST_UNKNOWN): "{no_list}",
    ("3c", Why.UTILIZATION_UNKNOWN): "counted processes hold {comparison}, but general utilization is not known",
    ("3c", Why.COMPARED): "counted processes hold {comparison}",
    ("4", Why.UTILIZATION_UNKNOWN): "general utilization is not known, so it cannot be called low",
    ("4a", Why.COMPARED): "held at least {comparison}{why_no_more}",
    ("4b", Why.COUNTED_MEMORY_UNKNOWN): "{counted} not tell how much memory: one is there",
    ("4b", Why.COUNTED_MEMORY_KNOWN): "every counted process tells its memory",
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
    """Return why a line fits, or does not."""
    comparison = "" if line.value is None or line.limit is None else compared(line.value, line.limit)
    return _TEXTS[line.number, line.why].format(
        status=_STATUS[facts.failed],
        utilizations=_utilizations(line, facts),
        comparison=comparison,
        counted=plural(line.value or 0, "counted process does", "counted processes do"),
        ignored=_ignored_of_unknown_memory(facts),
        reserve=size(UNKNOWN_RESERVE_BYTES),
        no_list=_no_list(facts),
        why_no_upper=_why_no_upper(facts),
        why_no_more=_why_no_more(facts),
    )


def ratio_text(ten_thousandths: int | None) -> str:
    """Return a ratio of 1/10,000 in percent, exactly: ``3.2 %``."""
    if ten_thousandths is None:
        return NOT_KNOWN
    return f"{ten_thousandths / 100:.2f}".rstrip("0").rstrip(".") + " %"


def compared(amount: int, threshold: int) -> str:
    """Return how bytes compare with the threshold: ``1.2 GiB > threshold 100 MiB``; to the byte where it takes that."""
    relation = ">" if amount > threshold else "<="
    left, right = size(amount), size(threshold)
    if left == right and amount != threshold:
        left, right = f"{amount:,} bytes", f"{threshold:,} bytes"
    return f"{left} {relation} threshold {right}"


def _utilizations(line: Line, facts: CardFacts) -> str:
    each = {
        "general": facts.utilization,
        "encoder": facts.utilization_encoder,
        "decoder": facts.utilization_decoder,
        "busiest process": facts.process_utilization_max,
    }
    told = ", ".join(f"{what} {ratio_text(value)}" for what, value in each.items() if value != 0)
    largest = f"the largest of {told}" if told else "no engine and no process above 0"
    return f"{ratio_text(line.value)} {'>=' if line.fits else '<'} {ratio_text(line.limit)}, {largest}"


def _why_no_upper(facts: CardFacts) -> str:
    if facts.memory_used_bytes is None:
        return "the card's memory usage is not"
    return "the card shares its memory with the host, whose usage is everybody's"


def _why_no_more(facts: CardFacts) -> str:
    if facts.process_list is not ProcessList.KNOWN:
        return f" ({_no_list(facts)})"
    return f" ({_ignored_of_unknown_memory(facts)})" if ignored(facts).unknown else ""


def _no_list(facts: CardFacts) -> str:
    if facts.process_list is ProcessList.PID_NAMESPACE:
        return "the agent does not see the host's processes (PID namespace)"
    return f"the list of processes is not known ({facts.process_list})"


def _ignored_of_unknown_memory(facts: CardFacts) -> str:
    processes = plural(ignored(facts).unknown, "ignored process does", "ignored processes do")
    return f"{processes} not tell how much memory, which may be all that is in use"
