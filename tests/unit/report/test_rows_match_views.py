"""Every declared row class against the view that it reads: its columns, their types, its parameters."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from gua.core.parameters import PARAMETERS
from gua.core.view import View
from gua.prices.book import MODELS
from gua.prices.book import PRICES as BOOK
from gua.report.status.fleet import CURRENT, INVENTORY
from gua.report.top.live import CURRENT_ALLOCATIONS, TOP_CARDS, TOP_HOLDERS
from gua.report.views import SHARED
from gua.store.database import Store, open_store
from gua.store.report_views import report_views

pytestmark = pytest.mark.engine

VIEWS = (*SHARED.values(), TOP_CARDS, TOP_HOLDERS, CURRENT_ALLOCATIONS, INVENTORY, CURRENT, BOOK, MODELS)
GIVEN: dict[str, object] = {"String": "UTC", "Array(String)": [], "Array(Int64)": [1]}
NULLABLE = (r"Nullable\((\w+)\)", r"\1")
NULLABLE_PATTERN = (r"Nullable\\\(\(\?:([^()]*)\)\\\)", r"(?:\1)")
# What the engine takes for nullable and never is, and what an older store did not have.
LOOSE = {
    ("hours", "is_counted"),
    ("timeline_processes", "first_ms"),
    ("timeline_processes", "last_ms"),
    ("usage", "first_ms"),
    ("usage", "last_ms"),
    ("holders", "first_ms"),
    ("extent", "interval_ms"),
    ("overview", "effective_since_ms"),
    ("overview", "effective_until_ms"),
    # What an agent does not report.
    ("top_cards", "state_ms"),
    ("top_cards", "held_lower_bytes"),
    ("top_holders", "pid"),
}


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory, made_store: Callable[[Path], str]) -> Iterator[Store]:
    with open_store(made_store(tmp_path_factory.mktemp("rows") / "store")) as opened:
        yield opened


def plain(described: str) -> str:
    """Return a type as it is read: without how it is stored."""
    described = re.sub(r"SimpleAggregateFunction\(\w+, (.*)\)", r"\1", described)
    return re.sub(r"LowCardinality\((Nullable\(String\)|String)\)", r"\1", described)


@pytest.mark.parametrize("view", VIEWS, ids=lambda view: view.name)
def test_a_row_class_is_what_its_view_describes(store: Store, view: View[Any]) -> None:
    values = {name: GIVEN.get(PARAMETERS[name].type, 1) for name in view.parameters}
    assert store._ticks is not None  # noqa: SLF001 - what stands in place of views of ticks has no other name
    with store._ticks.reading(report_views().query(view.name), values) as query:  # noqa: SLF001 - as above
        described = {row["name"]: plain(row["type"]) for row in store.select(f"DESCRIBE ({query})", values)}
    differing = {}
    for name, column in view.columns.items():
        found, expected = described.get(name, "absent"), column.types
        if (view.name, name) in LOOSE:
            found, expected = re.sub(*NULLABLE, found), re.sub(*NULLABLE_PATTERN, expected)
        if not re.fullmatch(expected, found):
            differing[name] = (found, expected)
    assert not differing


@pytest.mark.parametrize("view", VIEWS, ids=lambda view: view.name)
def test_a_view_has_the_declared_parameters(view: View[Any]) -> None:
    written = dict(re.findall(r"\{(\w+):([^}]+)\}", report_views().query(view.name)))
    assert written == {name: PARAMETERS[name].type for name in view.parameters}
