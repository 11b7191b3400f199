"""The wheel, built, installed elsewhere and run outside the checkout."""

from __future__ import annotations

import email
import os
import re
import shutil
import subprocess
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
UV = ROOT / ".tools" / "uv" / "bin" / "uv"


def run(*command: str | Path, cwd: Path, **variables: str) -> str:
    left_out = [name for name in os.environ if name.startswith(("GUA_", "PYTHON", "UV_")) and name != "UV_CACHE_DIR"]
    environment = {name: value for name, value in os.environ.items() if name not in left_out}
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
    demo = (elsewhere / "env/bin/gua", "demo", "--ticks", "20")
    assert f"wrote {page}" in run(*demo, "--html", page, cwd=elsewhere, HOME=str(elsewhere))
    assert page.read_text(encoding="utf-8").startswith("<!doctype html>")
    out = run(*demo, cwd=elsewhere, HOME=str(elsewhere))
    assert "Simulated numbers" in out
    assert "Top idle holders" in out
    assert not (elsewhere / ".gua").exists()


def test_the_installed_wheel_brings_its_own_sql(elsewhere: Path) -> None:
    code = "from gua.store.statements import schema_directory; print(schema_directory())"
    found = Path(run(elsewhere / "env/bin/python", "-c", code, cwd=elsewhere).strip())
    assert elsewhere in found.parents
    shipped = {file.relative_to(ROOT / "clickhouse") for file in (ROOT / "clickhouse").rglob("*.*")}
    assert {file.relative_to(found) for file in found.rglob("*.*")} == shipped


def test_both_commands_are_the_same(elsewhere: Path) -> None:
    shown = [run(elsewhere / "env/bin" / command, "--help", cwd=elsewhere) for command in ("gua", "gua-otel")]
    assert shown[0] == shown[1]


def test_the_page_that_an_index_shows_has_whole_addresses_of_files_that_exist(elsewhere: Path) -> None:
    (metadata,) = (elsewhere / "env").glob("lib/*/site-packages/gua_otel-*.dist-info/METADATA")
    page = email.message_from_string(metadata.read_text("utf-8")).get_payload()
    source = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["urls"]["Source"]
    links = re.findall(r"(!?)\[[^\]]*\]\(([^)\s]+)\)", str(page))
    assert len(links) > 30
    for picture, link in links:
        folder = f"{source}/{'raw' if picture else 'blob'}/main/"
        assert link.startswith(folder), link
        assert (ROOT / link.removeprefix(folder).partition("#")[0]).exists(), link
