"""A ClickHouse server for a fleet that is made up: its schema, and the statements of bench/fleet."""

from __future__ import annotations

import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from string import Template

from servers.clickhouse import PASSWORDS, ClickHouseServer
from servers.gua import Gua
from servers.tools import ROOT

STATEMENTS = ROOT / "bench" / "fleet"
PATIENCE_S = 3_600
_PARTS = """
SELECT table, count(), sum(rows), sum(bytes_on_disk)
FROM system.parts
WHERE active AND database = 'gua'
GROUP BY table
"""
# Who may look at the server itself, as none of the project's own users may.
_WATCHER = """
<clickhouse><users><watcher>
    <password/><networks><ip>127.0.0.1</ip></networks><profile>default</profile><quota>default</quota>
    <grants><query>GRANT SELECT ON *.*</query></grants>
</watcher></users></clickhouse>
"""
ROLLUPS = (
    "hourly_sources",
    "allocation_intervals",
    "process_intervals",
    "card_intervals",
    "hourly_cards",
    "rollups",
)
DAYS = "process_days"
TABLES = (
    "card_ticks",
    "process_ticks",
    "allocation_ticks",
    "allocation_source_ticks",
    "card_info",
    "card_seen",
    "agents",
    "hour_marks",
    *ROLLUPS,
    DAYS,
)


class FleetServer(ClickHouseServer):
    """A server whose statements may take an hour, and the command beside it."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder / "clickhouse")
        (self.folder / "users.d" / "watcher.xml").write_text(_WATCHER, encoding="utf-8")
        self.gua = Gua(folder / "gua")

    def query(self, sql: str, *, user: str = "gua_owner") -> str:
        return b"".join(self.lines(sql, user=user)).decode().removesuffix("\n")

    def lines(self, sql: str, *, user: str = "gua_owner") -> Iterator[bytes]:
        """Run one statement and yield the lines of its answer as they come."""
        request = urllib.request.Request(
            f"http://127.0.0.1:{self.http_port}/",
            data=sql.encode(),
            headers={"X-ClickHouse-User": user, "X-ClickHouse-Key": PASSWORDS.get(user, "")},
        )
        try:
            with urllib.request.urlopen(request, timeout=PATIENCE_S) as answer:  # noqa: S310 - the bench's own server
                yield from answer
        except urllib.error.HTTPError as error:
            raise AssertionError(error.read().decode()) from None

    def run(self, name: str, **values: int | str) -> None:
        """Run a statement of bench/fleet with its numbers filled in."""
        self.query(statement(name, **values))

    def parts(self, table: str) -> tuple[int, int, int]:
        """Return parts, rows and bytes on disk of a table."""
        sizes = dict(line.split("\t", 1) for line in self.query(_PARTS, user="watcher").splitlines())
        count, rows, size = map(int, sizes.get(table, "0\t0\t0").split("\t"))
        return count, rows, size

    def clear(self) -> None:
        """Empty every table that the bench fills."""
        for table in TABLES:
            self.query(f"TRUNCATE TABLE IF EXISTS gua.{table}")

    def merge(self, *tables: str) -> None:
        """Merge all parts of a partition into one, as the server does in time."""
        for table in tables:
            self.query(f"OPTIMIZE TABLE gua.{table} FINAL")


def statement(name: str, **values: int | str) -> str:
    """Return a statement of bench/fleet; ``$OCCUPANCY`` and ``$NAMES`` are what several have in common."""
    shared = {part.stem.upper(): part.read_text(encoding="utf-8") for part in STATEMENTS.glob("*.part")}
    text = Template((STATEMENTS / f"{name}.sql").read_text(encoding="utf-8"))
    return Template(text.safe_substitute(shared)).substitute({key.upper(): value for key, value in values.items()})


@contextmanager
def fleet_server(folder: Path) -> Iterator[FleetServer]:
    """Yield a server with the schema, which rolls up hours by ``gua rollup`` alone."""
    server = FleetServer(folder)
    server.start()
    try:
        server.gua.must("schema", "apply", "--store", server.dsn())
        server.query("DROP VIEW gua.look_for_due_hours")
        server.query("DROP VIEW IF EXISTS gua.look_for_due_days")
        yield server
    finally:
        server.kill()
