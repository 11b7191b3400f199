"""What many distinct process names cost on a server: insert, query, report; beside the same ticks with one name.

Run: python bench/bench_names.py [--names 100000]. The server is a real one, made by the tests' tools (Go and npm).
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests"))

from measures.figures import machine  # noqa: E402 - found through the line above

from servers.clickhouse import ClickHouseServer  # noqa: E402 - likewise
from servers.gua import Gua  # noqa: E402 - likewise

PER_TICK = 1000
INSERTS = 10
ROWS = """
INSERT INTO gua.otel_metrics_sum
    (ResourceAttributes, ScopeName, ServiceName, MetricName, Attributes,
     StartTimeUnix, TimeUnix, Value, AggregationTemporality)
SELECT
    map('host.name', 'node-1', 'gua.source', 'agent', 'gua.sample.interval', '30'), 'gua', '0.1.0', metric,
    {attributes}, TimeUnix - 30, toDateTime64('2026-03-26 12:00:00', 9, 'UTC') + {tick} * 30 AS TimeUnix, 30., 1
FROM numbers({first}, {count})
ARRAY JOIN ['gua.{subject}.time', 'gua.{other}.duration'] AS metric
"""
PROCESS = (
    "map('hw.id', 'GPU-a', 'process.pid', toString(number), 'process.creation.time', '2026-03-26T11:00:00Z', "
    "'process.owner', 'alice', 'gua.process.comm', {name})"
)
NAMES = {"one name": "'python3'", "all distinct": "concat('proc-', toString(number), hex(sipHash64(number)))"}
WINDOW = ("--since", "2026-03-26T00:00Z", "--until", "2026-03-30T00:00Z")
SUMS = "SELECT program, sum(gpu_time_ms) AS ms FROM gua.process_ticks FINAL GROUP BY program ORDER BY ms DESC LIMIT 1"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--names", type=int, default=100_000)
    names = parser.parse_args().names
    print(machine())
    for title, name in NAMES.items():
        with tempfile.TemporaryDirectory() as folder:
            server = ClickHouseServer(Path(folder) / "clickhouse")
            server.start()
            try:
                measure(title, name, names, server, Gua(Path(folder) / "home"))
            finally:
                server.kill()


def measure(title: str, name: str, names: int, server: ClickHouseServer, gua: Gua) -> None:
    gua.must("schema", "apply", "--store", server.dsn())
    begun = time.perf_counter()
    for part in range(INSERTS):
        count = names // INSERTS
        server.query(
            ROWS.format(
                attributes=PROCESS.format(name=name),
                tick=f"intDiv(number, {PER_TICK})",
                first=part * count,
                count=count,
                subject="process.gpu",
                other="process.sample",
            )
        )
    inserted = time.perf_counter() - begun
    card = {"attributes": "map('hw.id', 'GPU-a')", "tick": "number", "first": 0, "count": names // PER_TICK}
    server.query(ROWS.format(**card, subject="gpu", other="gpu.sample"))
    found = server.query("SELECT uniqExact(program) FROM gua.process_ticks FINAL")
    begun = time.perf_counter()
    server.query(SUMS)
    queried = time.perf_counter() - begun
    print(
        f"{title}: {names:,} process ticks, {found} names: inserted in {inserted:.1f} s, summed by name {queried:.2f} s"
    )
    for options in ((), ("--json",)):
        begun = time.perf_counter()
        printed = gua.run("report", *options, "--store", server.dsn("gua_reader"), *WINDOW, seconds=600)
        took = time.perf_counter() - begun
        if printed.returncode:
            sys.exit(printed.stderr)
        rows = f", {len(json.loads(printed.stdout)['owners']):,} owners" if options else ""
        print(f"   gua report {' '.join(options)}: {took:.1f} s, {len(printed.stdout) / 1e6:.2f} MB{rows}")


if __name__ == "__main__":
    main()
