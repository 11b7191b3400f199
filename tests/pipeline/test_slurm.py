"""A day of jobs on a real Slurm, compressed to a minute: what the hooks and polling report, and the truth.

The cards are a driver's that the test scripts; on them are the real processes of real jobs. Two agents read them side
by side each second, one by the files of the shipped hooks, one by polling Slurm twice a second. Their ticks go
through a Collector into a ClickHouse server, and into an embedded store each.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from driver.fixture import SimulatedDriver
from driver.scenario import Card as DriverCard
from driver.scenario import Constant, Scenario
from driver.scenario import Process as DriverProcess
from fakes.nvml import GIB, Card, FakeDriver, Process
from gua.agent.sampler import Sampler
from gua.allocation.files import AllocationFolder, FilesReader
from gua.allocation.slurm import SlurmReader
from gua.allocation.slurm_conf import GresConf
from gua.allocation.slurm_poll import SECONDS, PollAnswer, SlurmPoll
from gua.allocation.sources import Sources
from gua.app.destinations import ENDPOINT
from gua.core.allocation import parts
from gua.core.facts import card_facts
from gua.core.ports import Mark
from gua.core.rules import Rules, classify
from gua.core.tick import Origin, Tick
from gua.core.words import Source, Use
from gua.identity.process import ProcessIdentity, owners_of
from gua.nvml.reader import NvmlReader
from gua.procfs.reader import ProcFs, SystemClock, stored_boot_time_ms
from gua.spool.queue import Spool
from gua.state.compression import decompress
from servers.agent import Agent as RealAgent
from servers.clickhouse import ClickHouseServer
from servers.collector import Collector
from servers.gua import Gua
from servers.process import poll
from servers.slurm import NODE, Slurm
from servers.tap import send
from servers.tools import ROOT, MissingToolError

pytestmark = [pytest.mark.pipeline, pytest.mark.xdist_group("slurm")]

TICK_SECONDS = 1.0
POLL_SECONDS = TICK_SECONDS / 2
CARDS = 4
MINORS = (2, 3, 0, 1)  # by the driver's order: neither is Slurm's
ALICE, BOB = "daemon", "bin"
ORIGIN = Origin(host="gpunode7", source=Source.AGENT, interval_ms=1000)
# Notes the moment by itself, too.
HOOK = """\
#!/bin/sh
date +%s.%N >{stamps}/$SLURM_JOB_ID.{name}
export GUA_ALLOCATION_FOLDER={folder}
exec {hook}
"""
# An agent's least is 30 s, which is a whole day here.
OFTEN = f"""\
from gua.allocation import slurm, slurm_poll
class Often(slurm_poll.SlurmPoll):
    def __init__(self, **settings):
        super().__init__(**{{**settings, "period_seconds": {POLL_SECONDS}}})
