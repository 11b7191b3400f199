"""What reservations cost: a grant, the end of a job, and many of them at once, on the simulated driver."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path

from measures.figures import cpu_ms, middle, rss_mb, show, spread, title
from measures.host import new_agent, pid_of, simulated

from driver.scenario import MIB, Card, Scenario
from fakes.desks import opened
from gua.app.reservations import WithReservations
from gua.app.reserving import Grant, query_agent, reserve
from gua.core.allocation import CardKey
from gua.local_socket.client import query_status
from gua.reservations.model import Candidate, CardRequest, Granted, Kind, Wish
from servers.agent import GUA, Agent
from servers.fixture import uuid

CARDS = 8
MANY = 50
GRANT_MS, END_MS, WHOLE_MS = 50.0, 200.0, 150.0
MEMORY_MB, TICK_MS, STATUS_RATIO = 2.0, 0.2, 1.2
LOOKS = 2000


def scenario(cards: int) -> Scenario:
    return Scenario([Card(uuid(number + 1), memory_reserved=500 * MIB) for number in range(cards)])


def percentile(values: Sequence[float], part: float) -> float:
    return sorted(values)[min(len(values) - 1, int(len(values) * part))]


def timed(what: Callable[[], object]) -> float:
    """Return how long it takes [ms] on the clock."""
    began = time.monotonic()
    what()
    return (time.monotonic() - began) * 1000


def child_cpu(command: Sequence[str], agent: Agent) -> float:
    """Return the CPU time [ms] of a command and all that it waited for."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, env=agent.environment(), check=True, stderr=subprocess.DEVNULL)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return (after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime) * 1000


def socket_of(agent: Agent) -> list[Path]:
    return [agent.home / "agent.sock"]


def taken(agent: Agent, request: dict[str, object]) -> Grant:
    return reserve(socket_of(agent), request, progress=lambda _: None)


def given_back(agent: Agent, grant: Grant) -> None:
    query_agent(socket_of(agent), {"ask": "release", "ids": [grant.reservation["id"]]})


def grants(agent: Agent, times: int) -> None:
    """Show how long a request takes until its cards are there, on the clock and as CPU time of both sides."""
    title(f"A grant with {CARDS} free cards, {times} times, from the request until the command can be started")
    waited, before, own = [], cpu_ms(pid_of(agent)), time.process_time()
    for _ in range(times):
        began = time.monotonic()
        grant = taken(agent, {"kind": "run", "count": 1})
        waited.append((time.monotonic() - began) * 1000)
        given_back(agent, grant)
        if grant.lifeline is not None:
            os.close(grant.lifeline)
    spent = cpu_ms(pid_of(agent)) - before
    show("on the clock, the middle one", middle(waited), "ms", GRANT_MS)
    show("on the clock, 99 of 100 take less than", percentile(waited, 0.99), "ms", GRANT_MS)
    show("CPU of the agent, with the look and the end", spent / times, "ms")
    show("CPU of who asks", (time.process_time() - own) * 1000 / times, "ms")


def whole_commands(agent: Agent, times: int) -> None:
    """Show what a whole `gua run true` takes beside `true` and the start of Python."""
    title(f"`gua run true` beside `true`, {times} times in turn")
    commands = {"true": ["true"], "python": [sys.executable, "-c", "pass"], "gua": [*GUA, "run", "--", "true"]}
    clock: dict[str, list[float]] = {name: [] for name in commands}
    cpu: dict[str, list[float]] = {name: [] for name in commands}
    for _ in range(times):
        for name, command in commands.items():
            clock[name].append(timed(lambda name=name, command=command: cpu[name].append(child_cpu(command, agent))))
    show("the start of Python itself, CPU", middle(cpu["python"]), "ms")
    show("more CPU than true", middle(cpu["gua"]) - middle(cpu["true"]), "ms", WHOLE_MS, spread(cpu["gua"]))
    show("more than true on the clock", middle(clock["gua"]) - middle(clock["true"]), "ms", WHOLE_MS)


