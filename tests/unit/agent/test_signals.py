from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

import pytest

from servers.process import poll

PROGRAM = """
import signal

from gua.agent import signals

signal.signal(signal.SIGHUP, signal.SIG_DFL)  # as these tests may run under nohup
signals.hold()
print("held", flush=True)
while not signals.wait(0.05):
    pass
print("asked", flush=True)
assert signals.stop_requested() and signals.wait(10)
"""


def waiting() -> subprocess.Popen[str]:
    process = subprocess.Popen([sys.executable, "-c", PROGRAM], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "held\n"
    return process


def state_of(process: subprocess.Popen[str]) -> str:
    with open(f"/proc/{process.pid}/stat") as file:  # noqa: PTH123 - one word of it
        return file.read().rpartition(")")[2].split()[0]


def test_a_process_stopped_for_longer_than_the_wait_did_not_receive_a_stop_request() -> None:
    with waiting() as process:
        for _ in range(3):
            process.send_signal(signal.SIGSTOP)
            poll(lambda: state_of(process) == "T", "it to stop")
            time.sleep(0.1)
            process.send_signal(signal.SIGCONT)
            time.sleep(0.15)
            assert process.poll() is None
        process.kill()
        assert process.stdout is not None
        assert process.stdout.read() == ""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_each_signal_requests_a_stop_once(number: signal.Signals) -> None:
    with waiting() as process:
        os.kill(process.pid, number)
        assert process.stdout is not None
        assert process.stdout.read() == "asked\n"
        assert process.wait(timeout=60) == 0