slurm.SlurmPoll = Often
"""


@dataclass
class Agent:
    """A sampler of the scripted cards with one way to know allocations, and the ticks that it made."""

    sampler: Sampler
    sources: Sources
    mark: Mark | None = None
    ticks: list[Tick] = field(default_factory=list)

    def tick(self) -> None:
        sample = self.sampler.sample(self.mark)
        self.mark = sample.mark
        if sample.tick is not None:
            self.ticks.append(sample.tick)

    def uses(self, ticks: Sequence[Tick] | None = None) -> dict[Use, int]:
        """Return the GPU time of each use in ms."""
        found: Counter[Use] = Counter()
        for tick in self.ticks if ticks is None else ticks:
            for card in tick.cards:
                for part in parts(card, classify(card_facts(card), Rules()).state):
                    found[part.use] += part.gpu_time_ms
        return dict(found)

    def observed_ms(self) -> int:
        return sum(card.gpu_time_ms for tick in self.ticks for card in tick.cards)


class Cluster:
    """Slurm, the scripted driver, and agents that read both."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.files = folder / "allocations"
        self.stamps = folder / "stamps"
        hooks = {}
        for name in ("Prolog", "Epilog"):
            hooks[name] = folder / name.lower()
            hook = ROOT / "deploy" / "slurm" / name.lower()
            hooks[name].write_text(HOOK.format(folder=self.files, stamps=self.stamps, name=name, hook=hook))
            hooks[name].chmod(0o755)
        self.slurm = Slurm(folder, cards=CARDS, hooks=hooks)
        self.driver = FakeDriver(*(Card(f"GPU-{minor}", minor=minor, used=0, reserved=0) for minor in MINORS))
        self.host = ProcFs(Path("/proc"))
        self.clock = SystemClock(self.host)
        self.reader = NvmlReader(self.clock, self.driver)
        self.agents: list[Agent] = []
        self.simulated: SimulatedDriver | None = None  # another driver of the same cards, for agents of their own
        self.next_at = 0.0

    def reset(self) -> None:
        """Be a node on which no job ran yet, without processes on its cards."""
        for agent in self.agents:
            agent.sources.close()
        self.agents.clear()
        self.simulated = None
        for minor in MINORS:
            self.put(minor, None)
        for folder in (self.files, self.stamps):
            shutil.rmtree(folder, ignore_errors=True)
        self.stamps.mkdir()
        self.stamps.chmod(0o1777)

    def agent(self, sources: Sources) -> Agent:
        boot_ms = stored_boot_time_ms(self.host, self.folder / "boot")
        agent = Agent(
            Sampler(
                cards=self.reader,
                processes=ProcessIdentity(self.host, owners_of(self.host), boot_time_ms=boot_ms),
                clock=self.clock,
                origin=ORIGIN,
                initial_pid_namespace=True,
                allocations=sources,
            ),
            sources,
        )
        self.agents.append(agent)
        return agent

    def conf(self) -> GresConf:
        return GresConf(self.folder / "etc")

    def by_hooks(self) -> Sources:
        return Sources([FilesReader(AllocationFolder(self.files), conf=self.conf())])

    def by_polling(self, folder: Path | None = None) -> Sources:
        reader = SlurmReader(
            AllocationFolder(self.folder / "none" if folder is None else folder),
            poll=SlurmPoll(period_seconds=POLL_SECONDS),
            conf=self.conf(),
        )
        return Sources([reader])

    def simulate(self, driver: SimulatedDriver) -> None:
        """Put the same on this driver's cards, for agents of their own."""
        self.simulated = driver
        self.put(MINORS[0], None)

    def run(self, ticks: int = 1) -> None:
        """Let all agents tick on their second, so often."""
        for _ in range(ticks):
            now = time.monotonic()
            self.next_at = max(self.next_at + TICK_SECONDS, now)
            time.sleep(self.next_at - now)
            for agent in self.agents:
                agent.tick()

    def run_until(self, holds: Callable[[], object], what: str, most: int = 120) -> None:
        for _ in range(most):
            if holds():
                return
            self.run()
        raise AssertionError(what)

    def begin(self, user: str, cards: int, name: str) -> Job:
        """Submit a job that waits to be ended, and tick until it runs."""
        script = (
            f"echo $$ $SLURM_JOB_GPUS >{self.stamps}/{name}.pid\n"
            f"while [ -d {self.stamps} ] && [ ! -e {self.stamps}/{name}.stop ]; do sleep 0.1; done\n"
        )
        job = Job(self, name, self.slurm.submit(user, f"gpu:{cards}", script, "-J", name))
        file = self.stamps / f"{name}.pid"
        self.run_until(lambda: file.exists() and file.read_text(), f"{name} to run")
        pid, gpus = file.read_text().split()
        job.pid, job.minors = int(pid), [int(gpu) for gpu in gpus.split(",")]
        return job

    def put(self, minor: int, pid: int | None, load: int = 0) -> None:
        """Put a process on a card, alone, or none."""
        card = next(card for card in self.driver.cards if card.minor == minor)
        card.compute = [] if pid is None else [Process(pid, 2 * GIB)]
        card.used = 2 * GIB if pid is not None else 0
        card.gpu = load
        if self.simulated is not None:
            self.simulated.write(Scenario([self._simulated(minor) for minor in MINORS]))

    def _simulated(self, minor: int) -> DriverCard:
        card = next(card for card in self.driver.cards if card.minor == minor)
        processes = [DriverProcess(process.pid, 2 * GIB, Constant(card.gpu)) for process in card.compute]
        return DriverCard(f"GPU-{minor}", minor=minor, processes=processes)


