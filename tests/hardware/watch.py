"""A real agent beside nvidia-smi on one card, for a minute."""

from __future__ import annotations

import contextlib
import importlib.util
import json
import math
import os
import pwd
import select
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from gua.core.moments import to_rfc3339
from hardware import smi
from hardware.phases import Holder, Phase, Seen
from servers.agent import Agent, wall_ms
from servers.process import free_ports

LOAD = Path(__file__).with_name("load.py")
INTERVAL = "5s"
# nvidia-smi runs this often: it must not be part of the load.
SMI_EVERY_SECONDS = 10.0
# The first ticks of an agent are short, and the first whole one may hold the start of the load.
UNSETTLED_TICKS = 2
CARD_FIELDS = ("uuid", "memory.used", "memory.total", "utilization.gpu")
APP_FIELDS = ("gpu_uuid", "pid", "used_gpu_memory")
_FREE_MIB = 1024


@dataclass(frozen=True)
class RealDriver:
    """What the agent's harness needs of a driver: an environment in which processes find it."""

    environment: Mapping[str, str] = field(default_factory=dict)


def free_card() -> str:
    """Return the UUID that GUA_TEST_GPU names, else that of an unused card without MIG instances."""
    cards = smi.ask("gpu", ["uuid", "memory.used", "mig.mode.current"])
    used = {row["gpu_uuid"] for row in smi.ask("compute-apps", ["gpu_uuid", "pid"])}
    named = os.environ.get("GUA_TEST_GPU")
    if named:
        assert named in {row["uuid"] for row in cards}, f"nvidia-smi lists no card {named} (GUA_TEST_GPU): {cards}"
        return named
    free = [
        row["uuid"]
        for row in cards
        if row["uuid"] not in used
        and row["mig.mode.current"] != "Enabled"
        and (smi.number(row["memory.used"]) or 0) < _FREE_MIB
    ]
    assert free, f"no card is free for the test, name one in GUA_TEST_GPU: {cards}, in use: {sorted(used)}"
    return free[0]


@contextlib.contextmanager
def loaded(phase: Phase, card: str, *, environment: Mapping[str, str] | None = None) -> Iterator[Holder | None]:
    """Load a card while the block runs; yields who does it, ``None`` where the phase has no load."""
    if not phase.load:
        yield None
        return
    process = subprocess.Popen(
        [sys.executable, str(LOAD), *phase.load],
        env={**os.environ, "CUDA_VISIBLE_DEVICES": card, **(environment or {})},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    try:
        assert process.stdin is not None
        assert process.stdout is not None
        ready = select.poll()  # unlike select, of descriptors above 1023 too
        ready.register(process.stdout, select.POLLIN)
        assert ready.poll(120_000), "load.py is not ready after two minutes"
        line = process.stdout.readline()
        assert line, f"load.py could not load the card, it ended with {process.wait(30)}: see its standard error"
        pid = int(json.loads(line)["pid"])
        comm = Path(f"/proc/{pid}/comm").read_text(encoding="utf-8").rstrip("\n")
        yield Holder(pid=pid, owner=pwd.getpwuid(os.getuid()).pw_name, comm=comm)
        assert process.poll() is None, "load.py ended before the test did"
        process.communicate(timeout=30)  # ends its input
        assert process.returncode == 0
    finally:
        process.kill()
        process.communicate()


def watch(
    agent: Agent,
    card: str,
    *,
    seconds: float,
    holder: Holder | None,
    sees_processes: bool,
    interval: str = INTERVAL,
    smi_every_seconds: float = SMI_EVERY_SECONDS,
) -> Seen:
    """Run the agent for so long and return what it and nvidia-smi reported of the card; the agent has ended then."""
    with_store = importlib.util.find_spec("chdb") is not None
    # Without a listener there the ticks stay in the spool, where they can be read, whatever lands meanwhile.
    (port,) = free_ports(1)
    where = ["--endpoint", f"http://127.0.0.1:{port}"]
    if with_store:
        where += ["--store", f"chdb://{agent.home}/store"]
    agent.start(*where, interval=interval)
    begun = time.monotonic()
    cards: list[smi.Row] = []
    apps: list[smi.Row] = []
    # So often, however long an answer takes.
    for number in range(1, math.ceil(seconds / smi_every_seconds) + 1):
        due = begun + min(number * smi_every_seconds, seconds)
        time.sleep(max(due - time.monotonic(), 0))
        cards += [row for row in smi.ask("gpu", CARD_FIELDS) if row["uuid"] == card]
        apps += [row for row in smi.ask("compute-apps", APP_FIELDS) if row["gpu_uuid"] == card]
    status = agent.status()
    until_ms = wall_ms()
    agent.stop()
    # The last tick, made at the stop, may be of any length.
    ticks = [tick for tick in agent.ticks("endpoint") if tick.ts_ms <= until_ms][UNSETTLED_TICKS:]
    readings = [one for tick in ticks for one in tick.cards if one.uuid == card]
    shares = None
    if with_store and ticks:
        since_ms = min(tick.ts_ms - one.duration_ms for tick in ticks[:1] for one in tick.cards if one.uuid == card)
        shares = _shares(agent, card, since_ms=since_ms, until_ms=ticks[-1].ts_ms)
    return Seen(
        readings=readings,
        status=next((one for one in status["cards"] if one["uuid"] == card), {}),
        shares=shares,
        cards=cards,
        apps=apps,
        holder=holder,
        sees_processes=sees_processes,
    )


def _shares(agent: Agent, card: str, *, since_ms: int, until_ms: int) -> dict[str, float]:
    """Return the share of each state in the card's hours, as the report has them."""
    store = f"chdb://{agent.home}/store"
    window = ("--since", to_rfc3339(since_ms), "--until", to_rfc3339(until_ms))
    report = json.loads(agent.must("report", "--json", "--store", store, *window))
    states: Mapping[str, Any] = next(one["states"] for one in report["cards"] if one["gpu"] == card)
    hours = {state: float(figures["gpu_hours"]) for state, figures in states.items()}
    return {state: each / (sum(hours.values()) or 1.0) for state, each in hours.items()}
