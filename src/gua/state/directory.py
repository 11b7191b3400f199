"""The agent's directories and files: paths, ownership and permission checks."""

import contextlib
import errno
import fcntl
import os
import stat
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from gua.core.errors import UnavailableError

_OPEN_TO_ALL: Final = 0o755
_OTHERS_MAY_WRITE: Final = 0o022
_ELSEWHERE: Final = "name another with --state-dir or GUA_HOME"
_OWN: Final = {
    *("spool.db", "agent.pid", "agent.sock", "agent.log", "boot.json"),
    *("store", "enrolled", "history.json", "reservations"),
    *("audits", "accepted-policy", "notify.lock"),  # of gua audit and gua notify
}
# Files of gpu-usage-audit 1.x, which used the same directory.
_OLDER: Final = {"gua.db", "gua.pid", "gua.log", "cloud.json"}


@dataclass
class Home:
    """A state directory and the paths in it; ``path`` is absolute. Does not access the disk."""

    path: Path

    def __post_init__(self) -> None:
        self.spool = self.path / "spool.db"  # ticks pending for their destinations
        self.pid_file = self.path / "agent.pid"
        self.socket = self.path / "agent.sock"  # for the agent's own user
        self.log_file = self.path / "agent.log"  # of an agent in the background
        self.boot_file = self.path / "boot.json"  # time of the last boot, written once per boot
        self.reservations = self.path / "reservations"
        self.store = self.path / "store"  # the embedded store by default


def home_path(option: Path | None, environ: Mapping[str, str]) -> Path:
    """Return the absolute state directory: the option's path, else ``GUA_HOME``, else ``~/.gua``.

    Raises UnavailableError without a home directory, or if the name is not UTF-8.
    """
    named = option or (Path(environ["GUA_HOME"]) if environ.get("GUA_HOME") else None)
    try:
        path = (Path.home() / ".gua" if named is None else named.expanduser()).absolute()
    except RuntimeError:
        msg = "there is no home directory (HOME is not set, this user has none): give one with --state-dir or GUA_HOME"
        raise UnavailableError(msg) from None
    try:
        str(path).encode()
    except UnicodeEncodeError:  # it could not be part of addresses and ids
        raise UnavailableError(f"the state directory {str(path)!a} has a name that is no UTF-8: {_ELSEWHERE}") from None
    return path


def reading_home(option: Path | None, environ: Mapping[str, str]) -> Path:
    """Return the state directory as :func:`home_path` does, for a read-only command.

    Without a home directory it returns a path that does not exist: the host's agent may still answer.
    """
    try:
        return home_path(option, environ)
    except UnavailableError:
        return Path("/nonexistent/.gua")


def prepare_home(path: Path) -> Home:
    """Create the directory with missing parents, mode 0700, and return it after permission checks.

    Refuses another user's directory, one that others can write (files may be planted), one behind another user's
    symlink, and one that is not writable. If others can read the directory, and it has only the agent's own files, it
    is set to 0700. Unrelated directories keep their mode.
    Raises UnavailableError.
    """
    path = path.absolute()
    try:
        # One by one: ``Path.mkdir`` applies its mode to the last directory only.
        missing = [place for place in (path, *path.parents) if not os.path.lexists(place)]
        for place in reversed(missing):
            place.mkdir(mode=0o700, exist_ok=True)
        fault = _fault(path)
        if fault is None and stat.S_IMODE(path.stat().st_mode) & 0o077:
            foreign = sorted({entry.name for entry in path.iterdir() if not _is_own(entry.name)})
            if foreign:
                fault = f"can be read by others and holds other files ({foreign[0]}): chmod 700 it, or {_ELSEWHERE}"
            else:
                path.chmod(0o700)
    except OSError as error:
        raise UnavailableError(_cannot(path, error)) from None
    if fault is not None:
        raise UnavailableError(f"the state directory {path} {fault}")
    return Home(path)


