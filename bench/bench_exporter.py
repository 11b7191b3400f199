"""The page for Prometheus: how long it takes to make and to fetch, 200 scrapers against a real agent, its memory, and
callers who do not read.

Run: .venv/bin/python bench/bench_exporter.py [--seconds 60] [--scrapes 1000]. Prints figures beside their limits.
Cards are simulated (tests/driver, needs a C compiler); the page of 16 cards x 100 processes is made of ready ticks.
"""

from __future__ import annotations

import argparse
import gzip
import http.client
import json
import math
import resource
import socket
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests"))

from measures.figures import machine, rss_mb, show, title  # noqa: E402 - found through the line above
from measures.host import crowded, new_agent, pid_of  # noqa: E402 - likewise

from fakes.cards import GIB, START_MS, card, process, tick  # noqa: E402 - likewise
from gua.core.idleness import IdleCounter  # noqa: E402 - likewise
from gua.core.tick import Origin, Tick  # noqa: E402 - likewise
from gua.core.words import Source  # noqa: E402 - likewise
from gua.exporter.address import Address, Serving  # noqa: E402 - likewise
from gua.exporter.endpoint import PrometheusEndpoint  # noqa: E402 - likewise
from gua.procfs.reader import ProcFs, SystemClock  # noqa: E402 - likewise
from servers.agent import Agent  # noqa: E402 - likewise

CARDS, PROCESSES = 16, 100
SCRAPERS = 200
UNREAD_A_SECOND = 80
SCRAPE_LIMIT_MS, RSS_LIMIT_MB = 200.0, 60.0
PACKED = {"Accept-Encoding": "gzip", "Accept": "application/openmetrics-text;version=1.0.0"}
INTERVAL_SECONDS = 1


def crowd(ts_ms: int) -> Tick:
    """Return a tick of 16 cards with 100 processes each, all known."""
    return tick(
        ts_ms,
        *(
            card(
                f"GPU-8f1c2d3e-4b5a-6978-8897-a6b5c4d3e2{number:02d}",
                index=number,
                held=80 * GIB,
                power_watts=120.0,
                temperature_celsius=41.0,
                energy_total_mj=ts_ms,
                failed=False,
                processes=tuple(
                    process(
                        10_000 + PROCESSES * number + one,
                        512 * 2**20,
                        created_ms=START_MS - one,
                        utilization=0.0,
                        idle_ms=ts_ms - START_MS,
                        gpu_time_ms=300,
                        container_id=f"{one:04d}" + "ab" * 30,
                        pod_uid=f"6f1d2c3b-0000-4000-8000-{one:012d}",
                        slurm_job_id=str(4000 + one),
                    )
                    for one in range(PROCESSES)
                ),
            )
            for number in range(CARDS)
        ),
    )


def serve() -> None:
    """Serve such ticks, one a second, to the parent; prints the port, then what each tick took."""
    ready = crowd(START_MS)
    clocks = {
        (one.uuid, each.pid, each.created_ms): IdleCounter(seen_ms=1, covered_ms=1, zero_polls=2, zero_ms=1)
        for one in ready.cards
        for each in one.processes
    }
    origin = Origin(host="bench", source=Source.SIMULATOR, interval_ms=30_000)
    serving = Serving(address=Address(port=0))
    with PrometheusEndpoint(serving, clock=SystemClock(ProcFs()), origin=origin, clocks=lambda: clocks) as endpoint:
        print(endpoint.port, flush=True)
        number = 0
        while True:
            number += 1
            one = replace(ready, ts_ms=START_MS + 1000 * number)  # to make one takes as long as a page does
            began = time.thread_time()
            endpoint.ticked(one, lateness_ms=0)
            print(json.dumps({"ms": 1000 * (time.thread_time() - began), "rss": rss_mb()}), flush=True)
            time.sleep(INTERVAL_SECONDS)


