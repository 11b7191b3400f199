"""A process that is an agent with a Prometheus endpoint, on the simulated driver and its clock; one command a line.

Commands: ``at SECONDS`` sets the clock, ``born PID MS`` gives a process another start, ``drain``, ``tick``, ``page``,
``health``. What it keeps is in the spool that it is given, so that another such process goes on where it ended.
:class:`Exporting` is the test's end.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from driver.agent import FileClock
from fakes.pages import ask
from gua.agent.outbox import Outbox
from gua.agent.sampler import Sampler
from gua.core.errors import UnavailableError
from gua.core.idleness import IdleCounters
from gua.core.ports import RawProcess
from gua.core.tick import Origin, ProcessReading
from gua.core.words import Source
from gua.exporter.address import Address, Serving
from gua.exporter.endpoint import PrometheusEndpoint
from gua.identity.process import process_type
from gua.nvml.reader import NvmlReader
from gua.spool.queue import Spool

TESTS = Path(__file__).resolve().parents[1]


class Exporting:
    """The process; a command's method returns what it answered."""

    def __init__(self, environment: Mapping[str, str], clock: Path, spool: Path, interval_seconds: int) -> None:
        self._process = subprocess.Popen(
            [sys.executable, __file__, str(clock), str(spool), str(interval_seconds)],
            env={**os.environ, "PYTHONPATH": str(TESTS), **environment},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def do(self, command: str) -> Any:  # noqa: ANN401 - whatever the command answers
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(f"{command}\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        assert line, f"the process died of {command}"
        return json.loads(line)

    def kill(self) -> None:
        self._process.kill()
        self._process.communicate()


class Named:
    """Reports of a process what the driver reported, and a start and a name."""

    def __init__(self) -> None:
        self.born_ms: dict[int, int] = {}

    def identify(self, process: RawProcess) -> ProcessReading:
        return ProcessReading(
            pid=process.pid,
            type=process_type(process.lists),
            created_ms=self.born_ms.get(process.pid, 1_690_000_000_000 + process.pid),
            comm=f"program{process.pid}",
            owner="ana",
            memory_bytes=process.memory_bytes,
            utilization=process.utilization,
        )


class Exporter:
    """What the process holds: the agent's parts, in this process and on the simulated clock."""

    def __init__(self, clock: Path, spool: Path, interval_seconds: int) -> None:
        self.clock = FileClock(clock)
        self.reader = NvmlReader(self.clock)
        self.named = Named()
        self.outbox = Outbox(Spool(spool, destinations=None), keeps_ticks=False)
        origin = Origin(host="host", source=Source.AGENT, interval_ms=1000 * interval_seconds)
        self.sampler = Sampler(
            cards=self.reader, processes=self.named, clock=self.clock, origin=origin, initial_pid_namespace=True
        )
        self.endpoint = PrometheusEndpoint(
            Serving(address=Address(port=0)), clock=self.clock, origin=origin, clocks=self.idle_clocks
        )

    def idle_clocks(self) -> IdleCounters:
        return {} if self.outbox.mark is None else self.outbox.mark.clocks

    def tick(self) -> None:
        try:
            sample = self.sampler.sample(self.outbox.mark)
        except UnavailableError as error:
            self.endpoint.skipped("driver", str(error))
            return
        if sample.tick is not None:
            self.outbox.put(sample.tick.ts_ms, b"", sample.mark)
            self.endpoint.ticked(sample.tick, lateness_ms=0)

    def answer(self, command: str, *words: str) -> object:
        match command:
            case "at":
                self.clock.set(float(words[0]))
                self.endpoint.alive()
            case "born":
                self.named.born_ms[int(words[0])] = int(words[1])
            case "drain":
                self.reader.drain()
            case "tick":
                self.tick()
            case "page":
                return ask(self.endpoint).text
            case "health":
                health = ask(self.endpoint, "/healthz")
                return [health.status, health.text.strip()]
        return None


def main() -> None:
    clock, spool, interval_seconds = sys.argv[1:]
    exporter = Exporter(Path(clock), Path(spool), int(interval_seconds))
    for line in sys.stdin:
        sys.stdout.write(f"{json.dumps(exporter.answer(*line.split()))}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
