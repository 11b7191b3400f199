"""``gua queue``: who waits for cards."""

from __future__ import annotations

import json
import os
import time
from typing import Annotated

import typer

from gua.app.local_agent import places
from gua.app.reserving import ask
from gua.cli.options import AgentStateOption, SocketOption, flag
from gua.core.durations import format_duration
from gua.core.plaintext import pad, safe
from gua.state.directory import asking_home

_SECOND_MS = 1000


def command(
    *,
    as_json: Annotated[bool, flag("--json", "GUA_JSON", 'One JSON object, schema "gua.queue/1".')] = False,
    socket: SocketOption = None,
    state_dir: AgentStateOption = None,
) -> None:
    """Show who waits for cards, in the order in which they get them.

    Example:
        gua queue
    """
    waiting = ask(places(socket, asking_home(state_dir, os.environ)), {"ask": "queue"}).get("queue") or []
    if as_json:
        typer.echo(json.dumps({"schema": "gua.queue/1", "queue": waiting}))
        return
    if not waiting:
        typer.echo("nobody waits")
        return
    now_ms = time.time_ns() // 1_000_000
    for each in waiting:
        cards = ",".join(map(str, each["gpus"]))
        what = f"GPU {cards}" if cards else f"{each['count']} GPU{'' if each['count'] == 1 else 's'}"
        since = format_duration(max(0, (now_ms - each["asked_ms"]) // _SECOND_MS * _SECOND_MS))
        owner, note = safe(each["owner"], 16), safe(each["note"] or "", 60)
        typer.echo(f"{each['position']:>3}  {pad(owner, 16)}  {pad(what, 10)}  {since:>8}  {note}".rstrip())
