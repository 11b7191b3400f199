"""A scripted day of six people on four cards, through desk, ticks and store to the report: each ms where it belongs."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from fakes import reserved_day as day
from fakes.reports import render_json
from gua.core.ports import SpooledTick
from gua.core.tick import Tick
from gua.core.words import Use
from gua.otlp.encode import encode
from gua.report.collect import collect
from gua.report.forms.html import render_html
from gua.report.forms.text import render_text
from gua.report.kit.style import Style
from gua.report.model import Report
from gua.report.section_list import section_names
from gua.report.sections.allocation import AllocatedHours
from gua.report.sections.contention import Contentions
from gua.report.window import ReportRequest
from gua.state.compression import compress
from gua.store.database import open_store

pytestmark = pytest.mark.engine


@pytest.fixture(scope="module")
def ticks(tmp_path_factory: pytest.TempPathFactory) -> list[Tick]:
    return [*day.ticks(tmp_path_factory.mktemp("desk") / "reservations")]


@pytest.fixture(scope="module")
def report(
    ticks: list[Tick], tmp_path_factory: pytest.TempPathFactory, made_store: Callable[[Path], str]
) -> Iterator[Report]:
    with open_store(made_store(tmp_path_factory.mktemp("day") / "store")) as store:
        spooled = []
        for tick in ticks:
            raw = encode(tick)
            spooled.append(SpooledTick(id=tick.ts_ms, ts_ms=tick.ts_ms, raw_length=len(raw), blob=compress(raw)))
        assert store.land(spooled) == []
        store.count_hours()
        end_ms = day.START_MS + day.DAY_MS
        yield collect(
            store,
            ReportRequest(
                since="2026-03-25T00:00Z",
                until="2026-03-26T00:00Z",
                timezone="UTC",
                sections=frozenset(section_names()),
                now_ms=end_ms,
            ),
        )


def test_the_use_of_each_millisecond_matches_the_scripted_day(report: Report) -> None:
    found = report[AllocatedHours]
    every, owners = day.summed()
    assert {use: ms for use, ms in found.uses.items() if ms} == every
    assert set(every) == set(Use)
    for one in found.owners:
        assert {use: ms for use, ms in one.uses.items() if ms} == {
            use: ms for (owner, use), ms in owners.items() if owner == one.owner
        }
        assert (one.runs, one.manuals) == day.COUNTS[str(one.owner)]
    assert {one.owner for one in found.owners} == set(day.COUNTS) == set(day.PEOPLE) - {"eva"}


def test_the_queue_and_the_use_of_cards_meanwhile_match_the_day(report: Report) -> None:
    (found,) = report[Contentions]
    since, until = day.at(str(day.WAITS["since"])), day.at(str(day.WAITS["until"]))
    meanwhile, _ = day.summed(since, until)
    assert (found.most_waiting, found.wait_ms, found.waited_ms) == (2, day.WAITS["wait_ms"], until - since)
    assert found.waited_empty_gpu_ms == meanwhile["empty"] > 0
    assert found.waited_held_gpu_ms == meanwhile["held"] > 0
    assert found.waited_others_gpu_ms == meanwhile["used-by-others"] > 0
    assert found.waited_free_gpu_ms == meanwhile["free"] > 0


def test_text_page_and_json_say_the_same(report: Report, golden: Callable[[str, str], None]) -> None:
    every, _ = day.summed()
    text = render_text(report, Style(width=100))
    page = re.sub(r"<[^>]*>|\s", " ", render_html(report))
    as_json = json.loads(render_json(report))
    for use, ms in every.items():
        assert as_json["allocation"]["uses"][use]["gpu_hours"] == pytest.approx(ms / 3_600_000, abs=1e-4)
        row = re.search(rf"^ +{use} +([0-9.]+) ", text, re.MULTILINE)
        assert row is not None
        assert float(row[1]) == pytest.approx(ms / 3_600_000, abs=0.1)
        assert re.search(rf" {use} +{row[1]} ", page), use
    assert as_json["contention"][0]["wait_hours"] == 2.75
    assert "requests waited 2.75 hours together, up to 2 at a tick" in " ".join(text.split())
    sections = re.split(r"\n\n(?=\d+\. )", text)
    shown = [one for one in sections if re.match(r"\d+\. (Allocation|Contention)", one)]
    golden("a_reserved_day.txt", "\n\n".join(shown) + "\n")
