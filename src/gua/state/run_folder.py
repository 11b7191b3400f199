"""The folder of the socket at which an agent answers every user of the host."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import Final

_OPEN_TO_ALL: Final = 0o755
_OTHERS_MAY_WRITE: Final = 0o022


def prepare_run_folder(path: Path) -> str | None:
    """Make the folder, for all to enter, where it is missing; return why no socket of this user's can be there, if so.

    Whoever may write there could put another socket in its place: it has to be this user's own.
    """
    try:
        try:
            path.mkdir()
            path.chmod(_OPEN_TO_ALL)
        except FileExistsError:
            pass
        found = path.stat()  # systemd may have put a link here
    except OSError as error:
        return f"{path} cannot be made ({error.strerror})"
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.geteuid() or found.st_mode & _OTHERS_MAY_WRITE:
        return f"{path} is not this user's own folder"
    return None if os.access(path, os.W_OK) else f"{path} cannot be written"
