"""``gua import dmon``: what it delivers and what it says."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

import pytest
from typer.testing import CliRunner

from gua.app import delivery
from gua.cli import import_
from gua.core.errors import DataError
from gua.core.tick import Tick
from gua.otlp.decode import decode
from gua.otlp.encode import encode

ROWS = "#Date Time gpu sm\n20260325 04:47:10 0 9\n20260325 04:47:20 0 80\n20260325 04:47:30 0"


@pytest.fixture
def delivered(monkeypatch: pytest.MonkeyPatch) -> list[Tick]:
    for name in [name for name in os.environ if name.startswith(("GUA_", "OTEL_"))]:
        monkeypatch.delenv(name)
    taken: list[Tick] = []

    def deliver(ticks: Iterable[Tick], **_: object) -> None:
        taken.extend(decode(encode(tick)) for tick in ticks)

    monkeypatch.setattr(delivery, "deliver", deliver)
    return taken


def gua_import(*arguments: str) -> str:
    result = CliRunner().invoke(import_.app, ["dmon", *arguments])
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result.stdout


def test_imported_assumed_and_unknown_values_are_reported(tmp_path: Path, delivered: list[Tick]) -> None:
    recording = tmp_path / "dmon.log"
    recording.write_text(ROWS)
    printed = gua_import(str(recording), "--host", "n1", "--timezone", "Asia/Tokyo")
    assert printed == (
        "imported  2 card ticks of 1 card on host n1 (2 moments)\n"
        "time      2026-03-24T19:47:10Z to 2026-03-24T19:47:20Z\n"
        "interval  10s (the median distance of a card's rows; --interval sets another)\n"
        f"left out  1 line: {recording}:4: the last line is cut off\n"
        "assumed   times without an offset are in Asia/Tokyo (--timezone)\n"
        "unknown   memory, and so the state of a card that does nothing (dmon -s um; dcgmi dmon -e 203,252)\n"
    )
    assert [(card.uuid, card.utilization) for tick in delivered for card in tick.cards] == [
        ("imported-n1-0", 0.09),
        ("imported-n1-0", 0.8),
    ]
    first = list(delivered)
    gua_import(str(recording), "--host", "n1", "--timezone", "Asia/Tokyo")
    assert delivered == first * 2


def test_nothing_is_delivered_of_a_recording_without_dates(tmp_path: Path, delivered: list[Tick]) -> None:
    recording = tmp_path / "dmon.log"
    recording.write_text("# gpu sm\n# Idx %\n    0  3\n")
    with pytest.raises(DataError, match="record with nvidia-smi dmon -o DT"):
        gua_import(str(recording))
    assert delivered == []
