"""The commands that go on from a report: this one as it was typed, without what it says about its form."""

from __future__ import annotations

import shlex
from collections.abc import Container, Iterator
from typing import Final

import typer

from gua.report.forms.first_screen import Steps
from gua.store.dsn import without_password

_FORM: Final = frozenset(
    {"section", "full", "brief", "basis", "what_if", "limits", "as_json", "csv", "markdown", "html", "sql", "fail_on"}
    | {"width", "rules", "by"}
)
_ELSEWHERE: Final = frozenset({"store", "socket", "timezone"})


def steps_of(context: typer.Context) -> Steps:
    """Return the commands that go on from ``gua report``, typed as in ``context``."""
    explain = " ".join(["gua explain", *_typed(context, _ELSEWHERE)])
    store = None if context.params["socket"] else " ".join(_typed(context, {"store"}))
    return Steps(report=_again(context), explain=explain, store=store)


def steps_of_demo(context: typer.Context, store: str | None) -> Steps:
    """Return those that go on from ``gua demo``, whose ticks are gone unless they are kept in a store."""
    if store is None:
        return Steps(report=_again(context), explain=None, store=None, then="gua doctor")
    kept = f"--store {shlex.quote(without_password(store))}"
    return Steps(report=f"gua report {kept}", explain=f"gua explain {kept}", store=kept)


def is_typed(context: typer.Context, name: str) -> bool:
    """Return whether an option stands on the command line, and not in a variable."""
    source = context.get_parameter_source(name)
    return source is not None and source.name == "COMMANDLINE"


def _again(context: typer.Context) -> str:
    every = {str(parameter.name) for parameter in context.command.params}
    return " ".join([str(context.info_name), *_typed(context, every - _FORM)])


def _typed(context: typer.Context, names: Container[str]) -> Iterator[str]:
    for parameter in context.command.params:
        name = str(parameter.name)
        if name not in names or not is_typed(context, name):
            continue
        value = context.params[name]
        for one in value if isinstance(value, (list, tuple)) else [value]:
            shown = without_password(one) if name == "store" else str(one)
            yield parameter.opts[0] if isinstance(one, bool) else f"{parameter.opts[0]} {shlex.quote(shown)}"
