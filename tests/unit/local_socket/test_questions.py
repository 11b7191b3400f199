"""Queries that a store runs at the same time."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import pytest

from fakes.store import UNTIL_MS, FakeStore, lab, rules
from gua.core.errors import UnavailableError
from gua.core.view import View
from gua.report.collect import collect
from gua.report.questions import ask
from gua.report.rows import RULES
from gua.report.window import ReportRequest


class Heard(NamedTuple):
    """The query that a reader got."""

    view: str
    parameters: Mapping[str, str]


CARDS = View("cards", Heard, ("by",))
HOSTS = View("hosts", Heard)


class Together:
    """A reader that answers only when two queries wait."""

    is_concurrent = True
    is_embedded = True

    def __init__(self) -> None:
        self.both = threading.Barrier(2, timeout=10)

    def rows(self, view: str, parameters: Mapping[str, object]) -> Iterable[dict[str, Any]]:
        self.both.wait()
        return [{"view": view, "parameters": parameters}]


class Failing:
    is_concurrent = True
    is_embedded = True

    def rows(self, view: str, parameters: Mapping[str, object]) -> Iterable[dict[str, Any]]:
        msg = f"no {view} by {parameters}"
        raise UnavailableError(msg)


def test_a_query_is_sent_while_another_waits_for_its_rows() -> None:
    reader = Together()
    first, second = ask(reader, CARDS, {"by": "host"}), ask(reader, HOSTS, {})
    assert (first(), second()) == ([Heard("cards", {"by": "host"})], [Heard("hosts", {})])


def test_what_the_store_raised_is_raised_where_the_rows_are_wanted() -> None:
    answer = ask(Failing(), HOSTS, {})
    with pytest.raises(UnavailableError, match=r"no hosts by \{\}"):
        answer()


def test_a_sequential_reader_is_queried_when_the_rows_are_used() -> None:
    store = FakeStore({"rules": rules()})
    answer = ask(store, RULES, {})
    assert store.asked == []
    assert [row.key for row in answer()] == [row["key"] for row in rules()]


def test_a_report_is_the_same_with_concurrent_and_sequential_queries() -> None:
    class Concurrent(FakeStore):
        @property
        def is_concurrent(self) -> bool:
            return True

    request = ReportRequest(since="3d", now_ms=UNTIL_MS)
    one_by_one, together = lab(), Concurrent(lab().views)
    assert collect(together, request) == collect(one_by_one, request)
    assert sorted(map(repr, together.asked)) == sorted(map(repr, one_by_one.asked))
