"""The command as users run it, in an environment of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

COMMAND = Path(sys.executable).with_name("gua")
SUMS = ("--section", "headline", "--section", "cards", "--section", "usage")
"""What every tick counts in: enough where whole reports are compared elsewhere (tests/pipeline/test_report.py)."""


class Gua:
    """`gua` with its home below ``home`` and none of the caller's settings, but with those given."""

    def __init__(self, home: Path, *, command: Sequence[str | Path] = (COMMAND,), **settings: str) -> None:
        self._command = command
        inherited = {name: value for name, value in os.environ.items() if not name.startswith(("GUA_", "OTEL_"))}
        self._environment = {**inherited, "HOME": str(home), "GUA_HOME": str(home / "gua"), "NO_COLOR": "1"}
        places = {name: os.environ[name] for name in ("GUA_RUN_DIR", "GUA_HOST_LOCK") if name in os.environ}
        self._environment |= {**places, **settings}

    def run(self, *arguments: str | Path, seconds: float = 120) -> subprocess.CompletedProcess[str]:
        """Run it and return what happened."""
        return subprocess.run(
            [*map(str, self._command), *map(str, arguments)],
            env=self._environment,
            capture_output=True,
            text=True,
            timeout=seconds,
            check=False,
        )

    def must(self, *arguments: str | Path) -> str:
        """Run it, insist on success and return its standard output."""
        done = self.run(*arguments)
        assert done.returncode == 0, (
            f"gua {' '.join(map(str, arguments))} exited with {done.returncode}:\n{done.stderr}"
        )
        return done.stdout

    def report(self, store: str, *options: str) -> dict[str, Any]:
        """Return the report of a store as the object that `gua report --json` prints."""
        report = json.loads(self.must("report", "--json", "--store", store, *options))
        assert isinstance(report, dict)
        return report


def differences(found: object, expected: object, path: str = "") -> Iterator[str]:
    """Yield a line for every place in which two JSON values differ, in value or in kind of number."""
    if isinstance(found, dict) and isinstance(expected, dict):
        for key in {**found, **expected}:
            yield from differences(found.get(key, "absent"), expected.get(key, "absent"), f"{path}/{key}")
    elif isinstance(found, list) and isinstance(expected, list) and len(found) == len(expected):
        for position, pair in enumerate(zip(found, expected, strict=True)):
            yield from differences(*pair, f"{path}/{position}")
    elif type(found) is not type(expected) or found != expected:
        yield f"{path}: {found!r}, not {expected!r}"
