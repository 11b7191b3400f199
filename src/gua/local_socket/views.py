"""What a question and an answer over the local socket may hold, of the views that both ends were given.

Both ends check with it: the answering one every parameter, the asking one every row, as neither knows the other.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gua.core.parameters import PARAMETERS
from gua.core.view import View

Views = Mapping[str, View[Any]]
"""The views that may be asked for, by name."""


def checked_question(views: Views, name: object, parameters: object) -> tuple[View[Any], dict[str, object]]:
    """Return a question's view and parameters. Raises ValueError, with the fault in words, for any other."""
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
    """Return the known columns of a row. Raises ValueError where one is missing or is not what it should be."""
    if not isinstance(row, dict):
        msg = f"a row of {view.name} is no object"
        raise ValueError(msg)  # noqa: TRY004 - one error for whatever is wrong in an answer
    for name, column in view.columns.items():
        if name not in row or not column.check(row[name]):
            raise ValueError(f"the column {name} of {view.name} is not what it should be")
    return {name: row[name] for name in view.columns}
