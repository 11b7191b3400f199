"""Unix sockets that tests listen at and connect to, wherever the temporary folder is: an address has 108 bytes."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from gua.state.socket_address import short_address


@contextmanager
def bound(path: Path, kind: int = socket.SOCK_STREAM) -> Iterator[socket.socket]:
    """Yield a socket with this name, without a listener yet."""
    with socket.socket(socket.AF_UNIX, kind) as made:
        with short_address(path) as address:
            made.bind(address)
        yield made


@contextmanager
def listening(path: Path) -> Iterator[socket.socket]:
    """Yield a socket that takes connections."""
    with bound(path) as made:
        made.listen(8)
        yield made


@contextmanager
def connected(path: Path, *, seconds: float = 60) -> Iterator[socket.socket]:
    """Yield a connection, none of whose calls takes longer. Raises OSError without a listener."""
    with socket.socket(socket.AF_UNIX) as made:
        made.settimeout(seconds)
        with short_address(path) as address:
            made.connect(address)
        yield made
