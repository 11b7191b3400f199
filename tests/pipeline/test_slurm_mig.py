"""MIG instances as GPUs of a real Slurm with MultipleFiles: jobs' gres indices, and what the real agent reports."""

from __future__ import annotations

import os
import re
import shutil
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from driver.fixture import SimulatedDriver
from driver.scenario import Card, Instance, Scenario
from fakes.mig import Ids, Span, assert_allocated, files, polling_often, write_capabilities
from gua.allocation.slurm_listing import run_slurmd
from gua.allocation.slurm_poll import CommandError
from servers.agent import Agent
from servers.process import poll
from servers.slurm import NODE, Slurm
from servers.tools import MissingToolError

pytestmark = [pytest.mark.pipeline, pytest.mark.xdist_group("slurm")]

INSTANCES: dict[str, Ids] = {"MIG-3g": (0, 2, 0), "MIG-1g-a": (0, 7, 0), "MIG-1g-b": (0, 9, 0), "MIG-1g-c": (2, 11, 0)}
CARDS = {*INSTANCES, "GPU-1"}
CONFIGURED = "gpu:a100:1,gpu:1g.5gb:3,gpu:3g.20gb:1"
# By the types in slurm.conf; of one type first the lines that begin with Name.
ORDER = ("GPU-1", "MIG-1g-c", "MIG-1g-b", "MIG-1g-a", "MIG-3g")
TYPES = ("a100", "1g.5gb", "1g.5gb", "1g.5gb", "3g.20gb")
GRES_CONF = """\
# MIG instances of two A100, and a whole one
AutoDetect=off
NodeName=gpunode[6-8] Name=gpu Type=3g.20gb MultipleFiles={3g} Flags=nvidia_gpu_env
NodeName=gpunode7,login1 Name=gpu Type=1g.5gb MultipleFiles={1g-b} Cores=0-3
NodeName=gpunode9 Name=gpu Type=1g.5gb MultipleFiles={1g-a}
NodeName=gpunode7 Name=gpu Type=1g.5gb MultipleFiles={1g-a}
Include whole.conf
Name=gpu Type=1g.5gb Count=1 MultipleFiles={1g-c}
"""
SLACK_MS = 3000  # Slurm's times are whole seconds, and a poll with its commands takes some tenths


@pytest.fixture
def slurm(monkeypatch: pytest.MonkeyPatch) -> Iterator[Slurm]:
    """Return a configured Slurm that is not started."""
    folder = Path(tempfile.mkdtemp(prefix="gua-slurm-"))
    folder.chmod(0o755)
    umask = os.umask(0o022)
    try:
        try:
            made = Slurm(folder, cards=3, hooks={})
        except MissingToolError as missing:
            if os.environ.get("GUA_REQUIRE_ALL") or os.environ.get("CI"):
                pytest.fail(str(missing))
            pytest.skip(str(missing))
        etc = folder / "etc"
        conf = (etc / "slurm.conf").read_text()
        old = next(word for word in conf.split() if word.startswith("Gres="))
        conf = conf.replace(old, f"Gres={CONFIGURED}").replace("GresTypes=gpu,shard", "GresTypes=gpu")
        (etc / "slurm.conf").write_text(conf)
        names = {uuid.removeprefix("MIG-"): files(ids, f"{folder}/dev") for uuid, ids in INSTANCES.items()}
        (folder / "dev" / "nvidia-caps").mkdir()
        for file in {file for each in names.values() for file in each.split(",") if "nvidia-caps" in file}:
            Path(file).symlink_to("/dev/null")
        (etc / "gres.conf").write_text(GRES_CONF.format_map(names))
        whole = f"Name=gpu Type=a100 File={folder}/dev/nvidia1\n"
        (etc / "whole.conf").write_text(whole)
        monkeypatch.setenv("SLURM_CONF", made.environment["SLURM_CONF"])
        yield made
    finally:
        os.umask(umask)
        shutil.rmtree(folder, ignore_errors=True)


