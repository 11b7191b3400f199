"""What an agent costs: CPU time of a tick, memory, bytes on the wire."""

from __future__ import annotations

import json
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from gzip import compress
from pathlib import Path
from typing import Any

from measures.figures import additions_ms, cpu_ms, middle, rss_mb, show, spread, title
from measures.host import CARDS, PROCESSES, child, crowded, new_agent, pid_of, simulated, sleeping

from driver.fixture import SimulatedDriver
from driver.scenario import crowd, replace_text
from fakes.otlp import GrpcReceiver, HttpReceiver, Received, Receiver
from servers.agent import Agent

CPU_LIMIT_MS, WIRE_LIMIT_KB = {"store": 5.0, "HTTP": 8.0, "gRPC": 8.0}, 8.0
# The same on any machine: 0.14 to 0.25 for the store, half as much again where it is delivered.
ADDITIONS_LIMIT = 0.4
WAYS = ("store", "HTTP", "gRPC")
JOBS, TURNS, WARM_SECONDS = 50, 5, 10
ALLOCATION_LIMIT_MS, ALLOCATION_LIMIT_MB = 0.3, 3.0
ALLOCATION_LIMIT_RATIO = 0.1  # the same on a machine on which a tick takes 3 ms, and on one that others use, too
LOOKS = ("off", "files")
RSS_LIMIT_MB = {"store": None, "HTTP": 45.0, "gRPC": 65.0}


@contextmanager
def receiver_of(way: str) -> Iterator[Receiver | None]:
    """Yield where an agent delivers to that way; ``None`` for its own store."""
    if way == "store":
        yield None
    else:
        with HttpReceiver() if way == "HTTP" else GrpcReceiver() as receiver:
            yield receiver


def environment(way: str) -> dict[str, str]:
    return {"OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"} if way == "gRPC" else {}


def options(receiver: Receiver | None) -> list[str]:
    return [] if receiver is None else ["--endpoint", receiver.url]


def tick_cost(ticks: int) -> None:
    """Show the CPU of a tick in simulated time."""
    title(
        f"One tick of {CARDS} cards x {PROCESSES // CARDS} processes every 30 s, 5 drains between (CPU, simulated time)"
    )
    with on_foot() as (driver, clock):
        for way in WAYS:
            data = tick_told(driver, clock, way, ticks)
            ours = [block["ours_ms"] for block in data["blocks"]]
            nvml = middle([block["nvml_ms"] for block in data["blocks"]])
            delivery = "" if way == "store" else " and delivered"
            show(f"{way}: made, spooled{delivery}", middle(ours), "ms", CPU_LIMIT_MS[way], note=spread(ours))
            show(f"{way}: the same, of a million additions", middle(ours) / additions_ms(), "", ADDITIONS_LIMIT)
            show(f"{way}: NVML apart, {data['calls']:.0f} calls", nvml, "ms")


@contextmanager
def on_foot() -> Iterator[tuple[SimulatedDriver, Path]]:
    """Yield the driver of that host in simulated time, and the file that says what time it is."""
    with sleeping() as pids, simulated(crowd(pids, cards=CARDS)) as driver:
        clock = driver.scenario.with_name("clock")
        clock.write_text("1", encoding="ascii")
        replace_text(driver.scenario, replace(crowd(pids, cards=CARDS), clock=clock).text())
        yield driver, clock


def tick_told(driver: SimulatedDriver, clock: Path, way: str, ticks: int) -> dict[str, Any]:
    """Return the results of measures.tick for so many ticks, spooled or delivered in the given way."""
    with receiver_of(way) as receiver:
        environ = {**driver.environment, **environment(way)}
        data = json.loads(child("tick", clock, "--ticks", ticks, *options(receiver), environ=environ))
    return dict(data)


