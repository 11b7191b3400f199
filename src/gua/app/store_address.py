"""The store that the options and the environment name, worked out without opening anything."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

from gua.state.directory import home_path
from gua.store.dsn import EmbeddedDsn, ServerDsn, is_path

STORE: Final = "store"


def home_directory() -> Path:
    """Return where the agent and the default store live: ``GUA_HOME``, else ``~/.gua``."""
    return home_path(None, os.environ)


def store_address(store: str | None, home: Path | None = None) -> str:
    """Return the store's address: as given, else ``GUA_STORE``, else the directory ``store`` below the home.

    A plain path is made absolute: who delivers there later works in another directory.
    """
    address = store or os.environ.get("GUA_STORE")
    if not address:
        return str(default_store(home or home_directory()))
    return str(EmbeddedDsn(path=Path(address).absolute())) if is_path(address) else address


def default_store(home: Path) -> EmbeddedDsn:
    """Return the store of a home that names no other."""
    return EmbeddedDsn(path=home.absolute() / STORE)


def store_destination(parsed: EmbeddedDsn | ServerDsn, home: Path) -> str:
    """Return the name that the spool has for a store, so that its reports know which ticks still wait for it."""
    return STORE if parsed == default_store(home) else f"{STORE} {parsed}"
