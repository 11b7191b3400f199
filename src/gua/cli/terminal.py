"""How to draw on a stream: its width, its characters, its colours."""

from __future__ import annotations

import re
import shutil
from collections.abc import Mapping
from typing import Final, TextIO

from gua.core.errors import UsageError
from gua.report.kit.style import NARROWEST, WIDEST, Style

_PIPE_WIDTH: Final = 80
_COLUMNS: Final = re.compile(r"[1-9][0-9]{0,4}", re.ASCII)


def style_for(stream: TextIO, width: int | None, environ: Mapping[str, str], *, narrowest: int = NARROWEST) -> Style:
    """Return how to draw on a stream: colour on terminals, or where it is forced, blocks where UTF-8 is spoken.

    ``NO_COLOR`` (https://no-color.org) wins over ``FORCE_COLOR`` and ``CLICOLOR_FORCE``. Where no width is given
    ``COLUMNS`` counts, else a terminal's own, from ``narrowest`` columns up.
    """
    terminal = stream.isatty()
    if width is None:
        told = environ.get("COLUMNS", "")
        columns = int(told) if _COLUMNS.fullmatch(told) else _PIPE_WIDTH
        if terminal:
            columns = shutil.get_terminal_size((_PIPE_WIDTH, 24)).columns
        width = min(max(columns, narrowest), WIDEST)
    encoding = (stream.encoding or "").lower().replace("-", "").replace("_", "")
    forced = any(environ.get(name, "0") not in {"", "0"} for name in ("FORCE_COLOR", "CLICOLOR_FORCE"))
    coloured = forced or (terminal and environ.get("TERM") != "dumb")
    return Style(width=width, unicode=encoding == "utf8", colour=coloured and not environ.get("NO_COLOR"))


def check_width(width: int | None, *, narrowest: int = NARROWEST) -> None:
    """Raise UsageError for a width in which nothing can be drawn."""
    if width is not None and width < narrowest:
        msg = f"--width {width} is too narrow: give {narrowest} or more"
        raise UsageError(msg)
