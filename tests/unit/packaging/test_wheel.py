"""The wheel, built, installed elsewhere and run outside the checkout."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
UV = ROOT / ".tools" / "uv" / "bin" / "uv"


def run(*command: str | Path, cwd: Path, **variables: str) -> str:
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("GUA_", "PYTHON", "UV_"))}
    done = subprocess.run(
        [str(part) for part in command],
        cwd=cwd,
        env={**environment, **variables},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def elsewhere(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder outside the checkout with the wheel installed, from what `make setup` fetched."""
    uv = UV if UV.exists() else shutil.which("uv")
    assert uv, "the wheel is installed with uv: run make setup"
    folder = tmp_path_factory.mktemp("elsewhere")
    sync = ("sync", "--quiet", "--frozen", "--offline", "--no-install-project", "--no-dev", "--extra", "local")
    run(uv, *sync, cwd=ROOT, UV_PROJECT_ENVIRONMENT=str(folder / "env"))
    run(uv, "build", "--quiet", "--wheel", "--offline", "--out-dir", folder / "dist", cwd=ROOT)
    (wheel,) = (folder / "dist").glob("*.whl")
    run(uv, "pip", "install", "--quiet", "--offline", "--no-deps", "--python", folder / "env", wheel, cwd=folder)
    return folder


@pytest.mark.engine
def test_the_installed_wheel_runs_the_demo_outside_the_checkout(elsewhere: Path) -> None:
    page = elsewhere / "page.html"
    out = run(elsewhere / "env/bin/gua", "demo", "--ticks", "20", "--html", page, cwd=elsewhere, HOME=str(elsewhere))
    assert page.read_text(encoding="utf-8").startswith("<!doctype html>")
    assert "Simulated numbers" in out
    assert "1. Where the GPU-hours went" in out
    assert not (elsewhere / ".gua").exists()


def test_the_installed_wheel_brings_its_own_sql(elsewhere: Path) -> None:
    code = "from gua.store.locate import schema_directory; print(schema_directory())"
    found = Path(run(elsewhere / "env/bin/python", "-c", code, cwd=elsewhere).strip())
    assert elsewhere in found.parents
    shipped = {file.relative_to(ROOT / "clickhouse") for file in (ROOT / "clickhouse").rglob("*.*")}
    assert {file.relative_to(found) for file in found.rglob("*.*")} == shipped
