"""``gua report --sql``: the script that it prints has the queries of the report, and gives the same rows."""

from __future__ import annotations

import io
import json
import math
import subprocess
import sys
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import pytest

from gua.app.sql_text import parameter, quoted
from gua.cli.output_options import OutputOptions, choose_output
from gua.cli.report import render_report
from gua.core.ports import SpooledTick
from gua.core.tick import Origin
from gua.core.words import Source
from gua.otlp.encode import encode
from gua.report.questions import RecordingReader
from gua.report.window import ReportRequest
from gua.sim.host import END_MS, Scenario, simulate
from gua.state.compression import compress
from gua.store.database import Store, open_store

HOST = "it's a \\ tab\tand\nline 'host' \x1b[31m\x9b5m\u202e漢"
# What a person does with the script: the whole file at once, in a process of its own.
RUN = """
import sys
from chdb.session import Session
print(Session(sys.argv[1]).query(sys.stdin.read(), "JSONEachRow"))
"""


class Rows(RecordingReader):
    """Also keeps what was answered, in the order of the questions."""

    def __init__(self, store: Store) -> None:
        super().__init__(store)
        self.is_embedded = True
        self.answers: list[Mapping[str, Any]] = []

    def rows(self, view: str, parameters: Mapping[str, object]) -> Iterable[Mapping[str, Any]]:
        found = list(super().rows(view, parameters))
        self.answers += found
        return found


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory, made_store: Callable[[Path], str]) -> Path:
    folder = tmp_path_factory.mktemp("sql") / "store"
    origin = Origin(host=HOST, source=Source.SIMULATOR, interval_ms=600_000)
    scenario = Scenario(seed=0, gpus=2, interval_ms=600_000, ticks=100)
    with open_store(made_store(folder)) as store:
        raw = [(tick.ts_ms, encode(tick)) for tick in simulate(scenario, end_ms=END_MS, origin=origin)]
        store.land([SpooledTick(id=ts, ts_ms=ts, raw_length=len(one), blob=compress(one)) for ts, one in raw])
    return folder


@pytest.mark.engine
def test_what_is_printed_runs_and_gives_the_rows_of_the_report(filled: Path) -> None:
    out = io.StringIO()
    with open_store(f"chdb://{filled}") as store:
        recorded_rows = Rows(store)
        code = render_report(
            recorded_rows,
            ReportRequest(hosts=(HOST,), by=("owner",), since="1d", timezone="Asia/Kathmandu", now_ms=END_MS),
            choose_output(OutputOptions(sections=("all",), sql=True)),
            out=out,
        )
    assert code == 0
    script = out.getvalue()
    assert script.count("SELECT * FROM gua_report.") == len(recorded_rows.questions)
    ran = subprocess.run(
        [sys.executable, "-c", RUN, str(filled / "data")], input=script, capture_output=True, text=True, check=False
    )
    assert ran.returncode == 0, ran.stderr
    printed = [json.loads(line) for line in ran.stdout.splitlines() if line.strip()]
    assert len(printed) == len(recorded_rows.answers) > 50
    assert sorted(map(plain, printed), key=repr) == sorted(map(plain, recorded_rows.answers), key=repr)


def plain(value: object) -> object:
    """Return a value as JSON has it: named tuples are objects, numbers rounded, groups of rows in one order."""
    if isinstance(value, Mapping):
        return [plain(one) for one in value.values()]
    if isinstance(value, (list, tuple)):
        found = [plain(one) for one in value]
        return sorted(found, key=repr) if all(isinstance(one, list) for one in found) else found
    if isinstance(value, (bool, int, float)):
        return None if math.isnan(value) else round(float(value), 6)
    return value


@pytest.mark.parametrize(
    ("value", "written"),
    [
        (7, "7"),
        ([1, -1], "[1, -1]"),
        ([], "[]"),
        ("it's", "it's"),
        ("a\tb\\c", "a\\tb\\\\c"),
        (["it's", "a\\b"], "['it\\'s', 'a\\\\b']"),
    ],
)
def test_parameters_are_written_as_clickhouse_reads_them(value: object, written: str) -> None:
    assert parameter(value) == written


def test_a_terminal_that_shows_the_script_obeys_nothing_in_it() -> None:
    assert parameter([HOST]).isprintable()
    assert quoted(parameter([HOST])).isprintable()
    assert quoted("\x1b\u202e") == "'\\x1B\\xE2\\x80\\xAE'"


def test_nothing_ends_a_string_early() -> None:
    assert quoted("'; DROP TABLE gua.card_ticks; --") == "'\\'; DROP TABLE gua.card_ticks; --'"
    assert quoted("\\'") == "'\\\\\\''"
