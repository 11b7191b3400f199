"""Validation of queries and rows that pass the local socket, against the views that both ends know.

The agent checks every parameter, the client every row, as neither trusts the other.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gua.core.parameters import PARAMETERS
from gua.core.view import View

Views = Mapping[str, View[Any]]
"""Views that may be queried, by name."""


def checked_query(views: Views, name: object, parameters: object) -> tuple[View[Any], dict[str, object]]:
    """Return a query's view and parameters. Raises ValueError with the fault if they are invalid."""
    if not isinstance(name, str) or name not in views:
        raise ValueError("no such view for reports")
    view = views[name]
    if not isinstance(parameters, dict) or set(parameters) != set(view.parameters):
        raise ValueError(f"the view {name} has the parameters {', '.join(sorted(view.parameters)) or 'none'}")
    for parameter, value in parameters.items():
        if not PARAMETERS[parameter].check(value):
            raise ValueError(f"the parameter {parameter} of {name} cannot be used")
    return view, parameters


def checked_row(view: View[Any], row: object) -> dict[str, Any]:
    """Return a row's known columns. Raises ValueError if one is missing or of the wrong kind."""
    if not isinstance(row, dict):
        msg = f"a row of {view.name} is no object"
        raise ValueError(msg)  # noqa: TRY004 - one error type for every fault in a response
    for name, column in view.columns.items():
        if name not in row or not column.check(row[name]):
            raise ValueError(f"the column {name} of {view.name} is not what it should be")
    return {name: row[name] for name in view.columns}
