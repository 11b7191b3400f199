"""Two real ClickHouse servers as the two shards of a cluster.

In this form of the server there is no ClickHouse Keeper and no DDL queue: nothing is replicated, and the statements are
applied to each server by itself.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from xml.sax.saxutils import escape

from gua.store import statements
from servers.clickhouse import ClickHouseServer

CLUSTER = "lab"
# Raw points are kept, whatever their time.
UNREPLICATED = statements.cluster_tokens(CLUSTER, raw_days=None, replication=statements.Replication.NONE)
SECRET = "both shards know it"  # noqa: S105 - of two servers on the loopback interface that live for one test


class Shards:
    """Two servers that know each other; every query may go to either."""

    def __init__(self, folder: Path) -> None:
        self.servers = [ClickHouseServer(folder / f"shard-{number}") for number in (1, 2)]
        for number, server in enumerate(self.servers, start=1):
            server.configure(self._configuration(number))
            for users in (server.folder / "users.d" / name for name in ("gua.xml", "gua-bi.xml")):
                users.write_text(with_cluster_grants(users.read_text()))
            # As docs/fleet.md has it: an insert is answered once it is on its shard.
            (server.folder / "users.d" / "insert.xml").write_text(
                "<clickhouse><profiles><default>"
                "<distributed_foreground_insert>1</distributed_foreground_insert>"
                "</default></profiles></clickhouse>\n"
            )

    def start(self) -> None:
        for server in self.servers:
            server.start()

    def kill(self) -> None:
        for server in self.servers:
            server.kill()

    def apply_schema(self, tokens: Mapping[str, str] = UNREPLICATED) -> None:
        """Apply every statement to each server, and note the version once."""
        loaded = statements.load(tokens)
        for server in self.servers:
            for statement in loaded:
                server.query(statement.sql)
        applied = json.dumps({"version": statements.SCHEMA_VERSION, "digest": statements.digest(loaded)})
        self.servers[0].query(f"INSERT INTO gua.schema_versions FORMAT JSONEachRow {applied}")

    def _configuration(self, number: int) -> str:
        # Each knows itself by its own port, and reads what is its own without a connection.
        ports = [
            server.own_tcp_port if each == number else server.tcp_port
            for each, server in enumerate(self.servers, start=1)
        ]
        shards = "".join(
            f"<shard><replica><host>127.0.0.1</host><port>{port}</port></replica></shard>" for port in ports
        )
        return (
            f"<remote_servers><{CLUSTER}><secret>{escape(SECRET)}</secret>{shards}</{CLUSTER}></remote_servers>\n"
            f"<macros><cluster>{CLUSTER}</cluster><shard>{number}</shard><replica>1</replica></macros>\n"
            # Without threads of its own, what is sent in the background would never leave.
            "<background_distributed_schedule_pool_size>4</background_distributed_schedule_pool_size>\n"
        )


def with_cluster_grants(users: str) -> str:
    """Return the shipped users with what stands in comments for a cluster."""
    return re.sub(r"<!-- Only for a cluster:(.*?)-->", r"\1", users, flags=re.DOTALL)
