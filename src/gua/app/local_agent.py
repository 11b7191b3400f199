"""The local sockets of this host's agent: the user's own first, then the public one."""

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final, TypeVar

from gua.app.output import print_line
from gua.core.errors import GuaError, UnavailableError
from gua.local_socket.client import NobodyError, NotAllowedError, query_status
from gua.procfs.reader import ProcFs
from gua.state.directory import Home, prepare_run_folder
from gua.state.host_lock import HostLock
from gua.state.socket_address import user_name

T = TypeVar("T")
_NOWHERE: Final = Path("off")


def host_socket(environ: Mapping[str, str]) -> Path:
    """Return the public socket of root's agent: in ``GUA_RUN_DIR`` (for tests), or /run/gua."""
    return Path(environ.get("GUA_RUN_DIR") or "/run/gua").absolute() / "agent.sock"


def places(named: Path | None, home: Path) -> list[Path]:
    """Return the sockets to try, in order."""
    return [Home(home).socket, host_socket(os.environ)] if named in {None, _NOWHERE} else [named]


def public_socket(named: Path | None, environ: Mapping[str, str]) -> Path | None:
    """Return the socket where this agent serves all users of the host, ``None`` for none.

    It is the path ``named``, or for root's agent the host's default, whose folder is created. Raises UnavailableError
    if that fails for a path ``named``. Otherwise root's agent prints a note, also if /proc hides others' processes.
    """
    own = host_socket(environ)
    if named == _NOWHERE or (named is None and os.geteuid() != 0):
        return None
    if named is not None and named.absolute() != own:
        return named.absolute()
    hidden = ProcFs().hidepid() if named is None else None
    fault = prepare_run_folder(own.parent) if hidden is None else f"/proc hides others' processes (hidepid={hidden})"
    if fault is None:
        return own
    if named is not None:
        msg = f"cannot listen at {own}: {fault}; make it with sudo install -d -o {os.geteuid()} {own.parent}"
        raise UnavailableError(msg)
    print_line(f"note: other users of this host are not answered: {fault}; with --socket PATH they are", to_stderr=True)
    return None


def other_agent(environ: Mapping[str, str]) -> str | None:
    """Return a message on an agent of this host that did not serve this user, ``None`` if none runs.

    It names the socket to use if that works, else the command that the agent's owner has to type.
    """
    holder = HostLock.of(environ).holder()
    if holder is None:
        return None
    socket = host_socket(environ)
    try:
        query_status(socket)
    except GuaError:
        pass
    else:
        return f"the agent of this host has other recordings: gua report --socket {socket} asks it"
    if not holder.pid:
        return f"the agent of this host runs {holder}: ask it there, as in its container"
    if holder.uid == os.geteuid():
        return f"your agent ({holder}) keeps its state in another directory: name that with GUA_HOME"
    owner = user_name(holder.uid)
    make = f"sudo install -d -o {holder.uid} {socket.parent} && " if holder.uid else ""
    return (
        f"the agent of this host ({holder}) answers {f'{owner} and root' if holder.uid else 'root'} alone; so that it "
        f"answers all users, {owner} types: {make}gua stop && gua daemon --socket {socket}"
    )


def first_response(tried: Sequence[Path], query: Callable[[Path], T]) -> T:
    """Return the first response. Raises NotAllowedError if one denies access, else NobodyError."""
    silent: UnavailableError | None = None
    for path in tried:
        try:
            return query(path)
        except NotAllowedError as error:  # another user's home, as when sudo preserves HOME
            silent = error
        except NobodyError as error:
            silent = silent if isinstance(silent, NotAllowedError) else error
    assert silent is not None  # noqa: S101 - at least one socket is tried
    raise silent