@dataclass
class Job:
    """A job of the script; its times are what its hooks wrote before they did anything else."""

    cluster: Cluster
    name: str
    id: str
    pid: int = 0
    minors: list[int] = field(default_factory=list)

    def end(self) -> None:
        """Let it end by itself, and tick until its epilog is done."""
        (self.cluster.stamps / f"{self.name}.stop").touch()
        self._gone()

    def cancel(self) -> None:
        self.cluster.slurm.cancel(self.id)
        self._gone()

    def _gone(self) -> None:
        self.cluster.run_until(lambda: self.cluster.slurm.state(self.id) in {"COMPLETED", "CANCELLED"}, self.name)

    @property
    def since_ms(self) -> int:
        """When its cards became its own."""
        return self._ms("Prolog")

    @property
    def until_ms(self) -> int:
        """When they were free again."""
        return self._ms("Epilog")

    def _ms(self, hook: str) -> int:
        return round(float((self.cluster.stamps / f"{self.id}.{hook}").read_text()) * 1000)


@pytest.fixture(scope="module")
def site() -> Iterator[Cluster]:
    """Return one Slurm for all tests here."""
    folder = Path(tempfile.mkdtemp(prefix="gua-slurm-"))
    folder.chmod(0o755)
    umask = os.umask(0o022)
    try:
        try:
            made = Cluster(folder)
        except MissingToolError as missing:
            if os.environ.get("GUA_REQUIRE_ALL") or os.environ.get("CI"):
                pytest.fail(str(missing))
            pytest.skip(str(missing))
        try:
            made.slurm.start()
            yield made
        finally:
            made.slurm.stop()
    finally:
        os.umask(umask)
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def cluster(site: Cluster, monkeypatch: pytest.MonkeyPatch) -> Iterator[Cluster]:
    monkeypatch.setenv("SLURM_CONF", site.slurm.environment["SLURM_CONF"])
    umask = os.umask(0o022)
    try:
        site.reset()
        yield site
        site.reset()
    finally:
        site.slurm.end_jobs()
        os.umask(umask)


@contextlib.contextmanager
def stranger(user: str) -> Iterator[int]:
    """Yield the pid of a process of a user that is in no job."""
    with subprocess.Popen(["sleep", "600"], user=user, group=user, extra_groups=(), cwd="/") as process:
        try:
            yield process.pid
        finally:
            process.kill()


@dataclass
class Truth:
    """GPU time of each use in ms as the script knows it, its edges, and when Slurm's controller was away."""

    ms: Counter[Use] = field(default_factory=Counter)
    edges: Counter[Use] = field(default_factory=Counter)
    away_ms: tuple[int, int] = (0, 0)
    noticed_ms: int = 0
    late_ms: Counter[Use] = field(default_factory=Counter)

    def add(self, use: Use, ms: float, cards: int = 1) -> None:
        self.ms[use] += round(ms) * cards
        self.edges[use] += 2 * cards
        if use is Use.USED:  # a tick that holds little of it has a mean below the threshold
            self.edges[Use.HELD] += 2 * cards

    def by_polling(self) -> Truth:
        """Return it as the controller's clients see it: while that was away all is unknown, also empty cards."""
        since_ms, until_ms = self.away_ms
        told = Truth(Counter(self.ms), Counter(self.edges))
        told.add(Use.UNKNOWN, until_ms - since_ms, CARDS)
        told.add(Use.EMPTY, 0)
        told.ms[Use.EMPTY] -= until_ms - since_ms
        # A question that gets no answer is given up after so long.
        told.late_ms = Counter({Use.UNKNOWN: round(SECONDS * 1000) * CARDS, Use.EMPTY: round(SECONDS * 1000)})
        return told


