"""``gua stop``: stops the agent and so releases the driver."""

import contextlib
import os
import select
import signal
import time
from pathlib import Path
from typing import Annotated, Final

import typer

from gua.app.output import safe
from gua.cli.options import AgentStateOption, PidFileOption, value
from gua.core.errors import UnavailableError
from gua.core.moments import format_duration, parse_duration_ms
from gua.procfs.reader import ProcFs
from gua.state.directory import Home, home_path
from gua.state.host_lock import HostLock
from gua.state.pid_file import RunningAgent, running
from gua.state.socket_address import user_name

_PAUSE_SECONDS: Final = 0.05


def command(
    *,
    state_dir: AgentStateOption = None,
    pid_file: PidFileOption = None,
    timeout: Annotated[str, value("DURATION", "GUA_STOP_TIMEOUT", "How long to wait for its end.")] = "15s",
) -> None:
    """Stop the agent: it finishes the tick in progress and releases the driver.

    Prints a message if no agent runs on this host.

    Example:
        gua stop
    """
    timeout_ms = parse_duration_ms(timeout)
    home = home_path(state_dir, os.environ)
    path = pid_file or Home(home).pid_file
    processes = ProcFs()
    agent = running(path, processes)
    if agent is None:
        holder = HostLock.of(os.environ).holder()
        if holder is not None:
            how = "name its directory with --state-dir, or its file with --pid-file"
            if os.geteuid() not in {0, holder.uid}:
                how = f"{user_name(holder.uid)} stops it with gua stop"
            raise UnavailableError(
                f"no agent runs by {path}, but another one ({holder}) samples this host: {how}, or where systemd "
                "started it, systemctl stop gua"
            )
        typer.echo(f"no gua agent was running ({safe(str(path))})")
        return
    if not end(agent, path, processes, timeout_seconds=timeout_ms / 1000):
        raise UnavailableError(
            f"the agent (pid {agent.pid}) still runs after {format_duration(timeout_ms)}, a call to the driver may "
            f"hang: wait for it, or end it with kill -9 {agent.pid} (which loses at most the tick in progress)"
        )
    typer.echo(f"gua agent stopped: pid {agent.pid}")
    if agent.supervised:
        typer.echo("note: systemd started it and may start it again: systemctl stop gua keeps it stopped", err=True)


def end(agent: RunningAgent, path: Path, processes: ProcFs, *, timeout_seconds: float) -> bool:
    """Send SIGTERM and return whether the agent ended within the time. Raises UnavailableError without permission."""
    deadline, descriptor = time.monotonic() + timeout_seconds, None
    if hasattr(os, "pidfd_open") and hasattr(signal, "pidfd_send_signal"):  # else Python is of an older system
        with contextlib.suppress(OSError):  # the kernel has none (before 5.3)
            descriptor = os.pidfd_open(agent.pid)
    try:
        if running(path, processes) != agent:  # it ended during the lookup, and its pid may be reused
            return True
        try:
            if descriptor is None:
                os.kill(agent.pid, signal.SIGTERM)
            else:
                signal.pidfd_send_signal(descriptor, signal.SIGTERM)
        except ProcessLookupError:
            return True
        except PermissionError:
            raise UnavailableError(
                f"the agent (pid {agent.pid}) belongs to {user_name(agent.owner_uid)}: sudo gua stop --pid-file {path}"
            ) from None
        if descriptor is not None:
            poll = select.poll()
            poll.register(descriptor, select.POLLIN)  # readable once the process has ended
            return bool(poll.poll(max(0, round((deadline - time.monotonic()) * 1000))))
        while running(path, processes) == agent:
            if time.monotonic() >= deadline:
                return False
            time.sleep(_PAUSE_SECONDS)
        return True
    finally:
        if descriptor is not None:
            os.close(descriptor)
