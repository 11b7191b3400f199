"""The tool that had this name before, version 1.8.0, on the same simulated driver in the same run."""

from __future__ import annotations

import os
import re
import subprocess
import tempfile
import time
from pathlib import Path

from measures.cost import options, receiver_of, ticks_made
from measures.figures import cpu_ms, rss_mb, show, title
from measures.host import crowded, new_agent, pid_of

from driver.fixture import SimulatedDriver
from servers.older import VERSION, CannotInstallError, install


def older(seconds: float) -> None:
    """Show CPU and memory of both daemons, a tick each second."""
    title(f"Beside gpu-usage-audit {VERSION}: both daemons, a tick each second for {seconds:g} s, NVML included")
    try:
        gua = install()
    except CannotInstallError as error:
        print(f"  not measured: {error}")
        return
    with crowded() as driver:
        python = subprocess.run([gua.with_name("python"), "--version"], capture_output=True, text=True, check=True)
        before = _older(driver, gua, seconds)
        show(f"{VERSION}: CPU a tick", before[0], "ms", note=python.stdout.strip())
        show(f"{VERSION}: resident memory", before[1], "MB", note="into SQLite, sends nothing")
        for way in ("store", "HTTP"):
            now = _ours(driver, way, seconds)
            show(f"this, {way}: CPU a tick", now[0], "ms", note=f"{now[0] / before[0]:.2f} of {VERSION}")
            show(f"this, {way}: resident memory", now[1], "MB", note=f"{now[1] / before[1]:.2f} of {VERSION}")


def _older(driver: SimulatedDriver, gua: Path, seconds: float) -> tuple[float, float]:
    with tempfile.TemporaryDirectory(prefix="gua-bench-") as folder:
        log = Path(folder) / "log"
        environ = {**os.environ, **driver.environment, "HOME": folder, "PYTHONUNBUFFERED": "1"}
        with log.open("wb") as output:
            process = subprocess.Popen(
                [gua, "daemon", "--foreground", "--interval", "1s"], env=environ, stdout=output, stderr=output
            )
        try:
            time.sleep(5)
            if process.poll() is not None:
                raise CannotInstallError(log.read_text(errors="replace").strip()[-200:])
            ticks, cpu = _ticks_in(log), cpu_ms(process.pid)
            time.sleep(seconds)
            return (cpu_ms(process.pid) - cpu) / (_ticks_in(log) - ticks), rss_mb(process.pid)
        finally:
            process.terminate()
            process.wait()


def _ticks_in(log: Path) -> int:
    return len(re.findall("^Tick [0-9]+ ", log.read_text(errors="replace"), re.MULTILINE))


def _ours(driver: SimulatedDriver, way: str, seconds: float) -> tuple[float, float]:
    with receiver_of(way) as receiver, new_agent(driver) as agent:
        agent.start(*options(receiver), interval="1s")
        time.sleep(5)
        pid = pid_of(agent)
        ticks, cpu = ticks_made(agent), cpu_ms(pid)
        time.sleep(seconds)
        found = (cpu_ms(pid) - cpu) / (ticks_made(agent) - ticks), rss_mb(pid)
        agent.stop()
    return found
