"""Owners and their programs where no streaks are made: asked for in parts of the hours, and added up."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from typing import Final, NamedTuple

from gua.core.parameters import BY_DAY, PRICED, READ
from gua.core.ports import ViewReader
from gua.core.view import Count, View
from gua.report.prices import Prices
from gua.report.questions import Answer, ask
from gua.report.sections.usage.model import OwnerUsage
from gua.report.sections.usage.query import LEAST_US
from gua.report.states import ACTIVE, IDLE_HELD, STATES, UNKNOWN, StateTime


class OwnerHoursRow(NamedTuple):
    """An owner's program in a part of the window's hours, GPU time in us by the card's state."""

    kind: str
    owner: str | None
    program: str | None
    price: Count
    active_us: int
    idle_held_us: int
    unknown_us: int
    process_ms: Count


OWNERS: Final = View("owners", OwnerHoursRow, (*READ, "hours", *PRICED), optional=BY_DAY)


def ask_by_parts(
    reader: ViewReader, read: Mapping[str, object], others: Iterable[list[int]], prices: Prices
) -> Iterator[Answer[OwnerHoursRow]]:
    """Ask for the owners of parts of the hours, one by one, so that memory does not grow with the window."""
    for place, part in enumerate(others):
        yield ask(reader, OWNERS, {**read, **prices.parameters, "hours": part, **({"use_hourly": 0} if place else {})})


def owners_of_parts(answers: Iterable[Answer[OwnerHoursRow]], prices: Prices) -> tuple[OwnerUsage, ...]:
    """Add up the answers for parts of the hours."""
    sums: dict[tuple[str, str | None, str | None], _Sums] = defaultdict(_Sums)
    for answer in answers:
        for row in answer():
            sums[row.kind, row.owner, row.program].add(row)
    found = (_owner(*key, of_owner, prices) for key, of_owner in sums.items())
    return tuple(
        sorted(
            (one for one in found if one.gpu_ms > 0),
            key=lambda i: (-i.gpu_ms, i.kind, i.owner or "", i.program or ""),
        )
    )


class _Sums:
    """What an owner's program had in all parts."""

    def __init__(self) -> None:
        self.process_ms = 0
        self.us: Counter[tuple[int, str]] = Counter()

    def add(self, row: OwnerHoursRow) -> None:
        self.process_ms += row.process_ms
        for state, us in ((ACTIVE, row.active_us), (IDLE_HELD, row.idle_held_us), (UNKNOWN, row.unknown_us)):
            self.us[row.price, state] += us


def _owner(kind: str, owner: str | None, program: str | None, sums: _Sums, prices: Prices) -> OwnerUsage:
    """Return a program. Where processes were given more than their card had, nothing is left for the unlisted."""
    by_state: Counter[str] = Counter()
    for (_, state), us in sums.us.items():
        by_state[state] += us
    if kind == "unlisted":
        by_state = Counter({state: us for state, us in by_state.items() if us >= LEAST_US})
    by_state = +by_state
    gpu_ms = by_state.total() / 1000
    return OwnerUsage(
        kind=kind,
        owner=owner,
        program=program,
        gpu_ms=gpu_ms,
        process_ms=gpu_ms if kind == "unlisted" else sums.process_ms,
        costs=prices.costs(by_state, {key: us for key, us in sums.us.items() if key[0] and us > 0}),
        # The ticks of cards that nothing holds belong to nobody.
        states={state: StateTime(gpu_ms=by_state.get(state, 0) / 1000) for state in STATES},
    )
