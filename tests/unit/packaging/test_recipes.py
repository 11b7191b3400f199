"""The recipes of CONTRIBUTING.md, followed in a copy of the sources: what is added works, and no other file is touched.

A new section is made by ``tests/unit/report/test_new_section.py``.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[3]
HOW_TO_ADD = (ROOT / "CONTRIBUTING.md").read_text("utf-8").partition("## How to add\n")[2].partition("\n## ")[0]


@dataclass
class Copy:
    """A copy of the sources in which somebody follows a recipe; ``touched`` are the files made or changed."""

    root: Path
    touched: set[str] = field(default_factory=set)

    def write(self, path: str, text: str) -> None:
        file = self.root / path
        file.parent.mkdir(exist_ok=True)
        file.write_text(text, "utf-8")
        self.touched.add(path)

    def put(self, path: str, text: str, *, before: str = "", after: str = "") -> None:
        """Add lines before, or after, the first line that begins, or ends, with what is given."""
        lines = (self.root / path).read_text("utf-8").splitlines()
        (at, *_) = [
            number for number, line in enumerate(lines) if (line.startswith(before) if before else line.endswith(after))
        ]
        lines[at + bool(after) : at + bool(after)] = text.splitlines()
        self.write(path, "\n".join(lines) + "\n")

    def run(self, *arguments: str, code: int = 0) -> str:
        """Return what Python prints, run on the copy, in a home of its own."""
        ours = {name: value for name, value in os.environ.items() if not name.startswith("GUA_")}
        done = subprocess.run(
            [sys.executable, *arguments],
            cwd=self.root,
            env={**ours, "PYTHONPATH": str(self.root / "src"), "HOME": str(self.root), "COLUMNS": "100"},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == code, done.stdout + done.stderr
        return done.stdout


@pytest.fixture
def copy(tmp_path: Path) -> Copy:
    for folder in ("src", "clickhouse", "docs"):
        shutil.copytree(ROOT / folder, tmp_path / folder, ignore=shutil.ignore_patterns("__pycache__", "*.png"))
    shutil.copy(ROOT / ".importlinter", tmp_path)
    return Copy(tmp_path)


def recipe(name: str) -> str:
    """Return the paragraph of CONTRIBUTING.md on how to add something."""
    (found,) = [each for each in HOW_TO_ADD.split("\n\n") if each.startswith(f"**{name}**")]
    return found


def files_of(name: str) -> set[str]:
    """Return the files that a recipe names in its first brackets, besides tests."""
    inside = recipe(name).partition("(")[2].partition(")")[0]
    return {word.strip("`") for word in inside.replace(",\n", ", ").split(", ")}


def test_a_command_is_a_module_and_a_line(copy: Copy) -> None:
    copy.write(
        "src/gua/cli/greet.py",
        '"""``gua greet``: says hello."""\n\nimport typer\n\n\ndef command() -> None:\n'
        '    """Say hello.\n\n    Example:\n        gua greet\n    """\n    typer.echo("hello")\n',
    )
    copy.put(
        "src/gua/cli/commands.py", '    "greet": Entry(module="greet", summary="Say hello."),', before='    "demo"'
    )
    assert "greet      Say hello." in copy.run("-m", "gua", "--help")
    assert "gua greet\n" in copy.run("-m", "gua", "greet", "--help").partition("Example:")[2]
    assert copy.run("-m", "gua", "greet") == "hello\n"
    assert copy.touched == {each.replace("<name>", "greet") for each in files_of("A command")}


METRIC = """\
FAN: Final = _card_gauge(
    "hw.fan.speed_ratio", "1", "Speed of the fan, 0 to 1.", StoredColumn("fan_ratio", 10_000, "UInt16")
)
"""
ADMITTED = (
    "    if(MetricName = 'hw.fan.speed_ratio', accurateCastOrNull(round(Value * 10000), 'UInt16'), NULL) AS fan_ratio,"
)
COLUMN = "    fan_ratio SimpleAggregateFunction(anyLast, Nullable(UInt16)) COMMENT 'Speed of the fan [1/10,000]',"
ROUND_TRIP = """\
from gua.core.tick import CardReading, Origin, Source, Tick
from gua.otlp.decode import decode
from gua.otlp.encode import encode