@contextmanager
def held(home: Home) -> Iterator[None]:
    """Lock the directory for this agent during the block. Raises UnavailableError if another agent has it.

    The host lock and the PID file's lock do not cover two agents with different network namespaces and PID files. File
    systems that cannot lock directories (some NFS) are accepted without a lock.
    """
    descriptor = os.open(home.path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        with contextlib.suppress(OSError):
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                msg = f"another agent keeps its state in {home.path}: give this one a directory of its own, --state-dir"
                raise UnavailableError(msg) from None
        yield
    finally:
        os.close(descriptor)


def examine_home(path: Path) -> str | None:
    """Return why :func:`prepare_home` would refuse this directory; ``None`` if it would not. Changes nothing."""
    path = path.absolute()
    try:
        if not os.path.lexists(path):
            return _fault_above(path)
        fault = _fault(path)
    except OSError as error:
        return _cannot(path, error)
    return None if fault is None else f"the state directory {path} {fault}"


def _fault(path: Path) -> str | None:
    mine = os.geteuid()
    link = path.lstat()
    if stat.S_ISLNK(link.st_mode) and link.st_uid not in {mine, 0}:
        return f"is a symbolic link of uid {link.st_uid}, not of uid {mine}: remove it, or {_ELSEWHERE}"
    status = path.stat()
    if not stat.S_ISDIR(status.st_mode):
        return f"is not a directory: {_ELSEWHERE}"
    if status.st_uid != mine:
        return f"belongs to uid {status.st_uid}, not to uid {mine}: run gua as its owner, or {_ELSEWHERE}"
    return _fault_of_mode(path, status)


def _fault_of_mode(path: Path, status: os.stat_result) -> str | None:
    mode = stat.S_IMODE(status.st_mode)
    if mode & _OTHERS_MAY_WRITE:
        return (
            f"can be written by others (mode {mode:04o}), who may have put files there: "
            f"look into it, then chmod 700 it, or {_ELSEWHERE}"
        )
    if os.statvfs(path).f_flag & os.ST_RDONLY:
        return f"is on a read-only file system: {_ELSEWHERE}"
    if not os.access(path, os.R_OK | os.W_OK | os.X_OK, effective_ids=True):
        return f"cannot be written by its owner (mode {mode:04o}): chmod 700 it, or {_ELSEWHERE}"
    return None


def _fault_above(path: Path) -> str | None:
    """Raise OSError if the missing directory could not be created; return ``None`` otherwise."""
    above = next(place for place in path.parents if os.path.lexists(place))
    if not above.is_dir():
        raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR))
    if os.statvfs(above).f_flag & os.ST_RDONLY:
        raise OSError(errno.EROFS, os.strerror(errno.EROFS))
    if not os.access(above, os.W_OK | os.X_OK, effective_ids=True):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
    return None


def _cannot(path: Path, error: OSError) -> str:
    return f"the state directory {path} cannot be used ({error.strerror}): {_ELSEWHERE}"


def _is_own(name: str) -> bool:
    """Return whether a file name is of gua or its predecessor, such as spool.db-wal, agent.log.1, boot.json.4711."""
    return any(name == own or name.startswith((f"{own}.", f"{own}-")) for own in _OWN | _OLDER)


def prepare_run_folder(path: Path) -> str | None:
    """Create the folder of the socket for all users of the host; return the fault if it is unusable.

    It must belong to this user alone: others who can write there could replace the socket.
    """
    try:
        try:
            path.mkdir()
            path.chmod(_OPEN_TO_ALL)
        except FileExistsError:
            pass
        status = path.stat()  # systemd may have created a symlink here
    except OSError as error:
        return f"{path} cannot be made ({error.strerror})"
    if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.geteuid() or status.st_mode & _OTHERS_MAY_WRITE:
        return f"{path} is not this user's own folder"
    return None if os.access(path, os.W_OK) else f"{path} cannot be written"


def open_private(path: Path, flags: int) -> int:
    """Open a regular file of this user and return its descriptor; O_CREAT in ``flags`` creates it with mode 0600.

    Refuses symlinks, files with several hard links, other users' files, devices and pipes: a user who can write to the
    directory could make the agent write elsewhere. The descriptor is close-on-exec. Raises UnavailableError.
    """
    try:
        descriptor = os.open(path, flags | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY, 0o600)
    except OSError as error:
        if error.errno == errno.ELOOP:
            msg = f"{path} is a symbolic link, which gua does not follow here: remove it, or name another file"
        else:
            msg = f"cannot open {path} ({error.strerror}): name a file that you may write, in a directory of your own"
        raise UnavailableError(msg) from None
    fault = _fault_of_file(os.fstat(descriptor))
    if fault is not None:
        os.close(descriptor)
        raise UnavailableError(f"{path} {fault}: gua leaves it alone; remove it, or name another file")
    return descriptor


def replace_private(path: Path, content: bytes) -> None:
    """Write a file atomically: mode 0600, synced to disk; after a crash the old or the new content remains.

    Replaces any file of that name; of a symlink the link itself. Raises OSError.
    """
    descriptor, temporary = tempfile.mkstemp(prefix=f"{path.name}-", suffix=".tmp", dir=path.parent)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(descriptor)
        Path(temporary).replace(path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise
    sync(path.parent)


def sync(path: Path) -> None:
    """Sync a file or directory to disk. Not for a file that this process has open in SQLite."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _fault_of_file(status: os.stat_result) -> str | None:
    if not stat.S_ISREG(status.st_mode):
        return "is not a regular file"
    if status.st_uid != os.geteuid():
        return f"belongs to uid {status.st_uid}, not to uid {os.geteuid()}"
    if status.st_nlink > 1:
        return "has a second name (a hard link)"
    return None
