"""docker-compose.yml and the image on a real Docker Engine: built, healthy, reported, killed, taken down.

It needs a Docker Engine with Compose, and images: pulled, or stand-ins of the same names that are there already. It
uses the ports and the project's name of the file. Run with `make test TESTS=wide`; `.ci/run` leaves it out.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from servers.process import poll
from servers.tools import ROOT

pytestmark = [pytest.mark.wide, pytest.mark.xdist_group("docker")]
MINUTES_OF_A_WEEK = 7 * 24 * 60
# An engine without the right may not raise the limit of open files to what the file requests.
LOWER = "services:\n  clickhouse:\n    ulimits:\n      nofile: 20000\n"
IN_KUBERNETES = [
    *("--read-only", "--user", "10001:10001", "--cap-drop", "ALL"),
    *("--security-opt", "no-new-privileges", "--pid", "host"),
]


class Docker:
    """The project in a checkout of its own."""

    def __init__(self, checkout: Path) -> None:
        self._checkout = checkout
        (checkout / "lower.yaml").write_text(LOWER)

    def __call__(self, *words: str, seconds: float = 900, must: bool = True) -> subprocess.CompletedProcess[str]:
        done = subprocess.run(
            ["docker", *words],
            cwd=self._checkout,
            env=dict(os.environ),
            capture_output=True,
            text=True,
            timeout=seconds,
            check=False,
        )
        assert not must or done.returncode == 0, f"docker {' '.join(words)}: {done.stdout[-3000:]}{done.stderr[-3000:]}"
        return done

    def compose(self, *words: str, seconds: float = 900, must: bool = True) -> str:
        files = ("--file", "docker-compose.yml", "--file", "lower.yaml")
        return self("compose", *files, *words, seconds=seconds, must=must).stdout

    def sql(self, statement: str) -> list[str]:
        """Return the first row of the reader's answer."""
        printed = self.compose("run", "--rm", "--no-TTY", "--entrypoint", "gua sql --csv", "report", statement)
        return printed.splitlines()[1].split(",")


@pytest.fixture(scope="module")
def docker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Docker]:
    """The project with passwords, built; taken down with its volumes in the end."""
    if shutil.which("docker") is None or subprocess.run(["docker", "compose", "version"], check=False).returncode:
        pytest.skip("no docker with Compose is on PATH")
    if subprocess.run(["docker", "info"], capture_output=True, check=False).returncode:
        pytest.skip("no Docker Engine answers: start one, or name it in DOCKER_HOST")
    checkout = tmp_path_factory.mktemp("checkout")
    tracked = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    for name in (name for name in tracked.splitlines() if not name.startswith(("tests/", ".tools"))):
        (checkout / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, checkout / name)
    subprocess.run(["sh", "deploy/docker/passwords.sh"], cwd=checkout, check=True)
    made = Docker(checkout)
    running = made.compose("ps", "--quiet")
    assert not running, "a project of this name runs already: take it down first"
    # By itself, as networks of a build differ by engine: GUA_BUILD_OPTIONS="--network host".
    options = os.environ.get("GUA_BUILD_OPTIONS", "").split()
    made("build", *options, "--file", "deploy/docker/Dockerfile", "--tag", "gua:trial", ".")
    try:
        yield made
    finally:
        made.compose("--profile", "report", "down", "--volumes", must=False)


@pytest.fixture(scope="module")
def up(docker: Docker) -> Docker:
    begun = time.monotonic()
    docker.compose("up", "--detach", "--wait", "--wait-timeout", "300")
    print(f"docker compose up --wait: {time.monotonic() - begun:.0f} s")  # noqa: T201 - what was measured
    return docker


def services(docker: Docker) -> dict[str, str]:
    """Return what Compose says of each service's container, those that ended among them."""
    lines = docker.compose("ps", "--all", "--format", "{{.Service}}\t{{.Status}}").splitlines()
    return dict(line.split("\t") for line in lines)


def test_up_wait_ends_when_all_is_healthy(up: Docker) -> None:
    found = services(up)
    for name in ("clickhouse", "collector-health", "simulated-host"):
        assert "(healthy)" in found[name]
    for name in ("schema", "queue-folder"):
        assert found[name].startswith("Exited (0)")


def test_a_week_arrives_and_the_collector_refuses_nothing(up: Docker) -> None:
    ticks = "SELECT uniqExact(ts) AS ticks FROM gua.card_ticks"
    poll(lambda: int(up.sql(ticks)[0]) >= MINUTES_OF_A_WEEK, "a week of ticks", seconds=900)
    assert "refusing data" not in up.compose("logs", "collector")


def test_options_of_the_report_follow_its_name(up: Docker) -> None:
    printed = up.compose("run", "--rm", "--no-TTY", "report", "--since", "1d", "--section", "headline")
    assert re.search(r"8 GPUs .* on 1 host: simulated-host", printed)
    assert "idle-held" in up.compose("run", "--rm", "--no-TTY", "report")


def test_volumes_belong_to_the_users_that_write_them(up: Docker) -> None:
    def owner(volume: str) -> str:
        image = "clickhouse/clickhouse-server:26.3.32.14"
        words = ("run", "--rm", "--volume", f"gua_{volume}:/v", "--entrypoint", "stat", image, "-c", "%u:%g", "/v")
        return up(*words).stdout.strip()

    assert owner("queue") == owner("simulated-host") == "10001:10001"


@pytest.mark.parametrize("killed", [["collector"], ["clickhouse"], ["collector", "clickhouse"]])
def test_nothing_is_lost_where_a_server_is_killed(up: Docker, killed: Sequence[str]) -> None:
    up.compose("kill", "--signal", "KILL", *killed)
    up.compose("up", "--detach", "--wait", "--wait-timeout", "300")
    assert all("Up" in services(up)[name] for name in killed)
    missing = """
        SELECT dateDiff('minute', min(ts), max(ts)) + 1 - uniqExact(toStartOfMinute(ts)) AS missing
        FROM gua.card_ticks
        WHERE ts > now() - INTERVAL 1 HOUR
    """
    newest = "SELECT max(ts) > now() - INTERVAL 90 SECOND AS recent FROM gua.card_ticks"
    poll(lambda: up.sql(newest)[0] in {"1", "true"}, "ticks of the time after", seconds=180)
    poll(lambda: int(up.sql(missing)[0]) <= 0, "every minute's tick", seconds=120)


def test_the_image_runs_with_what_kubernetes_gives_it(docker: Docker) -> None:
    printed = docker("run", "--rm", *IN_KUBERNETES, "gua:trial", "version").stdout
    assert printed.startswith("gua ")
    checked = docker("run", "--rm", *IN_KUBERNETES, "--volume", "/var/lib/gua", "gua:trial", "doctor", must=False)
    assert checked.returncode == 3, "there is no driver in it"
    assert "ok       PID namespace    the host's own" in checked.stdout


def test_down_leaves_nothing(up: Docker) -> None:
    up.compose("--profile", "report", "down", "--volumes")
    assert not up("ps", "--all", "--quiet", "--filter", "label=com.docker.compose.project=gua").stdout
    assert not up("volume", "ls", "--quiet", "--filter", "label=com.docker.compose.project=gua").stdout
