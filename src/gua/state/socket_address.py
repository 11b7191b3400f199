"""Unix sockets whose paths are longer than an address holds."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

_LONGEST_ADDRESS: Final = 107  # bytes; sun_path has 108 with the one that ends it, unix(7)


@contextmanager
def address_of(path: Path) -> Iterator[str]:
    """Yield an address for ``path``: the path, or a short one by way of its open folder where it is too long.

    The short one is this process's own, and holds while the block runs. Raises OSError where the folder cannot be had.
    """
    if len(os.fsencode(path)) <= _LONGEST_ADDRESS:
        yield str(path)
        return
    folder = os.open(path.parent, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield f"/proc/self/fd/{folder}/{path.name}"
    finally:
        os.close(folder)
