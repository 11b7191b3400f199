"""``gua rollup``: count the hours that reports are read from."""

from __future__ import annotations

from typing import Annotated

import typer

from gua.app import opening
from gua.cli.options import StoreOption, flag


def command(
    *,
    anew: Annotated[bool, flag("--all", "GUA_ROLLUP_ALL", "Count every hour again that still has its ticks.")] = False,
    store: StoreOption = None,
) -> None:
    """Count the hours that changed since they were counted. Reports are the same without, only slower.

    A server does it by itself every minute, and the agent of a host when it lands its ticks. What arrived within
    the last seconds waits for the next time, and so does an hour that is not over.

    Example:
        gua rollup --store clickhouse://gua_owner@db.example:8123
    """
    opening.require_store(store)
    with opening.open_writer(store) as opened:
        written = opened.count_hours(anew=anew)
        typer.echo(f"{opened.dsn}: {written} hours of hosts counted")