def ends(agent: Agent, times: int) -> None:
    """Show how long after the end of a command its card is free."""
    title(f"The end of a job, {times} times: from its last moment until its card is free")
    late = []
    for _ in range(times):
        job = subprocess.Popen(
            [*GUA, "run", "--", "sh", "-c", "echo; read _"],
            env=agent.environment(),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
        if job.stdout is None:
            raise AssertionError
        job.stdout.readline()
        job.kill()
        began = time.monotonic()
        job.communicate()
        while query_agent(socket_of(agent), {"ask": "reservations"})["reservations"]:
            time.sleep(0.002)
        late.append((time.monotonic() - began) * 1000)
    show("the middle one", middle(late), "ms", END_MS, spread(late))


def many(agent: Agent) -> None:
    """Show what many reservations and many who wait cost an agent, and whether its status is as fast as without."""
    title(f"{MANY} reservations and {MANY} who wait, beside none")
    socket = socket_of(agent)[0]

    def status_ms() -> float:
        return middle([timed(lambda: query_status(socket, timeout_seconds=60)) for _ in range(40)])

    def status_cpu_ms() -> float:
        before = cpu_ms(pid_of(agent))
        for _ in range(40):
            query_status(socket, timeout_seconds=60)
        return (cpu_ms(pid_of(agent)) - before) / 40

    for _ in range(MANY):  # what a first use takes, once
        given_back(agent, taken(agent, {"kind": "manual", "count": 1, "for_ms": 600_000}))
    time.sleep(3)
    size, answered, answered_cpu = rss_mb(pid_of(agent)), status_ms(), status_cpu_ms()
    for _ in range(MANY):
        taken(agent, {"kind": "manual", "count": 1, "for_ms": 600_000})
    reserved_only = status_ms()
    waiting = [
        subprocess.Popen([sys.executable, "-c", _WAIT.format(socket=str(socket), count=MANY)], stdout=subprocess.PIPE)
    ]
    while len(query_agent([socket], {"ask": "queue"})["queue"]) < MANY:
        time.sleep(0.05)
    time.sleep(3)
    show("more memory", rss_mb(pid_of(agent)) - size, "MB", MEMORY_MB)
    show("status, the middle one, without any", answered, "ms")
    show("with reservations, as a ratio", reserved_only / answered)
    show("with who waits beside reservations, as a ratio", status_ms() / reserved_only, "", STATUS_RATIO)
    show("CPU of the agent for a status, without and with", f"{answered_cpu:.2f}, {status_cpu_ms():.2f}", "ms")
    before, began = cpu_ms(pid_of(agent)), time.monotonic()
    time.sleep(10)
    show(
        "CPU of the agent a second meanwhile, ticks with it",
        (cpu_ms(pid_of(agent)) - before) / (time.monotonic() - began),
        "ms",
    )
    for each in waiting:
        each.kill()
        each.communicate()


_WAIT = """
import socket, time
held = []
for _ in range({count}):
    one = socket.socket(socket.AF_UNIX)
    one.connect({socket!r})
    one.sendall(b'{{"gua":1,"ask":"reserve","kind":"run","count":1}}\\n')
    one.recv(4096)
    held.append(one)
time.sleep(3600)
"""


def ticks() -> None:
    """Show the request of a tick: who has which card."""
    title(f"What a tick takes with {MANY} reservations and {MANY} who wait ({LOOKS} looks)")
    with tempfile.TemporaryDirectory(prefix="gua-bench-") as folder, ExitStack() as held:
        cards = [Candidate(uuid=f"GPU-{card}", index=card, model="H100") for card in range(MANY)]
        desk = opened(Path(folder) / "reservations", lambda: cards)
        held.callback(desk.close)
        for number in range(2 * MANY):
            request = CardRequest(uid=1000 + number % 7, owner="user", kind=Kind.MANUAL, wish=Wish(count=1), pid=None)
            desk.enter(request)
            granted = desk.attempt(request.place)
            if isinstance(granted, Granted) != (number < MANY):
                raise AssertionError(granted)
        sources = WithReservations(None, desk)
        keys = [CardKey(card.uuid) for card in cards]
        now_ms = time.time_ns() // 1_000_000
        sources.look(now_ms, now_ms + 1, keys)
        began = time.thread_time()
        for number in range(LOOKS):
            found = sources.look(now_ms + number, now_ms + number + 1, keys)
        spent = (time.thread_time() - began) * 1000 / LOOKS
        if len(found.allocations) != MANY:
            raise AssertionError(found)
        show("CPU", spent, "ms", TICK_MS)


def grants_and_ends(times: int) -> None:
    """Show what a grant, a whole command and an end take."""
    with simulated(scenario(CARDS)) as driver, new_agent(driver) as agent:
        agent.start(interval="30s")
        grants(agent, times)
        whole_commands(agent, max(5, times // 10))
        ends(agent, max(5, times // 10))
        agent.stop()


def crowds() -> None:
    """Show what many reservations cost."""
    ticks()
    with simulated(scenario(MANY)) as driver, new_agent(driver) as agent:
        agent.start(interval="30s")
        many(agent)
        agent.stop()
