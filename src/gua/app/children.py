"""Short-lived child processes for work that loads the engine, so that the agent's memory stays small."""

import contextlib
import json
import os
import select
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

from gua.agent.delivery import DrainResult
from gua.app.destinations import Destination
from gua.core.errors import TransientError, UnavailableError
from gua.core.plaintext import safe
from gua.local_socket.peer import complain
from gua.state.directory import Home
from gua.state.socket_address import Peer

# A child must not notify the service manager as the agent; MALLOC_ARENA_MAX is for the agent alone.
_NOT_INHERITED: Final = frozenset({"NOTIFY_SOCKET", "WATCHDOG_PID", "WATCHDOG_USEC", "MALLOC_ARENA_MAX"})
_LONGEST_LANDING_SECONDS: Final = 1800.0
_LOOK_EVERY_SECONDS: Final = 0.5
_LONGEST_MESSAGE: Final = 400
REPORT_SECONDS: Final = 180.0
_WATCH_SECONDS: Final = 0.25
_GRACE_SECONDS: Final = 10.0


def gua(*arguments: str) -> list[str]:
    """Return the command line that runs this installation of gua."""
    return [sys.executable, "-P", "-m", "gua", *arguments]


def land(home: Home, destination: Destination, stopping: threading.Event) -> DrainResult:
    """Land the spool into the destination's store in a child process, and return the counts.

    The child is killed when ``stopping`` is set, or after half an hour; ticks that it did not acknowledge stay in the
    spool. Raises TransientError with the child's message if it fails.
    """
    deadline = time.monotonic() + _LONGEST_LANDING_SECONDS
    with subprocess.Popen(  # noqa: S603 - gua's own command
        gua("land", "--spool", str(home.spool), "--destination", destination.name),
        env=_environment(destination.store),
        cwd="/",
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as child:
        while True:
            try:
                answer, complaint = child.communicate(timeout=_LOOK_EVERY_SECONDS)
                break
            except subprocess.TimeoutExpired:
                if stopping.is_set() or time.monotonic() > deadline:
                    child.kill()
                    child.communicate()
                    msg = f"landing into {destination.where} was ended; what was not landed stays in the spool"
                    raise TransientError(msg) from None
    try:
        counts = json.loads(answer)
        return DrainResult(landed=int(counts["landed"]), refused=int(counts["refused"]))
    except (ValueError, KeyError, TypeError):
        message = safe(complaint.strip().rpartition("\n")[2].removeprefix("gua: "))[:_LONGEST_MESSAGE]
        msg = message or f"landing into {destination.where} ended with code {child.returncode}: see gua doctor"
        raise TransientError(msg) from None


def _environment(store: str | None) -> dict[str, str]:
    """Return a child's environment with the store's address, whose password must not appear in arguments."""
    environ = {name: value for name, value in os.environ.items() if name not in _NOT_INHERITED}
    return {**environ, "GUA_STORE": store} if store else environ


def answer_in_child(
    *, home: Path, store: str | None, seconds: float = REPORT_SECONDS
) -> Callable[[socket.socket, Peer], None]:
    """Return the function that :class:`~gua.local_socket.server.LocalServer` calls for a report.

    Each call runs ``gua answer`` on ``home`` and ``store``, passed by environment, as an address may hold a password.
    It returns when the child is done. After the client disconnects, the child has 10 s to close the store before it is
    killed; after ``seconds`` it is killed in any case.
    """

    def answer(connection: socket.socket, _peer: Peer) -> None:
        environ = _environment(store)
        environ["GUA_HOME"] = str(home)
        child = subprocess.Popen(  # noqa: S603 - gua's own command
            gua("answer", "--fd", str(connection.fileno())),
            pass_fds=(connection.fileno(),),
            env=environ,
            cwd="/",
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        in_time = _watch(child, connection, seconds)
        if not in_time:
            complain(connection, f"the report took more than {seconds:g} s: ask for less", TransientError.exit_code)
        elif child.returncode:
            complain(connection, f"the report ended early ({child.returncode})", UnavailableError.exit_code)

    return answer


def _watch(child: subprocess.Popen[bytes], connection: socket.socket, seconds: float) -> bool:
    """Wait for the child; return False if it exceeded its time. Kills it then, or 10 s after the client left."""
    gone = select.poll()
    gone.register(connection.fileno(), select.POLLRDHUP)
    deadline = time.monotonic() + seconds
    left = False
    try:
        while child.poll() is None:
            if time.monotonic() >= deadline:
                return left
            if not left and gone.poll(0):
                left, deadline = True, min(deadline, time.monotonic() + _GRACE_SECONDS)
            with contextlib.suppress(subprocess.TimeoutExpired):
                child.wait(_WATCH_SECONDS)
        return True
    finally:
        if child.poll() is None:
            child.kill()
            child.wait()
