"""The real agent on MIG instances that Slurm detects itself: allocation of each instance in each tick.

Slurm's commands answer from a file. The order is that of a recorded slurmd with AutoDetect=nvml, which gave its jobs
the recorded CUDA_VISIBLE_DEVICES: these are the truth here.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from driver.fixture import SimulatedDriver
from driver.scenario import Card, Instance, Scenario
from fakes.mig import Ids, Span, assert_allocated, files, polling_often, write_capabilities
from fakes.slurm import SlurmJob
from gua.core.tick import Tick
from gua.core.words import AllocationStatus
from servers.agent import Agent
from servers.process import poll

TESTS = Path(__file__).parents[1]
RECORDED = json.loads((TESTS / "fixtures" / "slurm" / "22.05.8" / "autodetect_mig.json").read_text())
MIG = "MIG-00000000-0000-0000-0000-0000000000"
INSTANCES: dict[str, Ids] = {
    f"{MIG}02": (0, 2, 0),
    f"{MIG}07": (0, 7, 0),
    f"{MIG}09": (0, 9, 0),
    f"{MIG}11": (2, 11, 0),
}
TRUTH = (f"{MIG}02", f"{MIG}11", f"{MIG}07", "GPU-1", f"{MIG}09")
SLACK_MS = 3000
COMMAND = f"""\
#!{sys.executable}
import json, sys
from pathlib import Path
sys.path[:0] = [{str(TESTS)!r}, {str(TESTS.parent / "src")!r}]
from fakes.slurm import FakeSlurm, SlurmJob
state = json.loads((Path(__file__).parents[1] / "state.json").read_text())
state["jobs"] = [SlurmJob(**job) for job in state["jobs"]]
print(FakeSlurm(**state).ask([Path(__file__).name, *sys.argv[1:]]), end="")
"""


@dataclass
class Site:
    """A node with Slurm's commands and the simulated driver; ``folder`` is one that every user may enter."""

    folder: Path
    driver: SimulatedDriver
    instances: dict[str, Ids] = field(default_factory=lambda: dict(INSTANCES))
    jobs: list[SlurmJob] = field(default_factory=list)
    spans: list[Span] = field(default_factory=list)
    started: str = ""

    def __post_init__(self) -> None:
        for name in ("bin", "etc", "dev/nvidia-caps", "often"):
            (self.folder / name).mkdir(parents=True)
        for name in ("scontrol", "squeue"):
            self._install(name, COMMAND)
        (self.folder / "etc" / "slurm.conf").write_text("# the site's\n")
        (self.folder / "etc" / "gres.conf").write_text(RECORDED["gres.conf"])
        for ids in (*INSTANCES.values(), (1, 0, 0)):
            for file in files(ids, f"{self.folder}/dev").split(","):
                Path(file).touch()
        (self.folder / "often" / "sitecustomize.py").write_text(polling_often(self.folder / "proc", 0.5))
        self.restart_slurmd(RECORDED["slurmd"])
        self.partition()

    def _install(self, name: str, text: str) -> None:
        (self.folder / "bin" / name).write_text(text)
        (self.folder / "bin" / name).chmod(0o755)

    def restart_slurmd(self, listing: str) -> None:
        (self.folder / "listing").write_text(listing.replace("/dev/", f"{self.folder}/dev/"))
        self._install("slurmd", f"#!/bin/sh\nexec cat {self.folder}/listing >&2\n")
        after = datetime.now(UTC) + timedelta(seconds=1)  # the files of this second may be newer than slurmd
        self.started = after.strftime("%Y-%m-%dT%H:%M:%S")
        self._write()

    def partition(self) -> None:
        write_capabilities(self.folder / "proc", self.instances.values())
        made: dict[int, list[Instance]] = {0: [], 1: [], 2: []}
        for uuid, (minor, gpu_instance, _) in self.instances.items():
            made[minor].append(Instance(uuid, gpu_instance=gpu_instance, slices=3 if gpu_instance == 2 else 1))
        cards = [
            Card(f"GPU-{minor}", minor=minor, mig="off" if minor == 1 else "on", instances=each)
            for minor, each in made.items()
        ]
        self.driver.write(Scenario(cards))

    def begin(self, *places: int) -> SlurmJob:
        indices = ",".join(map(str, places))
        job = SlurmJob(len(self.jobs) + 1, f"gpu:a100:{len(places)}(IDX:{indices})", int(time.time()) * 1000)
        self.jobs.append(job)
        self._write()
        return job

    def end(self, job: SlurmJob, *places: int) -> None:
        job.state, job.until_ms = "COMPLETED", int(time.time()) * 1000
        self.spans += [Span(str(job.id), TRUTH[place], job.since_ms, job.until_ms) for place in places]
        self._write()

    def _write(self) -> None:
        running = [job.gres.partition("IDX:")[2].rstrip(")") for job in self.jobs if job.state == "RUNNING"]
        used = f"gpu:a100:{len(running)}(IDX:{','.join(running) or 'N/A'})"
        gres = "gpu:a100_1g.5gb:3,gpu:a100_3g.20gb:1,gpu:a100-sxm4:1"
        if len(self.instances) < len(INSTANCES):
            gres = gres.replace(":3", f":{len(self.instances) - 1}")
        state = {"jobs": [asdict(job) for job in self.jobs], "used": used, "gres": gres, "slurmd_started": self.started}
        (self.folder / "next").write_text(json.dumps(state))
        (self.folder / "next").rename(self.folder / "state.json")


