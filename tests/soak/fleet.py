"""Many simulated hosts, one Collector, one ClickHouse server: each a process, with a network that can fail between."""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path

from driver.build import build
from driver.fixture import SimulatedDriver
from driver.scenario import MIB, Card, Scenario, crowd, replace_text, uuid
from gpu_usage_audit.core.tick import Tick
from gpu_usage_audit.otlp.decode import decode
from servers.agent import Agent
from servers.clickhouse import ClickHouseServer
from servers.collector import CONFIG, Collector
from servers.gua import Gua
from servers.process import poll
from soak.network import Network
from soak.witness import recorded, waiting, watch

PROCESSES = 6
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
        watch(self.spool)

    @property
    def spool(self) -> Path:
        return self.agent.home / "spool.db"

    def start(self, interval: str | None = None) -> None:
        self.agent.start("--endpoint", self._endpoint, interval=interval or self._interval, wait=False)

    def send_signal(self, number: signal.Signals) -> None:
        """Send it a signal; fails if it has ended by itself."""
        process = self.agent.process
        assert process is not None
        assert process.poll() is None, f"{self.name} ended by itself:\n{self.agent.tail()}"
        process.send_signal(number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)
        self._end()

    def stop(self) -> None:
        """Ask it to end; fails unless it ends well, or was asked before it could hear that."""
        self.send_signal(signal.SIGTERM)
        code = self._end()
        assert code in (0, -signal.SIGTERM), f"{self.name} exited with {code}:\n{self.agent.tail()}"

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
        return {host.name: recorded(host.spool) for host in self.hosts}

    def ticks(self) -> list[Tick]:
        return [decode(raw) for raws in self.recorded().values() for raw in raws]

    def wait_for_ticks(self, more: int) -> None:
        """Wait until each agent has recorded so many ticks more."""
        aims = {host.name: len(recorded(host.spool)) + more for host in self.hosts}
        for host in self.hosts:
            what = f"{more} more ticks of {host.name}:\n{host.agent.tail()}"
            poll(lambda host=host: len(recorded(host.spool)) >= aims[host.name], what, seconds=120)

    def drain(self) -> None:
        """Stop all agents well, start them once more until everything they recorded has left them, and end them.

        They record one tick then, as the next one is due in 10 minutes.
        """
        for host in self.hosts:
            if host.agent.process is not None:
                host.stop()
        for host in self.hosts:
            before = len(recorded(host.spool))
            host.start("10m")
            poll(lambda host=host, before=before: len(recorded(host.spool)) > before, f"a tick of {host.name}")
        for host in self.hosts:
            what = f"{host.name} to deliver:\n{host.agent.tail()}"
            poll(lambda host=host: waiting(host.spool) == 0, what, seconds=180)
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


def _cards(number: int, pids: list[int]) -> Scenario:
    held = crowd(pids, cards=1 + number % 3).cards
    return Scenario([replace(card, uuid=uuid(100 * number + place)) for place, card in enumerate([*held, FREE])])
