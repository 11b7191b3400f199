"""Where the agent of this host is asked: its own user's socket first, then the one for everybody."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer

from gpu_usage_audit.agent.client import DEFAULT_SOCKET, NobodyError, RemoteReader
from gpu_usage_audit.agent.home import Home
from gpu_usage_audit.core.ports import ViewReader

SocketOption = Annotated[
    Path | None,
    typer.Option(
        "--socket",
        metavar="PATH",
        envvar="GUA_SOCKET",
        readable=False,  # whether it may be asked is the socket's own answer
        help=f"Where the agent answers; agent.sock in its state, else {DEFAULT_SOCKET}, if not given.",
    ),
]


def places(given: Path | None, home: Path) -> list[Path]:
    """Return the sockets to try, in order."""
    return [Home(home).socket, DEFAULT_SOCKET] if given is None else [given]


@contextmanager
def remote_reader(tried: list[Path]) -> Iterator[ViewReader]:
    """Open the report's views through the first agent that listens. Raises NobodyError if none does."""
    reader = _first(tried)
    try:
        yield reader
    finally:
        reader.close()


def _first(tried: list[Path]) -> RemoteReader:
    for path in tried[:-1]:
        try:
            return RemoteReader(path).__enter__()
        except NobodyError:
            continue
    return RemoteReader(tried[-1]).__enter__()
