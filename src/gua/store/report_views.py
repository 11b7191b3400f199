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
from gua.store import left_out
from gua.store.kept_columns import KEPT_COLUMNS, SPANS
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
# Its columns are compared with others so often that it is planned twice in less time.
_STAY: Final = frozenset({"card_parts"})
_WINDOW: Final = frozenset({"since_ms", "until_ms", "hosts", "tick_hours", "use_hourly"})
# As ${TICK_WINDOW} and ${WINDOW} in the files: a view is asked for the window that was asked for.
_PASSED_ON: Final = re.compile(
    rf"\b{DATABASE}\.(?P<view>\w+)\((?P<given>since_ms = \{{since_ms:Int64\}}, until_ms = \{{until_ms:Int64\}}, "
    r"hosts = \{hosts:Array\(String\)\}, tick_hours = \{tick_hours:Array\(Int64\)\}[^()]*(?:\([^()]*\)[^()]*)*)\)"
)
_NUMBERED: Final = re.compile(rf"\b{DATABASE}\.`(\w+)_(\d+)`")
# What is kept at most: of cards that are read each second, a quarter of a million ticks.
_MOST_HOURS, _MOST_WINDOWS = 4, 3


class ReportViews:
    """The views among rendered statements, by name."""

    def __init__(
        self,
        statements: Iterable[Statement],
        *,
        stay: frozenset[str] = _STAY,
        needless: frozenset[str] = frozenset(),
    ) -> None:
        self._stay = stay
        self._needless = needless
        self._statements = {one.creates[1]: one for one in statements if one.creates and one.creates[0] == DATABASE}
        self._of: dict[frozenset[str], ReportViews] = {}

    def of(self, parameters: Mapping[str, object]) -> ReportViews:
        """Return them without what a question with these parameters needs nothing of; the rows are the same."""
        names = left_out.needless(parameters)
        if names not in self._of:
            self._of[names] = ReportViews(self._statements.values(), stay=self._stay, needless=names)
        return self._of[names]

    def query(self, view: str, *, whole: bool = False) -> str:
        """Return the query of a view as its file has it, without what is not needed of it unless ``whole``.

        Raises UnavailableError where there is no such view.
        """
        if view not in self._statements:
            msg = f"there is no view {DATABASE}.{view} in this version"
            raise UnavailableError(msg)
        sql = left_out.without(self._statements[view].sql, frozenset() if whole else self._needless)
        lines = [line for line in sql.splitlines() if not line.lstrip().startswith("--")]
        after = lines[lines.index("AS") + 1 :]
        return "\n".join(line for line in after if not line.startswith("COMMENT "))

    def written_out(self, sql: str, *, deep: bool = False, whole: bool = False) -> str:
        """Return ``sql`` with the query of each view in the view's place; ``deep``: of those within, too.

        Of a few that are planned faster as views it stays a call, unless ``deep``. ``whole``, as with a view that is
        given other parameters than the question's: with all blocks.
        """
        if DATABASE not in sql:
            return sql
        pieces: list[str] = []
        done = 0
        while call := _CALL.search(sql, done):
            given, end = _arguments(sql, call.end()) if call["called"] else ({}, call.end())
            if call["view"] in self._stay and not deep:
                pieces.append(sql[done:end])
                done = end
                continue
            of_others = whole or not _passes_on(given)
            query = self.query(call["view"], whole=of_others)
            written = _bound(self.written_out(query, deep=True, whole=of_others) if deep else query, given)
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


class _Kept:
    """A table of one window: being made by who first asks for it, or there, or not to be had."""

    def __init__(self) -> None:
        self.is_done = threading.Event()
        self.is_there = False


