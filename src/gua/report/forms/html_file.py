"""The page as a file: whole or not there."""

from __future__ import annotations

import os
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from gua.core.errors import UnavailableError, UsageError
from gua.core.plaintext import safe
from gua.report.kit.basis import size
from gua.report.model import Report
from gua.state.directory import replace_private

_MODE: Final = 0o644


def write_html(path: Path, report: Report) -> str:
    """Write the page to ``path`` by way of a file beside it, so that no reader ever sees half of it.

    Returns what is to be printed: a line that says where the page is, or the page itself where ``path`` is ``-``. The
    file gets mode 0644 without what the umask forbids; one that was there is replaced, through a link what it leads to.
    Raises UsageError for a path that cannot be a file, and UnavailableError if the system refuses to write it, without
    leaving anything behind.
    """
    from gua.report.forms.html import render_html  # noqa: PLC0415 - a path is checked without what draws a page

    page = render_html(report)
    if str(path) == "-":
        # Whatever charset the locale has: every reader of HTML knows these.
        return page.encode("ascii", "xmlcharrefreplace").decode("ascii")
    check_target(path)
    content = page.encode("utf-8")
    with _told(path):
        target = path.resolve()
        replace_private(target, content)
        mask = os.umask(0o077)  # it can only be read by setting it
        os.umask(mask)
        target.chmod(_MODE & ~mask)
    return f"wrote {safe(str(path), 200)} ({size(len(content))})\n"


def check_target(path: Path) -> None:
    """Raise what :func:`write_html` would raise for a path, as far as that can be told before there is a page."""
    if str(path) == "-":
        return
    with _told(path):
        target = path.resolve()
        _check(target, safe(str(path), 200))
        with tempfile.TemporaryFile(dir=target.parent):  # nothing else tells whether one can be made
            pass


@contextmanager
def _told(path: Path) -> Iterator[None]:
    """Say of which path an error is."""
    shown = safe(str(path), 200)
    try:
        yield
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
