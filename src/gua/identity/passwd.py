"""Names of users as a passwd file tells them (passwd(5))."""

from __future__ import annotations

from pathlib import Path


class PasswdFile:
    """Looks a user up in one file, read line by line anew each time: a site's file may be large, and changes."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def name(self, uid: int) -> str | None:
        """Return the first user with this id, ``None`` if there is none or the file cannot be read."""
        wanted = str(uid)
        try:
            with self._path.open(encoding="utf-8", errors="replace") as file:
                for line in file:
                    fields = line.split(":", 3)
                    if len(fields) > 3 and fields[2] == wanted and fields[0]:
                        return fields[0]
        except OSError:
            return None
        return None
