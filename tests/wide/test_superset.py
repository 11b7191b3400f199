"""A real Superset imports deploy/superset and queries a real server for its charts, as ``gua_bi``."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from servers.clickhouse import PASSWORDS, ClickHouseServer
from servers.gua import Gua
from servers.superset import questions
from servers.tools import ROOT, superset

pytestmark = pytest.mark.wide

SCRIPT = ROOT / "tests" / "tools" / "superset" / "ask.py"
BUNDLE = ROOT / "deploy" / "superset"


def test_superset_imports_the_bundle_and_each_chart_is_answered(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    server = ClickHouseServer(tmp_path / "clickhouse")
    server.start()
    gua = Gua(tmp_path / "home")
    try:
        gua.must("schema", "apply", "--store", server.dsn())
        gua.must("demo", "--seed", "7", "--days", "2", "--gpus", "4", "--store", server.dsn())
        address = f"clickhousedb://gua_bi:{PASSWORDS['gua_bi']}@127.0.0.1:{server.http_port}/gua_public"
        bundle = tmp_path / "gua.zip"
        subprocess.run([sys.executable, str(BUNDLE / "bundle.py"), address, str(bundle)], check=True)
        result = run_in_superset(tmp_path, bundle)
    finally:
        server.kill()
    assert result["datasets"] == 11
    assert result["dashboards"] == ["Where GPU-hours go"]
    charts = result["charts"]
    expected = {each.name: each.sql for each in questions(days=30)}
    assert charts.keys() == expected.keys()
    for title, chart in charts.items():
        with capsys.disabled():
            print(f"\nsuperset: {title}: {chart['rows']} rows", end="", flush=True)  # noqa: T201 - what was run
        assert chart["status"] == 200, (title, chart)
        assert chart["error"] is None, title
        assert " ".join(chart["sql"].replace('"', "`").split()).removesuffix(";") == expected[title]


def run_in_superset(folder: Path, bundle: Path) -> dict[str, Any]:
    """Return what ``ask.py`` printed last, in Superset's own Python."""
    config = folder / "superset_config.py"
    config.write_text(
        f'SQLALCHEMY_DATABASE_URI = "sqlite:///{folder}/superset.db"\n'
        'SECRET_KEY = "of a test"\nWTF_CSRF_ENABLED = False\nTALISMAN_ENABLED = False\n'
    )
    done = subprocess.run(
        [str(superset()), str(SCRIPT), str(bundle)],
        env={
            "PATH": os.environ["PATH"],
            "HOME": str(folder),
            "SUPERSET_CONFIG_PATH": str(config),
            "FLASK_APP": "superset.app:create_app()",
        },
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    return dict(json.loads(done.stdout.splitlines()[-1]))
