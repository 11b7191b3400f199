"""Import recordings that other tools made: counts, time and peak memory, each beside its limit.

Run: python bench/bench_import.py [--only csv older prometheus] [--minutes 1111] [--days 30]. ``csv`` is 159,984 rows of
one-minute data of 144 cards in one file of nvidia-smi; ``older`` a database of gpu-usage-audit 1.8 of eight cards at
30 s, once of three days and once of 30: memory must not grow with it. ``prometheus`` is an import of a real Prometheus
with three metrics of 64 cards at 30 s for a tenth of the days, raw and in steps of 5 minutes, hours rolled up, with
Prometheus' own CPU
time apart.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

from measures import older_history
from measures.child import ran
from measures.figures import additions_ms, machine, show, title

from servers.recorded_prometheus import RecordedPrometheus

GUA = Path(sys.executable).with_name("gua")
FEW_DAYS = 3
# CPU time of a thousand card ticks, in that of a million additions: 2 to 3 by machine,
# 3.4 where there are but three days and 6 of one, as the store is made, too.
MOST_ADDITIONS = 8.0
MOST_GROWTH = 1.5
CARDS = 144
SCRAPED_CARDS = 64
KINDS = ("csv", "older", "prometheus")
MINUTES = 1_111
HEADER = (
    "timestamp, index, name, uuid, utilization.gpu [%], memory.used [MiB], memory.total [MiB], memory.free [MiB], "
    "power.draw [W], temperature.gpu\n"
)


def write(path: Path, *, cards: int = CARDS, minutes: int = MINUTES) -> Counter[str]:
    """Write the recording and return its rows by the state they are to get. The same every time."""
    states: Counter[str] = Counter()
    start = datetime(2026, 3, 1, tzinfo=UTC)
    with path.open("w", encoding="utf-8") as file:
        file.write(HEADER)
        for minute in range(minutes):
            stamp = (start + timedelta(minutes=minute)).strftime("%Y/%m/%d %H:%M:%S.000")
            for card in range(cards):
                busy = (card * 7 + minute // 60) % 3 == 0
                used = 60_000 + card * 13 + minute % 50 if busy or card % 4 else 4
                states["active" if busy else "idle-held" if used > 100 else "truly-idle"] += 1
                file.write(
                    f"{stamp}, {card}, NVIDIA H100 80GB HBM3, GPU-{card:08d}-0000-0000-0000-000000000000, "
                    f"{(card + minute) % 60 + 40 if busy else 0} %, {used} MiB, 81559 MiB, {81087 - used} MiB, "
                    f"{350 + (card + minute) % 200 if busy else 71}.{minute % 100:02d} W, {30 + (card + minute) % 40}\n"
                )
    return states


def csv(minutes: int) -> bool:
    """Import the CSV file, show what it took, and return whether every card tick is in its state."""
    with tempfile.TemporaryDirectory() as folder:
        recording = Path(folder, "recording.csv")
        expected = write(recording, minutes=minutes)
        found = ran(
            GUA, "import", "nvidia-smi", recording, "--store", f"chdb://{folder}/store", output=Path(folder, "output")
        )
        report = subprocess.run(
            [GUA, "report", "--json", "--store", f"chdb://{folder}/store"], check=True, capture_output=True, text=True
        )
    rows = expected.total()
    title(f"{rows:,} rows of {CARDS} cards from one CSV file")
    show("card ticks a second", rows / found.wall_s, note=f"{found.wall_s:.1f} s, {found.cpu_s:.1f} s CPU")
    show("peak memory", found.peak_mb, "MB")
    states = json.loads(report.stdout)["headline"]["states"]
    for state, one in states.items():
        print(f"  {state}: {one['card_ticks']:,} card ticks, {expected[state]:,} expected")
    return all(one["card_ticks"] == expected[state] for state, one in states.items())


def older(days: int) -> bool:
    """Import an older database of a few days and of many, show what it took, and return whether no row was lost."""
    title(f"A database of gpu-usage-audit 1.8: {older_history.CARDS} cards, one tick every 30 s")
    peaks: list[float] = []
    good = True
    few = min(FEW_DAYS, days)
    for length in sorted({few, days}):
        with tempfile.TemporaryDirectory() as folder:
            database = Path(folder, "gua.db")
            processes = older_history.write(database, days=length)
            card_ticks = length * older_history.TICKS_A_DAY * older_history.CARDS
            output = Path(folder, "output")
            found = ran(GUA, "import", "gua-sqlite", database, "--store", f"chdb://{folder}/store", output=output)
            good &= f"{card_ticks:,} card ticks" in output.read_text() and f"{processes:,} rows" in output.read_text()
        peaks.append(found.peak_mb)
        note = f"{card_ticks:,} and {processes:,} process rows in {found.wall_s:.1f} s, {found.cpu_s:.1f} s CPU"
        additions = found.cpu_s * 1000 / (card_ticks / 1000) / additions_ms()
        show(f"{length} days: card ticks a CPU second", card_ticks / found.cpu_s, note=note)
        limit = MOST_ADDITIONS if length == days else None
        show(f"{length} days: 1,000 of them, in million additions", additions, "", limit)
        show(f"{length} days: peak memory", found.peak_mb, "MB")
    show(f"peak memory, {days} days to {few}", peaks[-1] / peaks[0], "", MOST_GROWTH)
    return good


def scraped(days: float) -> Iterator[tuple[str, dict[str, str], Sequence[tuple[int, float]]]]:
    """Yield the series of dcgm-exporter on 8 hosts of 8 cards at 30 s, for days that end with a whole hour."""
    end_ms = int((time.time() - 600) // 3600) * 3_600_000
    times = range(end_ms - int(days * 24 * 3_600_000) + 30_000, end_ms + 1, 30_000)
    for card in range(SCRAPED_CARDS):
        labels = {"job": "dcgm", "instance": f"10.0.0.{card // 8}:9400", "Hostname": f"node-{card // 8}"}
        labels |= {"UUID": f"GPU-{card:08d}-0000-0000-0000-000000000000", "gpu": str(card % 8), "modelName": "H100"}
        if card % 4:
            labels |= {"exported_pod": f"train-{card}", "exported_namespace": f"team-{card % 3}"}
        busy = card % 3
        yield "DCGM_FI_DEV_GPU_UTIL", labels, [(at, at // 1000 % 60 + 40 if busy else 0) for at in times]
        yield "DCGM_FI_DEV_FB_USED", labels, [(at, 60_000 if card % 4 else 0) for at in times]
        yield "DCGM_FI_DEV_POWER_USAGE", labels, [(at, 100 + at // 1000 % 500 + 0.25) for at in times]


def prometheus(days: float) -> bool:
    """Audit a Prometheus raw and in steps, show what that took, and return whether no tick was lost."""
    good = True
    with tempfile.TemporaryDirectory() as folder:
        server = RecordedPrometheus(Path(folder, "prometheus"), scraped(days))
        server.run()
        try:
            for resolution, a_day in (("raw", 2880), ("5m", 288)):
                card_ticks = round(days * a_day) * SCRAPED_CARDS
                title(f"{card_ticks:,} card ticks of {SCRAPED_CARDS} cards from Prometheus, {resolution}")
                before = cpu_seconds(server.pid)
                output = Path(folder, "output")
                store = f"chdb://{folder}/{resolution}"
                options = ("--resolution", resolution, "--since", f"{round(days * 24) + 2}h", "--store", store)
                found = ran(GUA, "import", "prometheus", server.url, *options, output=output)
                good &= f"imported  {card_ticks:,} card ticks" in output.read_text()
                show(
                    "card ticks a CPU second",
                    card_ticks / found.cpu_s,
                    note=f"{found.wall_s:.1f} s, {found.cpu_s:.1f} s CPU",
                )
                show("Prometheus' own time", cpu_seconds(server.pid) - before, "s CPU")
                show("peak memory", found.peak_mb, "MB")
                additions = found.cpu_s * 1000 / (card_ticks / 1000) / additions_ms()
                limit = MOST_ADDITIONS if resolution == "raw" and days >= 1 else None
                show("1,000 of them, in million additions", additions, "", limit)
        finally:
            server.kill()
    return good


def cpu_seconds(pid: int) -> float:
    """Return the CPU time [s] that a process took."""
    fields = Path("/proc", str(pid), "stat").read_text("ascii").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", nargs="+", choices=KINDS, default=KINDS)
    parser.add_argument("--minutes", type=int, default=MINUTES)
    parser.add_argument("--days", type=int, default=30)
    given = parser.parse_args()
    print(machine())
    good = True
    if "csv" in given.only:
        good &= csv(given.minutes)
    if "older" in given.only:
        good &= older(given.days)
    if "prometheus" in given.only:
        good &= prometheus(given.days / 10)
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
