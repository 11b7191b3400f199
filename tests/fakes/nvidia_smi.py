"""nvidia-smi as far as the tests need it: --query-gpu and --query-compute-apps as CSV, from whatever NVML there is.

``install(folder)`` puts it on a PATH; on the simulated driver it reports that driver's cards.
"""

from __future__ import annotations

import argparse
import csv
import os
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

import pynvml

MIB = 2**20
Query = Callable[[Any], object]


def _memory(handle: Any) -> Any:  # noqa: ANN401 - nvidia-ml-py has no types
    return pynvml.nvmlDeviceGetMemoryInfo(handle, pynvml.nvmlMemory_v2)


def _now() -> str:
    fixed_time = os.environ.get("NVIDIA_SMI_NOW")
    return fixed_time or datetime.now().strftime("%Y/%m/%d %H:%M:%S.%f")[:-3]  # noqa: DTZ005 - as the real one


CARD: Mapping[str, tuple[str, Query]] = {
    "timestamp": ("", lambda _: _now()),
    "uuid": ("", pynvml.nvmlDeviceGetUUID),
    "name": ("", pynvml.nvmlDeviceGetName),
    "driver_version": ("", lambda _: pynvml.nvmlSystemGetDriverVersion()),
    "mig.mode.current": ("", lambda _: "[N/A]"),
    "memory.total": ("MiB", lambda handle: _memory(handle).total // MIB),
    "memory.used": ("MiB", lambda handle: _memory(handle).used // MIB),
    "utilization.gpu": ("%", lambda handle: pynvml.nvmlDeviceGetUtilizationRates(handle).gpu),
    "temperature.gpu": ("", lambda handle: pynvml.nvmlDeviceGetTemperature(handle, 0)),
    "power.draw": ("W", lambda handle: f"{pynvml.nvmlDeviceGetPowerUsage(handle) / 1000:.2f}"),
}


def install(folder: Path) -> Path:
    """Write a program of that name, which runs with this Python, into a folder and return the folder."""
    folder.mkdir(exist_ok=True)
    program = folder / "nvidia-smi"
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" "{__file__}" "$@"\n', encoding="utf-8")
    program.chmod(0o755)
    return folder


def _handles() -> Iterator[tuple[int, Any]]:
    """Yield the cards that are there; a lost one has no row."""
    for index in range(pynvml.nvmlDeviceGetCount()):
        try:
            yield index, pynvml.nvmlDeviceGetHandleByIndex(index)
        except pynvml.NVMLError:
            continue


def _cards(fields: Sequence[str]) -> list[list[tuple[object, str]]]:
    found = []
    for index, handle in _handles():
        found.append([(index, "") if name == "index" else _cell(name, handle) for name in fields])
    return found


def _cell(name: str, handle: Any) -> tuple[object, str]:  # noqa: ANN401 - as above
    unit, getter = CARD[name]
    try:
        return getter(handle), unit
    except pynvml.NVMLError:
        return "[N/A]", ""


def _apps(fields: Sequence[str]) -> list[list[tuple[object, str]]]:
    found = []
    for _, handle in _handles():
        try:
            processes = pynvml.nvmlDeviceGetComputeRunningProcesses_v3(handle)
        except pynvml.NVMLError:
            continue
        for process in processes:
            memory = process.usedGpuMemory
            cells: Mapping[str, tuple[object, str]] = {
                "timestamp": (CARD["timestamp"][1](handle), ""),
                "gpu_uuid": (pynvml.nvmlDeviceGetUUID(handle), ""),
                "pid": (process.pid, ""),
                "process_name": (_name(process.pid), ""),
                "used_gpu_memory": ("[N/A]" if memory is None else memory // MIB, "" if memory is None else "MiB"),
            }
            found.append([cells["used_gpu_memory" if name == "used_memory" else name] for name in fields])
    return found


def _name(pid: int) -> str:
    try:
        return f"/usr/bin/{Path(f'/proc/{pid}/comm').read_text(encoding='utf-8').strip()}"
    except OSError:
        return "[Not Found]"


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--query-gpu", type=lambda text: text.split(","))
    parser.add_argument("--query-compute-apps", type=lambda text: text.split(","))
    parser.add_argument("--format", type=lambda text: text.split(","), required=True)
    parser.add_argument("-l", dest="loop_seconds", type=float)
    given = parser.parse_args(arguments)
    pynvml.nvmlInit()
    fields = given.query_gpu or given.query_compute_apps
    units = {"memory.total": "MiB", "memory.used": "MiB", "utilization.gpu": "%", "power.draw": "W"}
    units |= {"used_memory": "MiB", "used_gpu_memory": "MiB"}
    write = csv.writer(sys.stdout, lineterminator="\n").writerow
    if "noheader" not in given.format:
        names = ["used_gpu_memory" if name == "used_memory" else name for name in fields]
        sys.stdout.write(", ".join(f"{name} [{units[name]}]" if name in units else name for name in names) + "\n")
    plain = "nounits" in given.format
    while True:
        for row in _cards(fields) if given.query_gpu else _apps(fields):
            cells = [str(value) if plain or not unit else f"{value} {unit}" for value, unit in row]
            write([cells[0], *(f" {cell}" for cell in cells[1:])])
        sys.stdout.flush()
        if given.loop_seconds is None:
            return 0
        time.sleep(given.loop_seconds)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
