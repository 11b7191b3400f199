"""Owners and their programs where no streaks are made: asked for in parts of the hours, and added up."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Final, NamedTuple

from gua.core.parameters import READ
from gua.core.ports import ViewReader
from gua.core.view import Count, View
from gua.report.questions import Answer, ask
from gua.report.sections.usage.model import OwnerUsage
from gua.report.states import ACTIVE, IDLE_HELD, STATES, UNKNOWN, StateTime


class OwnerHoursRow(NamedTuple):
    """An owner's program in a part of the window's hours, GPU time in us by the card's state."""

    kind: str
    owner: str | None
    program: str | None
    active_us: int
    idle_held_us: int
    unknown_us: int
    process_ms: Count


OWNERS: Final = View("owners", OwnerHoursRow, (*READ, "hours"))


def ask_by_parts(
    reader: ViewReader, read: Mapping[str, object], others: Iterable[list[int]]
) -> Iterator[Answer[OwnerHoursRow]]:
    """Ask for the owners of parts of the hours, one by one, so that memory does not grow with the window."""
    for place, part in enumerate(others):
        yield ask(reader, OWNERS, {**read, "hours": part, **({"use_hourly": 0} if place else {})})


def owners_of_parts(answers: Iterable[Answer[OwnerHoursRow]]) -> tuple[OwnerUsage, ...]:
    """Add up the answers for parts of the hours."""
    sums: dict[tuple[str, str | None, str | None], list[int]] = {}
    for answer in answers:
        for row in answer():
            total = sums.setdefault((row.kind, row.owner, row.program), [0, 0, 0, 0])
            for position, value in enumerate((row.active_us, row.idle_held_us, row.unknown_us, row.process_ms)):
                total[position] += value
    found = (_owner(OwnerHoursRow(*key, *total)) for key, total in sums.items())
    return tuple(
        sorted(
            (one for one in found if one.gpu_ms > 0),
            key=lambda i: (-i.gpu_ms, i.kind, i.owner or "", i.program or ""),
        )
    )


def _owner(row: OwnerHoursRow) -> OwnerUsage:
    """Return a program. Where processes were given more than their card had, nothing is left for the unlisted."""
    by_state = {ACTIVE: max(row.active_us, 0), IDLE_HELD: max(row.idle_held_us, 0), UNKNOWN: max(row.unknown_us, 0)}
    gpu_ms = sum(by_state.values()) / 1000
    return OwnerUsage(
        kind=row.kind,
        owner=row.owner,
        program=row.program,
        gpu_ms=gpu_ms,
        process_ms=gpu_ms if row.kind == "unlisted" else row.process_ms,
        # The ticks of cards that nothing holds belong to nobody.
        states={state: StateTime(gpu_ms=by_state.get(state, 0) / 1000) for state in STATES},
    )
