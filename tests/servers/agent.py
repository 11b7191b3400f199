"""The agent as a process on the simulated driver: started, queried, killed, and its ticks read back."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

from driver.fixture import SimulatedDriver
from fakes.sockets import connected
from gua.core.tick import Tick
from gua.local_socket.client import Conversation
from gua.otlp.decode import decode
from gua.spool.queue import Spool
from gua.spool.schema import UnknownDestinationError
from gua.state.compression import decompress
from servers.process import poll

GUA = [sys.executable, "-m", "gua"]


@dataclass
class Agent:
    """One agent with a home of its own, and a lock of its own so that tests do not meet."""

    driver: SimulatedDriver
    folder: Path
    environ: Mapping[str, str] = field(default_factory=dict)
    lock: str = field(default_factory=lambda: f"gua-test-{uuid.uuid4().hex[:12]}")
    process: subprocess.Popen[bytes] | None = None
    kept_waiting_ms: int = 0
    """For how long it had no CPU from its first answer, or its start, until it was stopped."""
    _waited_before_ms: int = 0

    @property
    def home(self) -> Path:
        return self.folder / "home"

    @property
    def log(self) -> Path:
        return self.folder / "agent.stderr"

    def environment(self) -> dict[str, str]:
        inherited = {name: value for name, value in os.environ.items() if not name.startswith(("GUA_", "OTEL_"))}
        return {
            **inherited,
            **self.driver.environment,
            "HOME": str(self.folder),
            "GUA_HOME": str(self.home),
            "GUA_HOST_LOCK": self.lock,
            "GUA_RUN_DIR": str(self.folder / "run"),
            # A Slurm that runs for another test is not this host's.
            "GUA_ALLOCATION": "off",
            "NO_COLOR": "1",
            **self.environ,
        }

    def run(self, *arguments: str | Path, seconds: float = 120) -> subprocess.CompletedProcess[str]:
        """Run a gua command of this agent's user and return what happened."""
        return subprocess.run(
            [*GUA, *map(str, arguments)],
            env=self.environment(),
            capture_output=True,
            text=True,
            timeout=seconds,
            check=False,
        )

    def must(self, *arguments: str | Path, seconds: float = 120) -> str:
        """Run it, insist on success and return its standard output."""
        done = self.run(*arguments, seconds=seconds)
        assert done.returncode == 0, f"gua {' '.join(map(str, arguments))}: {done.returncode}\n{done.stderr}"
        return done.stdout

    def start(self, *options: str, interval: str = "1s", wait: bool = True) -> None:
        """Start it in the foreground; with ``wait`` return once its first tick is spooled and it answers."""
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                [*GUA, "daemon", "--foreground", "--interval", interval, *options],
                env=self.environment(),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
            )
        self._waited_before_ms = 0
        if wait:
            try:
                poll(self.answers, f"the agent to answer:\n{self.tail()}")
            except BaseException:  # a fixture that fails here ends nothing
                self.process.kill()
                raise
            self._waited_before_ms = kept_waiting_ms(self.process.pid)

    def answers(self) -> bool:
        """Return whether the running agent answers; fails if it has ended."""
        assert self.process is not None
        code = self.process.poll()
        assert code is None, f"the agent exited with {code}:\n{self.tail()}"
        # A killed agent leaves its socket's file behind, so that the file alone says nothing.
        with contextlib.suppress(OSError), connected(self.home / "agent.sock"):
            return True
        return False

    def kill(self) -> None:
        """End it as a crash would."""
        assert self.process is not None
        self.process.kill()
        self.process.wait()
        self.process = None

    def stop(self) -> None:
        """Send it SIGTERM, and require that it ends soon and well."""
        if self.process is None:
            return
        # An agent that has ended by itself reports nothing any more.
        self.kept_waiting_ms = max(0, kept_waiting_ms(self.process.pid) - self._waited_before_ms)
        self.process.send_signal(signal.SIGTERM)
        code = self.process.wait(timeout=60)
        self.process = None
        assert code == 0, f"the agent exited with {code}:\n{self.tail()}"

    def status(self) -> dict[str, Any]:
        """Return what ``gua status --json`` prints, whatever its exit code."""
        found: dict[str, Any] = json.loads(self.run("status", "--json").stdout)
        return found

    def reservations(self) -> list[Any]:
        """Return what is reserved, as the agent reports it."""
        return self._asked("reservations")

    def queue(self) -> list[Any]:
        """Return the queue, as the agent reports it."""
        return self._asked("queue")

    def _asked(self, what: str) -> list[Any]:
        with Conversation(self.home / "agent.sock", {"ask": what}) as conversation:
            return list(conversation.next(seconds=60)[what])

    def tail(self) -> str:
        return self.log.read_text(errors="replace")[-4000:] if self.log.exists() else ""

    def ticks(self, destination: str = "store") -> list[Tick]:
        """Return the ticks that wait in the spool, oldest first."""
        return read_spool(self.home / "spool.db", destination)

    def wait_for_ticks(self, count: int, *, destination: str = "store", seconds: float = 180) -> list[Tick]:
        """Wait until so many ticks are in the spool and return them."""
        poll(lambda: len(self.ticks(destination)) >= count, f"{count} ticks:\n{self.tail()}", seconds=seconds)
        return self.ticks(destination)


def kept_waiting_ms(pid: int) -> int:
    """Return for how long the threads of a process could have run and had no CPU, as on a machine that is too busy."""
    waited_ns = 0
    for thread in Path(f"/proc/{pid}/task").iterdir():
        with contextlib.suppress(OSError):  # it has ended; or this kernel does not count
            waited_ns += int((thread / "schedstat").read_text(encoding="ascii").split()[1])
    return waited_ns // 1_000_000


def read_spool(path: Path, destination: str = "store") -> list[Tick]:
    """Return every tick that waits for a destination in a spool, beside whoever uses it."""
    if not path.exists():
        return []
    with Spool(path, destinations=None) as spool:
        try:
            return [decode(decompress(tick.blob)) for tick in spool.peek(destination, 1_000_000)]
        except UnknownDestinationError:  # the agent has just begun a new spool, and names its destinations next
            return []


def assert_spans_never_overlap(ticks: Sequence[Tick]) -> None:
    """Check the guarantees about time for the ticks of one agent, in the order of their making."""
    for before, after in pairwise(ticks):
        for card in after.cards:
            assert after.ts_ms - card.duration_ms >= before.ts_ms, (before.ts_ms, after.ts_ms, card.duration_ms)


def observed_ms(ticks: Iterable[Tick]) -> int:
    """Return how long the first card was observed, in ms."""
    return sum(tick.cards[0].duration_ms for tick in ticks if tick.cards)


def wall_ms() -> int:
    return time.time_ns() // 1_000_000
