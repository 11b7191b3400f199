"""Command-line arguments of processes, read only if the host's administrator set ``--detect-models``.

:mod:`gua.identity.served_models` stores a model's name and discards the rest at once.
"""

from pathlib import Path
from typing import Final

from gua.procfs.reader import read_once

_MOST_BYTES: Final = 16_384


def read_arguments(root: Path, pid: int) -> list[str] | None:
    """Return the complete arguments in the first 16 KiB of a process's command line; ``None`` without any."""
    content = read_once(f"{root}/{pid}/cmdline", _MOST_BYTES)
    if not content:
        return None
    *whole, _ = content.split(b"\0")  # each ends with a zero; a last part without one was cut, or is a title
    return [part.decode("utf-8", "replace") for part in whole] or None