def day(cluster: Cluster, is_away: Callable[[], bool]) -> Truth:
    """Run the script; ``is_away`` returns whether the agent noticed that the controller is away."""
    truth = Truth()
    cluster.run(1)
    # Two cards, both used, until it ends by itself.
    used = cluster.begin(ALICE, 2, "used")
    since = time.time() * 1000
    for minor in used.minors:
        cluster.put(minor, used.pid, 80)
    # The other two: one is used, one only held.
    halves = cluster.begin(BOB, 2, "halves")
    cluster.put(halves.minors[0], halves.pid, 60)
    cluster.put(halves.minors[1], halves.pid, 0)
    held_since = time.time() * 1000
    cluster.run(5)
    for minor in used.minors:
        cluster.put(minor, None)
    gone = time.time() * 1000
    used.end()
    truth.add(Use.USED, gone - since, 2)
    truth.add(Use.EMPTY, used.until_ms - used.since_ms - (gone - since), 2)
    cluster.run(4)
    for minor in halves.minors:
        cluster.put(minor, None)
    gone = time.time() * 1000
    halves.cancel()
    truth.add(Use.USED, gone - held_since)
    truth.add(Use.HELD, gone - held_since)
    truth.add(Use.EMPTY, halves.until_ms - halves.since_ms - (gone - held_since), 2)
    # One that never starts anything; a stranger comes to its card, and to a free one.
    never = cluster.begin(ALICE, 1, "never")
    cluster.run(4)
    with stranger(BOB) as pid:
        since = time.time() * 1000
        taken = [never.minors[0], (never.minors[0] + 1) % CARDS]
        for minor in taken:
            cluster.put(minor, pid, 90)
        cluster.run(5)
        for minor in taken:
            cluster.put(minor, None)
        ms = time.time() * 1000 - since
    truth.add(Use.USED_BY_OTHERS, ms)
    truth.add(Use.UNALLOCATED_USE, ms)
    # The controller is killed while that job goes on, and comes back.
    cluster.slurm.crash()
    away_ms = time.time_ns() // 1_000_000
    cluster.run_until(is_away, "a failed poll")
    truth.noticed_ms = time.time_ns() // 1_000_000
    cluster.run(4)
    cluster.slurm.start_controller()
    truth.away_ms = away_ms, time.time_ns() // 1_000_000
    cluster.run(4)
    never.end()
    truth.add(Use.EMPTY, never.until_ms - never.since_ms - ms)
    cluster.run(2)
    return truth


HOURS = "toString((gpu, hour, use, source, owner, is_shared, gpu_time_ms)) AS told FROM gua.allocation_hours"


@dataclass
class Served:
    """What one agent reported, from the server."""

    server: ClickHouseServer
    host: str

    def ask(self, select: str, more: str = "") -> list[list[str]]:
        answer = self.server.query(f"SELECT {select} WHERE host = '{self.host}' {more}", user="gua_reader")
        return [line.split("\t") for line in answer.splitlines()]

    def uses(self) -> Counter[Use]:
        found = self.ask("use, sum(gpu_time_ms) FROM gua.allocation_hours", "GROUP BY use")
        return Counter({Use(use): int(ms) for use, ms in found})

    def longest_ms(self) -> int:
        return int(self.ask("max(duration_ms) FROM gua.card_ticks")[0][0])

    def allocations_between(self, since_ms: int, until_ms: int) -> set[str]:
        """Return what cards were in the ticks that lie in between."""
        ticks = f"toUnixTimestamp64Milli(ts) - duration_ms > {since_ms} AND toUnixTimestamp64Milli(ts) < {until_ms}"
        return {row[0] for row in self.ask("DISTINCT allocation FROM gua.card_ticks", f"AND {ticks}")}


