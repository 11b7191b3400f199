"""The agent's process: ``gua daemon`` execs it after it has parsed its options.

The exec drops the command line's libraries, 10 MB of memory, and preserves the pid, as service managers expect.
Settings pass through the environment, which only the same user can read, and are removed from it at once.
"""

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
_NEW_OBJECTS: Final = 5_000  # net allocations between two collections; less than 1 MB
# glibc reserves an arena per thread; the agent's threads need little memory.
_ENVIRONMENT: Final = {"MALLOC_ARENA_MAX": "1"}


def become_agent(settings: AgentSettings, ready: Ready) -> None:
    """Replace this process by the agent's. Raises OSError if exec fails, and never returns."""
    environ = {**os.environ, **_ENVIRONMENT, _SETTINGS: settings.to_json()}
    descriptor = ready.hand_on()
    if descriptor is not None:
        environ[_READY] = str(descriptor)
    # -P: import no modules from the working directory, which may belong to another user.
    os.execve(sys.executable, [sys.executable, "-P", "-m", __name__], environ)  # noqa: S606 - this interpreter


def main() -> int:
    """Run the agent and return its exit code; errors are one line on stderr, and reported to the starting process."""
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
    """Free memory that only the start needed, and exempt the remaining objects from garbage collection.

    Only the C library offers a call to return memory to the system (malloc_trim).
    """
    # Objects that exist once the agent is ready live until its end: the collector need not traverse them.
    # A tick makes thousands of short-lived objects, almost never in cycles, so collections can be rare.
    gc.collect()
    gc.freeze()
    gc.set_threshold(_NEW_OBJECTS)
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)


if __name__ == "__main__":
    sys.exit(main())