card = CardReading(uuid="GPU-1", duration_ms=30_000, gpu_time_ms=30_000, fan_ratio=0.5)
tick = Tick(ts_ms=1_774_396_800_000, origin=Origin(host="h", source=Source.AGENT, interval_ms=30_000), cards=(card,))
print(decode(encode(tick)).cards[0].fan_ratio)
"""


def test_a_metric_is_declared_once_and_is_sent_stored_and_documented(copy: Copy) -> None:
    copy.put("src/gua/core/metrics.py", METRIC, before="TEMPERATURE: Final")
    copy.put("src/gua/core/tick.py", "    fan_ratio: float | None = None", before="    temperature_celsius:")
    line = "    *_fields(PointForm.DOUBLE, metrics.FAN),"
    copy.put("src/gua/core/fields.py", line, before="    *_fields(PointForm.DOUBLE, metrics.POWER")
    copy.put("clickhouse/10_ticks/01_card_ticks.sql", COLUMN, before="    temperature_celsius ")
    copy.put("clickhouse/10_ticks/10_points_to_ticks.sql", ADMITTED, after=" AS temperature_celsius,")
    copy.put("clickhouse/10_ticks/10_points_to_ticks.sql", "        'hw.fan.speed_ratio',", before="        'hw.temp")
    assert copy.run("-c", ROUND_TRIP) == "0.5\n"
    copy.run("docs/generate_metrics.py")
    assert "fan_ratio" in (copy.root / "docs/metrics.md").read_text("utf-8")
    assert copy.touched == files_of("A metric")


CASE: dict[str, Any] = {
    "about": "A card whose process holds 8 GiB and does nothing.",
    "card": {
        "utilization": 0,
        "memory_used_bytes": 8 * 2**30,
        "memory_limit_bytes": 80 * 2**30,
        "memory_reserved_bytes": 0,
        "process_list": "known",
        "process_count_compute": 1,
        "process_memory_compute_bytes": 8 * 2**30,
        "process_unknown_compute": 0,
    },
    "expect": {
        "state": "idle-held",
        "reason": None,
        "threshold_bytes": 100 * 2**20,
        "held_lower_bytes": 8 * 2**30,
        "held_upper_bytes": 8 * 2**30,
    },
}
BY_PYTHON = "tests/unit/core/test_rules.py::test_case[{}]"
BY_SQL = "tests/sql/test_rule_cases.py::test_every_case_has_the_state_that_it_expects[embedded]"


@pytest.mark.engine
def test_a_rule_is_a_case_that_python_and_sql_judge_alike(copy: Copy) -> None:
    shutil.copy(ROOT / "pyproject.toml", copy.root)
    for folder in ("conftest.py", "cases", "driver", "fakes", "servers", "sql", "unit/core"):
        place = copy.root / "tests" / folder
        place.parent.mkdir(parents=True, exist_ok=True)
        (shutil.copytree if (ROOT / "tests" / folder).is_dir() else shutil.copy)(ROOT / "tests" / folder, place)
    copy.write("tests/cases/rules/999-new.json", json.dumps(CASE))
    wrong = {**CASE, "expect": {**CASE["expect"], "state": "active"}}
    (copy.root / "tests/cases/rules/998-wrong.json").write_text(json.dumps(wrong), "utf-8")
    cases = (BY_PYTHON.format("999-new"), BY_PYTHON.format("998-wrong"), BY_SQL)
    out = copy.run("-m", "pytest", "-v", "-p", "no:cacheprovider", *cases, code=1)
    assert f"{BY_PYTHON.format('999-new')} PASSED" in out
    assert f"{BY_PYTHON.format('998-wrong')} FAILED" in out
    by_sql = out.partition("assert wrong == {}")[2]
    assert "'998-wrong'" in by_sql
    assert "'999-new'" not in by_sql
    assert copy.touched < {each.replace("<case>", "999-new") for each in files_of("A rule")}


FORMAT = '''"""``gua import minutes``: lines of a moment in seconds, a host, a card and its utilization in percent."""

import os
from pathlib import Path
from typing import Annotated

import typer

from gua.app import delivery
from gua.cli.options import EndpointOption, StoreOption
from gua.core.tick import Source
from gua.imports.minutes import ticks_of_lines
from gua.otlp.resource import origin


def command(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="The recording.")],
    *,
    store: StoreOption = None,
    endpoint: EndpointOption = None,
) -> None:
    """Import a recording of minutes.

    Example:
        gua import minutes minutes.txt
    """
    made = origin(
        source=Source.IMPORT, interval_ms=60_000, environ=os.environ, host="h", instance_id="import", service_version=""
    )
    delivery.deliver(ticks_of_lines(file, made), store=store, endpoint=endpoint)
    typer.echo("imported")
'''
PARSER = '''"""Lines of minutes to ticks."""

from collections.abc import Iterator
from pathlib import Path

from gua.core.tick import CardReading, Origin, Tick


def ticks_of_lines(file: Path, origin: Origin) -> Iterator[Tick]:
    """Yield a tick for every line."""
    for line in file.read_text("utf-8").splitlines():
        seconds, uuid, percent = line.split()
        card = CardReading(uuid=uuid, duration_ms=60_000, gpu_time_ms=60_000, utilization=float(percent) / 100)
        yield Tick(ts_ms=1000 * int(seconds), origin=origin, cards=(card,))
'''


@pytest.mark.engine
def test_an_import_format_is_a_parser_a_command_and_a_line(copy: Copy) -> None:
    copy.write("src/gua/imports/minutes.py", PARSER)
    copy.write("src/gua/cli/import_minutes.py", FORMAT)
    copy.put("src/gua/cli/import_.py", "from gua.cli import import_minutes", before="from gua.cli.options")
    line = 'app.command("minutes")(import_minutes.command)'
    copy.put("src/gua/cli/import_.py", line, after='app.command("otlp-json")(otlp_json)')
    (copy.root / "minutes.txt").write_text("1774396800 GPU-1 80\n1774396860 GPU-1 80\n", "utf-8")
    assert "minutes" in copy.run("-m", "gua", "import", "--help")
    store = f"chdb://{copy.root}/store"
    assert copy.run("-m", "gua", "import", "minutes", "minutes.txt", "--store", store) == "imported\n"
    assert copy.touched == {each.replace("<name>", "minutes") for each in files_of("An import format")}


VENDOR = '''"""The cards of another vendor: one that works half of the time."""

import time

from gua.core.ports import RawCard
from gua.core.tick import CardReading, ProcessList


class Reader:
    """A :class:`gua.core.ports.CardReader`."""

    def __init__(self, *_ignored, **_also_ignored):
        """Take what the driver of the other vendor is opened with."""

    def read(self):
        """Return its one card, which takes 2 ms to tell."""
        time.sleep(0.002)
        card = CardReading(
            uuid="ACME-1", index=0, name="Acme 1", vendor="Acme", utilization=0.5, process_list=ProcessList.KNOWN,
            duration_ms=1, gpu_time_ms=0,
        )
        return [RawCard(reading=card, @PART@=(1, 1), processes=())], []

    def drain(self):
        """Empty no ring: it has none."""

    def close(self):
        """Release nothing."""
'''
TAKES_A_TICK = """\
import tempfile
from pathlib import Path

