"""A report of a fleet that is queried in parts of hosts has the numbers of one that is queried at once."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from fakes.fleet import spooled_ticks
from gua.core.moments import to_rfc3339
from gua.core.tick import Origin
from gua.core.words import Source
from gua.report import hours
from gua.report.collect import collect
from gua.report.forms.data import json_pieces
from gua.report.section_list import section_names
from gua.report.window import USAGE_BY, ReportRequest
from gua.sim.host import END_MS, Scenario, simulate
from gua.store.database import Store, open_store

pytestmark = pytest.mark.engine

HOUR_MS = 3_600_000
HOSTS = ("node-a", "node-b", "node-c")
_LEAST = 1e-9


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory, made_store: Callable[[Path], str]) -> Iterator[Store]:
    """Open a store with a day and a half of three hosts with the same users, of which two lack ticks, and a price."""
    with open_store(made_store(tmp_path_factory.mktemp("parts") / "store")) as opened:
        for place, host in enumerate(HOSTS):
            scenario = Scenario(gpus=4 + place, interval_ms=600_000, ticks=36 * 6)
            origin = Origin(host=host, source=Source.AGENT, interval_ms=600_000)
            ticks = [tick for number, tick in enumerate(simulate(scenario, origin=origin)) if number % (19 + place)]
            renamed = [
                replace(tick, cards=tuple(replace(card, uuid=f"{host}-{card.uuid}") for card in tick.cards))
                for tick in ticks
            ]
            assert opened.land(list(spooled_ticks(renamed))) == []
        model = next(iter(opened.rows("models", {})))["model"]
        price = {"model": model, "valid_from": END_MS // 1000 - 13 * 3600 - 59, "currency": "EUR"}
        opened.insert_json("prices", [{**price, "per_gpu_hour": 2.5}])
        opened.count_hours()
        yield opened


def reported(store: Store, since_ms: int, until_ms: int) -> Any:  # noqa: ANN401 - JSON
    request = ReportRequest(
        since=to_rfc3339(since_ms),
        until=to_rfc3339(until_ms),
        by=tuple(USAGE_BY),
        sections=frozenset(section_names()),
        now_ms=END_MS,
    )
    return json.loads("".join(json_pieces(collect(store, request))))


def leaves(value: object, path: str = "") -> Iterator[tuple[str, object]]:
    if isinstance(value, dict):
        for key, one in value.items():
            yield from leaves(one, f"{path}.{key}")
    elif isinstance(value, list):
        for place, one in enumerate(value):
            yield from leaves(one, f"{path}[{place}]")
    else:
        yield path, value


@pytest.mark.parametrize(
    "window", [(END_MS - 36 * HOUR_MS, END_MS), (END_MS - 17 * HOUR_MS - 1_234_567, END_MS - 2 * HOUR_MS - 7_654_321)]
)
def test_a_report_of_each_host_alone_has_the_numbers_of_all(
    store: Store, monkeypatch: pytest.MonkeyPatch, window: tuple[int, int]
) -> None:
    at_once = dict(leaves(reported(store, *window)))
    monkeypatch.setattr(hours, "MOST_CARD_HOURS_OF_A_PART", 1)
    in_parts = dict(leaves(reported(store, *window)))
    assert at_once.keys() == in_parts.keys()
    different = {
        path: (value, in_parts[path])
        for path, value in at_once.items()
        if value != in_parts[path] and not (isinstance(value, float) and value == pytest.approx(in_parts[path], _LEAST))
    }
    assert different == {}
    assert len(at_once) > 3_000
