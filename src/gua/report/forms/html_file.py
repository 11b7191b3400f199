"""The HTML report as a file, written atomically."""

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
    """Write the page to ``path`` by an atomic rename, and return the text to print.

    The text is a line with the path, or the page itself for ``-``. The file has mode 0644 less the umask. An existing
    file is replaced, a link's target too. Raises UsageError for a path that cannot be a file, UnavailableError if
    writing fails; both leave no partial file.
    """
    from gua.report.forms.html import render_html  # noqa: PLC0415 - not needed to check a path

    page = render_html(report)
    if str(path) == "-":
        # Character references work in any locale's charset.
        return page.encode("ascii", "xmlcharrefreplace").decode("ascii")
    check_target(path)
    content = page.encode("utf-8")
    with _errors_with(path):
        target = path.resolve()
        replace_private(target, content)
        mask = os.umask(0o077)  # reading the umask requires setting it
        os.umask(mask)
        target.chmod(_MODE & ~mask)
    return f"wrote {safe(str(path), 200)} ({size(len(content))})\n"


def check_target(path: Path) -> None:
    """Raise the errors of :func:`write_html` that a path causes, before a page exists."""
    if str(path) == "-":
        return
    shown = safe(str(path), 200)
    with _errors_with(path):
        target = path.resolve()
        try:
            mode = target.stat().st_mode
        except FileNotFoundError:
            if not target.parent.is_dir():
                msg = f"cannot write {shown}: there is no folder {safe(str(target.parent), 200)}; make it first"
                raise UsageError(msg) from None
            mode = stat.S_IFREG
        if stat.S_ISDIR(mode):
            raise UsageError(f"{shown} is a folder: name a file in it, as in {safe(str(target / 'report.html'), 200)}")
        if not stat.S_ISREG(mode):  # the rename would replace a device
            raise UsageError(f"{shown} is no regular file: name one, as in report.html")
        with tempfile.TemporaryFile(dir=target.parent):  # the only reliable test of write access
            pass


@contextmanager
def _errors_with(path: Path) -> Iterator[None]:
    """Convert errors within the block to UsageError or UnavailableError with the path."""
    shown = safe(str(path), 200)
    try:
        yield
    except OSError as error:
        msg = f"cannot write {shown}: {error.strerror or error}; nothing was written, choose another file or make room"
        raise UnavailableError(msg) from error
    except (ValueError, RuntimeError):  # a NUL byte, or a loop of links
        raise UsageError(f"cannot write {shown}: that is no path of a file") from None
