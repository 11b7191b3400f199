"""The report of the tool that had this name before, version 1.8.0, of a database that ``older_history`` wrote."""

from __future__ import annotations

import sys
import tempfile
import time
from datetime import timedelta
from pathlib import Path

from measures import older_history
from measures.child import Ran, ran

from fakes.older_database import START
from servers.older import install


def measure(database: Path, *, days: int, times: int) -> list[Ran]:
    """Make its report of all days so many times, after one that is not counted. Raises CannotInstallError."""
    older = install()
    samples = days * older_history.TICKS_A_DAY * older_history.CARDS
    return [_report(older, database, samples) for _ in range(times + 1)][1:]


def _report(older: Path, database: Path, samples: int) -> Ran:
    """Make its report, whose window ends now."""
    hours = (time.time() - (START - timedelta(hours=1)).timestamp()) / 3600
    with tempfile.TemporaryDirectory() as folder:
        output = Path(folder, "report.txt")
        found = ran(older, "report", "--db", database, "--since", f"{hours:.3f}h", output=output)
        text = output.read_text(encoding="utf-8")
    if f"{samples:,}" not in text:
        sys.exit(f"its report is not of {samples:,} samples:\n{text[:2_000]}")
    return found
