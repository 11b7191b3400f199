"""Files that a user names, such as policies and price lists."""

import os
from pathlib import Path

from gua.core.errors import DataError, UnavailableError, UsageError
from gua.core.plaintext import safe


def read_named_file(path: Path, most_bytes: int, what: str) -> tuple[bytes, os.stat_result]:
    """Return the content of a file, and the status of the file that was read; messages request ``what`` instead.

    Raises UsageError if the path is no file, UnavailableError if it cannot be read, and DataError if it is larger than
    ``most_bytes``.
    """
    shown = safe(str(path))
    try:
        with path.open("rb") as file:
            status = os.fstat(file.fileno())
            content = file.read(most_bytes + 1)
    except (FileNotFoundError, IsADirectoryError) as error:
        raise UsageError(f"{shown}: {error.strerror}: give the path of {what}") from None
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise UnavailableError(f"{shown} cannot be read: {reason}: check the path and its permissions") from None
    if len(content) > most_bytes:
        raise DataError(f"{shown}: is larger than {most_bytes // 2**20} MiB: give {what}")
    return content, status
