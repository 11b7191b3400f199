"""Counted hours, made anew from the ticks wherever these, or the rules, changed; days, added up from hours."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from gua.core.errors import TransientError

_MARK: Final = """
INSERT INTO gua.hour_marks (host, hour, marks, marked)
SELECT
    host,
    toDateTime(intDiv(toUnixTimestamp64Milli(ts) - 1, 3600000) * 3600, 'UTC') AS hour,
    1 AS marks,
    now64(3, 'UTC') AS marked
FROM gua.card_ticks
"""
_UNMARKED: Final = "WHERE (host, hour) GLOBAL NOT IN (SELECT host, hour FROM gua.hour_marks)\n"
_BY: Final = "GROUP BY host, hour"
MARK_ALL: Final = f"{_MARK}{_BY}"
# Ticks of an insert that began before gua.hour_marks was there, and ended after MARK_ALL had read what there was.
MARK_UNMARKED: Final = f"{_MARK}{_UNMARKED}{_BY}"
# Hours that were counted while the schema grew, when what arrived told of allocations already, and what counts did not.
MARK_LOOKED_AT: Final = f"{_MARK.replace('gua.card_ticks', 'gua.allocation_source_ticks')}{_BY}"
# Runs of processes are most of what hours take; of their times neighbours differ by little, and harder work pays once.
_PACKED: Final = {
    **dict.fromkeys(("start_ms", "end_ms"), "Delta, ZSTD(6)"),
    **dict.fromkeys(
        (
            "pid",
            "created_ms",
            "first_span_ms",
            "last_span_ms",
            "duration_ms",
            "gpu_time_ms",
            "memory_kib_ms",
            "memory_known_ms",
            "memory_bytes",
        ),
        "ZSTD(6)",
    ),
}
# A nested column has one codec for all it holds where a table is made.
PACK: Final = "ALTER TABLE gua.host_hours${LOCAL} ${ON_CLUSTER} " + ", ".join(
    f"MODIFY COLUMN `process_runs.{name}` CODEC({codec})" for name, codec in _PACKED.items()
)
# The view's own query, of fewer hours than all that are due: of cards by the dozen a month has too many ticks for the
# memory of one question.
_VIEW_QUERY: Final = "SELECT as_select FROM system.tables WHERE database = 'gua_report' AND name = '{view}'"
_MOST_AT_ONCE: Final = 1_000
_FEWER: Final = 4

# Days gain nothing in a report of fewer: a host of eight cards has so many in seven months.
LEAST_HOURS: Final = 5_000

Rows = Sequence[Mapping[str, Any]]


@dataclass(frozen=True, kw_only=True)
class _Counted:
    """A table of counted rows: what is due, and the view that counts it."""

    table: str
    due: str
    view: str


_HOURS: Final = _Counted(table="host_hours", due="due_hours", view="counted_hours")
_DAYS: Final = _Counted(table="host_days", due="due_days", view="counted_days")


def count(
    select: Callable[[str], Rows], run: Callable[[str], None], *, local: str = "", counted: str | None = None
) -> int:
    """Count the hours that are due, some at a time, and return how many (a host in an hour each) were written.

    ``counted`` is the query of the view that counts; where it is not given the store is asked for it. What stays due
    all the same, as ticks keep arriving for it, is left to the next time. Raises TransientError where not even one hour
    can be counted.
    """
    return _count(_HOURS, select, run, local, counted)


def count_days(
    select: Callable[[str], Rows], run: Callable[[str], None], *, local: str = "", counted: str | None = None
) -> int:
    """Add up the hours of the days that are due, as :func:`count` counts hours, and return how many were written."""
    return _count(_DAYS, select, run, local, counted)


def need_days(select: Callable[[str], Rows]) -> bool:
    """Return whether there are so many hours of hosts that a report reads days."""
    return int(select("SELECT count() AS hours FROM gua.host_hours")[0]["hours"]) >= LEAST_HOURS


def _count(
    what: _Counted, select: Callable[[str], Rows], run: Callable[[str], None], local: str, counted: str | None
) -> int:
    written = 0
    before: Rows = []
    most = _MOST_AT_ONCE
    key = "host, hour, marks" if what is _HOURS else "host, day, marks"
    # Names and numbers of ours, all of them.
    while (due := select(f"SELECT {key} FROM gua_report.{what.due}")) and due != before:  # noqa: S608 - see above
        query = counted or str(select(_VIEW_QUERY.format(view=what.view))[0]["as_select"])
        some = f"(SELECT * FROM gua_report.{what.due} LIMIT {most})"  # noqa: S608 - see above
        try:
            run(f"INSERT INTO gua.{what.table}{local} {query.replace(f'gua_report.{what.due}', some, 1)}")
        except TransientError:
            if most == 1:
                raise
            most = max(min(most, len(due)) // _FEWER, 1)
            continue
        written += min(len(due), most)
        before = due
    return written
