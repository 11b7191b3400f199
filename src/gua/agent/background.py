"""Start of the agent in the background: the launching command waits until the agent is ready or has failed."""

import contextlib
import fcntl
import json
import os
import select
import sys
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from gua.core.errors import DataError, GuaError, UnavailableError, UsageError
from gua.state.directory import open_private

PATIENCE_SECONDS: Final = 30.0
_STANDARD_STREAMS: Final = 3
_SEARCHED_DESCRIPTORS: Final = 1024
_LONGEST: Final = 64 * 1024


@dataclass(frozen=True, kw_only=True, slots=True)
class Launched:
    """Output of the launching process before it exits; ``ready`` is False if the agent is still starting."""

    text: str
    ready: bool


class Ready:
    """The agent's end of the pipe to the launching process; without a pipe (in the foreground) it does nothing.

    As a context manager it reports an error that ends the block before ``ready``, and does not suppress it.
    """

    def __init__(self, descriptor: int | None = None) -> None:
        self._descriptor = descriptor

    def ready(self, text: str) -> None:
        """Make the launching process print ``text`` and exit with 0; only the first report counts."""
        self._report({"ready": text})

    def failed(self, message: str, exit_code: int) -> None:
        """Make the launching process print ``gua: <message>`` and exit with ``exit_code`` (2, 3 or 4)."""
        self._report({"failed": message, "exit_code": exit_code})

    def hand_on(self) -> int | None:
        """Return the pipe's descriptor, inheritable across an execve; pass it to :meth:`handed_on` afterwards."""
        if self._descriptor is not None:
            os.set_inheritable(self._descriptor, True)  # noqa: FBT003 - the standard library's
        return self._descriptor

    @classmethod
    def handed_on(cls, descriptor: str | None) -> Self:
        """Return the object for the descriptor from :meth:`hand_on`; child processes do not inherit it."""
        if descriptor is None:
            return cls()
        os.set_inheritable(int(descriptor), False)  # noqa: FBT003 - the standard library's
        return cls(int(descriptor))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if isinstance(error, GuaError):
            self.failed(str(error), error.exit_code)
        elif isinstance(error, OSError):
            where = f": {error.filename}" if error.filename else ""
            self.failed(f"{error.strerror or error}{where}", UnavailableError.exit_code)
        elif self._descriptor is not None:
            os.close(self._descriptor)  # the launching process then refers to the log, which may have a traceback
            self._descriptor = None

    def _report(self, report: dict[str, object]) -> None:
        if self._descriptor is None:
            return
        with contextlib.suppress(OSError):  # the launching process was interrupted: the agent starts anyway
            os.write(self._descriptor, json.dumps(report).encode() + b"\n")
        os.close(self._descriptor)
        self._descriptor = None


def detach(log_file: Path, *, patience_seconds: float = PATIENCE_SECONDS) -> Ready | Launched:
    """Fork a daemon without a terminal; return ``Ready`` in it and ``Launched`` in the launching process.

    The daemon has its own session, umask 077, working directory /, empty input, and the log file as output (0600,
    appended to). Take locks after this call, because both processes would hold them.

    Raises in the launching process what the agent reports as failed (UsageError, UnavailableError or DataError by its
    exit code). Raises UnavailableError if the log cannot be opened, or the agent ends without a report. After
    ``patience_seconds`` it returns ``Launched`` with ``ready`` False.
    Raises RuntimeError if a second thread exists, because a fork copies only one.
    """
    if threading.active_count() != 1:
        raise RuntimeError("detach() must be called before any thread is started")
    log = _above_streams(open_private(log_file, os.O_WRONLY | os.O_APPEND | os.O_CREAT))
    reading, writing = (_above_streams(end) for end in os.pipe())
    for stream in (sys.stdout, sys.stderr):
        if stream is not None:  # else both processes print the rest of the buffer
            stream.flush()
    starter = os.fork()
    if starter == 0:
        os.close(reading)
        _become_agent(log, writing)
        return Ready(writing)
    os.close(log)
    os.close(writing)
    os.waitpid(starter, 0)
    try:
        reports, is_in_time = _read_reports(reading, patience_seconds)
    finally:
        os.close(reading)
    if "ready" in reports:
        return Launched(text=str(reports["ready"]), ready=True)
    if "failed" in reports:
        kinds = (each for each in (UsageError, DataError) if each.exit_code == reports.get("exit_code"))
        raise next(kinds, UnavailableError)(str(reports["failed"]))
    pid = reports.get("pid", "unknown")
    if is_in_time:
        raise UnavailableError(f"the agent (pid {pid}) ended before it was ready: see the end of {log_file}")
    return Launched(text=f"gua agent is still starting: pid {pid}; see gua status and {log_file}", ready=False)


def _become_agent(log: int, writing: int) -> None:
    """Start a session, fork again (only a session leader could reacquire a terminal) and set up the process."""
    os.setsid()
    if os.fork():
        os._exit(0)
    os.umask(0o077)
    os.chdir("/")
    nothing = os.open(os.devnull, os.O_RDONLY)
    for source, stream in ((nothing, 0), (log, 1), (log, 2)):
        os.dup2(source, stream)
    # Descriptors inherited from a shell would stay open for months: a lock of flock(1), a pipe with a waiting reader.
    # Descriptors that this process opened are not inheritable.
    for descriptor in range(_STANDARD_STREAMS, _SEARCHED_DESCRIPTORS):
        with contextlib.suppress(OSError):
            if os.get_inheritable(descriptor):
                os.close(descriptor)
    for descriptor in {nothing, log} - {0, 1, 2}:
        os.close(descriptor)
    with contextlib.suppress(OSError):
        os.write(writing, json.dumps({"pid": os.getpid()}).encode() + b"\n")


def _above_streams(descriptor: int) -> int:
    """Return the file under a descriptor above those of the standard streams, which may have been closed."""
    if descriptor >= _STANDARD_STREAMS:
        return descriptor
    moved = fcntl.fcntl(descriptor, fcntl.F_DUPFD_CLOEXEC, _STANDARD_STREAMS)
    os.close(descriptor)
    return moved


def _read_reports(descriptor: int, patience_seconds: float) -> tuple[dict[str, object], bool]:
    """Return the agent's reports until it closes its end of the pipe, and whether that was before the timeout."""
    deadline = time.monotonic() + patience_seconds
    poll = select.poll()
    poll.register(descriptor, select.POLLIN)
    text, reports = b"", dict[str, object]()
    while is_in_time := bool(poll.poll(max(0, round((deadline - time.monotonic()) * 1000)))):
        part = os.read(descriptor, _LONGEST)
        text += part
        if not part or len(text) >= _LONGEST:
            break
    for line in text.splitlines():
        with contextlib.suppress(ValueError):
            reports.update(json.loads(line))
    return reports, is_in_time
