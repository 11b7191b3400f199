"""The shipped SQL as statements, rendered for one node: a file is a statement, its folder the layer."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path
from string import Template
from typing import Final

from gpu_usage_audit.store.locate import schema_directory

SCHEMA_VERSION: Final = 1
_RAW_DAYS: Final = 3

_COMMON = {"ON_CLUSTER": "", "REPLICATED": "", "TICKS_TTL": ""}
EMBEDDED_TOKENS: Final = {**_COMMON, "LANDING_ENGINE": "ENGINE = Null", "DEFINER": "", "RECEIVED": "NULL"}
SERVER_TOKENS: Final = {
    **_COMMON,
    "LANDING_ENGINE": (
        "ENGINE = MergeTree PARTITION BY toDate(TimeUnix) "
        "ORDER BY (ServiceName, MetricName, toStartOfHour(TimeUnix), TimeUnix) "
        f"TTL toDateTime(TimeUnix) + INTERVAL {_RAW_DAYS} DAY SETTINGS ttl_only_drop_parts = 1"
    ),
    "DEFINER": "DEFINER = CURRENT_USER SQL SECURITY DEFINER",
    "RECEIVED": "now64(3)",
}


@dataclass(frozen=True, kw_only=True, slots=True)
class Statement:
    """One rendered file. ``name`` is its path below ``clickhouse/``; ``creates`` the database object, if it is one."""

    name: str
    sql: str
    creates: tuple[str, str] | None

    @property
    def passes_on(self) -> bool:
        """Whether the object keeps no rows: a materialized view with a target, or a table of engine Null."""
        return "CREATE MATERIALIZED VIEW" in self.sql or "ENGINE = Null" in self.sql


def load(tokens: dict[str, str], directory: Path | None = None) -> list[Statement]:
    """Return every statement in the order in which they are applied."""
    root = directory or schema_directory()
    return [
        Statement(name=str(file.relative_to(root)), sql=sql, creates=_created(sql))
        for file in sorted(root.glob("*/*.sql"))
        for sql in [Template(file.read_text("utf-8")).substitute(tokens).strip()]
    ]


def digest(statements: list[Statement]) -> str:
    """Return what tells one rendering of the schema from another."""
    return hashlib.sha256("\0".join(statement.sql for statement in statements).encode()).hexdigest()[:16]


def proto_file() -> Path:
    """Return the .proto that names the fields of an OTLP request as ClickHouse reads them."""
    return schema_directory() / "00_landing" / "otlp.proto"


def _created(sql: str) -> tuple[str, str] | None:
    code = [line for line in sql.splitlines() if not line.startswith("--")]
    for word in code[0].split():
        database, dot, name = word.partition(".")
        if dot and database in {"gua", "gua_report"}:
            return database, name
    return None
