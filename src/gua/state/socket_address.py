"""Addresses for unix sockets whose paths exceed the limit of ``sun_path``."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

_LONGEST_ADDRESS: Final = 107  # bytes; sun_path has 108, including the terminating zero, unix(7)


@contextmanager
def short_address(path: Path) -> Iterator[str]:
    """Yield a socket address for ``path``: the path, or a short alias through its open folder if it is too long.

    The alias is valid in this process during the block. Raises OSError if the folder cannot be opened.
    """
    if len(os.fsencode(path)) <= _LONGEST_ADDRESS:
        yield str(path)
        return
    folder = os.open(path.parent, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield f"/proc/self/fd/{folder}/{path.name}"
    finally:
        os.close(folder)
