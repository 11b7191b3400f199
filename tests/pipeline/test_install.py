"""Installed as the README says, into environments of their own: both commands, and the older tool beside them."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from fakes.otlp import GrpcReceiver, HttpReceiver
from fakes.spooled import spooled
from gua.state.compression import decompress
from servers.older import VERSION, CannotInstallError, install
from servers.tools import ROOT, TOOLS


@pytest.fixture(scope="module")
def uv() -> str:
    kept = TOOLS / "uv" / "bin" / "uv"
    found = str(kept) if kept.exists() else shutil.which("uv")
    assert found, "uv is not here: make setup brings it"
    return found


@pytest.fixture(scope="module")
def wheel(uv: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("dist")
    run(folder, uv, "build", "--quiet", "--wheel", "--out-dir", ".", str(ROOT))
    (built,) = folder.glob("*.whl")
    return built


def run(folder: Path, *command: str, **variables: str) -> str:
    """Return what a command prints, run in a folder that is its home, too."""
    ours = {name: value for name, value in os.environ.items() if not name.startswith(("GUA_", "PYTHON", "UV_"))}
    ours |= {"HOME": str(folder), "UV_CACHE_DIR": os.environ.get("UV_CACHE_DIR") or str(Path.home() / ".cache" / "uv")}
    done = subprocess.run(command, cwd=folder, env={**ours, **variables}, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def megabytes(folder: Path) -> int:
    return int(run(folder, "du", "-sm", str(folder)).split()[0])


def test_uv_installs_both_commands_from_the_checkout(uv: str, tmp_path: Path) -> None:
    places = {"UV_TOOL_DIR": str(tmp_path / "tools"), "UV_TOOL_BIN_DIR": str(tmp_path / "bin")}
    run(tmp_path, uv, "tool", "install", "--quiet", f"{ROOT}/[local]", **places)
    assert sorted(each.name for each in (tmp_path / "bin").iterdir()) == ["gua", "gua-otel"]
    for command in ("gua", "gua-otel"):
        assert "chdb" in run(tmp_path, str(tmp_path / "bin" / command), "--version")
    (packages,) = (tmp_path / "tools").glob("*/lib/*/site-packages")
    print(f"\nwith the extra local: {megabytes(packages)} MB")  # noqa: T201 - the figures of README.md


def test_the_distribution_runs_by_its_own_name_without_being_installed(uv: str, wheel: Path, tmp_path: Path) -> None:
    out = run(tmp_path, uv, "tool", "run", "--from", f"{wheel}[local]", "gua-otel", "demo", "--ticks", "20")
    assert "Top idle holders" in out
    assert not (tmp_path / ".gua").exists()


@pytest.mark.parametrize("resolution", ["lowest-direct", "highest"])
@pytest.mark.parametrize(("protocol", "receiver"), [("http/protobuf", HttpReceiver), ("grpc", GrpcReceiver)])
def test_ticks_are_delivered_with_the_oldest_and_the_newest_packages(
    uv: str, wheel: Path, tmp_path: Path, resolution: str, protocol: str, receiver: type[HttpReceiver | GrpcReceiver]
) -> None:
    """It shares an environment with other instrumented software, so it takes what versions that has."""
    run(tmp_path, uv, "venv", "--quiet", "env")
    run(tmp_path, uv, "pip", "install", "--quiet", "--python", "env", "--resolution", resolution, str(wheel))
    tick = spooled(1)
    with receiver() as received:
        deliver = (
            "from gua.core.ports import SpooledTick; from gua.otlp.decode import decode\n"
            "from gua.otlp.send import open_endpoint; from gua.state.compression import decompress\n"
            f"tick = SpooledTick(id=1, ts_ms=1, raw_length={tick.raw_length}, blob={tick.blob!r})\n"
            f"endpoint = open_endpoint({received.url!r}, environ={{'OTEL_EXPORTER_OTLP_PROTOCOL': {protocol!r}}})\n"
            "assert endpoint.land([tick]) == []\n"
            "print(decode(decompress(tick.blob)).origin.host)\n"
        )
        assert run(tmp_path, str(tmp_path / "env" / "bin" / "python"), "-c", deliver).strip()
        (request,) = received.requests
    assert request.body == decompress(tick.blob)


def test_it_works_beside_gpu_usage_audit(uv: str, wheel: Path, tmp_path: Path) -> None:
    try:
        theirs = str(install())
    except CannotInstallError as error:
        pytest.skip(f"left out: gpu-usage-audit {VERSION} cannot be installed: {error}")
    run(tmp_path, uv, "venv", "--quiet", "env")
    run(tmp_path, uv, "pip", "install", "--quiet", "--python", "env", f"{wheel}")
    packages = json.loads(run(tmp_path, uv, "pip", "list", "--format", "json", "--python", "env"))
    assert "gpu-usage-audit" not in {each["name"] for each in packages}
    ours = str(tmp_path / "env" / "bin" / "gua")
    assert run(tmp_path, theirs, "--version").strip() == VERSION
    assert run(tmp_path, ours, "--version").startswith("gua     0.1.0")
    run(tmp_path, theirs, "demo", "--db", str(tmp_path / "theirs.db"), "--ticks", "2", "--interval", "200ms")
    assert "gua-sqlite" in run(tmp_path, ours, "import", "--help")
    (packages_folder,) = (tmp_path / "env").glob("lib/*/site-packages")
    print(f"\nwithout extras: {megabytes(packages_folder)} MB")  # noqa: T201 - the figures of README.md