@pytest.fixture
def site(simulated_driver: SimulatedDriver) -> Iterator[Site]:
    with tempfile.TemporaryDirectory(prefix="gua-test-") as temporary:
        Path(temporary).chmod(0o755)
        yield Site(Path(temporary), simulated_driver)


@pytest.fixture
def agent(site: Site, tmp_path: Path) -> Iterator[Agent]:
    environ = {
        "SLURM_CONF": str(site.folder / "etc" / "slurm.conf"),
        "PYTHONPATH": str(site.folder / "often"),
        "PATH": f"{site.folder / 'bin'}:{os.environ['PATH']}",
    }
    made = Agent(site.driver, tmp_path, environ=environ)
    made.start("--allocation", "slurm", "--allocation-folder", str(tmp_path / "none"))
    poll(lambda: made.status()["allocation_sources"][0]["ok"], "the first answer", seconds=30)
    yield made
    made.stop()


def wait(agent: Agent, count: int) -> list[Tick]:
    """Wait for so many ticks, and return those."""
    before = len(agent.ticks())
    return agent.wait_for_ticks(before + count, seconds=60)[before:]


def test_each_job_is_on_the_instance_that_slurm_gave_it_in_each_tick(site: Site, agent: Agent) -> None:
    ticks = wait(agent, 1)
    first, two = site.begin(1), site.begin(0, 3)
    ticks += wait(agent, 7)
    site.end(first, 1)
    third = site.begin(2, 4)
    ticks += wait(agent, 7)
    site.end(two, 0, 3)
    site.end(third, 2, 4)
    ticks += wait(agent, 6)
    assert {span.uuid for span in site.spans} == set(TRUTH)
    assert all(source.reason is None for tick in ticks for source in tick.allocation_sources)
    compared = assert_allocated(ticks, site.spans, set(TRUTH), slack_ms=SLACK_MS)
    assert compared > len(ticks) * len(TRUTH) / 3


def test_a_destroyed_instance_makes_the_order_unknown_until_slurmd_restarts(site: Site, agent: Agent) -> None:
    job = site.begin(2)  # MIG 07
    wait(agent, 4)
    del site.instances[f"{MIG}07"]
    site.partition()
    wait(agent, 4)
    [*_, last] = wait(agent, 2)
    [source] = last.allocation_sources
    reason = "may be any MIG instance: GPUs, slurm.conf or gres.conf changed: restart slurmd"
    assert source.reason == f"job {job.id}: Slurm's GPU 2 {reason}"
    assert {card.allocation for card in last.cards} == {AllocationStatus.UNKNOWN}
    doctor = " ".join(agent.run("doctor").stdout.split())  # its lines are wrapped
    assert doctor.count(reason) == 1
    lines = [line for line in agent.tail().splitlines() if reason in line]
    assert len(lines) == 1, "the log has it once, not at each tick"
    site.end(job)
    job = site.begin(2)
    site.restart_slurmd("\n".join(line for line in RECORDED["slurmd"].splitlines() if "cap66" not in line))
    wait(agent, 3)
    [*_, last] = wait(agent, 2)
    allocated = {card.uuid: [each.id for each in card.allocations] for card in last.cards if card.allocations}
    assert allocated == {"GPU-1": [str(job.id)]}, "the index is that of the new order"
    assert last.allocation_sources[0].reason is None
