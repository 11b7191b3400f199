"""The tool that had this name before on the same history: its database, in its own schema, and its report.

It knows one host, so the cards of all hosts are one host's here. Of a card's readings it keeps the whole percent,
MiB, degrees and watts; of a process its user, name and MiB.
"""

from __future__ import annotations

import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path

from measures.child import Ran, ran
from measures.fleet_seed import DAY_MS, Fleet
from measures.fleet_server import FleetServer, statement

_MAKE = "import sys; from gpu_usage_audit.db import open_db; open_db(sys.argv[1]).close()"
_CARDS = """
INSERT INTO gpu_sample (ts, gpu_uuid, util_pct, run_id, gpu_index, memory_used_mb, temperature_c, power_w, usage_state)
VALUES (?, ?, ?, 1, ?, ?, ?, ?, ?)
"""
_PROCESSES = """
INSERT INTO proc_sample
    (ts, gpu_uuid, pid, mem_used_mb, loginuid_user, owner_user, run_id, gpu_index, process_name, process_type)
VALUES (?, ?, ?, ?, ?, ?, 1, ?, ?, 'compute')
"""
_AT_ONCE = 50_000


def fill(server: FleetServer, fleet: Fleet, older: Path, database: Path, *, days: int) -> tuple[int, int]:
    """Make its database of the last days of a fleet's ticks; return how many rows of cards and processes it has."""
    subprocess.run([older.with_name("python"), "-c", _MAKE, database], check=True)
    rows = [0, 0]
    connection = sqlite3.connect(database)
    connection.execute("PRAGMA synchronous = OFF")
    first_day = fleet.first_day + fleet.days - days
    begun = datetime.fromtimestamp(first_day * DAY_MS / 1000, UTC).isoformat()
    ended = datetime.fromtimestamp(fleet.until_ms / 1000, UTC).isoformat()
    connection.execute("INSERT INTO host VALUES ('gpu-node', 'bare-metal', '580.82.07', ?, ?)", (begun, ended))
    connection.execute("INSERT INTO daemon_run VALUES (1, ?, 30.0)", (begun,))
    devices = server.lines("SELECT DISTINCT gpu FROM gua.card_seen ORDER BY gpu")
    connection.executemany(
        "INSERT INTO gpu_device VALUES (?, 'NVIDIA H100 80GB HBM3', 81559, ?, ?)",
        ((line.decode().rstrip(), begun, ended) for line in devices),
    )
    for day in range(first_day, first_day + days):
        for place, (name, insert) in enumerate((("older_cards", _CARDS), ("older_processes", _PROCESSES))):
            lines = server.lines(statement(name, day=day))
            while batch := list(islice(_cells(lines), _AT_ONCE)):
                connection.executemany(insert, batch)
                rows[place] += len(batch)
        connection.commit()
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    connection.close()
    return rows[0], rows[1]


def report(older: Path, database: Path, fleet: Fleet, *, days: int, samples: int) -> Ran:
    """Make its report, whose window ends now, of the last days of a fleet: so many rows of cards."""
    # An hour more, in which the database has nothing: on a busy machine it starts later, and so does its window.
    hours = (time.time() * 1000 - fleet.until_ms) / 3_600_000 + days * 24 + 1
    output = database.with_name("report.txt")
    found = ran(older, "report", "--db", database, "--since", f"{hours:.3f}h", output=output)
    text = output.read_text(encoding="utf-8")
    if f"{samples:,}" not in text:
        sys.exit(f"its report is not of {samples:,} samples:\n{text[:2_000]}")
    return found


def _cells(lines: Iterator[bytes]) -> Iterator[list[str | None]]:
    for line in lines:
        yield [None if cell == "\\N" else cell for cell in line.decode().rstrip("\n").split("\t")]
