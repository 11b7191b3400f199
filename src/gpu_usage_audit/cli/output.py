"""What every command prints the same way: errors on one line, text of unknown origin made harmless."""

from __future__ import annotations

import contextlib
import os
import sys

from gpu_usage_audit.core.plaintext import safe

__all__ = ["print_error", "safe", "silence_stdout"]


def print_error(message: str) -> None:
    """Print ``gua: <message>`` to stderr on one line, without control and BiDi characters."""
    with contextlib.suppress(OSError):
        print(f"gua: {safe(message)}", file=sys.stderr, flush=True)  # noqa: T201 - this is the place that prints


def silence_stdout() -> None:
    """Point stdout at nothing once nobody reads it, so that the flush at exit cannot fail again."""
    with contextlib.suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
