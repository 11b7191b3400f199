"""A view's declaration: what a row becomes, and which values of a stranger are refused."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import pytest

from gua.core.errors import UnavailableError
from gua.core.view import Count, Date, HourOfDay, Moment, StateName, View


class Part(NamedTuple):
    state: StateName
    gpu_ms: float | None


class Who(NamedTuple):
    owner: str | None
    program: str | None


class Held(NamedTuple):
    by: Who
    other: Who | None
    part: Part


class Whole(NamedTuple):
    host: str
    is_total: bool
    last_ms: Moment | None
    hour: HourOfDay
    date: Date | None
    labels: Mapping[str, str]
    parts: tuple[Part, ...]


VIEW = View("whole", Whole, ("hosts",))
ROW = {
    "host": "a",
    "is_total": 1,
    "last_ms": None,
    "hour": 23,
    "date": "2026-03-29",
    "labels": {"team": "vision"},
    "parts": [["active", 1.5], ["unknown", None]],
    "more": "not read",
}


def test_a_row_becomes_what_its_class_says() -> None:
    (row,) = VIEW.parsed([ROW])
    assert row.is_total is True
    assert row.parts == (Part("active", 1.5), Part("unknown", None))
    assert row.parts[0].state == "active"
    assert row.last_ms is None


def test_equal_tuples_of_texts_become_one_object_and_numbers_stay_as_they_are() -> None:
    first, second = View("held", Held).parsed(
        [
            {"by": ["a", None], "other": None, "part": ["active", 1]},
            {"by": ("a", None), "other": ["a", None], "part": ["active", 1.0]},
        ]
    )
    assert first.by is second.by
    assert first.by == second.other == Who("a", None)
    assert first.other is None
    assert (type(first.part.gpu_ms), type(second.part.gpu_ms)) == (int, float)


def test_a_view_of_another_version_that_lacks_a_column_is_named_with_what_to_do() -> None:
    with pytest.raises(UnavailableError, match=r"view whole .* lacks hour: .*schema apply"):
        VIEW.parsed([{name: value for name, value in ROW.items() if name != "hour"}])


def test_what_fails_within_a_value_is_not_taken_for_a_column_that_is_not_there() -> None:
    class Odd(dict[str, object]):
        def __getitem__(self, name: str) -> object:
            return {}["something else"]

    with pytest.raises(KeyError, match="something else"):
        VIEW.parsed([Odd()])


@pytest.mark.parametrize(
    ("column", "value"),
    [
        ("host", None),
        ("is_total", 2),
        ("last_ms", -1),
        ("last_ms", 10**15),
        ("last_ms", True),
        ("hour", 24),
        ("date", "29.3.2026"),
        ("labels", {"team": 1}),
        ("parts", [["asleep", 1.0]]),
        ("parts", [["active"]]),
        ("parts", [["active", float("nan")]]),
        ("parts", {}),
    ],
)
def test_a_value_that_is_not_of_its_kind_is_refused(column: str, value: object) -> None:
    assert VIEW.columns[column].check(ROW[column])
    assert not VIEW.columns[column].check(value)


def test_types_of_the_store_are_those_of_the_fields() -> None:
    class Types(NamedTuple):
        cards: Count
        parts: tuple[Part, ...]

    assert View("types", Types).columns["cards"].types == r"U?Int\d+"
    assert View("types", Types).columns["parts"].types.startswith(r"Array\((?:Tuple\((?:String)")
