"""How many bytes a fleet takes on the server's disk once its parts are merged."""

from __future__ import annotations

from dataclasses import dataclass

from measures.figures import show
from measures.fleet_server import DAYS, ROLLUPS, FleetServer

CARD_LIMIT, PROCESS_LIMIT, HOURS_LIMIT = 18.0, 2.0, 5.0
_HOURS = (*ROLLUPS, DAYS, "hour_marks")


@dataclass(frozen=True, kw_only=True)
class Stored:
    """Bytes on disk and rows, by table."""

    size: dict[str, int]
    rows: dict[str, int]

    @property
    def ticks(self) -> int:
        return self.size["card_ticks"] + self.size["process_ticks"]

    @property
    def hours(self) -> int:
        return sum(self.size[table] for table in _HOURS)


def stored(server: FleetServer) -> Stored:
    """Merge, and return what the tables take: the files of the parts that count."""
    size, rows = {}, {}
    for table in ("card_ticks", "process_ticks", *_HOURS):
        server.merge(table)
        _, rows[table], size[table] = server.parts(table)
    return Stored(size=size, rows=rows)


def show_storage(server: FleetServer, *, crowded: bool = False) -> Stored:
    """Show bytes a row beside their limits; that of processes is for ``crowded`` cards, with 10 on each in use."""
    found = stored(server)
    for table, limit in (("card_ticks", CARD_LIMIT), ("process_ticks", PROCESS_LIMIT if crowded else None)):
        size, rows = found.size[table], found.rows[table]
        note = f"{size / 1e6:,.1f} MB, {rows:,} rows"
        show(f"bytes a row of {table}, merged", size / rows, "B", limit, note)
    share = 100 * found.hours / found.ticks
    show("hourly tables beside ticks", share, "%", HOURS_LIMIT, f"{found.hours / 1e6:,.2f} MB")
    for table in _HOURS:
        size, rows = found.size[table], found.rows[table]
        note = f"{size / max(rows, 1):.1f} B a row, {rows:,} rows"
        show(f"  {table}", 100 * size / found.ticks, "%", note=note)
    return found
