"""The embedded engine (chDB): installation check, process limits, a side-effect-free import, a pool of handles."""

from __future__ import annotations

import os
import resource
import shlex
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import util
from pathlib import Path
from typing import TYPE_CHECKING, Final

from gua.core.errors import UnavailableError
from gua.store.dsn import EmbeddedDsn

if TYPE_CHECKING:
    from clickhouse_connect.driver.client import Client

# A report's longest query takes nearly half of the total time: more handles would not help.
MOST: Final = 2
ALONE: Final = -1
"""Turn number of an exclusive request: served before all others."""


class Handles:
    """Pool that lends each thread its own handle. Opens another while all are lent, up to ``most`` handles."""

    def __init__(self, first: Client, another: Callable[[], Client], *, most: int | None = None) -> None:
        self._another = another
        self.most = min(MOST, len(os.sched_getaffinity(0))) if most is None else most
        self._free = [first]
        self._lent = 0
        self._waiting: list[int] = []
        self._is_alone = False
        self._is_closed = False
        self._changed = threading.Condition()

    @contextmanager
    def lent(self, turn: int = 0) -> Iterator[Client]:
        """Yield a handle as soon as one is available, for :data:`ALONE` while no other is lent.

        The lowest ``turn`` is served first.

        Raises UnavailableError if the pool is closed, and the errors of opening a handle.
        """
        with self._changed:
            self._waiting.append(turn)
            try:
                self._changed.wait_for(lambda: self._may_lend(turn))
            finally:
                self._waiting.remove(turn)
                self._changed.notify_all()  # another handle may be available to the next in line
            if self._is_closed:
                raise UnavailableError("the store was closed before this query")
            handle = self._free.pop() if self._free else None
            self._lent += 1
            self._is_alone = turn == ALONE
        try:
            if handle is None:
                handle = self._another()
            yield handle
        finally:
            with self._changed:
                self._lent -= 1
                self._is_alone = False
                if handle is not None:
                    self._free.append(handle)
                self._changed.notify_all()

    def close(self) -> None:
        """Reject waiting and new requests, wait for lent handles, and close all."""
        with self._changed:
            self._is_closed = True
            self._changed.notify_all()
            self._changed.wait_for(lambda: not self._lent)
            handles, self._free = self._free, []
        for handle in handles:
            handle.close()

    def _may_lend(self, turn: int) -> bool:
        if self._is_closed:
            return True
        has_room = not self._lent if turn == ALONE else bool(self._free) or self._lent < self.most
        return has_room and not self._is_alone and turn <= min(self._waiting)


_EXTRA: Final = 'extra == "local"'
_CHDIR: Final = os.chdir
_OPEN_FILES: Final = 192
_ADDRESSES_BYTES: Final = 3 * 2**30


def is_installed() -> bool:
    """Return whether the engine is installed in this Python."""
    return util.find_spec("chdb") is not None


def install_command() -> str:
    """Return the command that installs the engine into this environment: pip, or uv if pip is missing."""
    from importlib import metadata  # noqa: PLC0415 - loads the email parser, needed only if the engine is missing

    required = metadata.requires("gua-otel") or []
    engine = next((one.partition(";")[0].strip() for one in required if _EXTRA in one.replace("'", '"')), "chdb-core")
    if util.find_spec("pip") is not None:
        return shlex.join([sys.executable, "-m", "pip", "install", engine])
    return shlex.join(["uv", "pip", "install", "--python", sys.executable, engine])


def engine_version() -> str:
    """Return the embedded engine's version. Raises UnavailableError with the remedy if it cannot be imported."""
    try:
        with without_optional(), staying_here(), _in_utc():
            import chdb  # noqa: PLC0415 - an optional dependency that takes 0.3 s
    except ModuleNotFoundError as error:
        msg = f"the embedded store needs an engine that is not installed ({error.name}): run {install_command()}"
        raise UnavailableError(msg) from None
    except ImportError as error:  # for example too little memory
        msg = f"the engine of the embedded store cannot be loaded ({error}): check its installation"
        raise UnavailableError(msg) from None
    return str(chdb.engine_version)


def check_engine(path: Path, *, stamped: str | None, running: str) -> None:
    """Raise UnavailableError if a newer engine wrote the directory.

    An older engine would detach the newer parts and return no rows.
    """
    if stamped is not None and version_number(stamped) > version_number(running):
        raise UnavailableError(
            f"the store {path} was written by engine {stamped}, this is {running}, which would not see its rows: "
            "install a newer engine (pip install -U chdb-core)"
        )


def version_number(version: str) -> tuple[int, ...]:
    """Return (major, minor) of a version like ``26.9.2.1``; fewer numbers if ``version`` is malformed."""
    return tuple(int(part) for part in version.split(".")[:2] if part.isdigit())


def require_addresses(dsn: EmbeddedDsn) -> None:
    """Raise UnavailableError if the address space limit (RLIMIT_AS) is under 3 GiB. Call before loading the engine."""
    addresses, _ = resource.getrlimit(resource.RLIMIT_AS)
    if addresses != resource.RLIM_INFINITY and addresses < _ADDRESSES_BYTES:
        raise UnavailableError(f"{dsn} needs 3 GiB of address space: allow more, as with ulimit -v unlimited")


def require_descriptors(dsn: EmbeddedDsn) -> None:
    """Raise UnavailableError if 192 files cannot be opened: the engine would hang or abort without descriptors."""
    opened: list[int] = []
    try:
        opened += [os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)]
        opened += [os.dup(opened[0]) for _ in range(_OPEN_FILES - 1)]
    except OSError as error:
        msg = f"{dsn} needs up to {_OPEN_FILES} open files ({error.strerror}): allow more, as with ulimit -n 1024"
        raise UnavailableError(msg) from None
    finally:
        for descriptor in opened:
            os.close(descriptor)


@contextmanager
def without_optional() -> Iterator[None]:
    """Import the engine and its client without their optional libraries (numpy, pandas, polars, pyarrow).

    Nothing in gua uses them. This halves the time to open a store; both treat them as not installed.
    """
    hidden = [name for name in ("numpy", "pandas", "polars", "pyarrow") if name not in sys.modules]
    sys.modules.update(dict.fromkeys(hidden))  # type: ignore[arg-type] # None means "not installed" to the import
    try:
        yield
    finally:
        for name in hidden:
            del sys.modules[name]


@contextmanager
def staying_here() -> Iterator[None]:
    """Import the engine without its temporary change of the working directory.

    The change is not needed, and other threads' relative paths would fail meanwhile.
    """
    os.chdir = lambda path: None  # noqa: ARG005 - same parameter name as os.chdir
    try:
        yield
    finally:
        os.chdir = _CHDIR


@contextmanager
def _in_utc() -> Iterator[None]:
    """Set ``TZ`` to UTC during the import: the engine fails to load with an unknown zone, and works in UTC anyway."""
    before = os.environ.get("TZ")
    os.environ["TZ"] = "UTC"
    try:
        yield
    finally:
        if before is None:
            del os.environ["TZ"]
        else:
            os.environ["TZ"] = before
