"""The official JDBC driver in a process of Java's, as DBeaver, Metabase and others run it."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path
from types import TracebackType
from typing import Self

from servers.clickhouse import PASSWORDS, ClickHouseServer
from servers.tools import ROOT, java, jdbc_driver

SOURCE = ROOT / "tests" / "tools" / "jdbc" / "Jdbc.java"
Row = tuple[str | None, ...]


class JdbcError(Exception):
    """What the driver threw."""


class Jdbc:
    """A connection of a user; values come as the driver writes them. Java has little memory: no answer fits whole."""

    def __init__(
        self, server: ClickHouseServer, folder: Path, user: str = "gua_bi", *, database: str = "gua_public"
    ) -> None:
        self._errors = (folder / f"jdbc-{user}.log").open("wb")
        self._process = subprocess.Popen(
            [
                java(),
                "-Xmx128m",
                "-cp",
                f"{jdbc_driver()}/*",
                str(SOURCE),
                f"jdbc:clickhouse://127.0.0.1:{server.http_port}/{database}",
            ],
            env={"PATH": os.environ["PATH"], "JDBC_USER": user, "JDBC_PASSWORD": PASSWORDS[user]},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.kill()
        self._process.communicate()
        self._errors.close()

    def query(self, sql: str, *values: int | str) -> list[Row]:
        """Return the rows of a statement; with values, of a prepared one. Raises JdbcError."""
        typed = (f"i:{value}" if isinstance(value, int) else f"s:{value}" for value in values)
        return self._ask("query", sql, *typed)

    def query_since(self, sql: str, since: str) -> list[Row]:
        """Return the rows of a statement prepared with a time, as in ``2026-01-01T00:00:00``. Raises JdbcError."""
        return self._ask("query", sql, f"t:{since}")

    def tables(self, database: str) -> dict[str, tuple[str | None, str | None]]:
        """Return the kind and the remark of each table and view by name, as the driver's metadata give them."""
        return {str(name): (kind, remark) for _, name, kind, remark in self._ask("tables", database)}

    def columns(self, database: str, table: str) -> list[tuple[str, str, str]]:
        """Return name, type and remark of each column, as the driver's metadata give them."""
        rows = self._ask("columns", database, table)
        return [(str(name), str(kind), remark or "") for of, name, kind, _, _, remark in rows if of == table]

    def streamed(self, sql: str) -> tuple[int, int]:
        """Read every row, keep none, and return how many rows and characters there were. Raises JdbcError."""
        [(rows, characters)] = self._ask("stream", sql)
        return int(rows or 0), int(characters or 0)

    def _ask(self, *words: str) -> list[Row]:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write("\t".join(map(_escaped, words)).encode() + b"\n")
        self._process.stdin.flush()
        kind, _, rest = self._line().partition(" ")
        if kind == "error":
            raise JdbcError(_plain(rest))
        assert kind == "ok", f"java says {kind} {rest}; see {self._errors.name}"
        rows = (self._line() for _ in range(int(rest)))
        return [tuple(None if word == "\\N" else _plain(word) for word in row.split("\t")) for row in rows]

    def _line(self) -> str:
        assert self._process.stdout is not None
        return self._process.stdout.readline().decode().removesuffix("\n")


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace("\t", "\\t").replace("\n", "\\n").replace("\r", "\\r")


def _plain(text: str) -> str:
    return re.sub(r"\\(.)", lambda found: {"t": "\t", "n": "\n", "r": "\r"}.get(found[1], found[1]), text)
