"""Files of the agent's own: never reached through a link, never another user's, never readable by others."""

from __future__ import annotations

import errno
import os
import stat
import tempfile
from pathlib import Path

from gua.core.errors import UnavailableError


def open_private(path: Path, flags: int) -> int:
    """Open a regular file of this user's, made with mode 0600 if ``flags`` say O_CREAT; return its descriptor.

    A symbolic link, a file with a second name (a hard link that somebody planted), another user's file, a
    device and a pipe are refused: whoever may write the directory could make the agent write elsewhere.
    The descriptor is not inherited by commands. Raises UnavailableError.
    """
    try:
        descriptor = os.open(path, flags | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY, 0o600)
    except OSError as error:
        if error.errno == errno.ELOOP:
            msg = f"{path} is a symbolic link, which gua does not follow here: remove it, or name another file"
        else:
            msg = f"cannot open {path} ({error.strerror}): name a file that you may write, in a directory of your own"
        raise UnavailableError(msg) from None
    fault = _fault(os.fstat(descriptor))
    if fault is not None:
        os.close(descriptor)
        msg = f"{path} {fault}: gua leaves it alone; remove it, or name another file"
        raise UnavailableError(msg)
    return descriptor


def replace_private(path: Path, content: bytes) -> None:
    """Put a file of this content at ``path``, 0600 and on the disk, in one step: a crash leaves the old or the new.

    Whatever had the name, a link included, is replaced and not followed. Raises OSError.
    """
    descriptor, scratch = tempfile.mkstemp(prefix=f"{path.stem}-", suffix=".tmp", dir=path.parent)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(descriptor)
        Path(scratch).replace(path)
    except BaseException:
        Path(scratch).unlink(missing_ok=True)
        raise
    directory = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)


def _fault(found: os.stat_result) -> str | None:
    if not stat.S_ISREG(found.st_mode):
        return "is not a regular file"
    if found.st_uid != os.geteuid():
        return f"belongs to uid {found.st_uid}, not to uid {os.geteuid()}"
    if found.st_nlink > 1:
        return "has a second name (a hard link)"
    return None
