"""Execution of external commands with limits on time and output size."""

from __future__ import annotations

import contextlib
import os
import re
import selectors
import signal
import subprocess
import time
from collections.abc import Sequence
from typing import Final

from gua.core.errors import GuaError

SECONDS: Final = 3.0
MOST_BYTES: Final = 8 * 2**20
_MOST_COMPLAINT: Final = 4096
_PATH: Final = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
# Slurm's commands get only PATH and the location of their configuration: other variables, such as SLURM_CLUSTERS and
# SQUEUE_FORMAT, would change what they load and print.
_PREFIX: Final = re.compile(r"^(?:[a-z_]+: )?(?:error|fatal): ")
_PASSED_ON: Final = ("PATH", "SLURM_CONF", "SLURM_CONF_SERVER")


class CommandError(GuaError):
    """The command could not be started, failed, timed out, or wrote too much."""


def run_command(command: Sequence[str], *, seconds: float = SECONDS, most_bytes: int = MOST_BYTES) -> str:
    """Return the command's standard output. Raises CommandError if it fails, takes too long or writes too much.

    It runs in UTC, without the agent's environment, in its own process group, which is killed at the end.
    """
    name = os.path.basename(command[0])  # noqa: PTH119 - a word for messages, not a path
    environ = {key: os.environ[key] for key in _PASSED_ON if key in os.environ}
    environ = {"PATH": _PATH, **environ, "LC_ALL": "C", "TZ": "UTC", "SLURM_TIME_FORMAT": "standard"}
    try:
        child = subprocess.Popen(  # noqa: S603 - the site's own command, as a list
            list(command),
            env=environ,
            cwd="/",
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
    except OSError as error:
        raise CommandError(f"{name} cannot be started ({error.strerror})") from None
    try:
        output, complaint = _collect(child, name, seconds, most_bytes)
    finally:
        if child.poll() is None:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(child.pid, signal.SIGKILL)
            child.wait()
        for stream in (child.stdout, child.stderr):
            if stream is not None:
                stream.close()
    if child.returncode:
        last_line = complaint.decode(errors="replace").strip().rpartition("\n")[2]
        raise CommandError(f"{name}: {_PREFIX.sub('', last_line) or f'ended with code {child.returncode}'}")
    return output.decode(errors="replace")


def _collect(child: subprocess.Popen[bytes], name: str, seconds: float, most_bytes: int) -> tuple[bytes, bytes]:
    """Return the child's standard output and error, after it has closed both and ended. Raises CommandError."""
    deadline = time.monotonic() + seconds
    late = CommandError(f"{name} gives no answer within {seconds:g} s")
    received: dict[int, bytearray] = {}
    with selectors.DefaultSelector() as selector:
        for stream in (child.stdout, child.stderr):
            if stream is not None:
                selector.register(stream, selectors.EVENT_READ)
                received[stream.fileno()] = bytearray()
        output, complaint = received.values()
        while selector.get_map():
            left = deadline - time.monotonic()
            for key, _ in selector.select(left) if left > 0 else ():
                chunk = os.read(key.fd, 65_536)
                received[key.fd] += chunk
                if not chunk:
                    selector.unregister(key.fileobj)
            del complaint[_MOST_COMPLAINT:]
            if len(output) > most_bytes:
                raise CommandError(f"{name} writes more than {most_bytes >> 20} MiB")
            if left <= 0:
                raise late
    try:
        child.wait(timeout=max(0.0, deadline - time.monotonic()))
    except subprocess.TimeoutExpired:
        raise late from None
    return bytes(output), bytes(complaint)
