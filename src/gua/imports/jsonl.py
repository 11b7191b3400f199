"""JSON Lines with named fields, as people's own recorders write them, to rows."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeVar

from gua.core.errors import DataError
from gua.imports.columns import Alias, Layout, layout
from gua.imports.recorded_file import RecordedFile
from gua.imports.values import CellError

R = TypeVar("R")
_LAYOUTS = 1_000
_MISSING = ""


def read(
    source: RecordedFile, columns: Mapping[str, Alias], make: Callable[[Layout, str], Callable[[Any], R]]
) -> Iterator[R]:
    """Return the file's rows in order; rows may differ in their fields.

    ``make`` turns a layout (and where it stands, for its errors) into the parser of one row's object.
    NaN, which pandas writes, is unknown. Raises DataError with file and line for every line that is no
    row, except blank lines and a last line that was cut off: that one is named in the source.
    """
    decode = json.JSONDecoder(parse_constant=lambda _: None).decode
    parsers: dict[tuple[str, ...], Callable[[Any], R]] = {}
    for text in source.lines():
        if text.isspace():
            continue
        try:
            fields = _fields(decode, text)
            names = tuple(fields)
            parse = parsers.get(names)
            if parse is None:
                if len(parsers) >= _LAYOUTS:
                    parsers.clear()
                file_layout = layout(names, columns, places=names, missing=_MISSING)
                parse = parsers[names] = make(file_layout, source.where)
            fields[_MISSING] = None  # the place of every field that the row lacks
            row = parse(fields)
        except CellError as error:
            if not text.endswith("\n"):
                source.leave_out("the last line is cut off")
                continue
            msg = f"{source.where}: {error}: correct or remove the line"
            raise DataError(msg) from None
        yield row


def _fields(decode: Callable[[str], Any], text: str) -> dict[str, Any]:
    try:
        fields = decode(text)
    except (ValueError, RecursionError):
        msg = "the line is not a JSON object"
        raise CellError(msg) from None
    if not isinstance(fields, dict):
        msg = "the line is JSON, but not an object with named fields"
        raise CellError(msg)
    return fields
