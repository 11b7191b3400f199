"""Keeps what NVML answered, and what nvidia-smi printed meanwhile, as fixtures.

    record.py NAME                       a minute of what the cards do anyway
    record.py NAME --load GPU-…          the same while one of them is idle, held, at work in bursts, at work

Writes tests/fixtures/nvml/NAME.jsonl (each call that the agent's reader made: its arguments, and its result or the code
of its error) and tests/fixtures/nvidia-smi/NAME/{gpu,apps}.csv, a recording for `gua import nvidia-smi gpu.csv --apps
apps.csv`. UUIDs are replaced by invented ones, programs keep their name alone. Look through the files before they are
committed: pids and programs of other people's processes are in them.

It recorded an H100 80GB with driver 580.159.04 (tests/unit/nvml/test_recorded_card.py);
tests/unit/nvml/test_hardware_record.py runs it on the simulated driver.
"""

from __future__ import annotations

import argparse
import contextlib
import ctypes
import functools
import json
import math
import os
import re
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from importlib.metadata import version
from itertools import count
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
FIXTURES = HERE.parent / "fixtures"
if __name__ == "__main__":
    sys.path.insert(0, str(HERE.parent))

from gua.nvml.driver import Driver, load  # noqa: E402 - found where this runs as a script, see above
from gua.nvml.reader import NvmlReader  # noqa: E402 - likewise
from gua.procfs.reader import ProcFs, SystemClock  # noqa: E402 - likewise
from hardware.phases import PHASES  # noqa: E402 - likewise
from hardware.watch import loaded  # noqa: E402 - likewise

LEAST_INTERVAL_SECONDS = 5.0
_UUID = re.compile(r"(GPU|MIG)-[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")
_GPU_FIELDS = (
    "timestamp,uuid,index,name,driver_version,memory.used,memory.total,utilization.gpu,temperature.gpu,power.draw"
)
_APP_FIELDS = "timestamp,gpu_uuid,pid,process_name,used_memory"
# Long answers: as the bytes of their rows, which is how the reader takes them.
_ROWS = frozenset({"nvmlDeviceGetSamples", "nvmlDeviceGetProcessUtilization"})
# The answer is a handle, which is known by where it came from.
_HANDLES = frozenset({"nvmlDeviceGetHandleByIndex", "nvmlDeviceGetMigDeviceHandleByIndex", "nvmlGpmSampleAlloc"})


class Names:
    """Invented UUIDs for real ones, the same for the same."""

    def __init__(self) -> None:
        self._known: dict[str, str] = {}

    def hide(self, text: str) -> str:
        """Return the text with every UUID replaced."""
        return _UUID.sub(self._invented, text)

    def _invented(self, found: re.Match[str]) -> str:
        kind = found.group(1)
        return self._known.setdefault(found.group(), f"{kind}-{len(self._known) + 1:08x}-0000-4000-8000-000000000000")


class RecordingDriver:
    """A driver that passes on every call and hands its account to ``write``; safe for threads."""

    def __init__(self, driver: Driver, write: Callable[[dict[str, object]], None]) -> None:
        self._driver = driver
        self._write = write
        self._labels: dict[int, str] = {}
        self._samples = count(1)

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - whatever the driver has
        found = getattr(self._driver, name)
        if not name.startswith("nvml") or not callable(found):
            return found  # a constant, an error class, a struct

        @functools.wraps(found)
        def call(*arguments: object) -> object:
            asked = [self._plain(each) for each in arguments]
            try:
                result = found(*arguments)
            except self._driver.NVMLError as error:
                self._write({"call": name, "arguments": asked, "error": getattr(error, "value", 999)})
                raise
            if name in _HANDLES:
                self._labels[_address(result)] = self._label(name, asked)
            answer = [bytes(row).hex() for row in _rows_of(result)] if name in _ROWS else self._plain(result)
            kind = {"type": self._plain(result[0])} if isinstance(result, tuple) and name in _ROWS else {}
            self._write({"call": name, "arguments": asked, **kind, "result": answer})
            return result

        setattr(self, name, call)
        return call

    def _label(self, name: str, asked: Sequence[object]) -> str:
        if name == "nvmlDeviceGetHandleByIndex":
            return f"card {asked[0]}"
        if name == "nvmlDeviceGetMigDeviceHandleByIndex":
            return f"{asked[0]} instance {asked[1]}"
        return f"gpm sample {next(self._samples)}"

    def _plain(self, value: object) -> object:  # noqa: PLR0911 - one line for each kind of value
        """Return what JSON can say of a value, handles by their label."""
        if isinstance(value, ctypes.Structure) and hasattr(value, "numMetrics"):
            each = {name: self._plain(getattr(value, name)) for name in ("version", "numMetrics", "sample1", "sample2")}
            return each | {"metrics": [self._plain(one) for one in value.metrics[: value.numMetrics]]}
        if isinstance(value, ctypes.Structure | ctypes.Union):
            return {name: self._plain(getattr(value, name)) for name, *_ in value._fields_}
        if type(value).__name__ == "nvmlFriendlyObject":
            return {name: self._plain(each) for name, each in vars(value).items()}
        if isinstance(value, list | tuple | ctypes.Array):
            return [self._plain(each) for each in value]
        if isinstance(value, bytes):
            return value.decode("utf-8", "replace")
        if isinstance(value, ctypes._Pointer | ctypes.c_void_p):  # noqa: SLF001 - the only base of all pointers
            return self._labels.get(_address(value), "handle")
        if isinstance(value, ctypes._SimpleCData):  # noqa: SLF001 - the only base of c_uint and its like
            return value.value
        return value if isinstance(value, int | float | str | None) else repr(value)


