"""The page as a file: whole or not there."""

from __future__ import annotations

import os
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Final

from gpu_usage_audit.core.errors import UnavailableError, UsageError
from gpu_usage_audit.report.html.page import render_html
from gpu_usage_audit.report.model import Report

_MODE: Final = 0o644


def write_html(path: Path, report: Report) -> None:
    """Write the page to ``path`` by way of a file beside it, so that no reader ever sees half of it.

    The file gets mode 0644 without what the umask forbids; one that was there is replaced. Raises UsageError for a
    path that cannot be a file, and UnavailableError if the system refuses to write it, without leaving anything behind.
    """
    if path.is_dir():
        msg = f"{path} is a folder: name a file in it, as in {path / 'report.html'}"
        raise UsageError(msg)
    if not path.parent.is_dir():
        msg = f"cannot write {path}: there is no folder {path.parent}; make it first"
        raise UsageError(msg)
    page = render_html(report).encode("utf-8")
    try:
        _replace(path, page)
    except OSError as error:
        msg = f"cannot write {path}: {error.strerror or error}; choose another file or make room, nothing was written"
        raise UnavailableError(msg) from error


def _replace(path: Path, content: bytes) -> None:
    descriptor, scratch = tempfile.mkstemp(prefix=f".{path.name[:64]}.", suffix=".tmp", dir=path.parent)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
            file.flush()
            os.fchmod(file.fileno(), _MODE & ~_umask())
            os.fsync(file.fileno())
        Path(scratch).replace(path)
    except BaseException:
        with suppress(OSError):
            Path(scratch).unlink()
        raise


def _umask() -> int:
    """Return the umask, which can only be read by setting it."""
    mask = os.umask(0o077)
    os.umask(mask)
    return mask
