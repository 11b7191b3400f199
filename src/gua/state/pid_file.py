"""The PID file: the agent of a state directory; and why the last start in the background failed.

A pid alone proves nothing, as pids are reused. An agent runs only if the file is locked *and* its pid's process
has the start time and boot id in the file. So a file on a disk that several hosts share never
identifies a process on the wrong host.
"""

import contextlib
import errno
import fcntl
import json
import os
import stat
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, get_args, get_type_hints

from gua.core.errors import UnavailableError
from gua.core.plaintext import safe
from gua.core.untrusted import parsed_json
from gua.procfs.reader import ProcFs
from gua.state.directory import open_private

_LONGEST: Final = 4096
_ATTEMPTS: Final = 25
_PAUSE_SECONDS: Final = 0.02
_END_BYTES: Final = 8192
_ERROR_LINE: Final = "gua: "


@dataclass(frozen=True, kw_only=True, slots=True)
class AgentRecord:
    """Content of the PID file; ``started_ms`` is Unix time, ``start_ticks`` the kernel's clock ticks since boot.

    ``pid`` and ``start_ticks`` are from /proc of the agent's PID namespace. ``supervised`` means that systemd expects
    its notifications and may restart it.
    """

    pid: int
    start_ticks: int
    boot_id: str | None
    started_ms: int
    version: str
    supervised: bool = False
    host: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class RunningAgent(AgentRecord):
    """A running agent, verified when it was read; ``owner_uid`` owns the PID file."""

    owner_uid: int


_KINDS: Final[dict[str, tuple[type, ...]]] = {
    name: get_args(kind) or (kind,) for name, kind in get_type_hints(AgentRecord).items()
}


class PidFile:
    """PID file of an agent, locked while the agent runs.

    The flock belongs to the open file: a fork inherits it, an executed command does not. So acquire it in the final
    process, after ``background.detach``.
    """

    def __init__(self, path: Path, *, sleep: Callable[[float], None] = time.sleep) -> None:
        self.path = path
        self._sleep = sleep
        self._descriptor: int | None = None

    def acquire(self, record: AgentRecord) -> None:
        """Lock the file and write this process's ``record`` into it.

        Raises UnavailableError if the file is locked by another agent, is a symlink, belongs to another user, or is not
        writable.
        """
        for attempt in range(_ATTEMPTS):
            descriptor = open_private(self.path, os.O_RDWR | os.O_CREAT)
            try:
                if not _lock(descriptor, self.path):
                    if attempt == _ATTEMPTS - 1:
                        raise UnavailableError(self._in_use(descriptor, record.boot_id))
                elif _is_at(self.path, descriptor):
                    _write(descriptor, record, self.path)
                    self._descriptor, descriptor = descriptor, -1
                    return
            finally:
                if descriptor >= 0:
                    os.close(descriptor)
            self._sleep(_PAUSE_SECONDS)  # briefly locked by a reader, or about to be removed by its last agent
        raise UnavailableError(f"{self.path} is replaced again and again by somebody: name another with --pid-file")

    def release(self) -> None:
        """Remove the file, if it is still the locked one, and free the lock; idempotent."""
        if self._descriptor is None:
            return
        with contextlib.suppress(OSError):  # on a read-only disk the file stays, but counts as stale
            os.ftruncate(self._descriptor, 0)
            if _is_at(self.path, self._descriptor):
                self.path.unlink()
        os.close(self._descriptor)
        self._descriptor = None

    def _in_use(self, descriptor: int, boot_id: str | None) -> str:
        record = _parse(os.pread(descriptor, _LONGEST, 0))
        if record is None:
            return f"another process holds {self.path}: see gua status, or name another with --pid-file"
        if record.boot_id != boot_id:
            return (
                f"an agent on {safe(record.host, 64) or 'another host'} (pid {record.pid} there) uses {self.path}: "
                "give each host that shares this disk its own directory, with --state-dir"
            )
        return f"the agent runs already (pid {record.pid}, {self.path}): see gua status, stop it with gua stop"


