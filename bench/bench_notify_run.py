"""A run of `gua notify` with nothing due on an embedded store of a fleet, beside `gua sql 'SELECT 1'`: CPU and wall.

The store has hourly rollups, but of the current hour. Both commands run by turns, as processes of their own.
The limit is 1.5 times.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

from measures.figures import machine, show, title

from fakes.attribution import attribute
from fakes.fleet import spooled_ticks
from gua.core.tick import CardReading, Origin, ProcessReading, Tick
from gua.core.words import ProcessList, Source
from gua.store.database import open_store

LIMIT = 1.5
TICK_MS = 600_000
AT_MS = int(time.time() * 1000) // TICK_MS * TICK_MS
GIB = 2**30
POLICY = """
[[rule]]
name = "idle"
state = "idle-held"
after = "5d"
except_owners = ["svc-*"]
[[rule.step]]
to = ["json://127.0.0.1:9"]
"""


def reading(host: int, index: int) -> CardReading:
    """Return a card with a process: every third one idles."""
    use = 0.0 if (host + index) % 3 == 0 else 0.7
    process = ProcessReading(
        pid=100 + index, created_ms=AT_MS - 10**9, owner=f"u{index}", comm="python", memory_bytes=GIB, utilization=use
    )
    return attribute(
        CardReading(
            uuid=f"GPU-{host}-{index}",
            duration_ms=TICK_MS,
            gpu_time_ms=TICK_MS,
            process_list=ProcessList.KNOWN,
            index=index,
            utilization=use,
            memory_used_bytes=GIB,
            memory_limit_bytes=80 * GIB,
            memory_reserved_bytes=0,
            processes=(process,),
        )
    )


def fill(address: str, hosts: int, hours: int) -> None:
    with open_store(address) as store:
        for host in range(hosts):
            origin = Origin(host=f"node{host:03}", source=Source.AGENT, interval_ms=TICK_MS)
            cards = tuple(reading(host, index) for index in range(8))
            moments = range(AT_MS - hours * 3_600_000 + TICK_MS, AT_MS + 1, TICK_MS)
            store.land(list(spooled_ticks(Tick(ts_ms=ts_ms, origin=origin, cards=cards) for ts_ms in moments)))
        store.count_hours()


def spent(command: list[str], environment: dict[str, str]) -> tuple[float, float]:
    """Return CPU and wall time of a command [s]."""
    before, begun = os.times(), time.perf_counter()
    subprocess.run(command, env=environment, check=True, stdout=subprocess.DEVNULL)
    after, wall = os.times(), time.perf_counter() - begun
    cpu = after.children_user + after.children_system - before.children_user - before.children_system
    return cpu, wall


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--hosts", type=int, default=64)
    parser.add_argument("--hours", type=int, default=24)
    parser.add_argument("--times", type=int, default=5)
    options = parser.parse_args()
    gua = str(Path(sys.executable).with_name("gua"))
    with tempfile.TemporaryDirectory() as folder:
        address = f"chdb://{folder}/store"
        fill(address, options.hosts, options.hours)
        policy = Path(folder, "policy.toml")
        policy.write_text(POLICY)
        environment = {**os.environ, "HOME": folder, "GUA_HOME": f"{folder}/gua"}
        commands = {
            "gua sql 'SELECT 1'": [gua, "sql", "SELECT 1", "--store", address],
            "gua notify": [gua, "notify", "--policy", str(policy), "--store", address, "--yes"],
        }
        times: dict[str, list[tuple[float, float]]] = {name: [] for name in commands}
        for _ in range(options.times + 1):
            for name, command in commands.items():
                times[name].append(spent(command, environment))
    print(machine())
    title(f"{options.hosts} hosts x 8 cards, {options.hours} h, nothing due")
    medians = {name: [statistics.median(each) for each in zip(*of[1:], strict=True)] for name, of in times.items()}
    for name, (cpu, wall) in medians.items():
        show(name, cpu, "s of CPU", None, note=f"{wall:.2f} s")
    (cpu_one, wall_one), (cpu, wall) = medians.values()
    show("notify beside SELECT 1", cpu / cpu_one, "times the CPU", LIMIT, note=f"{wall / wall_one:.2f} times the time")


if __name__ == "__main__":
    main()
