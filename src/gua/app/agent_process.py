"""The agent's process: what ``gua daemon`` becomes once it has read its options, and how it is ended.

The command line and its libraries would stay in memory for months, 10 MB of them, so the process begins anew
(execve keeps its pid, as service managers expect) without them. What the options said comes by the environment,
which only the same user can read, and is taken out of it at once.
"""

from __future__ import annotations

import ctypes
import gc
import os
import select
import signal
import sys
import time
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Final

from gua.agent.background import Ready
from gua.app.output import print_error
from gua.app.settings import AgentSettings
from gua.core.errors import GuaError, UnavailableError
from gua.procfs.reader import ProcFs
from gua.state.host_lock import user_name
from gua.state.pid_file import RunningAgent, running

_SETTINGS: Final = "GUA_AGENT_SETTINGS"
_READY: Final = "GUA_AGENT_READY"
_NEW_OBJECTS: Final = 5_000  # as many more than before let the collector look; they take less than 1 MB
# Each thread of the C library's allocator keeps memory of its own; the agent's threads need little of it.
_ENVIRONMENT: Final = {"MALLOC_ARENA_MAX": "1"}


def become_agent(settings: AgentSettings, ready: Ready) -> None:
    """Replace this process by the agent's. Only returns by raising OSError."""
    environ = {**os.environ, **_ENVIRONMENT, _SETTINGS: settings.to_json()}
    descriptor = ready.hand_on()
    if descriptor is not None:
        environ[_READY] = str(descriptor)
    # -P: no module is taken from the directory that this happens to be started in, which may be another user's.
    os.execve(sys.executable, [sys.executable, "-P", "-m", __name__], environ)  # noqa: S606 - this very interpreter


def main() -> int:
    """Be the agent, and return its exit code; what goes wrong is one line on stderr and for who waits at the start."""
    text = os.environ.pop(_SETTINGS, "")
    descriptor = os.environ.pop(_READY, None)
    if not text:
        print_error("this is the agent's own process: run gua daemon")
        return UnavailableError.exit_code
    from gua.app import agent  # noqa: PLC0415 - after the settings have left the environment
    from gua.app.host import open_host  # noqa: PLC0415 - as above

    settings = AgentSettings.from_json(text)
    try:
        agent.run(
            partial(
                open_host,
                settings.procfs,
                interval_ms=settings.interval_ms,
                home=settings.places.home,
                ignored=settings.ignored,
                kubelet=settings.kubelet,
                allocation=settings.allocation,
                detect_models=settings.detect_models,
                activity=settings.activity,
            ),
            places=settings.places,
            destinations=settings.destinations,
            serving=settings.serving,
            idle_release_ms=settings.idle_release_ms,
            ready=Ready.handed_on(descriptor),
            version=version("gua-otel"),
            on_ready=give_back_memory,
        )
    except GuaError as error:
        print_error(str(error))
        return error.exit_code
    except OSError as error:
        print_error(f"{error.strerror or error}{f': {error.filename}' if error.filename else ''}")
        return UnavailableError.exit_code
    return 0


def give_back_memory() -> None:
    """Return what starting took and running does not need, and keep the collector from what stays.

    The C library is asked to return memory; other libraries have no such call.
    """
    # What is there once an agent is ready is there to stay. The collector would go through all of it again and again,
    # and through each tick some times: its objects come and go by the thousand, and almost never in circles.
    gc.collect()
    gc.freeze()
    gc.set_threshold(_NEW_OBJECTS)
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)


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


if __name__ == "__main__":
    sys.exit(main())
