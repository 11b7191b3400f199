"""What a rendered CREATE statement says: read from our own files, which hold one statement each."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Final, Literal

from gua.store.statements import Statement

Kind = Literal["database", "table", "materialized view", "view"]
_HEAD: Final = re.compile(
    r"CREATE (?:OR REPLACE )?(?P<kind>DATABASE|TABLE|MATERIALIZED VIEW|VIEW) (?:IF NOT EXISTS )?"
    r"(?P<name>[\w.]+)(?P<on_cluster> ON CLUSTER (?:'[^']+'|`[^`]+`|\S+))?\s*"
)
_TYPE_ENDS: Final = re.compile(r"\s+(?:COMMENT|CODEC|DEFAULT|MATERIALIZED|ALIAS|EPHEMERAL|TTL)\b")
_NO_COLUMN: Final = ("INDEX ", "PROJECTION ", "CONSTRAINT ")
_TTL: Final = re.compile(r"\bTTL (?P<ttl>.+?)(?= SETTINGS\b|\Z)")
_SETTINGS: Final = re.compile(r"\bSETTINGS (?P<settings>.+)")
_COMMENT: Final = re.compile(r"\s+COMMENT '(?:[^'\\]|''|\\.)*'\s*\Z")
_TARGET: Final = re.compile(r"\bTO (?P<target>gua\w*\.\w+)")


@dataclass(frozen=True, kw_only=True, slots=True)
class DeclaredColumn:
    """One column as it is declared: ``type`` as written, ``declared`` with its default, comment and codec."""

    name: str
    type: str
    declared: str


@dataclass(frozen=True)
class Definition:
    """One statement that creates something."""

    statement: Statement

    @cached_property
    def _code(self) -> str:
        kept = [line for line in self.statement.sql.splitlines() if not line.lstrip().startswith("--")]
        return "\n".join(kept).strip()

    @cached_property
    def _head(self) -> re.Match[str]:
        match = _HEAD.match(self._code)
        if match is None:
            msg = f"{self.statement.name} creates nothing"
            raise ValueError(msg)
        return match

    @property
    def kind(self) -> Kind:
        """What the statement creates."""
        kinds: dict[str, Kind] = {
            "DATABASE": "database",
            "TABLE": "table",
            "MATERIALIZED VIEW": "materialized view",
            "VIEW": "view",
        }
        return kinds[self._head["kind"]]

    @property
    def name(self) -> str:
        """The object's name with its database."""
        return self._head["name"]

    @property
    def altering(self) -> str:
        """How a statement begins that changes the object, on the whole cluster if it was made there."""
        return f"ALTER TABLE {self.name}{self._head['on_cluster'] or ''}"

    @cached_property
    def columns(self) -> list[DeclaredColumn]:
        """The declared columns in their order; none where the engine works them out."""
        start = self._head.end()
        if not self._code.startswith("(", start):
            return []
        return [_column(text) for text in _items(self._code[start + 1 : self._columns_end]) if _is_column(text)]

    @cached_property
    def _columns_end(self) -> int:
        start = self._head.end()
        return start + 1 + _closing(self._code[start + 1 :]) if self._code.startswith("(", start) else start

    @cached_property
    def _tail(self) -> str:
        return _COMMENT.sub("", " ".join(self._code[self._columns_end :].split()))

    @property
    def ttl(self) -> str | None:
        """The expression after TTL, ``None`` if rows stay forever."""
        match = _TTL.search(self._tail)
        return match["ttl"] if match else None

    @property
    def settings(self) -> dict[str, str]:
        """The settings of a table."""
        match = _SETTINGS.search(self._tail) if self.kind == "table" else None
        return settings_of(match["settings"]) if match else {}

    @property
    def target(self) -> str | None:
        """The table that a materialized view fills."""
        match = _TARGET.search(self._code[self._head.end() :]) if self.kind == "materialized view" else None
        return match["target"] if match else None

    @property
    def as_definer(self) -> bool:
        """Whether a view runs with the rights of who made it."""
        return "SQL SECURITY DEFINER" in self._code

    @property
    def select(self) -> str | None:
        """The query of a view, without the comment after it."""
        _, separator, query = self._code.partition("\nAS\n")
        if not separator:
            return None
        return _COMMENT.sub("", query)


def settings_of(text: str) -> dict[str, str]:
    """Return ``a = 1, b = 2`` by name."""
    pairs = (pair.partition("=") for pair in text.split(","))
    return {name.strip(): value.strip() for name, _, value in pairs}


def _is_column(text: str) -> bool:
    return not text.startswith(_NO_COLUMN)


def _column(text: str) -> DeclaredColumn:
    name, _, declared = text.partition(" ")
    ends = _TYPE_ENDS.search(declared)
    on_one_line = " ".join(declared[: ends.start() if ends else None].split())
    return DeclaredColumn(
        name=name.strip("`"), type=on_one_line.replace("( ", "(").replace(" )", ")"), declared=declared
    )


def _outside(text: str) -> Iterator[tuple[int, str, int]]:
    """Yield position, character and depth of parentheses of what is not within quotes."""
    depth = 0
    quote = ""
    skip = False
    for position, character in enumerate(text):
        if skip:
            skip = False
        elif quote:
            skip = character == "\\"
            quote = "" if character == quote else quote
        elif character in "'`\"":
            quote = character
        else:
            depth -= character == ")"
            yield position, character, depth
            depth += character == "("


def _closing(text: str) -> int:
    return next(position for position, character, depth in _outside(text) if character == ")" and depth < 0)


def _items(text: str) -> list[str]:
    commas = [position for position, character, depth in _outside(text) if character == "," and depth == 0]
    starts = [0, *(position + 1 for position in commas)]
    return [text[start:end].strip() for start, end in zip(starts, [*commas, len(text)], strict=True)]
