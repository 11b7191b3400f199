"""Databases as gpu-usage-audit 1.0 to 1.8 made them, in each of its five schemas."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final

GENERATIONS: Final = ("1.0.0", "1.0.3", "1.1", "1.4", "1.7")
"""The first version of each schema."""

_TABLES: Final = {
    "1.0.0": """
CREATE TABLE host (hostname TEXT NOT NULL, env_kind TEXT NOT NULL, driver_version TEXT,
    first_seen DATETIME NOT NULL, last_seen DATETIME NOT NULL);
CREATE TABLE gpu_sample (ts DATETIME NOT NULL, gpu_uuid TEXT NOT NULL, util_pct INTEGER NOT NULL);
CREATE TABLE proc_sample (ts DATETIME NOT NULL, gpu_uuid TEXT NOT NULL, pid INTEGER NOT NULL,
    mem_used_mb INTEGER NOT NULL, loginuid_user TEXT);
CREATE INDEX idx_gpu_sample_uuid_ts ON gpu_sample(gpu_uuid, ts);
CREATE INDEX idx_proc_sample_uuid_ts ON proc_sample(gpu_uuid, ts);
""",
    "1.0.3": """
CREATE TABLE daemon_run (id INTEGER PRIMARY KEY AUTOINCREMENT, started_at DATETIME NOT NULL,
    interval_seconds REAL NOT NULL);
ALTER TABLE gpu_sample ADD COLUMN run_id INTEGER;
ALTER TABLE proc_sample ADD COLUMN run_id INTEGER;
""",
    "1.1": """
CREATE TABLE gpu_device (gpu_uuid TEXT NOT NULL, name TEXT NOT NULL, memory_total_mb INTEGER NOT NULL,
    first_seen DATETIME NOT NULL, last_seen DATETIME NOT NULL);
CREATE UNIQUE INDEX idx_gpu_device_uuid ON gpu_device(gpu_uuid);
ALTER TABLE gpu_sample ADD COLUMN gpu_index INTEGER;
ALTER TABLE gpu_sample ADD COLUMN memory_used_mb INTEGER;
ALTER TABLE gpu_sample ADD COLUMN temperature_c INTEGER;
ALTER TABLE gpu_sample ADD COLUMN power_w INTEGER;
ALTER TABLE proc_sample ADD COLUMN gpu_index INTEGER;
ALTER TABLE proc_sample ADD COLUMN process_name TEXT;
""",
    # 1.4 copies the table: a column cannot become nullable.
    "1.4": """
ALTER TABLE gpu_sample ADD COLUMN usage_state TEXT;
DROP INDEX idx_proc_sample_uuid_ts;
ALTER TABLE proc_sample RENAME TO proc_sample_legacy;
CREATE TABLE proc_sample (ts DATETIME NOT NULL, gpu_uuid TEXT NOT NULL, pid INTEGER NOT NULL, mem_used_mb INTEGER,
    loginuid_user TEXT, run_id INTEGER REFERENCES daemon_run(id), gpu_index INTEGER, process_name TEXT,
    process_type TEXT NOT NULL DEFAULT 'compute');
INSERT INTO proc_sample SELECT ts, gpu_uuid, pid, mem_used_mb, loginuid_user, run_id, gpu_index, process_name, 'compute'
    FROM proc_sample_legacy;
DROP TABLE proc_sample_legacy;
CREATE INDEX idx_proc_sample_uuid_ts ON proc_sample(gpu_uuid, ts);
""",
    "1.7": "ALTER TABLE proc_sample ADD COLUMN owner_user TEXT;",
}
START: Final = datetime(2026, 3, 2, 9, 0, 0, 250_000, tzinfo=UTC)


class OlderDatabase:
    """One database that grows: its schema is upgraded as a newer version would on opening it."""

    def __init__(self, path: Path, generation: str, *, wal: bool = True) -> None:
        self.path = path
        self.connection = sqlite3.connect(path, isolation_level=None)
        if wal:
            self.connection.execute("PRAGMA journal_mode = WAL")
        self.connection.execute("PRAGMA synchronous = OFF")
        self._reached = -1
        self.upgrade(generation)

    @classmethod
    def reopened(cls, path: Path) -> OlderDatabase:
        """Open one that is there, with the newest schema, as a daemon that starts."""
        database = cls.__new__(cls)
        database.path = path
        database.connection = sqlite3.connect(path, isolation_level=None)
        return database

    def upgrade(self, generation: str) -> None:
        """Bring the schema to a later version."""
        reached = GENERATIONS.index(generation)
        for version in GENERATIONS[self._reached + 1 : reached + 1]:
            self.connection.executescript(_TABLES[version])
        self._reached = reached

    def insert(self, table: str, columns: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
        """Insert rows in one transaction."""
        marks = ", ".join("?" * len(columns))
        self.connection.execute("BEGIN")
        self.connection.executemany(f"INSERT INTO {table} ({', '.join(columns)}) VALUES ({marks})", rows)
        self.connection.execute("COMMIT")

    def host(self, name: str = "old-node", first: str = "2026-01-01", last: str = "2026-12-31") -> None:
        """Say which host recorded, from when to when."""
        row = (name, "bare", "580.82.07", f"{first}T00:00:00+00:00", f"{last}T00:00:00+00:00")
        self.connection.execute("INSERT INTO host VALUES (?, ?, ?, ?, ?)", row)

    def run(self, seconds: float) -> int:
        """Begin a run of the daemon and return its number."""
        found = self.connection.execute(
            "INSERT INTO daemon_run (started_at, interval_seconds) VALUES ('', ?)", (seconds,)
        )
        return int(found.lastrowid or 0)

    def card(self, seconds: float, uuid: str = "GPU-a", util_pct: int | None = 0, **columns: object) -> None:
        """Record a card so many seconds after the start."""
        self.insert(
            "gpu_sample", ("ts", "gpu_uuid", "util_pct", *columns), [(at(seconds), uuid, util_pct, *columns.values())]
        )

    def process(
        self, seconds: float, uuid: str = "GPU-a", pid: int = 1, mib: int | None = 0, **columns: object
    ) -> None:
        """Record a process so many seconds after the start."""
        names = ("ts", "gpu_uuid", "pid", "mem_used_mb", *columns)
        self.insert("proc_sample", names, [(at(seconds), uuid, pid, mib, *columns.values())])

    def close(self) -> Path:
        """Close it, as its daemon does when it ends, and return its path."""
        self.connection.close()
        return self.path


def at(seconds: float) -> str:
    """Return the time as it writes it: without a fraction where that is zero."""
    return (START + timedelta(seconds=seconds)).isoformat()
