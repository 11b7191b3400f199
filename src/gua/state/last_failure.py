"""Why the last agent that went into the background did not start, as its log tells."""

from __future__ import annotations

import os
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from gua.core.plaintext import safe

_END_BYTES: Final = 8192
_ERROR: Final = "gua: "


def last_failure(log: Path) -> str | None:
    """Return when and why the last agent in the background did not start, ``None`` if it did, or none was started.

    Its error is the last line of the log then, in the form in which commands print theirs.
    """
    try:
        with log.open("rb") as file:
            file.seek(max(0, os.fstat(file.fileno()).st_size - _END_BYTES))
            lines = file.read().decode("utf-8", "replace").splitlines()
            written = datetime.fromtimestamp(os.fstat(file.fileno()).st_mtime, UTC)
    except OSError:
        return None
    if not lines or not lines[-1].startswith(_ERROR):
        return None
    return f"{written:%Y-%m-%d %H:%M} UTC: {safe(lines[-1].removeprefix(_ERROR))}"
