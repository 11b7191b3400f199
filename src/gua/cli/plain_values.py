"""Values that are what they are to be (text, a path, nothing) past pydantic: loading it, as typer does, takes 50 ms."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import typer
from typer.core import TyperArgument, TyperOption


def leave_plain_values(command: Any, parent: typer.Context | None = None) -> None:  # noqa: ANN401 - the library keeps its class private
    """Let the parameters of a command, and of those below it, take such values as they are."""
    context = typer.Context(command, parent=parent, **command.context_settings)
    for parameter in command.get_params(context):
        if isinstance(parameter, TyperOption | TyperArgument):
            _leave(parameter)
    for below in getattr(command, "commands", {}).values():
        leave_plain_values(below, context)


def _leave(parameter: TyperOption | TyperArgument) -> None:
    checked = parameter.process_value
    wanted = parameter.type_descriptor
    is_one = not parameter.multiple and parameter.nargs == 1
    is_text = wanted.annotation is str and wanted.parameter_info.parser is None
    is_path = wanted.annotation is Path and _is_taken_as_it_is(wanted.parameter_info)

    def process_value(ctx: Any, value: Any) -> Any:  # noqa: ANN401 - of whatever type the option is
        if parameter.required or not (value is None or (is_one and (is_text or is_path) and type(value) is str)):
            return checked(ctx, value)
        taken = () if not is_one else Path(value) if is_path and value is not None else value
        return taken if parameter.callback is None else parameter.callback(ctx, parameter, taken)

    parameter.process_value = process_value  # type: ignore[method-assign] # of this one alone


def _is_taken_as_it_is(path: Any) -> bool:  # noqa: ANN401 - the library keeps its class private
    """Return whether nothing is asked of a path, neither that it is there nor what it is."""
    is_asked = path.exists or path.readable or path.writable or path.resolve_path
    return path.parser is None and path.path_type is None and path.file_okay and path.dir_okay and not is_asked
