"""The rows of nvidia-smi. Run a few times a minute at most: a call takes seconds on large machines."""

from __future__ import annotations

import csv
import subprocess
from collections.abc import Mapping, Sequence

Row = Mapping[str, str]


def ask(kind: str, fields: Sequence[str], *options: str) -> list[Row]:
    """Return the rows of ``--query-<kind>``, without units; fails with nvidia-smi's own words."""
    done = subprocess.run(
        ["nvidia-smi", f"--query-{kind}={','.join(fields)}", "--format=csv,noheader,nounits", *options],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, f"nvidia-smi: {done.returncode}\n{done.stdout}{done.stderr}"
    return parse(done.stdout, fields)


def parse(text: str, fields: Sequence[str]) -> list[Row]:
    """Return the rows of CSV without a header."""
    rows = csv.reader(text.splitlines(), skipinitialspace=True)
    return [dict(zip(fields, (cell.strip() for cell in row), strict=True)) for row in rows if row]


def number(cell: str) -> float | None:
    """Return a cell's number, ``None`` for ``[N/A]`` and its like."""
    try:
        return float(cell)
    except ValueError:
        return None
