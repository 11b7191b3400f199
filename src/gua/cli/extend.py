"""``gua extend``: keeps cards that were reserved by hand for longer."""

from __future__ import annotations

import os
from typing import Annotated

import typer

from gua.app.local_agent import places
from gua.app.reserving import ask, described, wanted
from gua.cli.options import AgentStateOption, GpuIdsOption, SocketOption, value
from gua.core.durations import parse_duration_ms
from gua.core.errors import UnavailableError
from gua.state.directory import asking_home


def command(
    *,
    ids: Annotated[list[str] | None, typer.Argument(metavar="[ID]...", help="Reservations by their ids.")] = None,
    lasts: Annotated[str, value("DURATION", "GUA_FOR", "For how long from now on, as in 2h.", "--for")],
    gpu_ids: GpuIdsOption = None,
    socket: SocketOption = None,
    state_dir: AgentStateOption = None,
) -> None:
    """Keep cards that you reserved by hand until so long from now.

    Example:
        gua extend --for 2h
    """
    named = wanted(None, gpu_ids) if gpu_ids is not None else {"ids": list(ids)} if ids else {}
    request = {"ask": "extend", "for_ms": parse_duration_ms(lasts), **named}
    longer = ask(places(socket, asking_home(state_dir, os.environ)), request).get("extended") or ()
    if not longer:
        msg = "nothing of yours is reserved by hand: gua reserve takes cards"
        raise UnavailableError(msg)
    for reservation in longer:
        typer.echo(f"reserved {described(reservation)}")
