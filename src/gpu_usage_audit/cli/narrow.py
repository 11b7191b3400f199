"""How to draw where 20 columns must do: a phone, a pane beside an editor."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from dataclasses import replace
from typing import Final, TextIO

from gpu_usage_audit.cli.terminal import style_for
from gpu_usage_audit.core.errors import UsageError
from gpu_usage_audit.report.style import WIDEST, Style

NARROWEST: Final = 20


def narrow_style(stream: TextIO, width: int | None, environ: Mapping[str, str]) -> Style:
    """Return how to draw on a stream, as wide as it is, from 20 columns on."""
    style = style_for(stream, width, environ)
    if width is None and stream.isatty():
        return replace(style, width=min(max(shutil.get_terminal_size((80, 24)).columns, NARROWEST), WIDEST))
    return style


def check_narrow(width: int | None) -> None:
    """Raise UsageError for a width in which nothing can be drawn."""
    if width is not None and width < NARROWEST:
        msg = f"--width {width} is too narrow: give {NARROWEST} or more"
        raise UsageError(msg)
