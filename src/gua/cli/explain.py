"""``gua explain``: why a card was in its state at a moment."""

from __future__ import annotations

import os
import sys
import time as clock
from typing import Annotated

import typer

from gua.app.report_source import open_reader
from gua.cli.options import SocketOption, StoreOption, WidthOption, flag, value
from gua.cli.terminal import check_width, style_for
from gua.report.explain.explain import ExplainRequest, explain
from gua.report.explain.json_ import render_explanation_json
from gua.report.explain.text import render_explanation


def command(
    *,
    host: Annotated[str, typer.Argument(metavar="HOST", help="Host, as gua report names it.")],
    card: Annotated[str, typer.Argument(metavar="CARD", help="Index of the card, its UUID, or how that begins.")],
    moment: Annotated[
        str,
        typer.Argument(
            metavar="TIME",
            help="An ISO 8601 time, now, or a duration (90m, 2d) before now, or before the newest tick where no agent "
            "samples the host.",
        ),
    ],
    around: Annotated[
        str, value("TICKS", "GUA_AROUND", "Also so many ticks on each side; or a duration, as in 5m.")
    ] = "2",
    timezone: Annotated[str, value("ZONE", "GUA_TIMEZONE", "Zone of times, also of a TIME without an offset.")] = "UTC",
    width: WidthOption = None,
    store: StoreOption = None,
    socket: SocketOption = None,
    as_json: Annotated[
        bool, flag("--json", "GUA_JSON", 'One JSON object, schema "gua.explain/1": every value of every tick.')
    ] = False,
) -> None:
    """Explain why a card was in its state at a moment: "why does it say I was idle?".

    Shows the tick that the moment lies in, line by line how the rules judged it, the settings in force, and every
    value that it and the ticks around it came with. A moment that no tick covers is unobserved.

    Example:
        gua explain node-1 3 2026-03-25T14:05 --timezone Europe/Berlin
        gua explain node-1 GPU-5e1b 90m --around 5m --json
    """
    check_width(width)
    request = ExplainRequest(
        host=host,
        card=card,
        time=moment,
        around=around,
        timezone=timezone,
        now_ms=clock.time_ns() // 1_000_000,
    )
    with open_reader(store, socket) as reader:
        told = explain(reader, request)
    drawn = (
        render_explanation_json(told) if as_json else render_explanation(told, style_for(sys.stdout, width, os.environ))
    )
    sys.stdout.write(drawn)
