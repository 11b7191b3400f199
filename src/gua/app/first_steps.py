"""Messages for an empty store: the next command, or why the agent did not start."""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final
from urllib.parse import unquote

from gua.app.local_agent import other_agent
from gua.app.opening import default_store, store_address, store_destination
from gua.core.errors import NothingRecordedError, UnavailableError
from gua.spool.waiting import awaiting
from gua.state.directory import Home, home_path
from gua.state.pid_file import last_failure
from gua.store.dsn import EmbeddedDsn
from gua.store.engine import install_command, is_installed

if TYPE_CHECKING:
    from gua.app.settings import AgentSettings

LOOK: Final = "just looking: gua demo"


def nothing_recorded(store: EmbeddedDsn, home: Path) -> UnavailableError:
    """Return the error for an embedded store that is missing or empty; it names the next command."""
    if store_destination(store, home) in awaiting(Home(home).spool):
        return UnavailableError(f"there is no store at {store.path} yet: gua report makes it, of the ticks that wait")
    elsewhere = other_agent(os.environ) if store == default_store(home) else None
    if elsewhere is not None:
        return UnavailableError(elsewhere)
    if not is_installed():
        server = "or ask a server: gua report --store clickhouse://user@host:8123"
        msg = f"the embedded engine, which reports from {store.path} need, is not installed"
        return UnavailableError(msg, hints=(f"add it: {install_command()}", server))
    if store != default_store(home):
        start = f"gua daemon --store {shlex.quote(str(store.path))}"
        return NothingRecordedError(f"nothing is recorded in {store.path} yet: start with {start}", hints=(LOOK,))
    hints = [LOOK]
    if (history := older_history()) is not None:
        hints.insert(0, f"a history of gpu-usage-audit 1.x is there: {import_command(history)}")
    why = ": start with gua daemon"
    if (failure := last_failure(Home(home).log_file)) is not None:
        why = f", as the last start of the agent failed ({failure})"
        hints.insert(0, "everything that it needs, checked: gua doctor")
    return NothingRecordedError(f"nothing is recorded in {store.path} yet{why}", hints=tuple(hints))


def after_start(settings: AgentSettings, environ: Mapping[str, str]) -> Iterator[str]:
    """Yield the destinations of the agent's ticks, and the next commands."""
    where = " and ".join(shown(one.where) for one in settings.destinations)
    public = settings.public_socket
    yield f"ticks go to {where}" + (f"; all users of this host may ask ({public})" if public else "")
    home = settings.home.path
    prefix = f"GUA_HOME={shlex.quote(str(home))} " if home != home_path(None, environ) else ""
    stores = [one for one in settings.destinations if one.store]
    other = [one for one in stores if one.store != store_address(None, home)]
    option = f" --store {shlex.quote(shown(other[0].where))}" if other else ""
    report = f"{prefix}gua report{option} the hours so far, " if stores else ""
    yield f"next: {prefix}gua status shows the cards now, {report}{prefix}gua stop ends it"


def shown(where: str) -> str:
    """Return a destination for people: an embedded store as its path alone."""
    return unquote(where.removeprefix("chdb://"))


def older_history() -> Path | None:
    """Return the history file of gpu-usage-audit 1.x, ``None`` without one."""
    with suppress(RuntimeError, OSError):
        path = Path.home() / ".gua" / "gua.db"
        if path.is_file():
            return path
    return None


def import_command(history: Path) -> str:
    """Return the command that imports such a history."""
    return f"gua import gua-sqlite {shlex.quote(str(history))}"