from gua.app.host import open_host
from gua.app.settings import AgentSettings, AllocationSettings
from gua.app.single_tick import sample_once
from gua.otlp.decode import decode
from gua.otlp.encode import encode
from gua.state.directory import Home

home, off = Home(Path(tempfile.mkdtemp())), AllocationSettings(sources=())
host = open_host(AgentSettings(interval_ms=30_000, procfs=Path("/proc"), home=home, allocation=off))
tick, _ = sample_once(host, None)
(card,) = decode(encode(tick)).cards
print(card.vendor, card.name, card.utilization)
"""


def test_a_vendor_is_a_package_on_its_floor_and_a_line_where_the_host_is_opened(copy: Copy) -> None:
    from gua.core.ports import RawCard  # noqa: PLC0415 - for the name of its second field alone

    part = list(RawCard.__dataclass_fields__)[1]
    copy.write("src/gua/acme/__init__.py", '"""Cards of Acme."""\n')
    copy.write("src/gua/acme/reader.py", VENDOR.replace("@PART@", part))
    host = copy.root / "src/gua/app/host.py"
    theirs = host.read_text("utf-8").replace("from gua.nvml.reader import Nvml", "from gua.acme.reader import ")
    copy.write("src/gua/app/host.py", theirs.replace("NvmlReader(", "Reader("))
    contracts = (copy.root / ".importlinter").read_text("utf-8")
    copy.write(".importlinter", contracts.replace("    exporter | ", "    acme | exporter | ", 1))
    assert copy.run("-c", TAKES_A_TICK) == "Acme Acme 1 0.5\n"
    lint = "import sys; from importlinter.cli import lint_imports; sys.exit(lint_imports(no_cache=True))"
    assert "0 broken" in copy.run("-c", lint)
    assert copy.touched == {each.replace("<vendor>", "acme") for each in files_of("A vendor")}


def test_a_section_is_the_file_that_its_own_test_makes_and_a_line() -> None:
    folder = "src/gua/report/sections"
    assert "tests/unit/report/test_new_section.py" in recipe("A section of the report")
    assert files_of("A section of the report") == {f"{folder}/<name>.py", f"{folder}/__init__.py"}
