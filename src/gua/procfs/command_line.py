"""Command-line arguments of processes, read only if the host's administrator set ``--detect-models``.

Callers pass them to :mod:`gua.identity.served_models`, which stores a model's name and discards the rest at once.
"""

from pathlib import Path
from typing import Final

from gua.procfs.reader import read_once

_MOST_BYTES: Final = 16_384


class CommandLines:
    """Reader of arguments and parents in a procfs tree. Never raises: what cannot be read is ``None``."""

    def __init__(self, root: Path) -> None:
        self._root = root

    def arguments(self, pid: int) -> list[str] | None:
        """Return the complete arguments in the first 16 KiB of a process's command line; ``None`` without any."""
        content = read_once(f"{self._root}/{pid}/cmdline", _MOST_BYTES)
        if not content:
            return None
        *whole, _ = content.split(b"\0")  # each ends with a zero; a last part without one was cut, or is a title
        return [part.decode("utf-8", "replace") for part in whole] or None

    def parent(self, pid: int) -> int | None:
        """Return the pid of a process's parent, ``None`` if it has no parent in this PID namespace."""
        content = read_once(f"{self._root}/{pid}/stat", _MOST_BYTES) or b""
        fields = content[content.rfind(b")") + 1 :].split()
        parent = int(fields[1]) if len(fields) > 1 and fields[1].isdigit() else 0
        return parent or None
