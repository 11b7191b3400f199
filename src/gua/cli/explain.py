"""``gua explain``: why a card was in its state at a time."""

import os
import sys
import time as clock
from typing import Annotated

import typer

from gua.app.local_zone import chosen_zone
from gua.cli.completion import host_or_card
from gua.cli.options import SocketOption, StoreOption, TimezoneOption, WidthOption, check_width, flag, style_for, value
from gua.report.explain.explain import ExplainRequest, check_explain, explain
from gua.report.explain.text import render_explanation, render_explanation_json


def command(
    *,
    words: Annotated[
        list[str],
        typer.Argument(
            metavar="[HOST] CARD [TIME]",
            help="Host, as gua report names it, where there are several; index of the card, its UUID, or how that "
            "begins; an ISO 8601 time, now, or a duration (90m, 2d) before now, or before the newest tick where no "
            "agent samples the host. The newest tick if no time is given.",
            autocompletion=host_or_card,
        ),
    ],
    around: Annotated[
        str, value("TICKS", "GUA_AROUND", "Also so many ticks on each side; or a duration, as in 5m.")
    ] = "2",
    timezone: TimezoneOption = None,
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
        gua explain 3
        gua explain node-1 3 2026-03-25T14:05 --timezone Europe/Berlin
        gua explain node-1 GPU-5e1b 90m --around 5m --json
    """
    check_width(width)
    zone = chosen_zone(timezone, os.environ)
    request = ExplainRequest(
        words=tuple(words),
        around=around,
        timezone="UTC" if timezone is None and as_json else zone,
        clock=zone,
        now_ms=clock.time_ns() // 1_000_000,
    )
    check_explain(request)
    from gua.app.opening import open_report_source  # noqa: PLC0415 - after the options are validated

    with open_report_source(store, socket) as reader:
        explanation = explain(reader, request)
    style = style_for(sys.stdout, width, os.environ)
    sys.stdout.write(render_explanation_json(explanation) if as_json else render_explanation(explanation, style))
