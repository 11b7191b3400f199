"""Import 159,984 rows of one-minute data of 144 cards from one CSV file: counts, time and peak memory."""

from __future__ import annotations

import argparse
import resource
import subprocess
import sys
import tempfile
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

CARDS = 144
MINUTES = 1_111
HEADER = (
    "timestamp, index, name, uuid, utilization.gpu [%], memory.used [MiB], memory.total [MiB], memory.free [MiB], "
    "power.draw [W], temperature.gpu\n"
)


def write(path: Path, *, cards: int = CARDS, minutes: int = MINUTES) -> int:
    """Write the recording and return its number of rows. The same every time."""
    start = datetime(2026, 3, 1, tzinfo=UTC)
    with path.open("w", encoding="utf-8") as file:
        file.write(HEADER)
        for minute in range(minutes):
            stamp = (start + timedelta(minutes=minute)).strftime("%Y/%m/%d %H:%M:%S.000")
            for card in range(cards):
                busy = (card * 7 + minute // 60) % 3 == 0
                used = 60_000 + card * 13 + minute % 50 if busy or card % 4 else 4
                file.write(
                    f"{stamp}, {card}, NVIDIA H100 80GB HBM3, GPU-{card:08d}-0000-0000-0000-000000000000, "
                    f"{(card + minute) % 60 + 40 if busy else 0} %, {used} MiB, 81559 MiB, {81087 - used} MiB, "
                    f"{350 + (card + minute) % 200 if busy else 71}.{minute % 100:02d} W, {30 + (card + minute) % 40}\n"
                )
    return cards * minutes


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=int, default=MINUTES)
    minutes = parser.parse_args().minutes
    gua = Path(sys.executable).with_name("gua")
    with tempfile.TemporaryDirectory() as folder:
        recording = Path(folder, "recording.csv")
        rows = write(recording, minutes=minutes)
        command = [gua, "import", "nvidia-smi", recording, "--store", f"chdb://{folder}/store"]
        started = time.monotonic()
        finished = subprocess.run(command, check=False)
        seconds = time.monotonic() - started
    peak_mib = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss // 1024
    print(f"{rows} rows of {CARDS} cards in {seconds:.1f} s: {rows / seconds:,.0f} card ticks/s, peak {peak_mib} MiB")
    return finished.returncode


if __name__ == "__main__":
    sys.exit(main())
