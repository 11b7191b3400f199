"""``gua version``: installed versions, as needed in a bug report."""

import platform
from importlib import metadata

import typer

from gua.store.engine import install_command


def command() -> None:
    """Print the versions of gua, Python and the embedded engine.

    Example:
        gua version
    """
    try:
        engine = f"chdb-core {metadata.version('chdb-core')}"
    except metadata.PackageNotFoundError:
        engine = f"none on this machine; the embedded one: {install_command()}"
    typer.echo(f"gua     {metadata.version('gua-otel')}")
    typer.echo(f"python  {platform.python_version()}")
    typer.echo(f"engine  {engine}")
