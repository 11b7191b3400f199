"""``gua version``: what is installed, as a report of a fault needs it."""

from __future__ import annotations

import platform
from importlib import metadata

import typer


def command() -> None:
    """Print the versions of gua, Python and the embedded engine.

    Example:
        gua version
    """
    typer.echo(f"gua     {metadata.version('gua-otel')}")
    typer.echo(f"python  {platform.python_version()}")
    typer.echo(f"engine  {_engine()}")


def _engine() -> str:
    try:
        return f"chdb-core {metadata.version('chdb-core')}"
    except metadata.PackageNotFoundError:
        return "none on this machine (pip install 'gua-otel[local]' installs the embedded one)"
