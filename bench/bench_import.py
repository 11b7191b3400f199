"""Import 159,984 rows of one-minute data of 144 cards from one CSV file: counts, time and peak memory."""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from collections import Counter
from datetime import UTC, datetime, timedelta
from pathlib import Path

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


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=int, default=MINUTES)
    minutes = parser.parse_args().minutes
    gua = Path(sys.executable).with_name("gua")
    with tempfile.TemporaryDirectory() as folder:
        recording = Path(folder, "recording.csv")
        expected = write(recording, minutes=minutes)
        command = [gua, "import", "nvidia-smi", recording, "--store", f"chdb://{folder}/store"]
        started = time.monotonic()
        finished = subprocess.run(command, check=False)
        seconds = time.monotonic() - started
        peak_mib = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss // 1024
        report = subprocess.run(
            [gua, "report", "--json", "--store", f"chdb://{folder}/store"], check=True, capture_output=True, text=True
        )
    rows = expected.total()
    print(f"{rows} rows of {CARDS} cards in {seconds:.1f} s: {rows / seconds:,.0f} card ticks/s, peak {peak_mib} MiB")
    states = json.loads(report.stdout)["headline"]["states"]
    for state, found in states.items():
        print(f"  {state}: {found['card_ticks']} card ticks, {expected[state]} expected")
    exact = all(found["card_ticks"] == expected[state] for state, found in states.items())
    return finished.returncode or (0 if exact else 1)


if __name__ == "__main__":
    sys.exit(main())
