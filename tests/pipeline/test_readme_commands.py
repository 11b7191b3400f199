"""Every command that README.md shows is run, in its order, as a reader would: none may be there that is not.

A reader has what these tests lack: cards, an index of packages, Docker, a site's addresses. What stands for those is
in the tables below and nowhere else.
"""

from __future__ import annotations

import re
import shlex
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest
import trustme

from driver.fixture import SimulatedDriver
from driver.scenario import Scenario
from fakes import nvidia_smi
from fakes.older_database import START, OlderDatabase
from servers import site
from servers.clickhouse import PASSWORDS, ClickHouseServer
from servers.collector import Collector
from servers.process import poll
from servers.shown import Shell, Shown, shown_commands
from servers.tools import ROOT

README = (ROOT / "README.md").read_text("utf-8")
COMMANDS = [*shown_commands(README)]
READER = "--store clickhouse://gua_reader@db.example:8123"
OWNER = "--store clickhouse://gua_owner@db.example:8123"


@dataclass(frozen=True)
class Runs:
    """What running it must print; ``soon``: what is on its way may come first; ``writes`` a file beginning so."""

    prints: str
    code: int = 0
    soon: bool = False
    writes: tuple[str, str] | None = None


@dataclass(frozen=True)
class Elsewhere:
    """Why it cannot be run here, and the file and words by which something else does it."""

    reason: str
    file: str
    words: str


Way = Runs | Elsewhere

WAYS: Mapping[str, Mapping[str, Way]] = {
    "Start": {
        'uv tool install "./[local]"': Elsewhere(
            "it fetches 800 MB", "tests/pipeline/test_install.py", '"tool", "install"'
        ),
        "gua demo": Runs("Simulated numbers of an invented lab"),
        "gua daemon": Runs("next: gua status shows the cards now, gua report"),
        "gua report": Runs("GPU usage of"),
    },
    "You already run dcgm-exporter? Start here": {
        "gua audit http://prometheus.example:9090 --since 30d": Elsewhere(
            "there is no Prometheus here", "tests/pipeline/test_prometheus_day.py", '"audit", server.url'
        ),
    },
    "Try it": {
        "make demo": Runs("Simulated numbers of an invented lab"),
        ".venv/bin/gua demo --html demo.html": Runs("wrote demo.html", writes=("demo.html", "<!doctype html>")),
        "make test": Elsewhere(
            "it runs the tests themselves", ".ci/run", 'step make test TESTS="not gpu and not wide"'
        ),
    },
    "One host": {
        "gua doctor": Runs("version 575.57.08, 3 GPUs"),
        "gua daemon": Runs("gua agent started"),
        "gua status": Runs("The agent of node-1 runs"),
        "gua top": Runs("3 GPUs of node-1: 1 active, 1 idle-held, 1 truly-idle"),
        "gua report": Runs("GPU-hours observed"),
        "gua report --brief": Runs("GPU-hours observed"),
        "gua report --section now,usage --by owner": Runs("Per owner"),
        "gua report --what-if 30m 2h 8h": Runs("What if"),
        "gua report --html report.html --timezone Europe/Berlin": Runs(
            "wrote report.html", writes=("report.html", "<!doctype html>")
        ),
        "gua report --json --section headline": Runs('"schema": "gua.report/1"'),
        "gua explain 1 2026-03-25T14:05": Runs("idle-held, by line 4a of the rules"),
        'gua prices set "H100 80GB HBM3" 2.49 --currency EUR': Runs("NVIDIA H100 80GB HBM3: 2.49 EUR per GPU-hour"),
        "gua report --section money --section energy": Runs("EUR (estimated)"),
        "gua report --since 1d --markdown --fail-on 'idle-held > 20%'": Runs("idle-held > 20%", code=1),
        "nvidia-smi --query-gpu=timestamp,uuid,index,name,memory.used,memory.total,utilization.gpu,power.draw "
        "--format=csv -l 30 > gpu.csv": (
            Runs("", code=124, writes=("gpu.csv", "timestamp, uuid, index, name, memory"))
        ),
        "gua import nvidia-smi gpu.csv": Runs("of 3 cards on host imported"),
        "gua import gua-sqlite ~/.gua/gua.db": Runs("imported  20 card ticks of 1 card on host old-node"),
        "gua report --rules gpu-usage-audit --since 30d": Runs("1. Card ticks by its rule"),
        "gua stop": Runs("gua agent stopped"),
    },
    "A fleet": {
        f"gua schema apply {OWNER} --keep-ticks 90d": Runs("kept: raw points 3d, ticks 90d"),
        "otelcol-contrib --config otel-collector/config.yaml --config otel-collector/secure.yaml": Runs(""),
        "gua enroll --endpoint https://collector.example:4318 --token-file token": Runs("accepted: 1 tick of node-1"),
        "OTEL_RESOURCE_ATTRIBUTES=team=vision gua daemon": Runs("gua agent started"),
        f"gua status --all {READER}": Runs("node-1", soon=True),
        f"gua top {READER} --only-idle": Runs("3 GPUs of node-1: 1 active, 1 idle-held", soon=True),
        f"gua report {READER} --where team=vision --by team": Runs("only team=vision", soon=True),
        "sh deploy/docker/passwords.sh": Runs("wrote .env", writes=(".env", "GUA_OWNER_PASSWORD=")),
        "docker compose up --detach --wait --build": Elsewhere(
            "no Docker engine is here", "tests/pipeline/test_compose.py", 'trial.up("simulated-host")'
        ),
        "docker compose run --rm report": Elsewhere(
            "no Docker engine is here", "tests/pipeline/test_compose.py", 'trial.once("report")'
        ),
        "docker compose --profile grafana up --detach": Elsewhere(
            "no Docker engine is here", "tests/pipeline/test_compose.py", 'load_project("grafana"'
        ),
    },
    "On an existing stack": {
        "gua daemon --endpoint https://otel.example:4318": Runs("gua agent started"),
        f"gua schema apply {OWNER} --landing-database otel": Runs("views read otel.otel_metrics_gauge"),
        f"gua report {READER}": Runs("idle-held", soon=True),
        "SELECT host, gpu_index, card, owner, program, memory_bytes / 1e9 AS gb, idle_hours": Runs(
            "node-1\t1\t", soon=True
        ),
    },
}

