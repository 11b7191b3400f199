"""``gua release``: gives reserved cards back."""

from __future__ import annotations

import os
from typing import Annotated

import typer

from gua.app.local_agent import places
from gua.app.reserving import ask, described, wanted
from gua.cli.options import AgentStateOption, GpuIdsOption, SocketOption
from gua.state.directory import asking_home


def command(
    *,
    ids: Annotated[list[str] | None, typer.Argument(metavar="[ID]...", help="Reservations by their ids.")] = None,
    gpu_ids: GpuIdsOption = None,
    socket: SocketOption = None,
    state_dir: AgentStateOption = None,
) -> None:
    """Give cards back: all that you reserved by hand, or those that you name.

    A command that still runs on a card goes on there. root and the group gua-admin may give back others' cards, which
    is recorded with their name.

    Example:
        gua release
        gua release --gpu-ids 0,3
    """
    named = wanted(None, gpu_ids) if gpu_ids is not None else {"ids": list(ids)} if ids else {}
    answer = ask(places(socket, asking_home(state_dir, os.environ)), {"ask": "release", **named})
    released = answer.get("released") or ()
    for reservation in released:
        typer.echo(f"released {described({**reservation, 'until_ms': None})}")
    if not released:
        typer.echo("nothing was reserved")
