"""A server as a process of the test run: start, poll until it is ready, stop, kill, start again."""

from __future__ import annotations

import fcntl
import os
import random
import signal
import socket
import subprocess
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TypeVar

T = TypeVar("T")

# A byte for each port: a process locks its port until it ends, so that no other takes the port of a server that is just
# down; neither another process of this run, nor a bench beside it, nor somebody else's run on this machine.
_CLAIMS = os.open(
    Path(tempfile.gettempdir(), f"gua-test-ports-{os.geteuid()}"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600
)
_given: set[int] = set()


def free_ports(count: int) -> list[int]:
    """Return ports of 127.0.0.1 without a listener, which no test of any current run has had.

    They are not of those that outgoing connections take by themselves: one of these could have a server's port while
    the server is down, even connect to itself there.
    """
    below = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text(encoding="ascii").split()[0])
    numbers = set(range(10_000, max(below, 11_000))) - _given
    sockets: list[socket.socket] = []
    try:
        for number in random.SystemRandom().sample(sorted(numbers), len(numbers)):
            if len(sockets) == count:
                break
            if not _claimed(number):
                continue
            each = socket.socket()
            try:
                each.bind(("127.0.0.1", number))
            except OSError:
                each.close()
            else:
                sockets.append(each)
        ports = [int(each.getsockname()[1]) for each in sockets]
        _given.update(ports)
        return ports
    finally:
        for each in sockets:
            each.close()


def _claimed(number: int) -> bool:
    """Return whether this process has the number from now on until its end."""
    try:
        fcntl.lockf(_CLAIMS, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, number)
    except OSError:
        return False
    return True


def poll(check: Callable[[], T], what: str, *, seconds: float = 180) -> T:
    """Poll until the answer is true, and return it; fail with ``what`` when the time is over.

    What is there in time costs nothing, however long one would wait for it.
    """
    deadline = time.monotonic() + seconds
    while not (answer := check()):
        assert time.monotonic() < deadline, f"gave up after {seconds:g} s waiting for {what}"
        time.sleep(0.05)
    return answer


def http_answers(url: str) -> bool:
    """Return whether the URL answers with success."""
    try:
        with urllib.request.urlopen(url, timeout=2):  # noqa: S310 - the tests' own loopback URLs
            return True
    except (urllib.error.URLError, OSError):
        return False


class ServerProcess:
    """One server that can be stopped and started again on the same ports and folders."""

    def __init__(self, name: str, command: Sequence[str], environment: Mapping[str, str], folder: Path) -> None:
        self.name = name
        self.log = folder / f"{name}.log"
        self._command = list(command)
        self._environment = dict(environment)
        self._folder = folder
        self._process: subprocess.Popen[bytes] | None = None

    def start(self, ready: Callable[[], bool]) -> None:
        """Start and return once ``ready`` says so."""
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                self._command,
                env=self._environment,
                cwd=self._folder,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
            )

        def answers_or_died() -> bool:
            assert self._process is not None
            code = self._process.poll()
            assert code is None, f"{self.name} exited with {code}:\n{self.tail()}"
            return ready()

        poll(answers_or_died, f"{self.name} to answer; its log is {self.log}")

    def stop(self) -> None:
        """Send it SIGTERM and wait for its end; after a minute kill it."""
        if self._process is None:
            return
        self._process.terminate()
        try:
            self._process.wait(timeout=60)
        except subprocess.TimeoutExpired:
            self.kill()
        self._process = None

    def kill(self) -> None:
        """End it at once, as a crash would."""
        if self._process is None:
            return
        self._process.kill()
        self._process.wait()
        self._process = None

    @property
    def ended_by_itself(self) -> bool:
        """Return whether it was started, was not stopped or killed here, and runs no more."""
        return self._process is not None and self._process.poll() is not None

    @property
    def pid(self) -> int:
        """Return its process id; fails if it does not run."""
        assert self._process is not None, f"{self.name} does not run"
        return self._process.pid

    def send_signal(self, number: signal.Signals) -> None:
        """Send it a signal, as SIGSTOP and SIGCONT; fails if it has ended by itself."""
        assert self._process is not None
        assert self._process.poll() is None, f"{self.name} ended by itself:\n{self.tail()}"
        self._process.send_signal(number)

    def tail(self) -> str:
        """Return the end of its log."""
        return self.log.read_text(errors="replace")[-4000:]
