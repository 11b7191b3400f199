"""The short-lived processes that do what needs the engine, so that the agent itself stays small."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from typing import Final

from gpu_usage_audit.agent.home import Home
from gpu_usage_audit.agent.periodic import Landed
from gpu_usage_audit.cli.wiring import Destination
from gpu_usage_audit.core.errors import TransientError
from gpu_usage_audit.core.plaintext import safe

# The service manager's: a child must not speak to it in the agent's name.
_NOT_INHERITED: Final = frozenset({"NOTIFY_SOCKET", "WATCHDOG_PID", "WATCHDOG_USEC"})
_LONGEST_LANDING_SECONDS: Final = 1800.0
_LOOK_EVERY_SECONDS: Final = 0.5
_LONGEST_WORDS: Final = 400


def gua(*arguments: str) -> list[str]:
    """Return the command line of this very gua."""
    return [sys.executable, "-m", "gpu_usage_audit", *arguments]


def land(home: Home, destination: Destination, stopping: threading.Event) -> Landed:
    """Land the spool into the destination's store in a child, and return what it landed.

    The child is ended when ``stopping`` is set, or after half an hour: what it has not acknowledged stays in the
    spool. Raises TransientError with the child's own words where it fails.
    """
    arguments = ["land", "--spool", str(home.spool), "--destination", destination.name]
    environ = {name: value for name, value in os.environ.items() if name not in _NOT_INHERITED}
    environ["GUA_STORE"] = destination.store or ""  # not an argument: it may hold a password, and all can read those
    deadline = time.monotonic() + _LONGEST_LANDING_SECONDS
    with subprocess.Popen(  # noqa: S603 - our own command
        gua(*arguments),
        env=environ,
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
        return Landed(ticks=int(counts["landed"]), refused=int(counts["refused"]))
    except (ValueError, KeyError, TypeError):
        said = safe(complaint.strip().rpartition("\n")[2].removeprefix("gua: "))[:_LONGEST_WORDS]
        msg = said or f"landing into {destination.where} ended with code {child.returncode}: see gua doctor"
        raise TransientError(msg) from None
