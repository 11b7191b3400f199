"""The agent's process: what ``gua daemon`` becomes once it has read its options.

The command line and its libraries would stay in memory for months, 10 MB of them, so the process begins anew
(execve keeps its pid, as service managers expect) without them. What the options said comes by the environment,
which only the same user can read, and is taken out of it at once.
"""

from __future__ import annotations

import ctypes
import gc
import os
import sys
from typing import Final

from gua.agent.background import Ready
from gua.app.output import print_error
from gua.app.settings import AgentSettings
from gua.core.errors import GuaError, UnavailableError

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

    try:
        agent.run(AgentSettings.from_json(text), ready=Ready.handed_on(descriptor), on_ready=give_back_memory)
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


if __name__ == "__main__":
    sys.exit(main())
