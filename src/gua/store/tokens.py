"""Values of the ``$TOKENS`` in the shipped SQL: embedded engine, one server, or cluster."""

from __future__ import annotations

import re
from enum import Enum
from typing import Final

from gua.core.errors import UsageError

RAW_DAYS: Final = 3
_MOST_DAYS: Final = 36_500
# Inserted rows may stay invisible for this long [s] to a query that already reads their hour mark.
_SETTLE_SECONDS: Final = 10
# Hosts x hours in one rollup statement: at 30 s, 8 cards with 10 processes each make 10 million rows.
_HOURS_AT_ONCE: Final = 1_000
# Hosts x days in one statement that merges days: of 8 cards with 10 processes each some million intervals.
_DAYS_AT_ONCE: Final = 250
# Cluster name in remote_servers, or a macro such as {cluster}.
_CLUSTER: Final = re.compile(r"\{\w{1,64}\}|\w[\w.-]{0,127}", re.ASCII)
# Path by database and table, not {uuid}: a server that joins later uses the path of its shard's replicas.
_REPLICA: Final = "'/clickhouse/tables/{shard}/{database}/{table}', '{replica}'"
# A retried block must reach views that the first attempt filled only in part; duplicate rows merge into one.
_NO_DEDUPLICATION: Final = "replicated_deduplication_window = 0, replicated_deduplication_window_for_async_inserts = 0"
# Column statistics are a fifth of a part's bytes, read at each opening, and gua's queries do not use them.
# Embedded only: older servers lack these settings.
_NO_STATISTICS: Final = "auto_statistics_types = '', refresh_statistics_interval = 0"
# Larger blocks save a twelfth of the hourly tables' size in large fleets.
_LARGE_BLOCKS: Final = "min_compress_block_size = 262144"
_ONE_NODE: Final = {
    **dict.fromkeys(("ON_CLUSTER", "ON_CLUSTER_DATABASE", "REPLICATED", "REPLICA", "LOCAL", "CLUSTER"), ""),
    **dict.fromkeys(("DATABASE_ENGINE", "REPORT_DATABASE_ENGINE", "PUBLIC_DATABASE_ENGINE", "TABLE_SETTINGS"), ""),
    "COUNTED_SETTINGS": f"SETTINGS {_LARGE_BLOCKS}",
}


class Replication(Enum):
    """How the servers of a shard replicate rows."""

    TABLES = "tables"  # Replicated* tables, created ON CLUSTER
    DATABASE = "database"  # databases with engine Replicated: they replicate DDL and configure their tables' replicas
    NONE = "none"  # one server per shard, without ClickHouse Keeper: apply the statements to each server


def server_tokens(
    *, raw_days: int | None = RAW_DAYS, ticks_days: int | None = None, hours_days: int | None = None
) -> dict[str, str]:
    """Return the tokens for one server.

    Days are the retention of raw points, ticks and the hourly rollup; ``None`` is forever.
    Raises UsageError for days outside 1 to 36,500.
    """
    return {
        **_ONE_NODE,
        # Expire whole days, so that partitions are dropped and not rewritten; a day's last hour decides.
        "TICKS_TTL": _ttl("toDate(ts) + 1", ticks_days),
        "HOURS_TTL": _ttl("toDate(hour) + 1", hours_days),
        "DAYS_TTL": _ttl("toDate(day) + 1", hours_days),
        "LANDING_ENGINE": _landing("MergeTree", raw_days),
        "DEFINER": "DEFINER = CURRENT_USER SQL SECURITY DEFINER",
        "RECEIVED": "now64(3)",
        "SETTLE_SECONDS": str(_SETTLE_SECONDS),
        "HOURS_AT_ONCE": str(_HOURS_AT_ONCE),
        "DAYS_AT_ONCE": str(_DAYS_AT_ONCE),
    }


def cluster_tokens(
    name: str,
    *,
    raw_days: int | None = RAW_DAYS,
    ticks_days: int | None = None,
    hours_days: int | None = None,
    replication: Replication = Replication.TABLES,
) -> dict[str, str]:
    """Return the tokens for the cluster ``name`` in remote_servers, or for a macro such as ``{cluster}``.

    Raises UsageError for an invalid name or number of days.
    """
    if not _CLUSTER.fullmatch(name):
        raise UsageError(f"{name!r} is no cluster's name: take one that the server has in system.clusters")
    tokens = {
        **server_tokens(raw_days=raw_days, ticks_days=ticks_days, hours_days=hours_days),
        "LOCAL": "_local",
        "CLUSTER": f"'{name}'",
    }
    if replication is Replication.NONE:
        return tokens
    on_cluster = f"ON CLUSTER '{name}'"
    tokens |= {
        "ON_CLUSTER_DATABASE": on_cluster,
        "REPLICATED": "Replicated",
        "TABLE_SETTINGS": f"SETTINGS {_NO_DEDUPLICATION}",
        "COUNTED_SETTINGS": f"SETTINGS {_NO_DEDUPLICATION}, {_LARGE_BLOCKS}",
    }
    if replication is Replication.DATABASE:
        return tokens | {
            "DATABASE_ENGINE": _database_engine("gua"),
            "REPORT_DATABASE_ENGINE": _database_engine("gua_report"),
            "PUBLIC_DATABASE_ENGINE": _database_engine("gua_public"),
            "LANDING_ENGINE": _landing("ReplicatedMergeTree", raw_days, _NO_DEDUPLICATION),
        }
    return tokens | {
        "ON_CLUSTER": on_cluster,
        "REPLICA": _REPLICA,
        "LANDING_ENGINE": _landing(f"ReplicatedMergeTree({_REPLICA})", raw_days, _NO_DEDUPLICATION),
    }


def _landing(engine: str, raw_days: int | None, *settings: str) -> str:
    clauses = (
        f"ENGINE = {engine}",
        "PARTITION BY toDate(TimeUnix)",
        "ORDER BY (ServiceName, MetricName, toStartOfHour(TimeUnix), TimeUnix)",
        _ttl("toDateTime(TimeUnix)", raw_days),
        f"SETTINGS {', '.join(('ttl_only_drop_parts = 1', *settings))}",
    )
    return " ".join(filter(None, clauses))


def _ttl(moment: str, days: int | None) -> str:
    if days is None:
        return ""
    if not 1 <= days <= _MOST_DAYS:
        raise UsageError(f"rows cannot be kept for {days} days: give 1 to {_MOST_DAYS}")
    return f"TTL {moment} + INTERVAL {days} DAY"


def _database_engine(database: str) -> str:
    return f"ENGINE = Replicated('/clickhouse/databases/{database}', '{{shard}}', '{{replica}}')"


EMBEDDED_TOKENS: Final = {
    **server_tokens(),
    "LANDING_ENGINE": "ENGINE = Null",
    "DEFINER": "",
    "RECEIVED": "NULL",
    "SETTLE_SECONDS": "0",
    "TABLE_SETTINGS": f"SETTINGS {_NO_STATISTICS}",
    "COUNTED_SETTINGS": f"SETTINGS {_NO_STATISTICS}, {_LARGE_BLOCKS}",
}
