"""Another user of this host: a function run in a child process under a user id of its own."""

from __future__ import annotations

import os
import pickle
import shutil
import stat
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

T = TypeVar("T")
OTHER_UID = 54_321


def other_uid() -> int:
    """Return the id of a user that is not this one: only root can become one, so for others it is their own."""
    return OTHER_UID if os.geteuid() == 0 else os.geteuid()


def as_user(uid: int, function: Callable[[], T]) -> T:
    """Return what ``function`` returns in a child that runs as ``uid``; what it raises is raised here."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reading)
        try:
            if uid != os.geteuid():
                os.setgroups([])
                os.setgid(uid)
                os.setuid(uid)
            answer: tuple[object, BaseException | None] = (function(), None)
        except BaseException as error:  # noqa: BLE001 - it is raised in the parent
            answer = (None, error)
        with os.fdopen(writing, "wb") as pipe:
            pickle.dump(answer, pipe)
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading, "rb") as pipe:
        answered, error = pickle.load(pipe)  # noqa: S301 - written by the child above
    os.waitpid(child, 0)
    if error is not None:
        raise error
    return answered  # type: ignore[no-any-return]


def readable_by_all(folder: Path) -> None:
    """Let every user read what is in a folder, whatever the umask was with which it or a checkout was made."""
    for place in (folder, *folder.rglob("*")):
        if not place.is_symlink():
            mode = stat.S_IMODE(place.stat().st_mode)
            place.chmod(mode | 0o444 | (0o111 if place.is_dir() or mode & 0o100 else 0))


@contextmanager
def shared_folder() -> Iterator[Path]:
    """Yield a folder that every user may enter, as pytest's own are for one user."""
    folder = Path(tempfile.mkdtemp(prefix="gua-shared-"))
    try:
        folder.chmod(0o755)
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)  # an engine that ends may still remove files of its own
