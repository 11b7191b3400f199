"""Import recordings that other tools made: counts, time and peak memory, each beside its limit.

Run: python bench/bench_import.py [--only csv older] [--minutes 1111] [--days 30]. ``csv`` is 159,984 rows of one-minute
data of 144 cards in one file of nvidia-smi; ``older`` a database of gpu-usage-audit 1.8 of eight cards at 30 s, once of
three days and once of 30: memory must not grow with it.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections import Counter
from datetime import UTC, datetime, timedelta
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

from measures import older_history
from measures.child import ran
from measures.figures import additions_ms, machine, show, title

GUA = Path(sys.executable).with_name("gua")
FEW_DAYS = 3
# CPU time of a thousand card ticks, in that of a million additions: 2 to 3 by machine,
# 3.4 where there are but three days and 6 of one, as the store is made, too.
MOST_ADDITIONS = 8.0
MOST_GROWTH = 1.5
CARDS = 144
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


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", nargs="+", choices=("csv", "older"), default=("csv", "older"))
    parser.add_argument("--minutes", type=int, default=MINUTES)
    parser.add_argument("--days", type=int, default=30)
    given = parser.parse_args()
    print(machine())
    good = True
    if "csv" in given.only:
        good &= csv(given.minutes)
    if "older" in given.only:
        good &= older(given.days)
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
