"""The shipped SQL files as statements, rendered for a topology. A line of ``;`` separates a file's statements.

The same files serve the embedded store, one server and a cluster. On a cluster, each stored table is
``gua.name_local`` on every server, and ``gua.name`` is the Distributed table over them (docs/fleet.md).
"""

import hashlib
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from functools import cached_property, lru_cache
from graphlib import TopologicalSorter
from itertools import dropwhile
from pathlib import Path
from string import Template
from typing import Final

from gua.core.errors import UnavailableError, UsageError

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
        "NOTICES_TTL": _ttl("toDate(written) + 1", hours_days),
        "LANDING_ENGINE": _landing("MergeTree", raw_days),
        "DEFINER": "DEFINER = CURRENT_USER SQL SECURITY DEFINER",
        "RECEIVED": "now64(3)",
        "SETTLE_SECONDS": str(_SETTLE_SECONDS),
        "HOURS_AT_ONCE": str(_HOURS_AT_ONCE),
        "DAYS_AT_ONCE": str(_DAYS_AT_ONCE),
    }


def cluster_tokens(
    name: str, *, replication: Replication = Replication.TABLES, raw_days: int | None = RAW_DAYS, **days: int | None
) -> dict[str, str]:
    """Return the tokens for the cluster ``name`` in remote_servers, or for a macro such as ``{cluster}``.

    Days are those of :func:`server_tokens`. Raises UsageError for an invalid name or number of days.
    """
    if not _CLUSTER.fullmatch(name):
        raise UsageError(f"{name!r} is no cluster's name: take one that the server has in system.clusters")
    tokens = {
        **server_tokens(raw_days=raw_days, **days),
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


SCHEMA_VERSION: Final = 1
# On a cluster, a statement that creates gua.NAME${LOCAL} also yields the Distributed table gua.NAME. It is sharded by
# the hash of the host, or of the key in the file's "Shard key" comment.
_LOCAL: Final = re.compile(r"^CREATE [A-Z ]+ gua\.(?P<name>\w+)\$\{LOCAL\} \$ON_CLUSTER$", re.MULTILINE)
_SHARD_KEY: Final = re.compile(r"^-- Shard key: (?P<key>.+)$", re.MULTILINE)
_BETWEEN: Final = re.compile(r"^;\n", re.MULTILINE)
_TABLE_COMMENT: Final = re.compile(r"^COMMENT '(?P<text>(?:[^'\\]|''|\\.)*)'\s*\Z", re.MULTILINE)
# Suffix of files with objects that work periodically on a server, such as refreshable views.
_ONLY_ON_A_SERVER: Final = "_on_server.sql"
_PACKAGED = Path(__file__).resolve().parent.parent / "clickhouse"
_CHECKOUT = Path(__file__).resolve().parents[3] / "clickhouse"
_ENGINE: Final = re.compile(r"(\$\{REPLICATED\}\w*MergeTree)(?:\(([^)]*)\))?")
# Layout of gua's SQL files: one statement each; columns indented by four, between lines with a single bracket.
_HEAD: Final = re.compile(
    r"^CREATE (?:OR REPLACE )?(?P<kind>DATABASE|TABLE|MATERIALIZED VIEW|VIEW) (?:IF NOT EXISTS )?"
    r"(?P<name>[\w.]+)(?P<on_cluster> ON CLUSTER '[^']+')? *(?P<columns>\n\(\n)?",
    re.MULTILINE,
)
_NEXT_COLUMN: Final = re.compile(r",\n {4}(?=\S)")
_TYPE_ENDS: Final = re.compile(r"\s+(?:COMMENT|CODEC|DEFAULT|MATERIALIZED|ALIAS|EPHEMERAL|TTL)\b")
_TTL: Final = re.compile(r"\bTTL (?P<ttl>.+?)(?= SETTINGS\b|\Z)")
_COMMENT: Final = re.compile(r"\s+COMMENT '(?:[^'\\]|''|\\.)*'\s*\Z")
_TARGET: Final = re.compile(r"\bTO (?P<target>gua\w*\.\w+)")


@dataclass(frozen=True, kw_only=True, slots=True)
class DeclaredColumn:
    """A declared column. ``type`` is on one line; ``declared`` is the SQL with type, default, comment and codec."""

    name: str
    type: str
    declared: str


@dataclass(frozen=True, kw_only=True)
class Statement:
    """A rendered statement that creates one object. ``name`` is its file's path below ``clickhouse/``."""

    name: str
    sql: str

    @cached_property
    def _code(self) -> str:
        return "\n".join(line for line in self.sql.splitlines() if not line.lstrip().startswith("--")).strip()

    @cached_property
    def _head(self) -> re.Match[str]:
        match = _HEAD.search(self.sql)
        if match is None:
            raise ValueError(f"{self.name} creates nothing")
        return match

    @property
    def kind(self) -> str:
        """Kind of the created object: ``database``, ``table``, ``view`` or ``materialized view``."""
        return self._head["kind"].lower()

    @property
    def object_name(self) -> str:
        """Name of the created object, with its database."""
        return self._head["name"]

    @property
    def creates(self) -> tuple[str, str] | None:
        """Database and name of the created table or view; ``None`` for a database."""
        database, dot, name = self.object_name.partition(".")
        return (database, name) if dot else None

    @property
    def altering(self) -> str:
        """Beginning of a statement that alters the object, with ON CLUSTER if it was created so."""
        return f"ALTER TABLE {self.object_name}{self._head['on_cluster'] or ''}"

    @cached_property
    def columns(self) -> list[DeclaredColumn]:
        """Declared columns in order; empty if the engine infers them."""
        if not self._head["columns"]:
            return []
        declared = self._code.partition("\n(\n")[2].partition("\n)\n")[0]
        return [_column(text.strip()) for text in _NEXT_COLUMN.split(declared)]

    @cached_property
    def _clauses(self) -> str:
        """Clauses after a table's columns, on one line and without the comment."""
        _, _, clauses = self._code.partition("\n)\n")
        return _COMMENT.sub("", " ".join(clauses.split())) if self.kind == "table" else ""

    @property
    def ttl(self) -> str | None:
        """The TTL expression; ``None`` if rows never expire."""
        match = _TTL.search(self._clauses)
        return match["ttl"] if match else None

    @property
    def settings(self) -> dict[str, str]:
        """Settings of a table by name."""
        return parse_settings(self._clauses.partition("SETTINGS ")[2])

    @property
    def target(self) -> str | None:
        """Target table of a materialized view; ``None`` for other objects."""
        match = _TARGET.search(self._code) if self.kind == "materialized view" else None
        return match["target"] if match else None

    @property
    def as_definer(self) -> bool:
        """Whether a view runs with its definer's rights (SQL SECURITY DEFINER)."""
        return "SQL SECURITY DEFINER" in self._code

    @property
    def select(self) -> str | None:
        """Query of a view, without the comment after it; ``None`` if it has no query."""
        _, _, query = self._code.partition("\nAS\n")
        return _COMMENT.sub("", query) or None


def schema_directory(candidates: tuple[Path, ...] = (_PACKAGED, _CHECKOUT)) -> Path:
    """Return the first candidate directory with the SQL files. Raises UnavailableError if none has them."""
    for directory in candidates:
        if (directory / "00_landing").is_dir():
            return directory
    raise UnavailableError(f"the SQL that ships with gua is missing from {candidates[0]}: install gua-otel again")


def load(tokens: Mapping[str, str], directory: Path | None = None) -> list[Statement]:
    """Return every statement rendered with ``tokens``, in the order to apply them."""
    return [*_loaded(tuple(tokens.items()), directory or schema_directory())]


@lru_cache(maxsize=6)
def _loaded(pairs: tuple[tuple[str, str], ...], root: Path) -> list[Statement]:
    tokens = dict(pairs)
    known = _with_fragments(root, tokens)
    statements: list[Statement] = []
    for file in _files(root, ".sql"):
        if file.name.endswith(_ONLY_ON_A_SERVER) and not tokens["DEFINER"]:
            continue
        name = str(file.relative_to(root))
        for text in _BETWEEN.split(file.read_text("utf-8")):
            statements.append(Statement(name=name, sql=_rendered(text, known)))
            if tokens["LOCAL"] and (distributed := _distributed(text)):
                statements.append(Statement(name=name, sql=_rendered(distributed, known)))
    return statements


def _rendered(text: str, tokens: Mapping[str, str]) -> str:
    if "${REPLICATED}" in text:
        text = _ENGINE.sub(lambda match: _with_replica(match, tokens), text)
    return Template(text).substitute(tokens).strip()


def _distributed(text: str) -> str | None:
    """Return the Distributed table's statement for a file that creates a ``${LOCAL}`` table; ``None`` for others."""
    made = _LOCAL.search(text)
    if made is None:
        return None
    key = _SHARD_KEY.search(text)
    comment = _TABLE_COMMENT.search(text)
    name = made["name"]
    columns = text.partition("\n(\n")[2].partition("\n)\n")[0]
    return (
        f"-- One row is one of gua.{name}${{LOCAL}} on any server of the cluster.\n"
        f"CREATE TABLE IF NOT EXISTS gua.{name} $ON_CLUSTER\n(\n{columns}\n)\n"
        f"ENGINE = Distributed($CLUSTER, 'gua', '{name}${{LOCAL}}', cityHash64({key['key'] if key else 'host'}))\n"
        f"COMMENT 'All servers: {comment['text'] if comment else name}'"
    )


def _with_fragments(root: Path, tokens: Mapping[str, str]) -> dict[str, str]:
    """Return the tokens plus shared fragments: ``name.part`` replaces ``${NAME}``.

    Fragments may use other fragments. Comments at their top are dropped.
    """
    known = dict(tokens)
    fragments: dict[str, Template] = {}
    for part in _files(root, ".part"):
        lines = dropwhile(lambda line: line.startswith("--"), part.read_text("utf-8").splitlines())
        fragments[part.stem.upper()] = Template("\n".join(lines).rstrip())
    used = {name: fragment.get_identifiers() for name, fragment in fragments.items()}
    for name in TopologicalSorter(used).static_order():
        if name in fragments:
            known[name] = fragments[name].substitute(known)
    return known


def _files(root: Path, ending: str) -> list[Path]:
    """Return the files below ``root`` with this ending, sorted by path. os.walk is fast: each report lists them."""
    files = (Path(folder, name) for folder, _, names in os.walk(root) for name in names if name.endswith(ending))
    return sorted(files, key=lambda file: file.parts)


def _with_replica(engine: re.Match[str], tokens: Mapping[str, str]) -> str:
    """Return the engine with its replica path before its own arguments, if ``tokens`` has one."""
    arguments = ", ".join(filter(None, (tokens["REPLICA"], engine[2])))
    return f"{engine[1]}({arguments})" if arguments else engine[1]


def digest(statements: list[Statement]) -> str:
    """Return a fingerprint of rendered statements: 16 hexadecimal digits of their SHA-256."""
    return hashlib.sha256("\0".join(statement.sql for statement in statements).encode()).hexdigest()[:16]


def proto_file() -> Path:
    """Return the path of the .proto with ClickHouse's field names of an OTLP request."""
    return schema_directory() / "00_landing" / "otlp.proto"


def parse_settings(text: str) -> dict[str, str]:
    """Return the settings in ``a = 1, b = 2`` by name."""
    pairs = (pair.partition("=") for pair in text.split(",") if pair)
    return {name.strip(): value.strip() for name, _, value in pairs}


def type_on_one_line(text: str) -> str:
    """Return a column type in one canonical format, for comparing the engine's and gua's spelling."""
    one_line = " ".join(text.split()).replace("( ", "(").replace(" )", ")")
    return "Bool" if one_line == "Boolean" else one_line


def _column(text: str) -> DeclaredColumn:
    name, _, declared = text.partition(" ")
    return DeclaredColumn(
        name=name.strip("`"), type=type_on_one_line(_TYPE_ENDS.split(declared, 1)[0]), declared=declared
    )
