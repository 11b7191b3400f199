"""An invented next version of the schema: one more column in a table, the view that fills it, and a view on top."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path
from typing import Final

from gua.store.statements import SCHEMA_VERSION, schema_directory

LATER: Final = SCHEMA_VERSION + 1
_COLUMN: Final = "    serial Nullable(String) COMMENT 'Serial number of the card; NULL if unknown',\n"
_ADDED: Final = {
    "03_card_info.sql": ("    parent Nullable(String)", f"{_COLUMN}    parent Nullable(String)"),
    "10_points_to_ticks.sql": (
        "    nullIf(Attributes['hw.parent']",
        "    nullIf(Attributes['hw.serial_number'], '') AS serial,\n    nullIf(Attributes['hw.parent']",
    ),
    "30_cards.sql": (
        "    info.parent AS parent,",
        "    info.parent AS parent,\n    info.serial AS serial,",
    ),
}
_RUN: Final = """
import sys
from pathlib import Path
from gua.store import statements
directory = Path(sys.argv.pop(1))
statements.schema_directory = lambda: directory
statements.SCHEMA_VERSION += 1
from gua.cli.main import main
sys.exit(main(sys.argv[1:]))
"""


def write(folder: Path) -> Path:
    """Write the SQL of that version and return its directory."""
    directory = folder / "clickhouse"
    shutil.copytree(schema_directory(), directory)
    for name, (before, now) in _ADDED.items():
        _replace(directory / "10_ticks" / name, before, now)
    return directory


def command(directory: Path) -> tuple[str | Path, ...]:
    """Return the command line of a gua of that version."""
    return (sys.executable, "-c", _RUN, directory)


def _replace(file: Path, before: str, now: str) -> None:
    text = file.read_text("utf-8")
    assert text.count(before) == 1, file
    file.write_text(text.replace(before, now), "utf-8")


def info_point(host: str, ts_ms: int, serial: str) -> str:
    """Return the SQL that inserts a point with a card's serial number."""
    attributes = f"map('hw.id', 'GPU-{host}-0', 'hw.serial_number', '{serial}')"
    return (
        "INSERT INTO gua.otel_metrics_gauge (ResourceAttributes, ScopeName, MetricName, Attributes, TimeUnix, Value) "
        f"SELECT map('host.name', '{host}'), 'gua', 'gua.gpu.info', {attributes}, "
        f"fromUnixTimestamp64Milli({ts_ms}), 1"
    )