class ViewsInMemory:
    """The views that were asked for in one engine, made in its memory as they are: once each, gone when it closes.

    What most questions of a report begin with, the card ticks of a window (``gua_report.spans``) and what is made of
    them first, is asked once and kept as tables in that memory, where few hours are read from their ticks. Views that
    read them have the window's number in their names. Whoever writes into the store says so with :meth:`forget`.
    ``columns`` are those of the tables, by the view that each stands for.
    """

    def __init__(
        self,
        views: ReportViews,
        command: Callable[[str, Mapping[str, object]], None],
        columns: Mapping[str, Sequence[str]] = KEPT_COLUMNS,
    ) -> None:
        self._views = views
        self._command = command
        self._columns = columns
        self._made: set[str] = set()
        self._numbers: dict[str, int | None] = {}
        self._of: dict[int, ReportViews] = {}
        self._windows = 0
        self._tables: dict[tuple[str, int], _Kept] = {}
        self._making = threading.Lock()

    def asked(self, sql: str, parameters: Mapping[str, object]) -> str:
        """Return the statement, asked with ``parameters``, with the query of each view in the view's place.

        Makes the views that these queries ask for, and the tables; one that another thread is making is waited for.
        """
        if DATABASE not in sql:
            return sql
        given = {name: parameters[name] for name in sorted(_WINDOW & parameters.keys())}
        number = self._window(given) if SPANS in self._views.named(sql) else None
        if number is None or not self._keep(SPANS, number, given):
            written = self._views.of(parameters).written_out(sql)
            with self._making:
                self._make(written)
            return written
        self._keep_for(sql, number, given)
        written = self._written_out(sql, number)
        with self._making:
            self._make(written)
        return written

    def make_for(self, sql: str) -> None:
        """Make all views if a statement of a user's own names their database."""
        if DATABASE in sql:
            with self._making:
                self._make_plain(self._views.names())

    def make_named(self, sql: str) -> None:
        """Make the views that a statement names, which is asked as it is.

        So are those asked that count hours and days: each part of them reads what is due, and were its query written
        out there, it would be resolved for each anew.
        """
        with self._making:
            self._make_plain(self._views.named(sql))

    def forget(self) -> None:
        """Ask anew for what was kept from now on."""
        with self._making:
            self._numbers.clear()

    def _window(self, given: Mapping[str, object]) -> int | None:
        """Return the number of a window of which something may be kept; None for another."""
        hours = given.get("tick_hours")
        if not isinstance(hours, Sequence) or len(hours) > _MOST_HOURS or given.keys() != _WINDOW:
            return None
        with self._making:
            if (key := repr(given)) not in self._numbers:
                self._numbers[key] = None
                if self._windows < _MOST_WINDOWS:
                    self._windows += 1
                    self._numbers[key] = self._windows
                    self._of[self._windows] = self._views.of(given)
            return self._numbers[key]

    def _keep_for(self, sql: str, number: int, given: Mapping[str, object]) -> None:
        """Make the tables that a statement, or a view that it asks for, reads."""
        for call in _PASSED_ON.finditer(sql):
            if call["view"] in self._columns:
                self._keep(call["view"], number, given)
            elif SPANS in self._views.named(call[0]):
                self._keep_for(self._of[number].query(call["view"]), number, given)

    def _keep(self, view: str, number: int, given: Mapping[str, object]) -> bool:
        """Return whether a view's rows are kept, once it is known."""
        with self._making:
            kept = self._tables.get((view, number))
            if is_mine := kept is None:
                kept = self._tables[view, number] = _Kept()
        if is_mine:
            try:
                kept.is_there = self._is_made(view, number, given)
            finally:
                kept.is_done.set()
        kept.is_done.wait()
        return kept.is_there

    def _is_made(self, view: str, number: int, given: Mapping[str, object]) -> bool:
        query = self._of[number].query(view)
        self._keep_for(query, number, given)
        rows = self._of[number].written_out(query, deep=True) if view == SPANS else self._written_out(query, number)
        table = _of_number(view, number)
        with self._making:
            self._make_database()
            self._make(rows)
        try:
            # Not at once: a table that is made full is renamed when it is, which a database in memory cannot.
            self._command(f"CREATE TABLE {table} ({', '.join(self._columns[view])}) ENGINE = Memory", {})
            self._command(f"INSERT INTO {table}\n{rows}", given)
        except UnavailableError:  # as where they are too many: each question asks for its own
            self._command(f"DROP TABLE IF EXISTS {table}", {})
            return False
        return True

    def _written_out(self, sql: str, number: int) -> str:
        return self._of_window(self._of[number].written_out(self._of_window(sql, number)), number, views=True)

    def _is_table(self, view: str, number: int) -> bool:
        kept = self._tables.get((view, number))
        return kept is not None and kept.is_done.is_set() and kept.is_there

    def _of_window(self, sql: str, number: int, *, views: bool = False) -> str:
        """Return a statement that reads a window's tables by itself and, with ``views``, through views it asks."""

        def named(call: re.Match[str]) -> str:
            view = call["view"]
            if not self._is_table(view, number):
                if not views or SPANS not in self._views.named(call[0]):
                    return call[0]
                # One that reads nothing but tables has no parameters left, and is asked without.
                if _PLACE.search(self._of_window(self._of[number].query(view), number, views=True)):
                    return f"{_of_number(view, number)}({call['given']})"
            return f"{_of_number(view, number)}{'' if _ALIAS.match(sql, call.end()) else f' AS {view}'}"

        return _PASSED_ON.sub(named, sql)

    def _make(self, sql: str) -> None:
        """Make the views that a statement asks for, and before each those that it asks for."""
        self._make_plain(self._views.named(sql))
        for view, number in _NUMBERED.findall(sql):
            if self._is_table(view, int(number)) or (name := _of_number(view, int(number))) in self._made:
                continue
            query = self._of_window(self._of[int(number)].query(view), int(number), views=True)
            self._make(query)
            self._command(f"CREATE VIEW {name} AS\n{query}", {})
            self._made.add(name)

    def _make_plain(self, views: Sequence[str]) -> None:
        for view in views:
            if view not in self._made:
                self._make_database()
                self._command(self._views.in_memory(view), {})
                self._made.add(view)

    def _make_database(self) -> None:
        if DATABASE not in self._made:
            self._command(MADE, {})
            self._made.add(DATABASE)


