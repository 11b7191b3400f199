"""The views of ``gua_report`` as text: what asks for one is given the view's query in its place.

A view is planned twice, once for its columns and once for its rows, and the views in it twice each time. But a column
of a query within a query is compared with others by all of that query: so the outermost two are written out, not more.
An embedded store keeps no views of reports, it would read them all at each opening: the others are made in memory.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cache
from typing import Final

from gua.core.errors import UnavailableError
from gua.store.statements import Statement, load
from gua.store.tokens import EMBEDDED_TOKENS, server_tokens

DATABASE: Final = "gua_report"
MADE: Final = f"CREATE DATABASE IF NOT EXISTS {DATABASE} ENGINE = Memory COMMENT 'Views of reports'"
_NAMED: Final = re.compile(rf"\b{DATABASE}\.`?(\w+)")
_CALL: Final = re.compile(rf"(?P<before>\b(?:FROM|JOIN)\s+){DATABASE}\.(?P<view>\w+)\b(?P<called>\()?")
_PLACE: Final = re.compile(r"\{(?P<name>\w+):(?P<type>[^}]+)\}")
_MAKES: Final = re.compile(rf"^CREATE DATABASE IF NOT EXISTS {DATABASE}\b", re.MULTILINE)
_ALIAS: Final = re.compile(r"\s+AS\s")
_PARTS: Final = re.compile(r"'(?:[^'\\]|\\.)*'|[()\[\]{},]|[^'()\[\]{},]+", re.DOTALL)
_OPENED, _CLOSED = "([{", ")]}"


class ReportViews:
    """The views among rendered statements, by name."""

    def __init__(self, statements: Iterable[Statement]) -> None:
        self._statements = {one.creates[1]: one for one in statements if one.creates and one.creates[0] == DATABASE}

    def query(self, view: str) -> str:
        """Return the query of a view as its file has it. Raises UnavailableError where there is no such view."""
        if view not in self._statements:
            msg = f"there is no view {DATABASE}.{view} in this version"
            raise UnavailableError(msg)
        lines = [line for line in self._statements[view].sql.splitlines() if not line.lstrip().startswith("--")]
        after = lines[lines.index("AS") + 1 :]
        return "\n".join(line for line in after if not line.startswith("COMMENT "))

    def written_out(self, sql: str, *, deep: bool = False) -> str:
        """Return ``sql`` with the query of each view in the view's place; ``deep``: of those within, too."""
        if DATABASE not in sql:
            return sql
        pieces, done = [], 0
        while call := _CALL.search(sql, done):
            given, end = _arguments(sql, call.end()) if call["called"] else ({}, call.end())
            query = self.query(call["view"])
            written = _bound(self.written_out(query, deep=True) if deep else query, given)
            alias = "" if _ALIAS.match(sql, end) else f" AS {call['view']}"
            pieces += [sql[done : call.start()], call["before"], f"(\n{written}\n){alias}"]
            done = end
        return "".join((*pieces, sql[done:]))

    def called(self, view: str, call: str) -> str:
        """Return the query of a view with what ``call``, its arguments in brackets, gives; views in it written out."""
        given, _ = _arguments(call, 1) if call else ({}, 0)
        return self.written_out(_bound(self.query(view), given))

    def named(self, sql: str) -> list[str]:
        """Return the views that ``sql`` asks for, and those that these ask for, in the order in which they are made."""
        found: set[str] = set()
        waiting = set(_NAMED.findall(sql))
        while waiting:
            view = waiting.pop()
            if view in self._statements and view not in found:
                found.add(view)
                waiting |= set(_NAMED.findall(self.query(view)))
        return [view for view in self._statements if view in found]

    def in_memory(self, view: str) -> str:
        """Return the statement that makes a view in the memory of an engine."""
        return self._statements[view].sql.replace("CREATE OR REPLACE VIEW", "CREATE VIEW IF NOT EXISTS", 1)

    def names(self) -> list[str]:
        """Return the names of all, in the order in which they can be made."""
        return [*self._statements]

    def without_them(self, statements: Sequence[Statement]) -> list[Statement]:
        """Return the statements of an embedded store: the others, in which their queries stand in their place."""
        return [
            replace(one, sql=self.written_out(one.sql, deep=True))
            for one in statements
            if not (one.creates and one.creates[0] == DATABASE) and not _MAKES.search(one.sql)
        ]


class ViewsInMemory:
    """The views that were asked for in one engine, made in its memory as they are: once each, gone when it closes."""

    def __init__(self, views: ReportViews, command: Callable[[str], None]) -> None:
        self._views = views
        self._command = command
        self._made: set[str] = set()
        self._making = threading.Lock()

    def asked(self, sql: str) -> str:
        """Return the statement with the query of each view in the view's place; make those that these ask for."""
        if DATABASE not in sql:
            return sql
        written = self._views.written_out(sql)
        self._make(self._views.named(written))
        return written

    def make_for(self, sql: str) -> None:
        """Make all views if a statement of a user's own names their database."""
        if DATABASE in sql:
            self._make(self._views.names())

    def _make(self, views: Sequence[str]) -> None:
        with self._making:
            lacking = [view for view in views if view not in self._made]
            if lacking and not self._made:
                self._command(MADE)
            for view in lacking:
                self._command(self._views.in_memory(view))
                self._made.add(view)


@cache
def report_views() -> ReportViews:
    """Return those of an embedded store."""
    return ReportViews(load(EMBEDDED_TOKENS))


class ViewsOfServer:
    """The views that a server keeps, asked by their queries where they are this version's and the user may.

    ``applied`` tells the version and the digest of the statements that were applied to the server last, ``ours`` those
    of this version's for one server. Views run with their owner's rights, queries with those of who asks.
    """

    def __init__(self, applied: Callable[[], tuple[int, str]], ours: Callable[[], tuple[int, str]]) -> None:
        self._applied = applied
        self._ours = ours
        self._views: ReportViews | None = None
        self._asked = False
        self._asking = threading.Lock()

    def query(self, view: str, call: str) -> str | None:
        """Return the query to ask in the place of a view with these arguments in brackets; None: ask the view."""
        with self._asking:
            if not self._asked:
                if self._applied() == self._ours():
                    self._views = ReportViews(load(server_tokens()))
                self._asked = True
        return self._views.called(view, call) if self._views else None

    def refuse(self) -> None:
        """Ask the views from now on: the user may not read what they are made of."""
        self._asked, self._views = True, None


def _arguments(sql: str, start: int) -> tuple[dict[str, str], int]:
    """Return the arguments of a call by name, and where it ends; ``start`` is behind its bracket."""
    depth, written, end = 1, [""], start
    for part in _PARTS.finditer(sql, start):
        text = part[0]
        depth += (text in _OPENED) - (text in _CLOSED)
        end = part.end()
        if not depth:
            break
        if text == "," and depth == 1:
            written.append("")
        else:
            written[-1] += text
    pairs = (one.partition("=") for one in written if one.strip())
    return {name.strip(): value.strip() for name, _, value in pairs}, end


def _bound(sql: str, given: Mapping[str, str]) -> str:
    """Return a query with what its call gives in the place of its parameters; one passed on stays as it is."""

    def value(place: re.Match[str]) -> str:
        there = given.get(place["name"], place[0])
        return place[0] if there == place[0] else f"CAST({there}, '{place['type']}')"

    return _PLACE.sub(value, sql)
