"""An import that is interrupted ends at once, and the next one goes on: in the end as if nothing had happened."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from fakes.prometheus import Asked, FakePrometheus, Reply, Series, card

pytestmark = pytest.mark.engine
BEGIN_MS = 1_700_006_400_000
DAY_MS = 86_400_000
WINDOW = ("--since", "2023-11-15", "--until", "2023-11-18")
INTERRUPTS = (signal.SIGKILL, signal.SIGINT)
COMMAND = Path(sys.executable).with_name("gua")
TABLES = {"card_ticks": "gpu, ts", "allocation_ticks": "gpu, ts"}


def run(home: Path, *arguments: str) -> subprocess.Popen[str]:
    environ = {name: value for name, value in os.environ.items() if not name.startswith("GUA_")}
    return subprocess.Popen(
        [COMMAND, *arguments],
        env={**environ, "GUA_HOME": str(home), "TZ": "UTC"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def must(home: Path, *arguments: str) -> tuple[str, str]:
    process = run(home, *arguments)
    out, err = process.communicate(timeout=120)
    assert process.returncode == 0, err
    return out, err


def samples() -> list[Series]:
    """Return three days of two cards, one of them with a pod all the time."""
    labels = {"exported_pod": "train-0", "exported_namespace": "ml"}
    return [
        *card("GPU-a", begin_ms=BEGIN_MS, count=3 * 288, step_ms=300_000, **labels),
        *card("GPU-b", begin_ms=BEGIN_MS, count=3 * 288, step_ms=300_000, gpu="1")[:-1],
    ]


def finished_days(home: Path, store: str) -> int:
    """Return how many days of the store need no further import."""
    out, _ = must(home, "sql", "--json", "--store", store, "SELECT uniqExact(day) AS days FROM gua.backfilled_days")
    return int(json.loads(out)["rows"][0]["days"])


def contents(home: Path, store: str) -> dict[str, object]:
    """Return the rows of the tables, but for when they were written, and the report."""
    found: dict[str, object] = {}
    for table, order in TABLES.items():
        out, _ = must(home, "sql", "--json", "--store", store, f"SELECT * FROM gua.{table} FINAL ORDER BY {order}")
        found[table] = json.loads(out)["rows"]
    report, _ = must(home, "report", "--store", store, *WINDOW, "--json")
    found["report"] = json.loads(report)
    return found


def test_the_next_import_goes_on_and_nothing_differs(tmp_path: Path) -> None:
    whole, parts = str(tmp_path / "whole"), str(tmp_path / "parts")
    waits = False
    waits_from_ms = 0

    def instead(asked: Asked) -> Reply | None:
        """Work for ever at the samples from some time on."""
        is_late = asked.path == "query" and float(asked.parameters.get("time", ["0"])[0]) * 1000 > waits_from_ms
        return Reply(after_seconds=60) if waits and is_late else None

    with FakePrometheus(samples(), instead) as fake:
        importing = ("import", "prometheus", fake.url, *WINDOW, "--store")
        must(tmp_path, *importing, whole)
        before = len(fake.asked)
        waits = True
        for place, number in enumerate(INTERRUPTS):
            waits_from_ms = BEGIN_MS + DAY_MS + (2 * place + 1) * DAY_MS // 2
            process = run(tmp_path, *importing, parts)
            deadline = time.monotonic() + 60
            seen = len(fake.asked)
            while not any(instead(asked) for asked in fake.asked[seen:]):
                assert process.poll() is None, process.communicate()
                assert time.monotonic() < deadline
                time.sleep(0.02)
            while finished_days(tmp_path, parts) <= place:  # what was read before lands meanwhile
                assert time.monotonic() < deadline
            process.send_signal(number)
            begin = time.monotonic()
            out, err = process.communicate(timeout=60)
            assert time.monotonic() - begin < 15
            assert (process.returncode, out, "Traceback" in err) == (
                130 if number is signal.SIGINT else -number,
                "",
                False,
            ), err
        waits = False
        seen = len(fake.asked)
        out, _ = must(tmp_path, *importing, parts)
        assert "skipped   2 days of an earlier import" in out
        assert len(fake.asked) - seen < before
        assert contents(tmp_path, parts) == contents(tmp_path, whole)