def allocation_cost(ticks: int, *, jobs: int = JOBS) -> None:
    """Show the cost of allocations for a tick and an agent: with and without, in alternating runs."""
    title(f"{jobs} allocations by files on {CARDS} cards x {PROCESSES // CARDS} processes, beside none (CPU, memory)")
    with sleeping() as pids, simulated(crowd(pids, cards=CARDS)) as driver, allocated_by_files(jobs) as folder:
        clock = driver.scenario.with_name("clock")
        clock.write_text("1", encoding="ascii")
        replace_text(driver.scenario, replace(crowd(pids, cards=CARDS), clock=clock).text())
        found: dict[bool, list[float]] = {False: [], True: []}
        blocks: dict[bool, list[float]] = {False: [], True: []}
        for _ in range(TURNS):
            for has_source, spent in found.items():
                where = ["--allocations", folder] if has_source else []
                data = json.loads(child("tick", clock, "--ticks", ticks, *where, environ=driver.environment))
                blocks[has_source] += [block["ours_ms"] for block in data["blocks"]]
                spent.append(middle([block["ours_ms"] for block in data["blocks"]]))
        without, with_ = middle(found[False]), middle(found[True])
        show("a tick without", without, "ms", note=spread(found[False]))
        show("a tick with them", with_, "ms", note=spread(found[True]))
        show("more a tick", with_ - without, "ms", ALLOCATION_LIMIT_MS)
        # What others do on the machine only ever adds: the least of each is nearest to what it takes.
        show("more a tick, least beside least", min(blocks[True]) - min(blocks[False]), "ms", ALLOCATION_LIMIT_MS)
        show("of a tick without", (with_ - without) / without, "", ALLOCATION_LIMIT_RATIO)
        sizes = [resident(driver, {"GUA_ALLOCATION": name, "GUA_ALLOCATION_FOLDER": str(folder)}) for name in LOOKS]
        show("an agent's resident memory, without and with", f"{sizes[0]:.1f}, {sizes[1]:.1f}", "MB")
        show("more memory", sizes[1] - sizes[0], "MB", ALLOCATION_LIMIT_MB)


@contextmanager
def allocated_by_files(jobs: int) -> Iterator[Path]:
    """Yield a folder with a file for each of so many allocations, spread over all cards."""
    with tempfile.TemporaryDirectory(prefix="gua-bench-") as name:
        folder = Path(name)
        folder.chmod(0o755)
        for job in range(jobs):
            data = {"source": "slurm", "id": str(4000 + job), "uid": 1000 + job % 5, "owner": f"user{job % 5}"}
            data |= {"kind": "shard", "job_name": "train", "since": 1_700_000_000, "cards": [job % CARDS]}
            (folder / f"slurm-{job}.json").write_text(json.dumps(data))
        yield folder


def resident(driver: SimulatedDriver, environ: dict[str, str]) -> float:
    """Return the resident memory [MB] of an agent that sends, after some ticks."""
    with HttpReceiver() as receiver, new_agent(driver, environ) as agent:
        agent.start(*options(receiver), interval="1s")
        time.sleep(WARM_SECONDS)
        resident = rss_mb(pid_of(agent))
        agent.stop()
        return resident


def real_agents(seconds: float) -> None:
    """Show memory and CPU of real agents, and what a tick weighs on the wire."""
    title(
        f"Real agents on that host, a tick each second for {seconds:g} s after 5 s (NVML and its simulation included)"
    )
    with crowded() as driver:
        for way in WAYS:
            with receiver_of(way) as receiver:
                _real_agent(driver, way, receiver, seconds)


def _real_agent(driver: SimulatedDriver, way: str, receiver: Receiver | None, seconds: float) -> None:
    with new_agent(driver, environment(way)) as agent:
        agent.start(*options(receiver), interval="1s")
        time.sleep(5)
        pid = pid_of(agent)
        cpu, begun, ticks = cpu_ms(pid), time.monotonic(), ticks_made(agent)
        time.sleep(seconds)
        spent, made = cpu_ms(pid) - cpu, ticks_made(agent) - ticks
        show(f"{way}: resident memory", rss_mb(pid), "MB", RSS_LIMIT_MB[way])
        show(
            f"{way}: CPU a tick", spent / made, "ms", note=f"{spent / (time.monotonic() - begun) / 10:.2f} % of a core"
        )
        if receiver is not None:
            sizes = [wire_kb(received) for received in receiver.requests[1:]]
            show(f"{way}: body of one tick, gzip", middle(sizes), "kB", WIRE_LIMIT_KB, note=spread(sizes))
        agent.stop()


def ticks_made(agent: Agent) -> int:
    return int(agent.status()["ticks"]["made"])


def wire_kb(received: Received) -> float:
    """Return the size of a request on the wire; gRPC does not report it, so its library's encoding is repeated."""
    length = received.headers.get("content-length")
    return (len(compress(received.body, 6)) if length is None else int(length)) / 1000
