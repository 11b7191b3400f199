"""How to draw on a stream: its width, its characters, its colours."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from typing import Final, TextIO

from gua.core.errors import UsageError
from gua.report.kit.style import NARROWEST, WIDEST, Style

_PIPE_WIDTH: Final = 80


def style_for(stream: TextIO, width: int | None, environ: Mapping[str, str], *, narrowest: int = NARROWEST) -> Style:
    """Return how to draw on a stream: colour on terminals only (https://no-color.org), blocks where UTF-8 is spoken.

    Where no width is given a terminal's own is taken, from ``narrowest`` columns up.
    """
    terminal = stream.isatty()
    if width is None:
        columns = shutil.get_terminal_size((_PIPE_WIDTH, 24)).columns if terminal else _PIPE_WIDTH
        width = min(max(columns, narrowest), WIDEST)
    encoding = (stream.encoding or "").lower().replace("-", "").replace("_", "")
    plain = bool(environ.get("NO_COLOR")) or environ.get("TERM") == "dumb"
    return Style(width=width, unicode=encoding == "utf8", colour=terminal and not plain)


def check_width(width: int | None, *, narrowest: int = NARROWEST) -> None:
    """Raise UsageError for a width in which nothing can be drawn."""
    if width is not None and width < narrowest:
        msg = f"--width {width} is too narrow: give {narrowest} or more"
        raise UsageError(msg)
