"""What a store already has of a card at some time: ticks of an agent or another import, and its host."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from fakes.cards import card as card_reading
from fakes.prometheus import FakePrometheus, Series, card
from gua.app.opening import open_writer
from gua.cli.main import main
from gua.core.tick import Origin, Tick
from gua.core.words import Source
from gua.store.tick_rows import TickRows

pytestmark = pytest.mark.engine
BEGIN_MS = 1_700_006_400_000
SECONDS = 30
COUNT = 40
WINDOW = ("--since", "2023-11-15T00:00:00Z", "--until", "2023-11-15T01:00:00Z")


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("GUA_HOME", str(tmp_path / "home"))
    return tmp_path / "home"


def nvitop(uuid: str, *, shift_ms: int) -> list[Series]:
    """Return a card's series of nvitop-exporter, scraped some time after those of dcgm-exporter."""
    labels = {"instance": "n1:8000", "job": "nvitop", "index": "0", "uuid": uuid}
    times = [BEGIN_MS + SECONDS * 1000 * place + shift_ms for place in range(1, COUNT + 1)]
    values = {"gpu_utilization_Percentage": "90", "gpu_memory_used_MiB": "1000", "up": "1"}
    return [({"__name__": name, **labels}, [(at, value) for at in times]) for name, value in values.items()]


def must(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert main([*arguments]) == 0, capsys.readouterr().err
    return capsys.readouterr().out


def reported(capsys: pytest.CaptureFixture[str], store: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(
        must(capsys, "report", "--store", store, *WINDOW, "--json", "--section", "cards")
    )
    return found


def observed(report: dict[str, Any]) -> float:
    """Return the observed time [s]."""
    return round(report["coverage"]["observed_gpu_hours"] * 3600, 1)


def test_times_of_the_agent_are_left_out_and_its_host_counts(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    store = str(tmp_path / "store")
    origin = Origin(host="own-name", source=Source.AGENT, interval_ms=SECONDS * 1000)
    rows = TickRows(BEGIN_MS + 86_400_000)
    for place in range(1, COUNT // 2 + 1):
        # Ticks of an agent are at other times than scrapes.
        ts_ms = BEGIN_MS + SECONDS * 1000 * place - 13_000
        assert rows.add(Tick(ts_ms=ts_ms, origin=origin, cards=(card_reading("GPU-a", busy=0.9),)))
    with open_writer(store) as opened:
        opened.land_lines(rows.parts())
    with FakePrometheus(card("GPU-a", begin_ms=BEGIN_MS, count=COUNT)) as fake:
        out = must(capsys, "import", "prometheus", fake.url, *WINDOW, "--store", store)
    assert "left out  20 card ticks at times with other ticks in the store" in out
    report = reported(capsys, store)
    assert [one["host"] for one in report["cards"]] == ["own-name"]
    # The agent's last tick ends 13 s before that of a scrape, which is left out whole: these are unobserved.
    assert observed(report) == SECONDS * COUNT - 13


def test_another_import_of_the_same_time_adds_none(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    store = str(tmp_path / "store")
    series = [*card("GPU-a", begin_ms=BEGIN_MS, count=COUNT), *nvitop("GPU-a", shift_ms=7_000)]
    with FakePrometheus(series) as fake:
        importing = ("import", "prometheus", fake.url, *WINDOW, "--store", store, "--exporter")
        must(capsys, *importing, "dcgm-exporter")
        before = reported(capsys, store)
        assert "left out  40 card ticks" in must(capsys, *importing, "nvitop-exporter")
        after = reported(capsys, store)
        assert "left out" not in must(capsys, *importing, "dcgm-exporter", "--again")
    assert observed(before) == observed(after) == SECONDS * COUNT
    assert reported(capsys, store)["cards"] == before["cards"]


def test_audits_of_two_resolutions_have_a_store_each(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with FakePrometheus(card("GPU-a", begin_ms=BEGIN_MS, count=COUNT)) as fake:
        auditing = ("audit", fake.url, *WINDOW, "--json", "--section", "cards")
        for options in ((), ("--interval", "30s"), ()):
            report = json.loads(must(capsys, *auditing, *options))
            assert observed(report) == SECONDS * COUNT
    assert len([*(home / "audits").iterdir()]) == 2
