"""What is wrong with hosts: fallen silent, named by two agents, a clock that disagrees with the server's."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import groupby

from gua.core.ports import Row, ViewReader
from gua.report.filters import Labels
from gua.report.model import Claim, Claimant, Silent, Skew


def labels(reader: ViewReader) -> Labels:
    """Return every host's labels as of its newest tick."""
    return {row["host"]: dict(row["labels"]) for row in reader.rows("labels", {})}


def troubles(found: Iterable[Row]) -> tuple[tuple[Silent, ...], tuple[Skew, ...]]:
    """Return hosts that fell silent, and clocks that differ, from the rows of the view ``fleet``."""
    rows = sorted(found, key=lambda row: str(row["host"]))
    silent = tuple(Silent(host=row["host"], since_ms=row["last_ms"]) for row in rows if row["is_silent"])
    return silent, tuple(_skews(rows))


def _skews(rows: Iterable[Row]) -> Iterable[Skew]:
    for row in rows:
        if row["ahead_ms"] is not None or row["behind_ms"] is not None:
            yield Skew(host=row["host"], ahead_ms=row["ahead_ms"], behind_ms=row["behind_ms"])


def claims(found: Iterable[Row]) -> tuple[Claim, ...]:
    """Return the hosts whose name several agents used at the same time, and those agents, from the view ``claims``."""
    rows = sorted(found, key=lambda row: (row["host"], row["first_ms"], row["instance"], row["host_id"]))
    return tuple(
        Claim(
            host=host,
            agents=tuple(
                Claimant(
                    instance=row["instance"] or None,
                    host_id=row["host_id"] or None,
                    first_ms=row["first_ms"],
                    last_ms=row["last_ms"],
                )
                for row in group
            ),
        )
        for host, group in groupby(rows, key=lambda row: str(row["host"]))
    )