# What a reader has at hand, and what stands for it here. Addresses are added by the tests, as ports are free ones.
HERE = {
    # In the real checkout, and never with another environment than the tests run in.
    "make demo": f"make --no-print-directory -C {shlex.quote(str(ROOT))} --old-file=.venv/.ready demo",
    "2026-03-25T14:05": "1s",  # the agent runs only now
    "nvidia-smi --query": "timeout 4 nvidia-smi --query",  # for somebody's Ctrl-C
    "gua demo --html": "gua demo --days 1 --html",  # `make demo` shows the whole one
    "-l 30": "-l 1",
}


@dataclass
class Reader:
    """Somebody who runs a section's commands one after the other."""

    shell: Shell
    server: ClickHouseServer | None = None
    here: dict[str, str] = field(default_factory=lambda: {**HERE})
    programs: dict[str, Callable[[Sequence[str]], None]] = field(default_factory=dict)
    """Programs that stay: what starts them, with their arguments."""
    printed: dict[str, str] = field(default_factory=dict)
    """What each command printed."""

    def follow(self, section: str) -> None:
        """Run every command of a section, and hold it to its table."""
        for shown in commands_of(section):
            way = WAYS[section][key(shown)]
            if isinstance(way, Runs):
                self.hold(shown, way)

    def hold(self, shown: Shown, way: Runs) -> None:
        """Run a command and fail unless it does what the table says."""
        program, *arguments = shown.text.split()
        if program in self.programs:
            self.programs[program](arguments)
            return
        if way.soon:
            poll(lambda: self._misses(shown, way) == "", f"{shown.text} to print {way.prints!r}", seconds=60)
        else:
            assert self._misses(shown, way) == ""

    def _misses(self, shown: Shown, way: Runs) -> str:
        """Return what running it leaves to be desired."""
        code, output = self._run(shown)
        if code != way.code or way.prints not in output or "Traceback" in output:
            return f"{shown.text}: exit code {code}, not {way.code}, or no {way.prints!r} in\n{output}"
        if way.writes is not None:
            name, beginning = way.writes
            if not (self.shell.checkout / name).read_text("utf-8").startswith(beginning):
                return f"{shown.text}: {name} does not begin with {beginning!r}"
        return ""

    def _run(self, shown: Shown) -> tuple[int, str]:
        if shown.is_sql:
            assert self.server is not None
            return 0, self.server.query(shown.text, user="gua_reader")
        command = shown.text
        for there, here in self.here.items():
            command = command.replace(there, here)
        user = re.search(r"//(\w+)@", command)
        done = self.shell.run(command, **({"GUA_STORE_PASSWORD": PASSWORDS[user[1]]} if user else {}))
        self.printed[shown.text] = done.stdout
        return done.returncode, done.stdout


def key(shown: Shown) -> str:
    """Return the name of a command in the tables: itself, of SQL the first line."""
    return shown.text.splitlines()[0]


def commands_of(section: str) -> list[Shown]:
    return [shown for shown in COMMANDS if shown.section == section]


