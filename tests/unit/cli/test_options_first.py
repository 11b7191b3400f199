"""Wrong options are reported at once: before a store is opened, an agent queried or anything simulated."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

HEAVY = {"chdb", "clickhouse_connect", "opentelemetry", "gua.store.database", "gua.report.forms.html"}
PROGRAM = """
import sys
from gua.cli.main import main
code = main(sys.argv[1:])
print(code, *sys.modules)
"""


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        ("report --html /nonexistent/x", 2, "there is no folder /nonexistent"),
        ("report --html /proc/x.html", 3, "cannot write /proc/x.html"),
        ("demo --html /nonexistent/x", 2, "there is no folder /nonexistent"),
        ("demo --section hedline", 2, "no section 'hedline'"),
        ("report --timezone Europe/Berln", 2, "did you mean Europe/Berlin"),
        ("report --since 2026-13-01", 2, "is no moment"),
        ("report --until someday", 2, "is no moment"),
        ("report --month november", 2, "is not a month"),
        ("report --month --last-week", 2, "give one of them"),
        ("report --section hedline", 2, "no section 'hedline'"),
        ("report --csv hedline", 2, "no section 'hedline'"),
        ("report --where team", 2, "write KEY=VALUE"),
        ("report --fail-on idle>2", 2, "is no condition"),
        ("report --what-if 2 --store clickhouse://nobody.invalid", 2, "is not a duration"),
        ("explain a 0 someday", 2, "is no moment"),
        ("explain a 0 now --timezone Mars", 2, "unknown time zone"),
        ("explain a 0 now --around many", 2, "is not a duration"),
    ],
)
def test_nothing_heavy_is_imported_and_nothing_made(arguments: str, code: int, said: str, tmp_path: Path) -> None:
    environ = {name: value for name, value in os.environ.items() if not name.startswith("GUA_")}
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, *arguments.split()],
        env={**environ, "GUA_HOME": str(tmp_path / "home")},
        capture_output=True,
        text=True,
        check=True,
    )
    exit_code, *imported = done.stdout.split()
    (line,) = done.stderr.splitlines()
    assert (exit_code, line.startswith("gua: "), said in line) == (str(code), True, True), line
    assert {name for name in imported if name in HEAVY} == set()
    assert list(tmp_path.iterdir()) == []
