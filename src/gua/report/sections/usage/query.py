"""Who: rows of ``gua_report.who`` as identities and parties, and the row of what no listed process was on."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from gua.core.ports import Row, ViewReader
from gua.report.model import Headline, Identity
from gua.report.questions import Answer, ask
from gua.report.sections.usage.model import Parties, Party
from gua.report.states import ACTIVE, IDLE_HELD, STATES, UNKNOWN, StateTime

IDENTITY = "identity"
_HELD = (ACTIVE, IDLE_HELD, UNKNOWN)
_COLUMNS = ("active_us", "idle_held_us", "unknown_us")


def ask_who(reader: ViewReader, read: Mapping[str, object], by: str) -> Answer:
    """Ask for the owners and programs (``identity``), or for the parties by one of their keys."""
    return ask(reader, "who", {**read, "by": by})


def identities(rows: Sequence[Row], headline: Headline) -> tuple[Identity, ...]:
    """Return owners and programs, the largest first; with the row of kind ``unlisted`` they sum to the headline."""
    found = [
        Identity(
            kind="listed",
            owner=row["name"],
            program=row["program"],
            gpu_ms=_gpu_us(row) / 1000,
            unsplit_ms=row["durations_ms"],
            states=_states([row[column] for column in _COLUMNS]),
            longest_idle_ms=row["longest_idle_ms"],
            sessions=row["sessions"] or None,
            first_ms=row["first_ms"],
            last_ms=row["last_ms"],
        )
        for row in rows
        if _gpu_us(row) > 0
    ]
    if sum(rest := _unlisted(rows, headline)) > 0:
        found.append(
            Identity(
                kind="unlisted",
                owner=None,
                program=None,
                gpu_ms=sum(rest) / 1000,
                unsplit_ms=sum(rest) / 1000,
                states=_states(rest),
            )
        )
    return tuple(sorted(found, key=lambda one: (-one.gpu_ms, one.kind, one.owner or "", one.program or "")))


def parties(by: str, rows: Sequence[Row], headline: Headline) -> Parties:
    """Return the rows by one key, the largest first, with that of kind ``unlisted`` where there is such time."""
    total = sum(headline.states[state].gpu_ms for state in _HELD)
    rest = _unlisted(rows, headline)
    found = [
        *(
            _party("listed", row["name"], [row[column] for column in _COLUMNS], total, row)
            for row in rows
            if _gpu_us(row)
        ),
        *([_party("unlisted", None, rest, total, None)] if sum(rest) > 0 else []),
    ]
    return Parties(by=by, rows=tuple(sorted(found, key=lambda one: (-one.gpu_ms, one.kind, one.name or ""))))


def _party(kind: str, name: str | None, us: Sequence[int], total_ms: float, row: Row | None) -> Party:
    active, held, unknown = (one / 1000 for one in us)
    gpu_ms = sum(us) / 1000
    return Party(
        kind=kind,
        name=name,
        gpu_ms=gpu_ms,
        active_gpu_ms=active,
        idle_held_gpu_ms=held,
        unknown_gpu_ms=unknown,
        share=gpu_ms / total_ms if total_ms else None,
        unsplit_ms=row["durations_ms"] if row else gpu_ms,
        longest_idle_ms=row["longest_idle_ms"] if row else None,
        sessions=(row["sessions"] or None) if row else 0,
        first_ms=row["first_ms"] if row else None,
        last_ms=row["last_ms"] if row else None,
    )


def _gpu_us(row: Row) -> int:
    return sum(int(row[column]) for column in _COLUMNS)


def _unlisted(rows: Iterable[Row], headline: Headline) -> list[int]:
    """Return what is left of each state's GPU time in us; nothing where processes were given more than there was."""
    every = list(rows)
    return [
        max(round(headline.states[state].gpu_ms * 1000) - sum(int(row[column]) for row in every), 0)
        for state, column in zip(_HELD, _COLUMNS, strict=True)
    ]


def _states(us: Sequence[int]) -> dict[str, StateTime]:
    by_state = dict(zip(_HELD, us, strict=True))
    return {state: StateTime(gpu_ms=by_state.get(state, 0) / 1000) for state in STATES}
