"""The agent's size-limited log, which has lines at changes of state only, not at every tick."""

import contextlib
import logging
import math
import os
import sys
import threading
import time
import traceback
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from io import TextIOWrapper
from logging.handlers import RotatingFileHandler
from pathlib import Path
from typing import Final, TextIO

from gua.core.plaintext import safe
from gua.state.directory import open_private

NAME: Final = "gua"
MAX_BYTES: Final = 1_000_000
OLD_FILES: Final = 2
REPEAT_SECONDS: Final = 3600.0
LINES_PER_PERIOD: Final = 6
MAX_SUBJECTS: Final = 256
_LONGEST_LINE: Final = 2_000
_LONGEST_TRACE: Final = 40
_OTHERS: Final = "others"


def open_log(log_file: Path | None) -> logging.Logger:
    """Return the agent's log: a file of at most 1 MB and two older ones, or stderr without a ``log_file``.

    Lines are ``2026-03-25T04:47:19Z WARNING message`` in UTC, without control and BiDi characters. Files have mode 0600
    and are not opened through links. Warnings and errors of libraries are included, each message at most six times an
    hour. Write errors never stop the agent. Raises UnavailableError if the file cannot be opened at first.
    """
    close_log()
    handler = _QuietStream(sys.stderr) if log_file is None else _PrivateFile(log_file)
    handler.setFormatter(_Line())
    own = logging.getLogger(NAME)
    own.setLevel(logging.INFO)
    own.propagate = False
    own.addHandler(handler)
    logging.getLogger().addHandler(_Libraries(handler))
    return own


def close_log() -> None:
    """Close the log of :func:`open_log`, if it is open."""
    root, own = logging.getLogger(), logging.getLogger(NAME)
    for passed in [handler for handler in root.handlers if isinstance(handler, _Libraries)]:
        root.removeHandler(passed)
    for opened in [handler for handler in own.handlers if isinstance(handler, _PrivateFile | _QuietStream)]:
        own.removeHandler(opened)
        opened.close()


@dataclass(slots=True)
class _Subject:
    """Log state of one subject: ``failing`` is the kind of its failure, ``None`` while it works."""

    failing: str | None = None
    left_out: int = 0
    logged_at: float = -math.inf
    lines: deque[float] = field(default_factory=lambda: deque(maxlen=LINES_PER_PERIOD))

    def may_log(self, now: float) -> bool:
        """Return whether another line is allowed in this hour, and count it."""
        is_full = len(self.lines) == LINES_PER_PERIOD and now - self.lines[0] < REPEAT_SECONDS
        if not is_full:
            self.logged_at = now
            self.lines.append(now)
        return not is_full


class Changes:
    """Logger of changes: a subject fails, fails differently or recovers. Continuing failures are logged hourly.

    A subject that changes often gets six lines an hour, with the number of omitted ones. At most 256 subjects are
    stored; further ones share one. Thread-safe.
    """

    def __init__(self, logger: logging.Logger, *, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._logger = logger
        self._monotonic = monotonic
        self._subjects: dict[str, _Subject] = {}
        self._lock = threading.Lock()

    def failed(self, subject: str, message: str, *, kind: str = "") -> None:
        """Log ``message`` if ``subject`` worked until now, failed with another ``kind``, or an hour has passed."""
        with self._lock:
            state = self._subject(subject)
            now = self._monotonic()
            if state.failing == kind and now - state.logged_at < REPEAT_SECONDS:
                return
            state.failing = kind
            self._log(state, logging.WARNING, message, now)

    def works(self, subject: str, message: str) -> None:
        """Log ``message`` if ``subject`` failed until now."""
        with self._lock:
            state = self._subjects.get(subject)
            if state is None or state.failing is None:
                return
            state.failing = None
            self._log(state, logging.INFO, message, self._monotonic())

    def _log(self, subject: _Subject, level: int, message: str, now: float) -> None:
        if not subject.may_log(now):
            subject.left_out += 1
            return
        if subject.left_out:
            message = f"{message} ({subject.left_out} changes before this one were not logged)"
            subject.left_out = 0
        self._logger.log(level, "%s", message)

    def _subject(self, name: str) -> _Subject:
        if name in self._subjects:
            return self._subjects[name]
        if len(self._subjects) >= MAX_SUBJECTS:
            now = self._monotonic()
            self._subjects = {
                other: subject
                for other, subject in self._subjects.items()
                if subject.failing is not None or now - subject.logged_at < REPEAT_SECONDS
            }
        if len(self._subjects) >= MAX_SUBJECTS:
            name = _OTHERS
        return self._subjects.setdefault(name, _Subject())


class _Line(logging.Formatter):
    """Formatter of a record as one line, followed by the indented lines of its traceback."""

    def format(self, record: logging.LogRecord) -> str:
        when = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(record.created))
        try:
            message = record.getMessage()
        except (TypeError, ValueError):  # a library's format string that does not match its arguments
            message = str(record.msg)
        lines = [f"{when} {record.levelname} {safe(message, _LONGEST_LINE)}"]
        if record.exc_info and record.exc_info[1] is not None:
            trace = "".join(traceback.format_exception(record.exc_info[1])).splitlines()
            lines += [f"  | {safe(line, _LONGEST_LINE)}" for line in trace[-_LONGEST_TRACE:]]
        return "\n".join(lines)


class _QuietStream(logging.StreamHandler[TextIO]):
    """Stream handler that ignores write errors."""

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802 - the standard library's name
        """Drop the line."""


class _PrivateFile(RotatingFileHandler):
    """A size-limited log file with mode 0600."""

    def __init__(self, path: Path) -> None:
        super().__init__(path, maxBytes=MAX_BYTES, backupCount=OLD_FILES, encoding="utf-8", errors="backslashreplace")

    def _open(self) -> TextIOWrapper:
        descriptor = open_private(Path(self.baseFilename), os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        os.fchmod(descriptor, 0o600)
        return os.fdopen(descriptor, "a", encoding=self.encoding, errors=self.errors)

    def doRollover(self) -> None:  # noqa: N802 - the standard library's name
        """Start a new file. In the background stdout and stderr go to the log too and are redirected to it."""
        streams = [number for number in (1, 2) if self._is_log(number)]
        super().doRollover()
        if self.stream is None:
            self.stream = self._open()
        for number in streams:
            os.dup2(self.stream.fileno(), number)

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: ARG002, N802 - as above
        """Drop the line, as on a full disk, and reopen the file for the next one."""
        stream, self.stream = self.stream, None
        if stream is not None:
            with contextlib.suppress(Exception):  # its buffer cannot be written either
                stream.close()

    def _is_log(self, number: int) -> bool:
        try:
            return self.stream is not None and os.path.samestat(os.fstat(number), os.fstat(self.stream.fileno()))
        except OSError:
            return False


class _Libraries(logging.Handler):
    """Rate-limited handler for records of other loggers, so that an exporter's retries do not fill the log."""

    def __init__(self, target: logging.Handler) -> None:
        super().__init__(logging.WARNING)
        self._target = target
        self._messages: dict[tuple[str, str], _Subject] = {}

    def emit(self, record: logging.LogRecord) -> None:
        """Write the record unless the same message was written six times within the hour."""
        key = (record.name, str(record.msg)[:200])
        if key not in self._messages and len(self._messages) >= MAX_SUBJECTS:
            key = (_OTHERS, "")
        if self._messages.setdefault(key, _Subject()).may_log(time.monotonic()):
            self._target.handle(record)
