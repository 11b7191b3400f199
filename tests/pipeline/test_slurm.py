"""A day of jobs on a real Slurm, compressed to a minute: what the hooks tell, what polling tells, and the truth.

The cards are a driver's that the test scripts; on them are the real processes of real jobs. Two agents' samplers read
them side by side each second, one by the files of the shipped hooks, one by asking Slurm twice a second.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from driver.fixture import SimulatedDriver
from driver.scenario import Card as DriverCard
from driver.scenario import Constant, Scenario
from driver.scenario import Process as DriverProcess
from fakes.nvml import GIB, Card, FakeDriver, Process
from gua.agent.sampler import Sampler
from gua.allocation.files import FilesReader
from gua.allocation.folder import AllocationFolder
from gua.allocation.gres_conf import GresConf
from gua.allocation.slurm import SlurmReader
from gua.allocation.slurm_poll import SlurmPoll
from gua.allocation.sources import Sources
from gua.app.owners import owners_of
from gua.core.allocation import Use, parts
from gua.core.facts import card_facts
from gua.core.ports import Mark
from gua.core.rules import Rules, classify
from gua.core.tick import Origin, Source, Tick
from gua.identity.process import ProcessIdentity
from gua.nvml.reader import NvmlReader
from gua.procfs.boot import stored_boot_time_ms
from gua.procfs.clock import SystemClock
from gua.procfs.reader import ProcFs
from servers.agent import Agent as RealAgent
from servers.process import poll
from servers.slurm import Slurm
from servers.tools import ROOT, MissingToolError

pytestmark = [pytest.mark.pipeline, pytest.mark.xdist_group("slurm")]

TICK_SECONDS = 1.0
CARDS = 4
MINORS = (2, 3, 0, 1)  # by the driver's order: neither is Slurm's
ALICE, BOB = "daemon", "bin"
ORIGIN = Origin(host="gpunode7", source=Source.AGENT, interval_ms=1000)
HOOK = "#!/bin/sh\nexport GUA_ALLOCATION_FOLDER={folder}\nexec {hook}\n"


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
        self.stamps.mkdir()
        self.stamps.chmod(0o1777)
        hooks = {}
        for name in ("Prolog", "Epilog"):
            hooks[name] = folder / name.lower()
            hooks[name].write_text(HOOK.format(folder=self.files, hook=ROOT / "deploy" / "slurm" / name.lower()))
            hooks[name].chmod(0o755)
        self.slurm = Slurm(folder, cards=CARDS, hooks=hooks)
        self.driver = FakeDriver(*(Card(f"GPU-{minor}", minor=minor, used=0, reserved=0) for minor in MINORS))
        self.host = ProcFs(Path("/proc"))
        self.clock = SystemClock(self.host)
        self.reader = NvmlReader(self.clock, self.driver)
        self.agents: list[Agent] = []
        self.next_at = 0.0

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
            poll=SlurmPoll(period_seconds=TICK_SECONDS / 2),
            conf=self.conf(),
        )
        return Sources([reader])

    def run(self, ticks: int = 1) -> None:
        """Let all agents tick on their second, so often."""
        for _ in range(ticks):
            now = time.monotonic()
            self.next_at = max(self.next_at + TICK_SECONDS, now)
            time.sleep(self.next_at - now)
            for agent in self.agents:
                agent.tick()

    def run_until(self, holds: Callable[[], object], what: str, most: int = 20) -> None:
        for _ in range(most):
            if holds():
                return
            self.run()
        raise AssertionError(what)

    def begin(self, user: str, cards: int, name: str) -> Job:
        """Submit a job that waits to be ended, and tick until it runs."""
        script = (
            f"trap 'date +%s.%N >{self.stamps}/{name}.end; exit 0' TERM\n"
            f"date +%s.%N >{self.stamps}/{name}.begin; echo $$ $SLURM_JOB_GPUS >{self.stamps}/{name}.pid\n"
            f"while [ -d {self.stamps} ] && [ ! -e {self.stamps}/{name}.stop ]; do sleep 0.1; done\n"
            f"date +%s.%N >{self.stamps}/{name}.end"
        )
        job = Job(self, name, self.slurm.submit(user, cards, script, name))
        file = self.stamps / f"{name}.pid"
        self.run_until(lambda: file.exists() and file.read_text(), f"{name} to run")
        pid, gpus = file.read_text().split()
        job.pid, job.minors = int(pid), [int(gpu) for gpu in gpus.split(",")]
        return job

    def put(self, minor: int, pid: int | None, load: int = 0) -> None:
        """Put a process on a card, alone, or nobody."""
        card = next(card for card in self.driver.cards if card.minor == minor)
        card.compute = [] if pid is None else [Process(pid, 2 * GIB)]
        card.used = 2 * GIB if pid is not None else 0
        card.gpu = load


@dataclass
class Job:
    """A job of the script; its times are what it wrote itself."""

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

    def ms(self, moment: str) -> int:
        return round(float((self.cluster.stamps / f"{self.name}.{moment}").read_text()) * 1000)

    @property
    def lasted_ms(self) -> int:
        return self.ms("end") - self.ms("begin")


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> Iterator[Cluster]:
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
        monkeypatch.setenv("SLURM_CONF", made.slurm.environment["SLURM_CONF"])
        try:
            made.slurm.start()
            yield made
        finally:
            for agent in made.agents:
                agent.sources.close()
            made.slurm.stop()
    finally:
        os.umask(umask)
        shutil.rmtree(folder, ignore_errors=True)


@contextlib.contextmanager
def stranger(user: str) -> Iterator[int]:
    """Yield the pid of a process of a user that is in no job."""
    with subprocess.Popen(["sleep", "600"], user=user, group=user, extra_groups=(), cwd="/") as process:
        try:
            yield process.pid
        finally:
            process.kill()


def day(cluster: Cluster) -> dict[Use, tuple[int, int]]:
    """Run the script; return the GPU time of each use in ms as the script knows it, and how many edges it has."""
    truth: Counter[Use] = Counter()
    edges: Counter[Use] = Counter()

    def add(use: Use, ms: float, cards: int = 1) -> None:
        truth[use] += round(ms) * cards
        edges[use] += 2 * cards

    begun_ms = time.time() * 1000
    cluster.run(2)
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
    cluster.run(6)
    for minor in used.minors:
        cluster.put(minor, None)
    add(Use.USED, time.time() * 1000 - since, 2)
    add(Use.EMPTY, since - used.ms("begin"), 2)
    used.end()
    cluster.run(5)
    for minor in halves.minors:
        cluster.put(minor, None)
    add(Use.USED, time.time() * 1000 - held_since)
    add(Use.HELD, time.time() * 1000 - held_since)
    add(Use.EMPTY, held_since - halves.ms("begin"), 2)
    halves.cancel()
    # One that never starts anything; a stranger comes to its card, and to a free one.
    never = cluster.begin(ALICE, 1, "never")
    cluster.run(5)
    with stranger(BOB) as pid:
        since = time.time() * 1000
        taken = [never.minors[0], (never.minors[0] + 1) % CARDS]
        for minor in taken:
            cluster.put(minor, pid, 90)
        cluster.run(5)
        for minor in taken:
            cluster.put(minor, None)
        ms = time.time() * 1000 - since
    add(Use.USED_BY_OTHERS, ms)
    add(Use.UNALLOCATED_USE, ms)
    cluster.run(3)
    never.end()
    add(Use.EMPTY, never.lasted_ms - ms)
    cluster.run(3)
    whole_ms = (time.time() * 1000 - begun_ms) * CARDS
    truth[Use.FREE] = round(whole_ms - sum(truth.values()))
    edges[Use.FREE] = sum(edges.values())
    return {use: (truth[use], edges[use]) for use in truth}


def test_a_day_of_jobs_is_told_alike_by_hooks_by_polling_and_by_the_script(cluster: Cluster) -> None:
    hooks, polling = cluster.agent(cluster.by_hooks()), cluster.agent(cluster.by_polling())
    cluster.files.mkdir(mode=0o755)  # a node on which no job ran yet has no folder
    poll(lambda: polling.sources.look(0, 1, ()).sources[0].reason is None, "Slurm's first answer")
    truth = day(cluster)
    for agent in (hooks, polling):
        uses = agent.uses()
        assert sum(uses.values()) == agent.observed_ms()
        for use, (ms, edges) in truth.items():
            # At each edge a tick is one or the other.
            assert abs(uses.get(use, 0) - ms) <= edges * TICK_SECONDS * 1000, (use, uses, truth)
        assert uses.keys() <= truth.keys(), uses
        assert not [each for tick in agent.ticks for each in tick.allocation_sources if each.reason is not None]
    print({str(use): (ms, hooks.uses().get(use), polling.uses().get(use)) for use, (ms, _) in truth.items()})  # noqa: T201


def test_while_the_controller_is_away_cards_are_unknown_by_polling_and_right_again_after(cluster: Cluster) -> None:
    hooks, polling = cluster.agent(cluster.by_hooks()), cluster.agent(cluster.by_polling())
    cluster.files.mkdir(mode=0o755)
    poll(lambda: polling.sources.look(0, 1, ()).sources[0].reason is None, "Slurm's first answer")
    job = cluster.begin(ALICE, 1, "job")
    cluster.run(2)
    cluster.slurm.controller.stop()  # not a crash: it would forget that the job began, and start it again
    cluster.run_until(lambda: polling.ticks[-1].allocation_sources[0].reason is not None, "a failed poll")
    cluster.run(4)
    away = polling.ticks[-4:]
    assert {card.allocation for tick in away for card in tick.cards} == {"unknown"}
    assert polling.uses(away).keys() == {Use.UNKNOWN}
    assert hooks.uses(hooks.ticks[-4:]).keys() == {Use.EMPTY, Use.FREE}
    reason = away[-1].allocation_sources[0].reason
    assert reason is not None
    assert "slurm" in reason or "answer" in reason, reason
    cluster.slurm.start_controller()
    cluster.run_until(lambda: polling.ticks[-1].allocation_sources[0].reason is None, "a good poll")
    cluster.run(2)
    for agent in (hooks, polling):
        card = next(card for card in agent.ticks[-1].cards if card.uuid == f"GPU-{job.minors[0]}")
        assert [each.id for each in card.allocations] == [job.id]
        assert agent.uses(agent.ticks[-1:]).keys() == {Use.EMPTY, Use.FREE}


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


def test_an_agent_tells_jobs_by_hooks_and_by_asking(
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
    [end_ms] = {each.until_ms for _, each in told if each.id == job.id and each.until_ms is not None}
    assert abs(end_ms - job.ms("end")) < 1000
