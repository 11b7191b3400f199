from __future__ import annotations

import fcntl
import os
import random
import signal
import struct
import sys
import termios
import threading
import time
import traceback
from array import array
from collections.abc import Callable
from pathlib import Path

import pytest

from gua.core.ports import Mark
from gua.spool.queue import Spool
from gua.state.compression import decompress
from servers.process import poll

NUMBER = struct.Struct("<q")
NOISE = os.urandom(4_000)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "spool.db"


def wait_for(pid: int, pipe: int, count: int) -> None:
    """Wait until so many numbers are there to be read; fail if the child has ended before."""
    there = array("i", [0])

    def enough() -> bool:
        has_ended = os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None
        fcntl.ioctl(pipe, termios.FIONREAD, there)
        is_enough = there[0] >= count * NUMBER.size
        assert is_enough or not has_ended, "the child has ended: see its traceback"
        return is_enough

    poll(enough, f"{count} numbers")


def child(work: Callable[[int], None]) -> tuple[int, int]:
    """Start ``work`` with a pipe's end in a process of its own; return its id and the other end."""
    here, there = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            os.close(here)
            work(there)
        except BaseException:
            traceback.print_exc()
            sys.stderr.flush()
            raise
        finally:
            os._exit(1)  # nothing of the test run goes on in the child
    os.close(there)
    return pid, here


def kill(pid: int) -> None:
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)


def told(pipe: int) -> list[int]:
    """Return all that the child has written until it ended."""
    data = b""
    while part := os.read(pipe, 65_536):
        data += part
    os.close(pipe)
    return [number for (number,) in NUMBER.iter_unpack(data[: len(data) // NUMBER.size * NUMBER.size])]


def test_an_appender_killed_at_any_moment_loses_no_tick_it_reported_as_stored(path: Path) -> None:
    noise = random.Random(1)  # noqa: S311 - moments
    next_number = 1
    stored: list[int] = []

    def append(pipe: int) -> None:
        with Spool(path, max_bytes=None) as spool:
            for number in range(next_number, next_number + 100_000):
                mark = Mark(ts_ms=number, monotonic_ms=number, boot_id="boot")
                spool.append(number, NOISE, mark)
                os.write(pipe, NUMBER.pack(number))

    for _ in range(15):
        pid, pipe = child(append)
        wait_for(pid, pipe, 2)
        time.sleep(noise.random() * 0.03)
        kill(pid)
        acknowledged = told(pipe)
        with Spool(path) as spool:
            ticks = spool.peek("store", 100_000)
            mark = spool.mark()
            stored = [tick.ts_ms for tick in ticks]
            assert spool.stats().repairs == 0
        # One more may be stored, whose append had not returned.
        assert stored[: len(stored)] == list(range(1, len(stored) + 1))
        assert acknowledged[-1] <= stored[-1] <= acknowledged[-1] + 1
        assert mark is not None
        assert mark.ts_ms == stored[-1]
        next_number = stored[-1] + 1
    assert len(stored) >= 30


def test_a_sender_that_is_killed_at_any_moment_loses_nothing_and_acknowledges_nothing_undelivered(path: Path) -> None:
    noise = random.Random(2)  # noqa: S311 - moments
    delivered: set[int] = set()
    stop = threading.Event()
    appended = 0
    longest = 0.0

    def drain(pipe: int) -> None:
        with Spool(path, destinations=None) as spool:
            while True:
                batch = spool.peek("store", 5)
                for tick in batch:
                    os.write(pipe, NUMBER.pack(tick.ts_ms))  # delivered: from here on it may be acknowledged
                if batch:
                    spool.acknowledge("store", batch[-1].id)

    def sample() -> None:
        nonlocal appended, longest
        with Spool(path, destinations=None) as spool:
            while not stop.is_set():
                before = time.monotonic()
                spool.append(appended + 1, NOISE)
                longest = max(longest, time.monotonic() - before)
                appended += 1
                time.sleep(0.0005)

    Spool(path).close()
    # The children are made before the thread starts; each waits for its turn.
    gates = [os.pipe() for _ in range(12)]
    children = [child(lambda pipe, gate=gate: (os.read(gate[0], 1), drain(pipe))[1]) for gate in gates]
    sampler = threading.Thread(target=sample)
    sampler.start()
    for gate, (pid, pipe) in zip(gates, children, strict=True):
        os.write(gate[1], b"x")
        wait_for(pid, pipe, 10)  # two batches: the first of them was acknowledged
        time.sleep(noise.random() * 0.08)
        kill(pid)
        delivered |= set(told(pipe))
        for end in gate:
            os.close(end)
    poll(lambda: appended > 100, "a hundred ticks")
    stop.set()
    sampler.join()
    with Spool(path) as spool:
        left = spool.peek("store", 100_000)
        assert spool.stats().repairs == 0
        assert all(decompress(tick.blob) == NOISE for tick in left)
    assert delivered | {tick.ts_ms for tick in left} == set(range(1, appended + 1))
    assert len(delivered) > 50
    assert longest < 30
