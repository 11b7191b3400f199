"""``gua import nvidia-smi``: what it delivers and what it says."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

import pytest
from typer.testing import CliRunner

from gua.app import delivery
from gua.cli import import_
from gua.core.errors import DataError, GuaError, UsageError
from gua.core.tick import Tick
from gua.otlp.decode import decode
from gua.otlp.encode import encode

GUA = Path(sys.executable).with_name("gua")

FOLDER = Path(__file__).parents[2] / "fixtures" / "parking-tax"
FILES = [str(path) for path in sorted(FOLDER.glob("*.jsonl"))]
CSV = "timestamp, uuid, memory.used [MiB]\n2026/03/25 04:47:19, GPU-a, 4 MiB\n2026/03/25 04:47:49, GPU-a, 4 MiB\n"


class Delivered:
    """Takes ticks in place of a store, through the bytes that a store would get."""

    def __init__(self) -> None:
        self.ticks: list[Tick] = []

    def __call__(self, ticks: Iterable[Tick], **_: object) -> None:
        self.ticks += [decode(encode(tick)) for tick in ticks]


@pytest.fixture
def delivered(monkeypatch: pytest.MonkeyPatch) -> Delivered:
    for name in [name for name in os.environ if name.startswith(("GUA_", "OTEL_"))]:
        monkeypatch.delenv(name)
    taken = Delivered()
    monkeypatch.setattr(delivery, "deliver", taken)
    return taken


def gua_import(*arguments: str) -> str:
    result = CliRunner().invoke(import_.app, ["nvidia-smi", *arguments])
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    assert result.exit_code == 0, result.output
    return result.stdout


def test_the_recordings_are_delivered_and_the_interval_is_reported(delivered: Delivered) -> None:
    assert gua_import(*FILES) == (
        "imported  1,000 card ticks of 3 cards on host imported (1,000 moments)\n"
        "time      2026-03-24T20:06:52.617Z to 2026-03-25T07:58:40.276Z\n"
        "interval  30s (the median distance of a card's rows; --interval sets another)\n"
    )
    assert len(delivered.ticks) == 1000
    assert {(tick.origin.source, tick.origin.instance_id) for tick in delivered.ticks} == {("import", "import")}
    assert {tick.origin.interval_ms for tick in delivered.ticks} == {30_000}


def test_a_second_import_delivers_the_same_ticks(delivered: Delivered) -> None:
    gua_import(*FILES)
    first, delivered.ticks = delivered.ticks, []
    gua_import(*reversed(FILES))
    assert delivered.ticks == first


def test_assumptions_and_left_out_lines_are_reported(delivered: Delivered, tmp_path: Path) -> None:
    recording, apps = tmp_path / "gpu.csv", tmp_path / "apps.csv"
    recording.write_text(f"{CSV}2026/03/25 04:48:19, GPU", encoding="utf-8")
    apps.write_text("timestamp, gpu_uuid, pid\n2026/03/25 04:47:49, GPU-a, 7\n", encoding="utf-8")
    shown_text = gua_import(str(recording), "--apps", str(apps), "--timezone", "Asia/Tokyo", "--host", "n1")
    assert shown_text == (
        "imported  2 card ticks of 1 card on host n1 (2 moments)\n"
        "time      2026-03-24T19:47:19Z to 2026-03-24T19:47:49Z\n"
        "interval  30s (the median distance of a card's rows; --interval sets another)\n"
        "processes known for 1 of 2 card ticks\n"
        f"left out  1 line: {recording}:4: the last line is cut off\n"
        "assumed   times without an offset are in Asia/Tokyo (--timezone)\n"
        "assumed   memory.used leaves the driver's reserve out, as nvidia-smi does since driver 510 (--reserve)\n"
    )
    assert [len(card.processes) for tick in delivered.ticks for card in tick.cards] == [0, 1]
    assert {tick.origin.host for tick in delivered.ticks} == {"n1"}


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (["--timezone", "Mars/Olympus"], 2),
        (["--interval", "soon"], 2),
        (["--interval", "2d"], 2),
        (["--reserve", "much"], 2),
        (["--host", " "], 2),
        (["--apps", "nothing.csv"], 2),
        (["bad.csv"], 4),
    ],
)
def test_bad_arguments_and_data_deliver_nothing(
    delivered: Delivered, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str], code: int
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("gpu.csv").write_text(CSV, encoding="utf-8")
    Path("bad.csv").write_text(f"{CSV}2026/03/25 04:47:00, GPU-a, 4 MiB\n", encoding="utf-8")
    with pytest.raises(GuaError) as refused:
        gua_import("gpu.csv", *arguments)
    assert refused.value.exit_code == code
    assert "\n" not in str(refused.value)
    assert delivered.ticks == []


def test_a_recording_that_lies_ahead_is_refused_whole_as_a_store_would_leave_it_out(
    tmp_path: Path, delivered: Delivered
) -> None:
    path = tmp_path / "ahead.csv"
    path.write_text(CSV + "2150/03/25 04:47:19, GPU-a, 4 MiB\n")
    with pytest.raises(DataError, match=r"ahead\.csv: a row is of 2150-03-25T04:47:19Z, more than a day ahead"):
        gua_import(str(path))
    assert delivered.ticks == []


@pytest.mark.engine
def test_a_dash_reads_standard_input_and_the_same_cards_on_another_host_are_a_warning(tmp_path: Path) -> None:
    """A card that was moved is at no time on two hosts, and no warning is printed."""
    ours = {name: value for name, value in os.environ.items() if not name.startswith("GUA_")}
    shown_text = "have 1 card in common at the same time in this store: a report on both counts those hours twice"
    later = CSV.replace("2026/03/25", "2026/03/26")
    for host, recording, complaint in (("n1", CSV, ""), ("n2", CSV, "hosts n2 and n1"), ("n2", CSV, "hosts n2 and n1")):
        done = import_stdin(host, recording, tmp_path / "store", ours)
        assert done.stdout.startswith(f"imported  2 card ticks of 1 card on host {host} (2 moments)\n")
        assert done.stderr.count("\n") == bool(complaint)
        assert f"gua: {complaint} {shown_text}" in done.stderr or not complaint
    assert import_stdin("n3", later, tmp_path / "store", ours).stderr == ""


def import_stdin(host: str, recording: str, store: Path, environ: dict[str, str]) -> subprocess.CompletedProcess[str]:
    """Import a recording through a pipe."""
    return subprocess.run(
        [GUA, "import", "nvidia-smi", "-", "--host", host, "--store", f"chdb://{store}"],
        input=recording,
        env={**environ, "GUA_HOME": str(store.with_name("home"))},
        capture_output=True,
        text=True,
        check=True,
    )


def test_an_error_in_standard_input_names_it_and_the_line(tmp_path: Path) -> None:
    done = subprocess.run(
        [GUA, "import", "nvidia-smi", "-"],
        input="no,header\n",
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout) == (4, "")
    assert done.stderr.startswith("gua: /dev/stdin:1: there is no header")


def test_an_unknown_zone_is_refused_before_a_file_is_read() -> None:
    with pytest.raises(UsageError, match="unknown time zone 'Mars'"):
        gua_import("/nonexistent.csv", "--timezone", "Mars")


def test_a_host_zone_without_a_name_requires_timezone(delivered: Delivered, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "CET-1CEST")
    with pytest.raises(UsageError, match=r"TZ='CET-1CEST' is no zone .* name one, --timezone Europe/Berlin"):
        gua_import(*FILES)
    gua_import(*FILES, "--timezone", "UTC")
    assert delivered.ticks
