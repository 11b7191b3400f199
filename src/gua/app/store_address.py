"""The store's address from options and environment, resolved without opening anything."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

from gua.core.errors import UsageError
from gua.state.directory import home_path
from gua.store.dsn import EmbeddedDsn, ServerDsn, is_path

STORE: Final = "store"


def home_directory() -> Path:
    """Return the directory of the agent's state and the default store: ``GUA_HOME``, else ``~/.gua``."""
    return home_path(None, os.environ)


def store_address(store: str | None, home: Path | None = None) -> str:
    """Return the store's address: the option, else ``GUA_STORE``, else the directory ``store`` below the home.

    A plain path is made absolute, as later deliveries run in another working directory.
    """
    address = store or os.environ.get("GUA_STORE")
    if not address:
        return str(default_store(home or home_directory()))
    return str(EmbeddedDsn(path=Path(address).absolute())) if is_path(address) else address


def is_socket_named(store: str | None, socket: Path | None) -> bool:
    """Return whether the socket is an option, not a variable. Raises UsageError if the store is one, too."""
    named = socket is not None and str(socket) != os.environ.get("GUA_SOCKET")
    if store and named and store != os.environ.get("GUA_STORE"):
        raise UsageError("one source is read: give --store or --socket, not both")
    return named


def default_store(home: Path) -> EmbeddedDsn:
    """Return the default store of a state directory."""
    return EmbeddedDsn(path=home.absolute() / STORE)


def store_destination(parsed: EmbeddedDsn | ServerDsn, home: Path) -> str:
    """Return the spool's name for a store; reports use it to find ticks still pending for that store."""
    return STORE if parsed == default_store(home) else f"{STORE} {parsed}"
