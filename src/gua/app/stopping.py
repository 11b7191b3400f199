"""Ending the agent: its process and no other."""

from __future__ import annotations

import os
import select
import signal
import time
from pathlib import Path

from gua.core.errors import UnavailableError
from gua.procfs.reader import ProcFs
from gua.state.host_lock import user_name
from gua.state.pid_file import RunningAgent, running

_PAUSE_SECONDS = 0.05


def end(agent: RunningAgent, path: Path, processes: ProcFs, *, timeout_seconds: float) -> bool:
    """Ask the agent to end and return whether it did within the time. Raises UnavailableError without permission."""
    deadline = time.monotonic() + timeout_seconds
    descriptor = _open(agent.pid)
    try:
        if running(path, processes) != agent:  # it ended while its process was looked up, its number may be another's
            return True
        try:
            if descriptor is None:
                os.kill(agent.pid, signal.SIGTERM)
            else:
                signal.pidfd_send_signal(descriptor, signal.SIGTERM)
        except ProcessLookupError:
            return True
        except PermissionError:
            msg = (
                f"the agent (pid {agent.pid}) belongs to {user_name(agent.owner_uid)}: sudo gua stop --pid-file {path}"
            )
            raise UnavailableError(msg) from None
        if descriptor is not None:
            poll = select.poll()
            poll.register(descriptor, select.POLLIN)  # readable when the process has ended
            return bool(poll.poll(max(0, round((deadline - time.monotonic()) * 1000))))
        while running(path, processes) == agent:
            if time.monotonic() >= deadline:
                return False
            time.sleep(_PAUSE_SECONDS)
        return True
    finally:
        if descriptor is not None:
            os.close(descriptor)


def _open(pid: int) -> int | None:
    """Return a descriptor that means this process and no later one, ``None`` where the kernel has none (< 5.3)."""
    if not (hasattr(os, "pidfd_open") and hasattr(signal, "pidfd_send_signal")):
        return None  # a Python built on an older system
    try:
        return os.pidfd_open(pid)
    except OSError:
        return None