def waiting(agent: RealAgent) -> list[bytes]:
    """Return the requests that wait for the Collector."""
    with Spool(agent.home / "spool.db", destinations=None) as spool:
        return [decompress(tick.blob) for tick in spool.peek(ENDPOINT, 1000)]


def assert_reported(served: Served, reported: Mapping[str, Any], truth: Truth, slack_ms: int) -> None:
    """Hold hours by use to the script's: at each edge a tick, and what may come late, is one or the other."""
    uses = served.uses()
    print(served.host, {str(use): (truth.ms[use], uses[use]) for use in Use})  # noqa: T201
    assert {use: round(each["gpu_hours"] * 3_600_000) for use, each in reported["uses"].items()} == {
        str(use): pytest.approx(uses[use], abs=2) for use in Use
    }
    edge_ms = served.longest_ms() + slack_ms
    for use in set(Use) - {Use.FREE}:
        slack = truth.edges[use] * edge_ms + truth.late_ms[use]
        assert abs(uses[use] - truth.ms[use]) <= slack, (served.host, use, uses, truth)
    assert uses[Use.FREE] > 0


@pytest.mark.usefixtures("applied")
def test_hooks_and_polling_report_the_scripted_day_of_jobs_in_the_local_store_and_on_the_server(
    cluster: Cluster,
    simulated_driver: SimulatedDriver,
    clickhouse: ClickHouseServer,
    collector: Collector,
    gua: Gua,
    tmp_path: Path,
) -> None:
    cluster.simulate(simulated_driver)
    cluster.files.mkdir(mode=0o755)  # a node on which no job ran yet has no folder
    (tmp_path / "often").mkdir()
    (tmp_path / "often" / "sitecustomize.py").write_text(OFTEN)
    agents: dict[str, RealAgent] = {}
    for name, source, folder in (("hooks", "files", cluster.files), ("polling", "slurm", cluster.folder / "none")):
        environ = {"SLURM_CONF": os.environ["SLURM_CONF"], "PYTHONPATH": str(tmp_path / "often"), "GUA_HOST_NAME": name}
        (tmp_path / name).mkdir()
        agents[name] = RealAgent(simulated_driver, tmp_path / name, environ=environ)
        agents[name].start(
            *("--allocation", source, "--allocation-folder", str(folder)),
            *("--endpoint", collector.endpoint, "--store", f"chdb://{agents[name].home / 'store'}"),
        )
    try:
        for agent in agents.values():
            poll(lambda agent=agent: agent.status()["allocation_sources"][0]["ok"], "the first answer")
        truth = day(cluster, lambda: agents["polling"].ticks()[-1].allocation_sources[0].reason is not None)
    finally:
        for agent in agents.values():
            agent.stop()
    for agent in agents.values():
        for body in waiting(agent):  # an agent's last tick may stay behind when it ends
            send(collector.endpoint, body)
    collector.wait_until_delivered()
    for name, agent in agents.items():
        store = f"chdb://{agent.home / 'store'}"
        agent.must("land", "--spool", agent.home / "spool.db", "--destination", "store", "--store", store, seconds=300)
        served = Served(clickhouse, name)
        told = json.loads(gua.must("sql", "--json", "--store", store, f"SELECT {HOURS} ORDER BY told"))["rows"]
        assert [row["told"] for row in told] == [row[0] for row in served.ask(HOURS, "ORDER BY told FORMAT TSVRaw")]
        reported = gua.report(clickhouse.dsn("gua_reader"), "--host", name, "--section", "allocation")["allocation"]
        assert reported == gua.report(store, "--section", "allocation")["allocation"]
        truth_of = truth if name == "hooks" else truth.by_polling()
        assert_reported(served, reported, truth_of, slack_ms=round(POLL_SECONDS * 1000))
        during = served.allocations_between(truth.noticed_ms, truth.away_ms[1])
        assert during == ({"allocated", "unallocated"} if name == "hooks" else {"unknown"})
        [source] = reported["sources"]
        assert (source["failed_seconds"] > 0) == (name == "polling"), source


