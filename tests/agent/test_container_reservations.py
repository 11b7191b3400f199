"""Cards that the root of a container reserves of a real agent: their owner by its cgroup, and who may end that."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from driver.fixture import SimulatedDriver
from driver.scenario import MIB, Card, Constant, Process, Scenario
from servers.agent import GUA, Agent
from servers.container import missing
from servers.fixture import uuid
from servers.process import poll

CONTAINER, OTHER = "4f0e" * 16, "77aa" * 16
FREE = [Card(uuid(number), memory_reserved=500 * MIB) for number in (1, 2)]

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root is root in a container")


class Containers:
    """Says of processes in which container they run: by cgroup files that an agent alone sees, in mounts of its own."""

    def __init__(self, agent: Agent, folder: Path) -> None:
        self._agent = agent
        self._folder = folder

    def start(self) -> None:
        """Start the agent where mounts are its own."""
        with self._agent.log.open("ab") as log:
            self._agent.process = subprocess.Popen(
                ["unshare", "--mount", "--propagation", "private", *GUA, "daemon", "--foreground", "--interval", "1s"],
                env=self._agent.environment(),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
            )
        poll(self._agent.answers, "the agent to answer")

    def put(self, pid: int, container: str | None) -> None:
        """Say in which container a process is, ``None`` for on the host itself."""
        inside = "/user.slice" if container is None else f"/system.slice/docker-{container}.scope"
        cgroup = self._folder / f"cgroup of {pid}"
        cgroup.write_text(f"0::{inside}\n")
        assert self._agent.process is not None
        place = ["nsenter", "--target", str(self._agent.process.pid), "--mount"]
        subprocess.run([*place, "mount", "--bind", cgroup, f"/proc/{pid}/cgroup"], check=True)


@pytest.fixture
def containers(agent: Agent, tmp_path: Path) -> Containers:
    return Containers(agent, tmp_path)


@pytest.fixture
def host(simulated_driver: SimulatedDriver, agent: Agent, containers: Containers) -> Iterator[Agent]:
    why = missing()
    if why is not None:
        pytest.skip(why)
    simulated_driver.write(Scenario(FREE))
    containers.start()
    yield agent
    agent.stop()
    assert "Traceback" not in agent.tail()


def begin(host: Agent, containers: Containers, container: str | None, *line: str) -> subprocess.Popen[str]:
    """Start gua in a container: it sends its request once the agent can see where it runs."""
    process = subprocess.Popen(
        ["sh", "-c", 'read -r _; exec "$@"', "sh", *GUA, *line],
        env=host.environment(),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    containers.put(process.pid, container)
    assert process.stdin is not None
    process.stdin.write("go\n")
    process.stdin.flush()
    return process


def done(process: subprocess.Popen[str]) -> tuple[int, str, str]:
    out, err = process.communicate(timeout=120)
    return process.returncode, out, err


def allocation_of(host: Agent) -> dict[str, Any]:
    (card,) = [card for card in host.status()["cards"] if card["index"] == 0]
    return next(iter(card["allocations"]), {})


def test_a_containers_process_owns_its_card_and_only_the_hosts_root_may_release_it_too(
    host: Agent, containers: Containers, simulated_driver: SimulatedDriver
) -> None:
    job = begin(host, containers, CONTAINER, "run", "--", "sleep", "300")
    (reservation,) = poll(host.reservations, "the container to have its card")
    assert (reservation["owner"], reservation["uid"]) == (f"container:{CONTAINER[:12]}", 0)
    # Its own process on the card is its owner's, though root of the host has the same number.
    process = Process(job.pid, memory=900 * MIB, load=Constant(80))
    simulated_driver.write(Scenario([Card(uuid(1), memory_reserved=500 * MIB, processes=[process]), FREE[1]]))
    poll(lambda: allocation_of(host).get("relation") == "owner", "the card to be used by its owner")
    # The root of another container, like that of the host, sends requests as uid 0.
    code, out, err = done(begin(host, containers, OTHER, "release", "-G", "0"))
    assert (code, out) == (77, "")
    assert f"GPU 0 is reserved by container:{CONTAINER[:12]}" in err
    assert done(begin(host, containers, OTHER, "release"))[1] == "nothing to release\n"
    assert len(host.reservations()) == 1
    # The host's root may end it; a process of the host on the card is none of the container's.
    stranger = subprocess.Popen(["sleep", "300"])
    containers.put(stranger.pid, None)
    on_card = Process(stranger.pid, memory=900 * MIB, load=Constant(80))
    simulated_driver.write(Scenario([Card(uuid(1), memory_reserved=500 * MIB, processes=[on_card]), FREE[1]]))
    poll(lambda: allocation_of(host).get("relation") == "others", "the card to be used by others")
    assert done(begin(host, containers, None, "release", "-G", "0"))[1].startswith("released GPU 0 (")
    assert host.reservations() == []
    for each in (job, stranger):
        each.kill()
        each.communicate()


def test_a_containers_command_that_ends_frees_its_card_and_by_hand_it_gives_back_its_own(
    host: Agent, containers: Containers
) -> None:
    ran = done(begin(host, containers, CONTAINER, "run", "--", "sh", "-c", "echo $CUDA_VISIBLE_DEVICES; exit 5"))
    assert ran[:2] == (5, "0\n")
    poll(lambda: not host.reservations(), "the card to be free")
    assert done(begin(host, containers, CONTAINER, "reserve", "--short"))[1] == "0"
    assert done(begin(host, containers, OTHER, "reserve", "--short"))[1] == "1"
    assert done(begin(host, containers, OTHER, "release"))[1].startswith("released GPU 1 (")
    (left,) = host.reservations()
    assert left["owner"] == f"container:{CONTAINER[:12]}"
    assert done(begin(host, containers, CONTAINER, "release"))[1].startswith("released GPU 0 (")
