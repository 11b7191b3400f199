"""Where the agent of this host is asked: its own user's socket first, then the one for everybody."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

from gua.core.errors import UnavailableError
from gua.core.ports import ViewReader
from gua.local_socket.client import DEFAULT_SOCKET, NobodyError, NotAllowedError, RemoteReader
from gua.state.directory import Home

T = TypeVar("T")


def places(given: Path | None, home: Path) -> list[Path]:
    """Return the sockets to try, in order."""
    return [Home(home).socket, DEFAULT_SOCKET] if given is None else [given]


@contextmanager
def remote_reader(tried: list[Path]) -> Iterator[ViewReader]:
    """Open the report's views through the first agent that listens. Raises NobodyError if none does."""
    from gua.report.views import SHARED  # noqa: PLC0415 - who asks for a status alone needs none of them

    reader = first_answer(tried, lambda path: RemoteReader(path, SHARED).__enter__())
    try:
        yield reader
    finally:
        reader.close()


def first_answer(tried: Sequence[Path], ask: Callable[[Path], T]) -> T:
    """Return what the first agent says that may be asked. Raises NotAllowedError if one may not, else NobodyError."""
    silent: UnavailableError | None = None
    for path in tried:
        try:
            return ask(path)
        except NotAllowedError as error:  # a home that is not this user's, as where HOME was kept by sudo
            silent = error
        except NobodyError as error:
            silent = silent if isinstance(silent, NotAllowedError) else error
    assert silent is not None  # noqa: S101 - there is always a socket to try
    raise silent
