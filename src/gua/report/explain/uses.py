"""The lines of the rule of uses that were looked at for one part of a card's tick, in words.

:func:`gua.core.allocation.use` decides; the lines stand in docs/rules.md by the same letters.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from gua.core.allocation import use
from gua.core.rules import State
from gua.core.words import Relation, Use
from gua.report.explain.rows import ExplainedPartRow

THERE: Final = {
    Relation.OWNER: "its owner is there",
    Relation.BOTH: "its owner is there, and others are, too",
    Relation.OTHERS: "only others are there",
    Relation.CO_OWNERS: "only those are there with whom it shares the card",
    Relation.NOBODY: "nobody is there",
    Relation.UNKNOWN: "whose processes are there is not known",
}
NOBODYS: Final = "promised to nobody"
NOT_KNOWN: Final = "whether it was promised is not known"


class UseLine(NamedTuple):
    """One line of the rule: its letter in docs/rules.md, whether it fits, and why."""

    line: str
    fits: bool
    text: str


def is_promise_known(row: ExplainedPartRow) -> bool:
    """Return whether it is known to whom the part was promised, or that it was to nobody."""
    return bool(row.source) or row.relation is None


def use_lines(state: State, row: ExplainedPartRow) -> tuple[UseLine, ...]:
    """Return the lines in their order up to the first that fits, which decides: the last one always does."""
    is_known = is_promise_known(row)
    relation = Relation(row.relation) if row.source and row.relation in set(Relation) else None
    there = THERE[relation or Relation.UNKNOWN]
    every = (
        UseLine("a", state is State.UNKNOWN, f"the card is {state}"),
        UseLine("b", not is_known, "whether it was promised is known" if is_known else NOT_KNOWN),
        UseLine("c", not row.source, "promised to an owner" if row.source else f"{NOBODYS}, and the card is {state}"),
        UseLine("d", relation in {Relation.OWNER, Relation.BOTH}, f"{there}, and the card is {state}"),
        UseLine("e", relation is Relation.OTHERS, there),
        UseLine(
            "f",
            relation is Relation.CO_OWNERS or (relation is Relation.NOBODY and state is State.TRULY_IDLE),
            there if relation is Relation.CO_OWNERS else f"{there}, and the card is {state}",
        ),
        UseLine("g", True, f"{there}, though the card is {state}" if relation is Relation.NOBODY else there),  # noqa: FBT003 - the last line fits
    )
    decides = next(place for place, one in enumerate(every) if one.fits)
    return every[: decides + 1]


def decided(state: State, row: ExplainedPartRow) -> Use:
    """Return the use by the rule in Python."""
    if not row.source:
        return use(state, None) if is_promise_known(row) else Use.UNKNOWN
    return use(state, Relation(row.relation) if row.relation in set(Relation) else Relation.UNKNOWN)
