"""``gua land``: started hourly by the agent, so that the agent itself does not load the engine."""

import json
import os
from pathlib import Path
from typing import Annotated

import typer

from gua.agent import signals
from gua.agent.delivery import drain
from gua.app import opening
from gua.cli.options import StoreOption
from gua.spool.queue import Spool

_NICE = 10


def command(
    *,
    spool: Annotated[Path, typer.Option(metavar="FILE", help="The agent's spool.")],
    destination: Annotated[str, typer.Option(metavar="NAME", help="The store's name in the spool.")],
    store: StoreOption = None,
) -> None:
    """Land what this host's agent has spooled into its store. The agent starts this by itself.

    Example:
        gua land --spool ~/.gua/spool.db --destination store --store chdb:///var/lib/gua/store
    """
    signals.release()
    os.nice(_NICE)
    with opening.open_writer(store) as opened, Spool(spool, destinations=None) as queue:
        drained = drain(queue, destination, opened, flush=opened.flush)
        if opened.is_embedded:
            opened.count_hours()
    typer.echo(json.dumps({"landed": drained.landed, "refused": drained.refused}))
