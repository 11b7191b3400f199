"""Cached reading of folders with small files that only root or the agent's user can write."""

import contextlib
import errno
import os
import stat
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Generic, TypeVar

from gua.core.untrusted import require

MOST_BYTES: Final = 64 * 1024
_TOO_LONG: Final = f"longer than {MOST_BYTES // 1024} KiB"
_OTHERS_MAY_WRITE: Final = stat.S_IWGRP | stat.S_IWOTH
_FLAGS: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY

Stamp = tuple[int, int, int, int, int, int]
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class TrustedFile(Generic[T]):
    """Parsed content of a file and its modification time (Unix ms); ``bad`` is why the content is missing."""

    stamp: Stamp
    changed_ms: int
    content: T | None
    bad: str | None


class TrustedFolder(Generic[T]):
    """Files of a folder; a file is read again only if it changed. For one thread.

    ``selects`` selects files by name. ``parse`` takes a file's bytes and modification time (Unix ms), and may raise
    ValueError. ``changed_ms`` is the folder's own modification time (Unix ms).
    """

    def __init__(
        self, path: Path, selects: Callable[[str], object], parse: Callable[[bytes, int], T], *, most_files: int
    ) -> None:
        self.path = path
        self.changed_ms = 0
        self._selects = selects
        self._parse = parse
        self._most_files = most_files
        self._files: dict[str, TrustedFile[T]] = {}

    def read(self) -> Mapping[str, TrustedFile[T]]:
        """Return the files by name. Raises OSError if the folder cannot be read, is not trusted, or is too full."""
        before, self._files = self._files, {}
        folder = os.open(self.path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            status = os.fstat(folder)
            reason = _distrusted(status)
            if reason is not None:
                raise OSError(errno.EPERM, reason)
            self.changed_ms = status.st_mtime_ns // 1_000_000
            files: dict[str, TrustedFile[T]] = {}
            with os.scandir(folder) as entries:
                for count, entry in enumerate(entries):
                    if count == self._most_files:
                        raise OSError(errno.E2BIG, f"more than {self._most_files} files")
                    # A file may be removed since it was listed.
                    with contextlib.suppress(FileNotFoundError):
                        if self._selects(entry.name):
                            status = entry.stat(follow_symlinks=False)
                            known = before.get(entry.name)
                            is_known = known is not None and known.stamp == stamp(status)
                            files[entry.name] = known if known and is_known else self._read(entry.name, folder, status)
            self._files = files
        finally:
            os.close(folder)
        return self._files

    def _read(self, name: str, folder: int, status: os.stat_result) -> TrustedFile[T]:
        changed_ms = status.st_mtime_ns // 1_000_000
        content, bad = None, _refusal(status)
        if bad is None:
            try:
                content = self._parse(_read_trusted(name, folder), changed_ms)
            except OSError as error:
                bad = error.strerror or type(error).__name__
            except ValueError as error:
                bad = str(error)
        return TrustedFile(stamp(status), changed_ms, content, bad)


def stamp(status: os.stat_result) -> Stamp:
    """Return the attributes of a file that identify a version of it."""
    return status.st_mtime_ns, status.st_ctime_ns, status.st_ino, status.st_size, status.st_mode, status.st_uid


def _distrusted(status: os.stat_result) -> str | None:
    """Return why a file or folder is not trusted, ``None`` if only root or this user can write it."""
    if status.st_uid not in {0, os.geteuid()}:
        return f"owned by uid {status.st_uid}, not by root or the agent's user"
    if status.st_mode & _OTHERS_MAY_WRITE:
        return "others than its owner may write it"
    return None


def _refusal(status: os.stat_result) -> str | None:
    """Return why a file is not read: not a regular file, not trusted, or too large; ``None`` if it is read."""
    if not stat.S_ISREG(status.st_mode):
        return "a link" if stat.S_ISLNK(status.st_mode) else "no regular file"
    if status.st_size > MOST_BYTES:
        return _TOO_LONG
    return _distrusted(status)


def _read_trusted(name: str, folder: int) -> bytes:
    """Return a file's bytes; follows no link and never blocks on a FIFO. Raises OSError or, if refused, ValueError."""
    descriptor = os.open(name, _FLAGS, dir_fd=folder)
    try:
        reason = _refusal(os.fstat(descriptor))
        if reason is not None:
            raise ValueError(reason)
        content = os.read(descriptor, MOST_BYTES + 1)
    finally:
        os.close(descriptor)
    require(len(content) <= MOST_BYTES, _TOO_LONG)
    return content
