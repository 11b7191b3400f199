"""What the ``$TOKENS`` in the shipped SQL stand for: on the embedded engine, on one server, on a cluster."""

from __future__ import annotations

import re
from enum import Enum
from typing import Final

from gua.core.errors import UsageError

RAW_DAYS: Final = 3
_MOST_DAYS: Final = 36_500
# How long after an insert its rows may still be invisible to somebody who sees the mark that it left.
_SETTLE_SECONDS: Final = 10
# Hosts x hours counted in one statement: 8 cards with 10 processes each at 30 s are 10 million rows.
_HOURS_AT_ONCE: Final = 1_000
# As in remote_servers of the server's configuration, or a macro of it.
_CLUSTER: Final = re.compile(r"\{\w{1,64}\}|\w[\w.-]{0,127}", re.ASCII)
# By the names of database and table, not by {uuid}: a server that joins later finds the replicas of its shard.
_REPLICA: Final = "'/clickhouse/tables/{shard}/{database}/{table}', '{replica}'"
# A Collector's retry of a block whose views were half filled must go through; what is kept twice merges into one.
_NO_DEDUPLICATION: Final = "replicated_deduplication_window = 0, replicated_deduplication_window_for_async_inserts = 0"
# Of each column of each part, a fifth of all bytes, read anew at each opening; no question of ours is planned by them.
# Not on servers: older ones have no such settings.
_NO_STATISTICS: Final = "auto_statistics_types = '', refresh_statistics_interval = 0"
# Of the hourly tables of large fleets larger blocks take a twelfth less room.
_LARGE_BLOCKS: Final = "min_compress_block_size = 262144"
_DEFINER: Final = "DEFINER = CURRENT_USER SQL SECURITY DEFINER"
_ONE_NODE: Final = {
    "ON_CLUSTER": "",
    "ON_CLUSTER_DATABASE": "",
    "DATABASE_ENGINE": "",
    "REPORT_DATABASE_ENGINE": "",
    "PUBLIC_DATABASE_ENGINE": "",
    "REPLICATED": "",
    "REPLICA": "",
    "LOCAL": "",
    "CLUSTER": "",
    "TABLE_SETTINGS": "",
    "COUNTED_SETTINGS": f"SETTINGS {_LARGE_BLOCKS}",
}


class Replication(Enum):
    """How the servers of one shard come to keep the same rows."""

    TABLES = "tables"  # Replicated tables, made on every server ON CLUSTER
    DATABASE = (
        "database"  # databases of engine Replicated: they take statements to the others and tell tables their replicas
    )
    NONE = "none"  # shards of one server and no ClickHouse Keeper: the statements are applied to each server by itself


def server_tokens(
    *, raw_days: int | None = RAW_DAYS, ticks_days: int | None = None, hours_days: int | None = None
) -> dict[str, str]:
    """Return the tokens for one server.

    Raw points, ticks and hours are kept for the days given; ``None`` is forever.
    Raises UsageError for a number of days that is none.
    """
    return {
        **_ONE_NODE,
        # Whole partitions by the day, so that parts are dropped and not rewritten; its last hour decides when.
        "TICKS_TTL": _ttl("toDate(ts) + 1", ticks_days),
        "HOURS_TTL": _ttl("toDate(hour) + 1", hours_days),
        "LANDING_ENGINE": _landing("MergeTree", raw_days),
        "DEFINER": _DEFINER,
        "RECEIVED": "now64(3)",
        "SETTLE_SECONDS": str(_SETTLE_SECONDS),
        "HOURS_AT_ONCE": str(_HOURS_AT_ONCE),
    }


def cluster_tokens(
    name: str,
    *,
    raw_days: int | None = RAW_DAYS,
    ticks_days: int | None = None,
    hours_days: int | None = None,
    replication: Replication = Replication.TABLES,
) -> dict[str, str]:
    """Return the tokens for the cluster ``name`` of remote_servers, or for a macro as ``{cluster}``.

    Raises UsageError for a name that is none, and as server_tokens.
    """
    if not _CLUSTER.fullmatch(name):
        msg = f"{name!r} is no cluster's name: take one that the server has in system.clusters"
        raise UsageError(msg)
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
        msg = f"rows cannot be kept for {days} days: give 1 to {_MOST_DAYS}"
        raise UsageError(msg)
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
