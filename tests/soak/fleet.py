"""Many simulated hosts, one Collector, one ClickHouse server: each a process, with a network that can fail between."""

from __future__ import annotations

import shutil
import signal
import subprocess
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path

from driver.build import build
from driver.fixture import SimulatedDriver
from driver.scenario import MIB, Card, Scenario, crowd, replace_text, uuid
from servers.agent import Agent
from servers.clickhouse import ClickHouseServer
from servers.collector import CONFIG, Collector
from servers.gua import Gua
from servers.process import poll
from soak.network import Network
from soak.witness import recorded, recorded_count, waiting, watch

PROCESSES = 6
UNAVAILABLE = 3
FREE = Card(uuid(0), memory_reserved=500 * MIB)


class Host:
    """One agent on cards of its own, two to four of them; the last one is free."""

    def __init__(self, number: int, folder: Path, pids: list[int], endpoint: str, interval: str) -> None:
        folder.mkdir(parents=True)
        self.name = f"node-{number:02d}"
        driver = SimulatedDriver(library=build(), scenario=folder / "driver.scenario")
        replace_text(driver.scenario, _cards(number, pids).text())
        self.agent = Agent(driver, folder, environ={"GUA_HOST_NAME": self.name})
        self._endpoint = endpoint
        self._interval = interval
        self.gave_up = 0
        self._past: list[bytes] = []
        watch(self.spool)

    def recorded(self) -> list[bytes]:
        """Return the request of every tick that its agents ever recorded."""
        return self._past + recorded(self.spool)

    def recorded_count(self) -> int:
        return len(self._past) + recorded_count(self.spool)

    def forget(self) -> None:
        """Take away its state directory, as a container without a volume does; not while it runs."""
        self._past = self.recorded()
        shutil.rmtree(self.agent.home)
        watch(self.spool)

    @property
    def spool(self) -> Path:
        return self.agent.home / "spool.db"

    def start(self, interval: str | None = None) -> None:
        self._interval = interval or self._interval
        self.agent.start("--endpoint", self._endpoint, interval=self._interval, wait=False)

    def revive(self) -> None:
        """Start it again if it gave up, as its service manager would; fails if it ended for another reason.

        It gives up where it can read no card at its start: so a machine does that is too busy for that.
        """
        process = self.agent.process
        if process is not None and (code := process.poll()) is not None:
            assert _gave_up(self.agent, code), f"{self.name} ended by itself with {code}:\n{self.agent.tail()}"
            self.gave_up += 1
            self.start()

    def send_signal(self, number: signal.Signals) -> None:
        self.revive()
        assert self.agent.process is not None
        self.agent.process.send_signal(number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)
        self._end()

    def stop(self) -> None:
        """Send it SIGTERM; fails unless it ends well, or before it could receive that."""
        self.send_signal(signal.SIGTERM)
        code = self._end()
        well = code in (0, -signal.SIGTERM) or _gave_up(self.agent, code)
        assert well, f"{self.name} exited with {code}:\n{self.agent.tail()}"

    def wait(self, check: Callable[[], bool], what: str) -> None:
        """Wait until it has done something."""

        def is_done() -> bool:
            self.revive()
            return check()

        poll(is_done, f"{self.name} to {what}:\n{self.agent.tail()}", seconds=180)

    def wait_for_ticks(self, count: int) -> None:
        self.wait(lambda: self.recorded_count() >= count, f"record {count} ticks")

    def wait_until_sent(self) -> None:
        """Wait until it knows that all it recorded is safe."""
        self.wait(lambda: waiting(self.spool) == 0, "deliver")

    def _end(self) -> int:
        process, self.agent.process = self.agent.process, None
        assert process is not None
        return process.wait(60)


class Fleet:
    """All of it. ``settings`` are the Collector's environment, ``config`` its file."""

    def __init__(
        self,
        folder: Path,
        pids: list[int],
        *,
        hosts: int,
        interval: str,
        config: Path = CONFIG,
        settings: Mapping[str, str] | None = None,
    ) -> None:
        self.folder = folder
        self.server = ClickHouseServer(folder / "clickhouse")
        self.to_server = Network(self.server.tcp_port)
        there = {"CLICKHOUSE_ENDPOINT": f"tcp://127.0.0.1:{self.to_server.port}"}
        self.collector = Collector(folder / "collector", self.server, {**there, **(settings or {})}, config=config)
        self.to_collector = Network(int(self.collector.endpoint.rpartition(":")[2]))
        endpoint = f"http://127.0.0.1:{self.to_collector.port}"
        self.hosts = [
            Host(number, folder / f"host-{number:02d}", pids, endpoint, interval) for number in range(1, hosts + 1)
        ]
        self.gua = Gua(folder / "reader")

    def start(self) -> None:
        self.server.start()
        self.gua.must("schema", "apply", "--store", self.server.dsn("gua_owner"))
        self.collector.start()
        for host in self.hosts:
            host.start()
        self.wait_for_ticks(1)

    def recorded(self) -> dict[str, list[bytes]]:
        """Return the request of every tick that each host's agents ever recorded."""
        return {host.name: host.recorded() for host in self.hosts}

    def wait_for_ticks(self, more: int) -> None:
        """Wait until each agent has recorded so many ticks more."""
        counts = [host.recorded_count() for host in self.hosts]
        for host, count in zip(self.hosts, counts, strict=True):
            host.wait_for_ticks(count + more)

    def wait_until_sent(self) -> None:
        for host in self.hosts:
            host.wait_until_sent()

    def drain(self) -> None:
        """Stop all agents well, start them once more until everything they recorded has left them, and end them.

        They record one tick then, as the next one is due in 10 minutes.
        """
        for host in self.hosts:
            if host.agent.process is not None:
                host.stop()
        for host in self.hosts:
            count = host.recorded_count()
            host.start("10m")
            host.wait_for_ticks(count + 1)
        for host in self.hosts:
            host.wait_until_sent()
            host.kill()

    def close(self) -> None:
        for host in self.hosts:
            if host.agent.process is not None:
                host.agent.process.kill()
                host.agent.process.wait()
        self.collector.kill()
        self.server.kill()
        self.to_collector.close()
        self.to_server.close()


@contextmanager
def fleet(
    folder: Path,
    *,
    hosts: int,
    interval: str,
    config: Path = CONFIG,
    settings: Mapping[str, str] | None = None,
) -> Iterator[Fleet]:
    """Yield a fleet that is not started yet, with processes that hold its cards; all of it ends with the context."""
    with ExitStack() as held:
        holders = [held.enter_context(subprocess.Popen(["sleep", "1000000"])) for _ in range(PROCESSES)]
        for holder in holders:
            held.callback(holder.kill)
        pids = [holder.pid for holder in holders]
        made = Fleet(folder, pids, hosts=hosts, interval=interval, config=config, settings=settings)
        held.callback(made.close)
        yield made


def _gave_up(agent: Agent, code: int) -> bool:
    return code == UNAVAILABLE and "none of the cards can be read" in agent.tail().splitlines()[-1]


def _cards(number: int, pids: list[int]) -> Scenario:
    held = crowd(pids, cards=1 + number % 3).cards
    return Scenario([replace(card, uuid=uuid(100 * number + place)) for place, card in enumerate([*held, FREE])])
