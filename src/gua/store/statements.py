"""The shipped SQL files as statements, rendered for a topology. A line of ``;`` separates a file's statements.

The same files serve the embedded store, one server and a cluster. On a cluster, each stored table is
``gua.name_local`` on every server, and ``gua.name`` is the Distributed table over them (docs/fleet.md).
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache
from graphlib import TopologicalSorter
from itertools import dropwhile
from pathlib import Path
from string import Template
from typing import Final

from gua.core.errors import UnavailableError

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