def _of_number(view: str, number: int) -> str:
    """Return the name of what is made of a view for a kept window. In quotes it is none of the views of the files."""
    return f"{DATABASE}.`{view}_{number}`"


@cache
def report_views() -> ReportViews:
    """Return those of an embedded store."""
    return ReportViews(load(EMBEDDED_TOKENS))


@cache
def report_views_with_days() -> ReportViews:
    """Return those that read the days which they are given; what of it is in views is written out."""
    return ReportViews(load(EMBEDDED_TOKENS, with_days=True), stay=frozenset())


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

    def query(
        self, view: str, call: str, parameters: Mapping[str, object] | None = None, *, with_days: bool = False
    ) -> str | None:
        """Return the query to ask in the place of a view with these arguments in brackets; None: ask the view.

        It is without what ``parameters`` need nothing of. ``with_days``: the one that reads the days which it is given.
        """
        with self._asking:
            if not self._asked:
                if self._applied() == self._ours():
                    self._views = ReportViews(load(server_tokens()))
                self._asked = True
        if self._views is None:
            return None
        return (report_views_with_days() if with_days else self._views).of(parameters or {}).called(view, call)

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


def _passes_on(given: Mapping[str, str]) -> bool:
    """Return whether a call gives nothing but the parameters of the question, under their own names."""
    places = ((name, _PLACE.fullmatch(value)) for name, value in given.items())
    return all(place is not None and place["name"] == name for name, place in places)


def _bound(sql: str, given: Mapping[str, str]) -> str:
    """Return a query with what its call gives in the place of its parameters; one passed on stays as it is."""

    def value(place: re.Match[str]) -> str:
        there = given.get(place["name"], place[0])
        return place[0] if there == place[0] else f"CAST({there}, '{place['type']}')"

    return _PLACE.sub(value, sql)
