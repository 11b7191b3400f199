"""``gua schema``: the SQL that ships with gua, applied, shown and checked."""

from __future__ import annotations

import os

import typer

from gpu_usage_audit.cli.destinations import store_address
from gpu_usage_audit.cli.options import StoreOption
from gpu_usage_audit.core.errors import UnavailableError
from gpu_usage_audit.store import statements
from gpu_usage_audit.store.database import open_store
from gpu_usage_audit.store.dsn import ServerDsn, parse_dsn

app = typer.Typer(no_args_is_help=True, help="Apply, show or check the tables and views that ship with gua.")


@app.command()
def apply(*, store: StoreOption = None) -> None:
    """Create what is missing and bring the views to this version. Doing it again changes nothing.

    Example:
        gua schema apply --store clickhouse://owner@db.example:8123
    """
    with open_store(store_address(store), password=os.environ.get("GUA_STORE_PASSWORD")) as opened:
        applied = opened.apply_schema()
        typer.echo(f"schema version {statements.SCHEMA_VERSION}: {len(applied.statements)} statements applied to {opened.dsn}")


@app.command()
def show(*, store: StoreOption = None) -> None:
    """Print the statements as they would be applied, one after the other.

    Example:
        gua schema show --store clickhouse://owner@db.example:8123
    """
    server = isinstance(parse_dsn(store_address(store)), ServerDsn)
    for statement in statements.load(statements.SERVER_TOKENS if server else statements.EMBEDDED_TOKENS):
        typer.echo(f"-- {statement.name}\n{statement.sql};\n")


@app.command()
def check(*, store: StoreOption = None) -> None:
    """Say what differs from this version's schema; exit code 3 if anything does.

    Example:
        gua schema check --store clickhouse://reader@db.example:8123
    """
    with open_store(store_address(store), password=os.environ.get("GUA_STORE_PASSWORD")) as opened:
        differences = opened.check_schema()
        for line in differences:
            typer.echo(line)
        if differences:
            msg = f"{opened.dsn} differs from schema version {statements.SCHEMA_VERSION}: run gua schema apply"
            raise UnavailableError(msg)
        typer.echo(f"{opened.dsn}: schema version {statements.SCHEMA_VERSION}, as it should be")
