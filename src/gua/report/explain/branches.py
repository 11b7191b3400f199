"""The rules line by line for one card in one tick, with the numbers that decided: the table of docs/rules.md in words.

Which line fits is worked out here from the same bounds as :func:`gua.core.rules.classify`; the cases in
``tests/cases/rules`` hold both to the same states.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from gua.core.facts import CardFacts
from gua.core.rules import (
    UNKNOWN_RESERVE_BYTES,
    Bounds,
    Reason,
    Rules,
    State,
    bounds,
    counted,
    ignored,
    threshold_bytes,
    utilization,
)
from gua.core.tick import ProcessList
from gua.report.kit.basis import size
from gua.report.kit.figures import plural

NOT_KNOWN: Final = "not known"


@dataclass(frozen=True, kw_only=True, slots=True)
class Branch:
    """One line of the rules: its number in docs/rules.md, the state it gives, whether it fits, and why."""

    line: str
    state: State
    reason: Reason | None = None
    fits: bool
    text: str


def branches(facts: CardFacts, rules: Rules) -> tuple[Branch, ...]:
    """Return the lines in their order up to the first that fits, which decides: the last one always does."""
    judged = _Judged(facts, rules)
    looked_at: list[Branch] = []
    for branch in judged.lines():
        looked_at.append(branch)
        if branch.fits:
            break
    return tuple(looked_at)


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


class _Judged:
    """What the lines look at, worked out once."""

    def __init__(self, facts: CardFacts, rules: Rules) -> None:
        self.facts = facts
        self.rules = rules
        self.bounds: Bounds = bounds(facts)
        self.threshold = threshold_bytes(facts, rules)
        self.listed = facts.process_list is ProcessList.KNOWN
        self.reserved = facts.memory_reserved_bytes is not None
        self.counted = counted(facts)
        self.ignored = ignored(facts)

    def lines(self) -> Iterator[Branch]:
        yield self._lost()
        yield self._active()
        if self.counted.unknown:
            there = plural(self.counted.unknown, "counted process does", "counted processes do")
            yield _free("3", fits=False, text=f"{there} not tell how much memory: somebody is there")
        else:
            yield self._empty()
            yield self._empty_but_for_the_reserve()
            yield self._empty_by_its_processes()
        if self.facts.utilization is None:
            yield _held("4", fits=False, text="general utilization is not known, so it cannot be called low")
        else:
            yield self._held()
            yield self._held_by_somebody()
            yield self._held_by_whoever()
        yield self._unknown()

    def _lost(self) -> Branch:
        told = {None: "not known, which is no failure", False: "ok", True: "failed: lost, or needs a reset"}
        return Branch(
            line="1",
            state=State.UNKNOWN,
            reason=Reason.LOST,
            fits=bool(self.facts.failed),
            text=f"the card's status is {told[self.facts.failed]}",
        )

    def _active(self) -> Branch:
        busiest, limit = utilization(self.facts), self.rules.active_from
        if busiest is None:
            return Branch(line="2", state=State.ACTIVE, fits=False, text="no utilization is known")
        fits = busiest >= limit
        facts = self.facts
        parts = ", ".join(
            f"{name} {ratio_text(value)}"
            for name, value in (
                ("general", facts.utilization),
                ("encoder", facts.utilization_encoder),
                ("decoder", facts.utilization_decoder),
                ("busiest process", facts.process_utilization_max),
            )
        )
        text = f"utilization {ratio_text(busiest)} {'>=' if fits else '<'} {ratio_text(limit)}, the largest of {parts}"
        return Branch(line="2", state=State.ACTIVE, fits=fits, text=text)

    def _empty(self) -> Branch:
        upper = self.bounds.held_upper_bytes
        if upper is None:
            return _free("3a", fits=False, text=f"held at most is not known: {self._why_no_upper()}")
        return _free("3a", fits=upper <= self.threshold, text=f"held at most {compared(upper, self.threshold)}")

    def _empty_but_for_the_reserve(self) -> Branch:
        if self.bounds.held_upper_bytes is None:
            return _free("3b", fits=False, text="held at most is not known")
        hindrance = self._reserve_hindrance()
        if hindrance:
            return _free("3b", fits=False, text=hindrance)
        lower = self.bounds.held_lower_bytes
        text = (
            f"the driver does not tell its reserve, which may be up to {size(UNKNOWN_RESERVE_BYTES)}: held at least "
            f"{compared(lower, self.threshold)}"
        )
        return _free("3b", fits=lower <= self.threshold, text=text)

    def _reserve_hindrance(self) -> str:
        if self.reserved:
            return "the driver tells its reserve, so what is above the threshold is not that"
        if not self.listed:
            return self._no_list()
        return self._ignored_of_unknown_memory() if self.ignored.unknown else ""

    def _empty_by_its_processes(self) -> Branch:
        if self.bounds.held_upper_bytes is not None:
            return _free("3c", fits=False, text="held at most is known, so it decides")
        if not self.listed:
            return _free("3c", fits=False, text=self._no_list())
        known = self.counted.memory_bytes
        text = f"counted processes hold {compared(known, self.threshold)}"
        if self.facts.utilization is None:
            return _free("3c", fits=False, text=f"{text}, but general utilization is not known")
        return _free("3c", fits=known <= self.threshold, text=text)

    def _held(self) -> Branch:
        lower = self.bounds.held_lower_bytes
        text = f"held at least {compared(lower, self.threshold)}"
        if self.facts.process_list is not ProcessList.KNOWN:
            text += f" ({self._no_list()})"
        elif self.ignored.unknown:
            text += f" ({self._ignored_of_unknown_memory()})"
        return _held("4a", fits=lower > self.threshold, text=text)

    def _held_by_somebody(self) -> Branch:
        unknown = self.counted.unknown
        text = (
            f"{plural(unknown, 'counted process does', 'counted processes do')} not tell how much memory: one is there"
            if unknown
            else "every counted process tells its memory"
            if self.listed
            else self._no_list()
        )
        return _held("4b", fits=unknown > 0, text=text)

    def _held_by_whoever(self) -> Branch:
        upper = self.bounds.held_upper_bytes
        if self.listed:
            return _held("4c", fits=False, text="the list of processes is known, so held at least decides")
        if not self.reserved:
            text = "neither the list of processes nor the driver's reserve is known: what is in use may be the reserve"
            return _held("4c", fits=False, text=text)
        if upper is None:
            return _held("4c", fits=False, text=f"held at most is not known: {self._why_no_upper()}")
        text = f"held at most {compared(upper, self.threshold)}: it is somebody's, whoever that is"
        return _held("4c", fits=upper > self.threshold, text=text)

    def _unknown(self) -> Branch:
        facts = self.facts
        if facts.utilization is None:
            reason, text = Reason.UTILIZATION, "general utilization is not known while something may be held"
        elif facts.process_list is ProcessList.PID_NAMESPACE:
            reason, text = Reason.PID_NAMESPACE, self._no_list()
        elif not self.listed:
            reason, text = Reason.PROCESSES, self._no_list()
        else:
            reason, text = Reason.MEMORY, self._ignored_of_unknown_memory()
        return Branch(line="5", state=State.UNKNOWN, reason=reason, fits=True, text=text)

    def _why_no_upper(self) -> str:
        if self.facts.memory_used_bytes is None:
            return "the card's memory usage is not"
        return "the card shares its memory with the host, whose usage is everybody's"

    def _no_list(self) -> str:
        if self.facts.process_list is ProcessList.PID_NAMESPACE:
            return "the agent does not see the host's processes (PID namespace)"
        return f"the list of processes is not known ({self.facts.process_list})"

    def _ignored_of_unknown_memory(self) -> str:
        many = plural(self.ignored.unknown, "ignored process does", "ignored processes do")
        return f"{many} not tell how much memory, which may be all that is in use"


def _free(line: str, *, fits: bool, text: str) -> Branch:
    return Branch(line=line, state=State.TRULY_IDLE, fits=fits, text=text)


def _held(line: str, *, fits: bool, text: str) -> Branch:
    return Branch(line=line, state=State.IDLE_HELD, fits=fits, text=text)
