"""``gua import gua-sqlite``: what it delivers and what it says."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

import pytest
from typer.testing import CliRunner

from fakes.older_database import OlderDatabase
from gua.app import delivery
from gua.cli import import_
from gua.core.errors import DataError, UsageError
from gua.core.tick import Tick
from gua.otlp.decode import decode
from gua.otlp.encode import encode


@pytest.fixture
def delivered(monkeypatch: pytest.MonkeyPatch) -> list[Tick]:
    """Take ticks in place of a store, through the bytes that a store would get."""
    taken: list[Tick] = []

    def deliver(ticks: Iterable[Tick], **_: object) -> None:
        taken.extend(decode(encode(tick)) for tick in ticks)

    for name in [name for name in os.environ if name.startswith(("GUA_", "OTEL_"))]:
        monkeypatch.delenv(name)
    monkeypatch.setattr(delivery, "deliver", deliver)
    return taken


def gua_import(*arguments: str | Path) -> str:
    result = CliRunner().invoke(import_.app, ["gua-sqlite", *map(str, arguments)])
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    assert result.exit_code == 0, result.output
    return result.stdout


def test_it_says_what_was_imported_left_out_and_assumed(tmp_path: Path, delivered: list[Tick]) -> None:
    database = OlderDatabase(tmp_path / "gua.db", "1.0.0")
    database.host("node\x1b[31m")
    for seconds in (0, 30, 60):
        database.card(seconds)
    database.upgrade("1.7")
    run = database.run(60)
    database.card(120, run_id=run, usage_state="idle_held")
    database.process(120, run_id=run, mib=700)
    database.process(121, run_id=run, mib=700)
    path = database.close()

    assert gua_import(path) == (
        "imported  4 card ticks of 1 card on host node[31m\n"
        "time      2026-03-02T09:00:00.250Z to 2026-03-02T09:02:00.250Z\n"
        "interval  30s, 1m\n"
        "processes 1 row\n"
        "left out  1 process row without a sample of the card\n"
        "assumed   the interval of rows outside any recorded run of the daemon (the median distance of a card's rows; "
        "--interval sets another)\n"
        "unknown   the processes of 3 card ticks: the list could not be read, or it is unknown whether it could\n"
    )
    assert [card.duration_ms for tick in delivered for card in tick.cards] == [30_000, 30_000, 30_000, 60_000]
    assert {(tick.origin.source, tick.origin.instance_id) for tick in delivered} == {("import", "import")}
    assert "(given with --interval)" in gua_import(path, "--interval", "20s", "--host", "mine")
    assert delivered[-1].origin.host == "mine"


def test_one_bad_file_keeps_the_good_ones_from_being_delivered(tmp_path: Path, delivered: list[Tick]) -> None:
    database = OlderDatabase(tmp_path / "gua.db", "1.7")
    database.card(0, run_id=database.run(30))
    bad = tmp_path / "bad.db"
    bad.write_bytes(b"")
    with pytest.raises(DataError, match="is empty"):
        gua_import(database.close(), bad)
    assert delivered == []


@pytest.mark.parametrize("options", [("--host", " "), ("--host", "a\x1bb"), ("--interval", "2d"), ("--interval", "x")])
def test_options_that_mean_nothing_are_refused(tmp_path: Path, options: tuple[str, str]) -> None:
    with pytest.raises(UsageError):
        gua_import(tmp_path / "gua.db", *options)


def test_a_history_that_lies_ahead_is_refused_whole_as_a_store_would_leave_it_out(
    tmp_path: Path, delivered: list[Tick]
) -> None:
    database = OlderDatabase(tmp_path / "gua.db", "1.7")
    run = database.run(30)
    for seconds in (0, 30, 2e9):
        database.card(seconds, run_id=run)
    path = database.close()
    with pytest.raises(DataError, match="more than a day ahead of this host's clock"):
        gua_import(path)
    assert delivered == []