@pytest.fixture
def reader(simulated_driver: SimulatedDriver, lab: Scenario, tmp_path: Path) -> Iterator[Reader]:
    """Return a reader at a host with a card at work, one that is held, and a free one."""
    assert len(lab.cards) == 3
    settings = {**simulated_driver.environment, "GUA_HOST_NAME": "node-1", "GUA_INTERVAL": "1s"}
    found = Reader(Shell(tmp_path / "reader", settings))
    yield found
    assert found.shell.run("gua stop").returncode == 0


@pytest.fixture
def server(_built: None, tmp_path: Path) -> Iterator[ClickHouseServer]:
    """Return a server with gua's users and the site's own."""
    started = ClickHouseServer(tmp_path / "clickhouse")
    site.settle(started)
    started.start()
    yield started
    started.kill()


class TestEveryCommand:
    def test_is_run_or_names_the_test_that_runs_it(self) -> None:
        assert {(shown.section, key(shown)) for shown in COMMANDS} == {
            (section, command) for section, ways in WAYS.items() for command in ways
        }

    def test_that_is_run_elsewhere_is_run_there(self) -> None:
        for ways in WAYS.values():
            for way in ways.values():
                if isinstance(way, Elsewhere):
                    assert way.words in (ROOT / way.file).read_text("utf-8"), way

    def test_of_a_block_that_may_hold_commands_or_not_is_refused(self) -> None:
        with pytest.raises(ValueError, match="no language"):
            [*shown_commands("## Quick start\n\n```\ngua daemon --no-such\n```\n")]
        assert [shown.text for shown in shown_commands("```console\n$ gua top \\\n  --once # now\ncards\n```\n")] == [
            "gua top    --once"
        ]


def test_starting(reader: Reader) -> None:
    reader.here["gua demo"] = "gua demo --days 1"
    reader.follow("Start")


def test_make_demo_prints_the_report_shown_in_the_readme(reader: Reader) -> None:
    reader.follow("Try it")
    shown = re.search(r"```text\n(.*?)\n```", README, re.DOTALL)
    assert shown is not None
    assert shown[1] in reader.printed["make demo"]


def test_one_host(reader: Reader, tmp_path: Path) -> None:
    nvidia_smi.install(tmp_path / "reader" / "bin")
    (reader.shell.home / ".gua").mkdir()
    older = OlderDatabase(reader.shell.home / ".gua" / "gua.db", "1.7")
    older.host()
    older.run(30)
    an_hour_ago = time.time() - START.timestamp() - 3600
    for tick in range(20):
        older.card(an_hour_ago + 30 * tick, run_id=1)
    older.close()
    reader.follow("One host")


def test_a_fleet(reader: Reader, server: ClickHouseServer, tmp_path: Path) -> None:
    authority = trustme.CA()
    issued = authority.issue_cert("127.0.0.1")
    issued.private_key_and_cert_chain_pem.write_to_path(tmp_path / "both.pem")
    authority.cert_pem.write_to_path(tmp_path / "authority.pem")
    (tmp_path / "tokens").write_text("a-token-of-node-1 node-1\n")
    token = reader.shell.checkout / "token"
    token.write_text("a-token-of-node-1\n")
    token.chmod(0o600)
    running: list[Collector] = []

    def collector(arguments: Sequence[str]) -> None:
        option, config, again, over = arguments
        assert {option, again} == {"--config"}
        settings = {name: str(tmp_path / "both.pem") for name in ("COLLECTOR_TLS_CERT", "COLLECTOR_TLS_KEY")}
        settings["COLLECTOR_TOKENS"] = str(tmp_path / "tokens")
        running.append(Collector(tmp_path / "fleet", server, settings, config=ROOT / config, over=[ROOT / over]))
        running[0].start()
        reader.here["https://collector.example:4318"] = running[0].endpoint.replace("http:", "https:")

    reader.server = server
    reader.programs["otelcol-contrib"] = collector
    reader.here["db.example:8123"] = f"127.0.0.1:{server.http_port}"
    # The authority of the certificate above; a site's is one that the system trusts, or given with --certificate.
    reader.here["gua enroll"] = f"gua enroll --certificate {shlex.quote(str(tmp_path / 'authority.pem'))}"
    try:
        reader.follow("A fleet")
    finally:
        for each in running:
            each.kill()


def test_an_existing_stack(reader: Reader, server: ClickHouseServer, tmp_path: Path) -> None:
    theirs = Collector(tmp_path / "theirs", server, site.SETTINGS, config=site.CONFIG)
    theirs.start()
    reader.server = server
    reader.here["https://otel.example:4318"] = theirs.endpoint
    reader.here["db.example:8123"] = f"127.0.0.1:{server.http_port}"
    try:
        reader.follow("On an existing stack")
    finally:
        theirs.kill()