def running(path: Path, processes: ProcFs) -> RunningAgent | None:
    """Return the running agent of this PID file; ``None`` if none runs. Writes nothing.

    ``processes`` is /proc of this PID namespace. Ignores files that are stale, damaged, symlinks, writable by others or
    owned by an untrusted user, and processes of another user than the file's owner. Raises UnavailableError if the file
    may not be read, as the agent's state is unknown then.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY)
    except PermissionError:
        msg = f"may not read {path}: it belongs to another user; try again as that user, or with sudo"
        raise UnavailableError(msg) from None
    except OSError:
        return None
    try:
        status = os.fstat(descriptor)
        if not _trusted(status) or not _is_held(descriptor):
            return None
        record = _parse(os.pread(descriptor, _LONGEST, 0))
    except OSError:
        return None
    finally:
        os.close(descriptor)
    if record is None or record.boot_id != processes.boot_id():
        return None
    process = processes.process(record.pid)
    # Otherwise a user could make root stop any process with a PID file that names it.
    if process is None or process.start_ticks != record.start_ticks or process.uid not in {status.st_uid, None}:
        return None
    return RunningAgent(**asdict(record), owner_uid=status.st_uid)


def _trusted(status: os.stat_result) -> bool:
    """Return whether only the owner can write the file, and is this user or root (anyone, if this user is root)."""
    mine = os.geteuid()
    return (
        stat.S_ISREG(status.st_mode)
        and status.st_nlink == 1
        and not status.st_mode & 0o022
        and (mine == 0 or status.st_uid in {mine, 0})
    )


def _is_held(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    fcntl.flock(descriptor, fcntl.LOCK_UN)
    return False


def _lock(descriptor: int, path: Path) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError as error:
        msg = f"cannot lock {path} ({error.strerror}): name a file on another file system, with --pid-file"
        raise UnavailableError(msg) from None
    return True


def _is_at(path: Path, descriptor: int) -> bool:
    """Return whether the path still refers to this open file."""
    try:
        there = path.lstat()
    except OSError:
        return False
    return os.path.samestat(there, os.fstat(descriptor))


def _write(descriptor: int, record: AgentRecord, path: Path) -> None:
    try:
        os.fchmod(descriptor, 0o600)
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, json.dumps(asdict(record)).encode() + b"\n", 0)
        os.fsync(descriptor)
    except OSError as error:
        what = "the disk is full" if error.errno in {errno.ENOSPC, errno.EDQUOT} else error.strerror
        raise UnavailableError(f"cannot write {path} ({what}): make room, or name another with --pid-file") from None


def _parse(content: bytes) -> AgentRecord | None:
    """Return the record; ``None`` if any part is not valid."""
    record = parsed_json(content)
    if not isinstance(record, dict) or any(type(record.get(name)) not in kinds for name, kinds in _KINDS.items()):
        return None
    numbers = [record[name] for name, kinds in _KINDS.items() if int in kinds]
    if any(not 0 <= number < 2**63 for number in numbers) or not 0 < record["pid"] < 2**31:
        return None
    return AgentRecord(**{name: record[name] for name in _KINDS})


def last_failure(log: Path) -> str | None:
    """Return time and reason of the last failed start in the background; ``None`` if it succeeded or none was tried.

    A failed start leaves its error as the last line of the log, in the format of command errors.
    """
    try:
        with log.open("rb") as file:
            file.seek(max(0, os.fstat(file.fileno()).st_size - _END_BYTES))
            lines = file.read().decode("utf-8", "replace").splitlines()
            written = datetime.fromtimestamp(os.fstat(file.fileno()).st_mtime, UTC)
    except OSError:
        return None
    if not lines or not lines[-1].startswith(_ERROR_LINE):
        return None
    return f"{written:%Y-%m-%d %H:%M} UTC: {safe(lines[-1].removeprefix(_ERROR_LINE))}"
