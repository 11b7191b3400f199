"""What a server takes each minute in which no hour and no day is due."""

from __future__ import annotations

from measures.figures import cpu_ms, middle, show
from measures.fleet_server import FleetServer

# Of what it takes to plan how they are counted, which is left where none is due.
LOOK_LIMIT = 0.2
_LOOKED = "SELECT count() AS due FROM gua_report.due_{unit} HAVING due > 0"
_COUNTED = "SELECT * FROM gua_report.counted_{unit}"


def show_idle(server: FleetServer, *, times: int = 5) -> None:
    """Show the CPU of one look for due hours and days, all of which are counted, beside that of counting none."""
    looked, counted = (
        middle([sum(_cpu_ms(server, sql.format(unit=unit)) for unit in ("hours", "days")) for _ in range(times)])
        for sql in (_LOOKED, _COUNTED)
    )
    show("CPU of a minute in which nothing is due", looked, "ms", note=f"planning to count takes {counted:,.0f} ms")
    show("the same beside planning to count", looked / counted, "", LOOK_LIMIT)


def _cpu_ms(server: FleetServer, sql: str) -> float:
    begun = cpu_ms(server.pid)
    server.query(sql)
    return cpu_ms(server.pid) - begun
