"""How long each chart of docs/bi.md takes on a server."""

from __future__ import annotations

import time

from measures.figures import middle, show, spread
from measures.fleet_server import FleetServer

from servers.recipes import recipes

LIMIT_S = 0.5


def show_recipes(server: FleetServer, *, times: int) -> None:
    """Ask each chart as the reader, warm, and show the middle beside the limit."""
    for recipe in recipes(days=30):
        seconds = []
        for number in range(times + 1):
            begun = time.perf_counter()
            rows = sum(1 for _ in server.lines(recipe.sql, user="gua_reader"))
            if number:
                seconds.append(time.perf_counter() - begun)
        # Streaks are not counted beforehand: the view walks through every tick of the host.
        limit = None if "idle_streaks" in recipe.sql else LIMIT_S
        show(f"{recipe.section}: {recipe.title[:40]}", middle(seconds), "s", limit, f"{rows} rows, {spread(seconds)}")
