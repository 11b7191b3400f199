"""A process with the agent's own reader and sampler on the simulated driver; one command a line, JSON back.

Commands: ``at SECONDS [MONOTONIC]`` sets both clocks (and the driver's), ``drain``, ``tick [SECONDS]`` makes a
tick that ends now and follows the last one, ``close``. :class:`Agent` is the test's end.
"""

from __future__ import annotations

import dataclasses
import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from gua.agent.sampler import Sampler
from gua.core.ports import RawProcess
from gua.core.tick import Origin, ProcessReading
from gua.core.words import Source
from gua.nvml.reader import NvmlReader


class Agent:
    """The process; every method returns what it answered."""

    def __init__(self, environment: Mapping[str, str], clock: Path, limit_seconds: float = 5.0) -> None:
        self._process = subprocess.Popen(
            [sys.executable, __file__, str(clock), str(limit_seconds)],
            env={**os.environ, **environment},
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
        assert line, f"the agent's process died of {command}"
        return json.loads(line)

    def kill(self) -> None:
        self._process.kill()
        self._process.communicate()


class FileClock:
    """Both clocks from one number, which the driver reads too, until the monotonic one is given its own."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._now_us = int(path.read_text())
        self._monotonic_ms: int | None = None

    def set(self, seconds: float, monotonic: float | None = None) -> None:
        self._now_us = round(seconds * 1_000_000)
        self._monotonic_ms = None if monotonic is None else round(monotonic * 1000)
        self._path.write_text(f"{self._now_us}\n")

    def wall_ms(self) -> int:
        return self._now_us // 1000

    def monotonic_ms(self) -> int:
        return self._monotonic_ms if self._monotonic_ms is not None else self._now_us // 1000 - 1_600_000_000_000

    def boot_id(self) -> str:
        return "boot"


class DriverFacts:
    """Reports of a process what the driver reported."""

    def identify(self, process: RawProcess) -> ProcessReading:
        return ProcessReading(pid=process.pid, memory_bytes=process.memory_bytes, utilization=process.utilization)


def main() -> None:
    clock = FileClock(Path(sys.argv[1]))
    reader = NvmlReader(clock, call_limit_seconds=float(sys.argv[2]), start_limit_seconds=float(sys.argv[2]))
    sampler = Sampler(
        cards=reader,
        processes=DriverFacts(),
        clock=clock,
        origin=Origin(host="host", source=Source.AGENT, interval_ms=30_000),
        initial_pid_namespace=True,
    )
    mark = None
    for line in sys.stdin:
        command, *words = line.split()
        answer: object = None
        if command == "at":
            clock.set(*map(float, words))
        elif command == "drain":
            reader.drain()
        elif command == "close":
            reader.close()
        elif command == "tick":
            sample = sampler.sample(mark)
            if sample.tick is not None:
                mark = sample.mark
                answer = {
                    "cards": {card.uuid: dataclasses.asdict(card) for card in sample.tick.cards},
                    "errors": [f"{error.call} {error.code}" for error in sample.tick.errors],
                }
        sys.stdout.write(f"{json.dumps(answer)}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