def fetch(port: int, headers: dict[str, str]) -> bytes | None:
    """Return a page; None if the endpoint disconnects first, as it does after 15 s."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    try:
        connection.request("GET", "/metrics", headers=headers)
        answer = connection.getresponse()
        if answer.status != http.client.OK:
            msg = f"status {answer.status}"
            raise RuntimeError(msg)
        return answer.read()
    except (OSError, http.client.HTTPException) as error:
        print(f"  a scrape without an answer: {error or type(error).__name__}")
        return None
    finally:
        connection.close()


def scrapes(count: int) -> None:
    title(f"A page of {CARDS} cards x {PROCESSES} processes, a new one each second, {count} scrapes of each form")
    with subprocess.Popen([sys.executable, __file__, "--serve"], stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None  # noqa: S101 - a pipe was asked for
        port = int(child.stdout.readline())
        reports = [json.loads(child.stdout.readline()) for _ in range(2)]
        for form, headers in (("text", {}), ("OpenMetrics, gzip", PACKED)):
            body = next(filter(None, (fetch(port, headers) for _ in range(5))), None)
            if body is None:
                show(f"{form}: scrape", "no answer in five")
                continue
            plain = gzip.decompress(body) if headers else body
            samples = sum(not line.startswith(b"#") for line in plain.splitlines())
            taken = []
            for _ in range(count):
                began = time.perf_counter()
                answered = fetch(port, headers) is not None
                taken.append(1000 * (time.perf_counter() - began) if answered else math.inf)
                time.sleep(0.005)
            taken.sort()
            note = f"{samples:,} samples, {len(body) / 1e6:.2f} MB"
            show(f"{form}: scrape, p50", taken[len(taken) // 2], "ms", note=note)
            show(f"{form}: scrape, p99", taken[int(len(taken) * 0.99)], "ms", SCRAPE_LIMIT_MS)
        child.terminate()
        reports += [json.loads(line) for line in child.stdout]
    made = sorted(one["ms"] for one in reports[-5:])
    show("families made, CPU a tick", made[len(made) // 2], "ms")
    show("resident memory of that process", max(one["rss"] for one in reports), "MB")


def unread(seconds: float) -> None:
    title(f"The same page; {UNREAD_A_SECOND} callers more each second who ask for it and read nothing, {seconds:g} s")
    with (
        ExitStack() as held,
        subprocess.Popen([sys.executable, __file__, "--serve"], stdout=subprocess.PIPE, text=True) as child,
    ):
        assert child.stdout is not None  # noqa: S101 - a pipe was asked for
        port = int(child.stdout.readline())
        for form in ({}, PACKED):
            fetch(port, form)
        reports = [json.loads(child.stdout.readline()) for _ in range(4)]
        before_mb, before_kernel_mb = max(one["rss"] for one in reports), kernel_mb()
        peak_kernel_mb = 0.0
        for _ in range(int(seconds)):
            for _ in range(UNREAD_A_SECOND):
                caller = held.enter_context(socket.socket())
                caller.setsockopt(
                    socket.SOL_SOCKET, socket.SO_RCVBUF, 4096
                )  # what a caller keeps itself is not counted
                caller.connect(("127.0.0.1", port))
                caller.sendall(b"GET /metrics HTTP/1.1\r\nHost: bench\r\n\r\n")
            reports.append(json.loads(child.stdout.readline()))
            peak_kernel_mb = max(peak_kernel_mb, kernel_mb())
        child.terminate()
    show("resident memory before, and at most", f"{before_mb:.0f} and {max(one['rss'] for one in reports):.0f} MB")
    show("the kernel's for TCP before, and at most", f"{before_kernel_mb:.0f} and {peak_kernel_mb:.0f} MB")


def kernel_mb() -> float:
    """Return what the kernel keeps for TCP, in MB (``mem`` of /proc/net/sockstat, in pages)."""
    words = Path("/proc/net/sockstat").read_text("ascii").partition("TCP:")[2].split()
    return int(words[words.index("mem") + 1]) * resource.getpagesize() / 1e6


@contextmanager
def scraping(port: int, seconds: float) -> Iterator[Counter[str]]:
    """Yield counts of what happened to the scrapers, which send a new request as soon as they are answered."""
    happened: Counter[str] = Counter()
    end = time.monotonic() + seconds

    def scrape() -> None:
        while time.monotonic() < end:
            try:
                fetch(port, PACKED)
                happened["scrapes"] += 1
            except (OSError, RuntimeError, http.client.HTTPException) as error:
                happened[type(error).__name__] += 1
            time.sleep(0.01)

    threads = [threading.Thread(target=scrape, daemon=True) for _ in range(SCRAPERS)]
    for one in threads:
        one.start()
    yield happened
    for one in threads:
        one.join(30)


def flood(seconds: float) -> None:
    title(
        f"A real agent, {CARDS} cards x {PROCESSES} processes, a tick each second; {SCRAPERS} scrapers every 10 ms, "
        f"{seconds:g} s"
    )
    with scraped(CARDS, CARDS * PROCESSES) as (agent, port):
        show("resident memory, scraped once", rss_mb(pid_of(agent)), "MB", RSS_LIMIT_MB)
        before = agent.status()["ticks"]
        began = time.monotonic()
        with scraping(port, seconds) as happened:
            pass
        after, passed = agent.status()["ticks"], time.monotonic() - began
        show("ticks made", float(after["made"] - before["made"]), note=f"in {passed:.1f} s")
        skipped = Counter(after["skipped"])
        skipped.subtract(before["skipped"])
        show("ticks missed", float(sum(skipped.values())), note=str({k: v for k, v in skipped.items() if v}))
        show("scrapes", ", ".join(f"{count:,} {what}" for what, count in happened.items()))
        show("resident memory after that", rss_mb(pid_of(agent)), "MB", RSS_LIMIT_MB)


def small() -> None:
    title("The same agent, 8 cards x 10 processes")
    with scraped(8, 80) as (agent, port):
        for _ in range(20):
            fetch(port, PACKED)
        show("resident memory, scraped 20 times", rss_mb(pid_of(agent)), "MB", RSS_LIMIT_MB)


@contextmanager
def scraped(cards: int, processes: int) -> Iterator[tuple[Agent, int]]:
    """Yield an agent that ticks each second, and the port of its page, which was requested once."""
    port = 19_835
    with crowded(cards=cards, processes=processes) as driver, new_agent(driver) as agent:
        agent.start("--prometheus", f"127.0.0.1:{port}", interval="1s")
        time.sleep(5)
        fetch(port, PACKED)
        time.sleep(3)
        yield agent, port
        agent.stop()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--seconds", type=float, default=60, help="how long 200 scrapers ask")
    parser.add_argument("--scrapes", type=int, default=1000, help="scrapes of each form")
    options = parser.parse_args()
    if options.serve:
        serve()
    print(machine())
    scrapes(options.scrapes)
    unread(min(options.seconds, 10))
    small()
    flood(options.seconds)


if __name__ == "__main__":
    main()