def _rows_of(result: Any) -> Any:  # noqa: ANN401 - a list of structs, or (type, list of structs)
    return result[1] if isinstance(result, tuple) else result


def _address(handle: object) -> int:
    return ctypes.cast(handle, ctypes.c_void_p).value or 0  # type: ignore[arg-type] # a pointer


@contextlib.contextmanager
def recording(path: Path, names: Names) -> Iterator[RecordingDriver]:
    """Record the real driver's answers into a file while the block runs."""
    path.parent.mkdir(parents=True, exist_ok=True)
    begun, lock = time.monotonic(), threading.Lock()
    with path.open("w", encoding="utf-8") as file:

        def write(entry: dict[str, object]) -> None:
            line = json.dumps({"ms": round((time.monotonic() - begun) * 1000), **entry})
            with lock:
                file.write(names.hide(line) + "\n")

        versions = {name: version(name) for name in ("nvidia-ml-py", "gua-otel")}
        write({"unix_ms": time.time_ns() // 1_000_000, **versions})
        yield RecordingDriver(load(), write)


class SmiRecording:
    """What nvidia-smi prints, once per :meth:`add`, as one recording of cards and one of their processes."""

    def __init__(self, folder: Path, names: Names) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._names = names
        self._files = {
            folder / "gpu.csv": f"--query-gpu={_GPU_FIELDS}",
            folder / "apps.csv": f"--query-compute-apps={_APP_FIELDS}",
        }
        for path in self._files:
            path.write_text("", encoding="utf-8")

    def add(self) -> None:
        """Append what nvidia-smi says now, the header only at first."""
        for path, query in self._files.items():
            done = subprocess.run(
                ["nvidia-smi", query, "--format=csv"],
                env={**os.environ, "TZ": "UTC"},  # it prints local times, without an offset
                capture_output=True,
                text=True,
                timeout=120,
                check=False,
            )
            assert done.returncode == 0, f"nvidia-smi: {done.returncode}\n{done.stdout}{done.stderr}"
            header, *rows = done.stdout.splitlines()
            fresh = path.stat().st_size == 0
            with path.open("a", encoding="utf-8") as file:
                for line in [header] * fresh + rows:
                    file.write(self._names.hide(_without_folder(line) if path.name == "apps.csv" else line) + "\n")


def _without_folder(line: str) -> str:
    """Return a row of --query-compute-apps with the program's name alone instead of its path."""
    cells = line.split(", ")
    return ", ".join([*cells[:3], ", ".join(cells[3:-1]).rpartition("/")[2], cells[-1]])


def record(driver: Driver, smi: SmiRecording | None, *, readings: int, interval_seconds: float) -> None:
    """Read the cards as the agent does so many times, and have nvidia-smi say the same at each."""
    reader = NvmlReader(SystemClock(ProcFs()), driver)
    try:
        for number in range(readings):
            if number:
                time.sleep(interval_seconds)
                reader.drain()
            reader.read()
            if smi is not None:
                smi.add()
    finally:
        reader.close()


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("name")
    parser.add_argument("--load", metavar="UUID", help="load this card, a quarter of the time in each manner")
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--interval", type=float, default=LEAST_INTERVAL_SECONDS, metavar="SECONDS")
    given = parser.parse_args(arguments)
    if given.interval < LEAST_INTERVAL_SECONDS:
        parser.error(f"nvidia-smi is not asked more often than every {LEAST_INTERVAL_SECONDS:g} s")
    names = Names()
    smi = SmiRecording(FIXTURES / "nvidia-smi" / given.name, names)
    phases = PHASES if given.load else PHASES[:1]
    with recording(FIXTURES / "nvml" / f"{given.name}.jsonl", names) as driver:
        for phase in phases:
            with loaded(phase, given.load or ""):
                readings = 1 + math.ceil(given.seconds / len(phases) / given.interval)
                record(driver, smi, readings=readings, interval_seconds=given.interval)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
