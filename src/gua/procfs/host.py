"""Which machine this is."""

from __future__ import annotations

from pathlib import Path


def machine_id(path: Path = Path("/etc/machine-id")) -> str | None:
    """Return the id of this installation of the system (machine-id(5)), ``None`` where there is none."""
    try:
        return path.read_text(encoding="ascii").strip() or None
    except (OSError, UnicodeDecodeError):
        return None
