"""``gua answer``: one report for a user of this host. The agent starts it, not people."""

from __future__ import annotations

import os
import socket
from typing import Annotated, Final

import typer

from gua.agent import signals
from gua.app.answer import converse
from gua.app.opening import open_reader
from gua.core.errors import UnavailableError

_POLITENESS: Final = 10


def command(*, fd: Annotated[int, typer.Option("--fd", help="The connection, inherited.")]) -> None:
    """Answer one report over a connection that the agent hands on. The agent starts this, not people.

    Example:
        gua answer --fd 7
    """
    signals.release()
    os.nice(_POLITENESS)
    try:
        connection = socket.socket(fileno=fd)
    except OSError:
        msg = "gua answer is started by the agent: run gua report"
        raise UnavailableError(msg) from None
    with connection:
        converse(connection, lambda: open_reader(None))
