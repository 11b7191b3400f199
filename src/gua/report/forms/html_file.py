"""The page as a file: whole or not there."""

from __future__ import annotations

import os
import stat
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Final

from gua.core.errors import UnavailableError, UsageError
from gua.core.plaintext import safe
from gua.report.forms.html import render_html
from gua.report.model import Report

_MODE: Final = 0o644


def write_html(path: Path, report: Report) -> None:
    """Write the page to ``path`` by way of a file beside it, so that no reader ever sees half of it.

    The file gets mode 0644 without what the umask forbids; one that was there is replaced, through a link what it
    leads to. Raises UsageError for a
    path that cannot be a file, and UnavailableError if the system refuses to write it, without leaving anything behind.
    """
    shown = safe(str(path), 200)
    if str(path) == "-":
        msg = "a page is written to a file, not to -: name one, as in report.html"
        raise UsageError(msg)
    try:
        target = path.resolve()
        _check(target, shown)
        _replace(target, render_html(report).encode("utf-8"))
    except OSError as error:
        msg = f"cannot write {shown}: {error.strerror or error}; nothing was written, choose another file or make room"
        raise UnavailableError(msg) from error
    except (ValueError, RuntimeError):  # a zero byte, a loop of links
        msg = f"cannot write {shown}: that is no path of a file"
        raise UsageError(msg) from None


def _check(target: Path, shown: str) -> None:
    try:
        mode = target.stat().st_mode
    except FileNotFoundError:
        if not target.parent.is_dir():
            msg = f"cannot write {shown}: there is no folder {safe(str(target.parent), 200)}; make it first"
            raise UsageError(msg) from None
        return
    if stat.S_ISDIR(mode):
        msg = f"{shown} is a folder: name a file in it, as in {safe(str(target / 'report.html'), 200)}"
        raise UsageError(msg)
    if not stat.S_ISREG(mode):  # it would be replaced by a file: nobody wants that of a device
        msg = f"{shown} is no regular file: name one, as in report.html"
        raise UsageError(msg)


def _replace(path: Path, content: bytes) -> None:
    descriptor, scratch = tempfile.mkstemp(prefix=".gua-report.", suffix=".tmp", dir=path.parent)
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