def test_a_file_left_behind_by_a_crash_is_found_by_the_poll(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gua.allocation.slurm._SLACK_MS", 1000)
    cluster.files.mkdir(mode=0o755)
    both = cluster.agent(cluster.by_polling(cluster.files))
    poll(lambda: both.sources.look(0, 1, ()).sources[0].reason is None, "Slurm's first answer")
    job = cluster.begin(ALICE, 1, "job")
    file = cluster.files / f"slurm-{job.id}.json"
    written = file.read_bytes()
    job.end()
    (cluster.files / f"slurm-{job.id}.ended.json").unlink()
    scratch = cluster.files / ".again"
    scratch.write_bytes(written)
    scratch.rename(file)  # as if the epilog had never run
    cluster.run_until(lambda: both.sources.notes, "the file to be found")
    cluster.run(2)
    assert both.sources.notes == (f"{file.name} was left behind: Slurm's job {job.id} has ended",)
    assert both.uses(both.ticks[-1:]).keys() == {Use.FREE}
    other = cluster.begin(BOB, 2, "other")
    file.unlink()
    (cluster.files / f"slurm-{other.id}.json").unlink()
    cluster.run_until(lambda: any("silent" in note for note in both.sources.notes), "the silent hooks to be named")
    assert both.uses(both.ticks[-1:]).keys() == {Use.EMPTY, Use.FREE}


def test_slurm_and_the_hooks_agree_on_array_shard_and_whole_card_jobs(cluster: Cluster) -> None:
    wait = "sleep 600"
    cluster.slurm.submit(ALICE, "gpu:1", wait, "--array=0-1")
    shards = cluster.slurm.submit(BOB, "shard:2", wait), cluster.slurm.submit(ALICE, "shard:1", wait)
    poller = SlurmPoll()

    def answer() -> PollAnswer | None:
        found = poller.poll()
        with_gpus = [job for job in found.jobs.values() if job.until_ms is None and job.gres.places]
        return found if len(with_gpus) == 4 else None

    found = poll(answer, "four jobs")
    assert found is not None
    assert (found.reason, found.unclear, found.unexplained, found.unplaced) == (None, (), frozenset(), 0)
    live = {job.id: job for job in found.jobs.values() if job.until_ms is None}
    assert {job.id: job.gres.kind for job in live.values() if job.id in shards} == dict.fromkeys(shards, "shard")
    assert {job.gres.kind for job in live.values() if job.id not in shards} == {"gpu"}
    of_array = [job.gres.places for job in live.values() if job.id not in shards]
    assert len(frozenset().union(*of_array)) == 2, "a card for each task"

    def by_hooks() -> dict[str, set[int]]:
        files = [json.loads(file.read_bytes()) for file in cluster.files.glob("slurm-*.json")]
        return {file["id"]: {card["gres"] for card in file["cards"]} for file in files if "until" not in file}

    poll(lambda: by_hooks().keys() == live.keys(), "the hooks of all of them")
    assert by_hooks() == {job.id: set(job.gres.places) for job in live.values()}


def test_an_agent_reports_jobs_from_hooks_and_from_polling(
    cluster: Cluster, simulated_driver: SimulatedDriver, tmp_path: Path
) -> None:
    before = cluster.begin(ALICE, 1, "before")
    for file in cluster.files.iterdir():
        file.unlink()  # a job of before the hooks
    on = {before.minors[0]: (DriverProcess(before.pid, 2 * GIB, Constant(70)),)}
    cards = [DriverCard(f"GPU-{minor}", minor=minor, processes=on.get(minor, ())) for minor in MINORS]
    simulated_driver.write(Scenario(cards))
    agent = RealAgent(simulated_driver, tmp_path, environ={"SLURM_CONF": os.environ["SLURM_CONF"]})
    agent.start("--allocation", "slurm", "--allocation-folder", str(cluster.files), "--slurm-poll", "30s")
    try:
        job = cluster.begin(BOB, 2, "job")
        cluster.run(3)
        job.end()
        place = MINORS.index(job.minors[0])
        poll(lambda: agent.status()["cards"][place]["allocation"] == "unallocated", "the end of the job")
        status = agent.status()
    finally:
        agent.stop()
    assert [source["source"] for source in status["allocation_sources"]] == ["slurm"]
    told = [(card.uuid, each) for tick in agent.ticks() for card in tick.cards for each in card.allocations]
    whose = {(uuid, each.id, each.owner, str(each.relation)) for uuid, each in told}
    assert (f"GPU-{before.minors[0]}", before.id, ALICE, "owner") in whose
    assert {(f"GPU-{minor}", job.id, BOB, "nobody") for minor in job.minors} <= whose
    # By the time of its hook, not of the poll: that is twice a minute. Where a tick came between the end and the
    # hook's file, the next one does not have the job any more: then it ended with the last that did.
    ends = [
        each.until_ms or tick.ts_ms
        for tick in agent.ticks()
        for card in tick.cards
        for each in card.allocations
        if each.id == job.id
    ]
    end_ms = max(ends)
    assert abs(end_ms - job.until_ms) < 5000


def test_the_recipe_lists_and_cancels_the_jobs_whose_cards_are_idle_and_no_other(
    cluster: Cluster, simulated_driver: SimulatedDriver, tmp_path: Path
) -> None:
    cluster.files.mkdir(mode=0o755)
    cluster.simulate(simulated_driver)
    agent = RealAgent(simulated_driver, tmp_path, environ={"SLURM_CONF": os.environ["SLURM_CONF"]})
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "gua").symlink_to(Path(sys.executable).with_name("gua"))

    def recipe(*options: str) -> list[str]:
        environment = agent.environment()
        environment["PATH"] = f"{tmp_path / 'bin'}:{environment['PATH']}"
        command = [str(ROOT / "deploy" / "recipes" / "gua-idle-jobs"), "--node", NODE, "--for", "3s", *options]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120, check=False)
        print(options, done.stdout, done.stderr)  # noqa: T201
        assert done.returncode == 0, done.stderr
        return done.stdout.splitlines()

    agent.start("--allocation", "files", "--allocation-folder", str(cluster.files))
    try:
        busy = cluster.begin(ALICE, 2, "busy")  # one card is used, the other one empty
        cluster.put(busy.minors[0], busy.pid, 90)
        # Two tasks of an array: the one that has the array's own number is idle.
        script = f"echo $SLURM_JOB_ID $$ $SLURM_JOB_GPUS >{cluster.stamps}/task$SLURM_ARRAY_TASK_ID; exec sleep 600"
        array = cluster.slurm.submit(BOB, "gpu:1", script, "--array=0-1")
        files = [cluster.stamps / f"task{task}" for task in range(2)]
        cluster.run_until(lambda: all(file.exists() and file.read_text() for file in files), "both tasks to run")
        tasks = [file.read_text().split() for file in files]
        [idle] = [task for task, (number, _, _) in enumerate(tasks) if number == array]
        other = 1 - idle
        _, pid, minor = tasks[other]
        cluster.put(int(minor), int(pid), 90)
        cluster.run(8)
        assert [line.split()[:2] for line in recipe()] == [[f"{array}_{idle}", BOB]]
        agent.stop()
        assert recipe("--cancel") == [], "without an agent nothing is known"
        agent.start("--allocation", "files", "--allocation-folder", str(cluster.files))
        cluster.run(8)
        assert recipe("--cancel")[-1] == f"{array}_{idle} scancel sent"
        cluster.run_until(lambda: cluster.slurm.state(f"{array}_{idle}") == "CANCELLED", "the end of the idle task")
        assert cluster.slurm.state(f"{array}_{other}") == "RUNNING", "the array's other task goes on"
        assert cluster.slurm.state(busy.id) == "RUNNING"
        cluster.slurm.cancel(f"{array}_{other}")  # by its number Slurm does not know it any more
    finally:
        agent.stop()
