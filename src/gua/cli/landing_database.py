"""``gua schema apply --landing-database``: what it takes and what it prints."""

from __future__ import annotations

from typing import Annotated

import typer

from gua.cli.options import value
from gua.store.database import Store

LandingDatabaseOption = Annotated[
    str | None,
    value(
        "NAME",
        "GUA_LANDING_DATABASE",
        "Also read a Collector's own tables otel_metrics_gauge and otel_metrics_sum in this database, "
        "with the points that are there already.",
        "--landing-database",
    ),
]


def attach(opened: Store, database: str) -> None:
    """Attach to the tables and say what came of it; progress goes to standard error."""
    done = opened.schema.attach(database, lambda line: typer.echo(line, err=True))
    typer.echo(
        f"{done.views} views read {database}.otel_metrics_gauge and {database}.otel_metrics_sum; "
        f"{done.points:,} points of {done.days} days that were there are taken over"
    )
    typer.echo("the views need, for as long as they are there:")
    for grant in done.grants:
        typer.echo(f"  {grant}")
    if done.whole_seconds:
        typer.echo(
            "these tables keep whole seconds: a tick is up to a second off, and of two ticks within one second "
            "the later counts; set intervals of 2s or more"
        )