@dataclass
class Day:
    """Jobs on Slurm's node beside a real agent; ``spans`` are the ended jobs' times on their cards."""

    slurm: Slurm
    agent: Agent
    spans: list[Span] = field(default_factory=list)
    running: dict[str, tuple[list[int], int]] = field(default_factory=dict)

    def begin(self, kind: str, count: int = 1) -> str:
        """Submit a job for GPUs of a type; return its id once it runs."""
        job = self.slurm.submit("daemon", f"gpu:{kind}:{count}", "exec sleep 600")
        poll(lambda: self.slurm.state(job) == "RUNNING", f"{job} to run", seconds=30)
        [indices] = re.findall(r"GRES=gpu:\S*\(IDX:([-,0-9]+)\)", self.slurm.show("job", "-d", job))
        bounds = [part.partition("-") for part in indices.split(",")]
        places = [place for first, _, last in bounds for place in range(int(first), int(last or first) + 1)]
        assert [TYPES[place] for place in places] == [kind] * count
        self.running[job] = places, int(time.time()) * 1000
        return job

    def end(self, *jobs: str) -> None:
        for job in jobs:
            self.slurm.cancel(job)
            poll(lambda job=job: self.slurm.state(job) == "CANCELLED", f"the end of {job}", seconds=30)
            places, since_ms = self.running.pop(job)
            self.spans += [Span(job, ORDER[place], since_ms, round(time.time() * 1000)) for place in places]

    def wait(self, ticks: int = 7) -> None:
        self.agent.wait_for_ticks(len(self.agent.ticks()) + ticks, seconds=60)


def simulate(driver: SimulatedDriver) -> None:
    """Give the simulated driver the cards, two of three partitioned."""
    instances: dict[int, list[Instance]] = {0: [], 1: [], 2: []}
    for uuid, (minor, gpu_instance, _) in INSTANCES.items():
        instances[minor].append(Instance(uuid, gpu_instance=gpu_instance, slices=3 if "3g" in uuid else 1))
    made = [
        Card(f"GPU-{minor}", minor=minor, mig="off" if minor == 1 else "on", instances=each)
        for minor, each in instances.items()
    ]
    driver.write(Scenario(made))


def test_jobs_on_instances_of_multiple_files_are_allocated_to_the_right_instance_in_each_tick(
    slurm: Slurm, simulated_driver: SimulatedDriver, tmp_path: Path
) -> None:
    simulate(simulated_driver)
    write_capabilities(tmp_path / "proc", INSTANCES.values())
    (tmp_path / "often").mkdir()
    (tmp_path / "often" / "sitecustomize.py").write_text(polling_often(tmp_path / "proc", 0.5))
    environ = {"SLURM_CONF": os.environ["SLURM_CONF"], "PYTHONPATH": str(tmp_path / "often")}
    agent = Agent(simulated_driver, tmp_path, environ=environ)
    day = Day(slurm, agent)
    run_slurmd(slurm.folder / "etc", NODE)
    assert not [*(slurm.folder / "spool").iterdir()], "slurmd -G leaves nothing behind"
    try:
        second = int(max(file.stat().st_ctime for file in (slurm.folder / "etc").iterdir()))
        poll(lambda: int(time.time()) > second, "files older than the second in which slurmd starts")
        slurm.start()
        agent.start("--allocation", "slurm", "--allocation-folder", str(tmp_path / "none"))
        poll(lambda: agent.status()["allocation_sources"][0]["ok"], "the first answer", seconds=30)
        first_ms = agent.ticks()[-1].ts_ms
        large, small = day.begin("3g.20gb"), day.begin("1g.5gb", 2)
        day.wait()
        whole, other = day.begin("a100"), day.begin("1g.5gb")
        day.wait()
        day.end(small)
        day.wait()
        last = day.begin("1g.5gb")
        day.wait()
        day.end(large, whole, other, last)
        day.wait()
        ticks = [tick for tick in agent.ticks() if tick.ts_ms > first_ms]
        agent.stop()
    finally:
        if agent.process is not None:
            agent.kill()
        slurm.stop()
    assert {span.uuid for span in day.spans} == CARDS
    assert all(source.reason is None for tick in ticks for source in tick.allocation_sources)
    compared = assert_allocated(ticks, day.spans, CARDS, slack_ms=SLACK_MS)
    assert compared > len(ticks) * len(CARDS) / 3, "many card ticks are away from starts and ends"


def test_slurmds_own_errors_and_a_file_that_others_cannot_read_are_the_reason(slurm: Slurm) -> None:
    conf = slurm.folder / "etc" / "gres.conf"
    good = conf.read_text()
    for old, new, reason in [
        ("Count=1", "Count=2", "Invalid GRES record for gpu, count does not match File value"),
        ("MultipleFiles", "MultipleFile", f"error opening/reading {conf}"),
        ("MultipleFiles", "File=/dev/null MultipleFiles", "File and MultipleFiles options are mutually exclusive"),
    ]:
        conf.write_text(good.replace(old, new, 1))
        with pytest.raises(CommandError) as raised:
            run_slurmd(conf.parent, NODE)
        assert str(raised.value) == f"slurmd: {reason}"
    conf.write_text(good)
    conf.chmod(0o600)
    with pytest.raises(CommandError) as raised:
        run_slurmd(conf.parent, NODE)
    assert str(raised.value) == f"slurmd: error opening/reading {conf}"
