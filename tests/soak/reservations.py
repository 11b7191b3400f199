"""Commands with cards of their own, killed at random with the agent beside them, and the account of it.

Each command takes a lock of its own on every card that it was given, which its children inherit. So a card that was
given twice shows however the agent sees it.
"""

from __future__ import annotations

import contextlib
import os
import random
import signal
import sqlite3
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from contextlib import closing
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

from gua.reservations import lifeline
from servers.agent import GUA, Agent
from servers.process import poll

CARDS: Final = 4
KINDS: Final = ("double grants", "cards leaked", "reservations lost", "served out of order", "waits broken off")
LEAK_SECONDS: Final = 5.0
VICTIMS: Final = ("client before the grant", "client between grant and exec", "leader", "child", "agent")
# The machine that this runs on may be busy with other things: a look that came late counts as one of this length.
_LOOK_SECONDS: Final = 0.25
_SLACK_MS: Final = 20  # file times have the resolution of the kernel's tick
# Descriptors 4 to 7 are the locks of the cards 0 to 3; the child has them as well as its parent.
_JOB: Final = """
for card in $(echo "$CUDA_VISIBLE_DEVICES" | tr , ' '); do
  eval "exec $((card + 4))>>$PLACE/card-$card"
  flock -n $((card + 4)) || echo "$card" >> "$PLACE/given-twice"
done
echo $$ > "$PLACE/job-$$"
(sleep "$1"; : > "$PLACE/done-$GUA_RESERVATION") & wait
"""
# A client that takes its time between grant and exec.
_SLOW_CLIENT: Final = """
import os, sys, time
from gua.app import reserving
become = reserving.become
def late(*arguments, **options):
    open(os.path.join(os.environ["PLACE"], f"granted-{os.getpid()}"), "w").close()
    time.sleep(2)
    become(*arguments, **options)
reserving.become = late
from gua.cli.main import run
run()
"""


@dataclass
class Account:
    """What happened: kills by victim, commands that ran, and every fault that was seen, in words."""

    kills: Counter[str] = field(default_factory=Counter)
    runs: int = 0
    reservations: int = 0
    faults: Counter[str] = field(default_factory=Counter)
    told: list[str] = field(default_factory=list)
    seconds: float = 0.0
    longest_left: float = 0.0
    finished: int = 0

    def fault(self, kind: str, words: str) -> None:
        """Count a fault of a kind, and keep what happened."""
        self.faults[kind] += 1
        self.told.append(words)

    def text(self) -> str:
        """Return the counts, each on a line."""
        killed = ", ".join(f"{self.kills[victim]} {victim}" for victim in VICTIMS)
        found = ", ".join(f"{self.faults[kind]} {kind}" for kind in KINDS)
        return (
            f"{self.seconds:.0f} s, {self.runs} runs, {self.reservations} reservations, {self.finished} jobs that ended"
            f" by themselves\nkilled: {killed}\nfaults: {found}\n"
            f"the longest that a card outlived its command while the agent ran: {self.longest_left:.2f} s"
        )


class Chaos:
    """Clients, killers and a watcher on one agent of a host with four free cards."""

    def __init__(self, agent: Agent, seed: int) -> None:
        self.agent = agent
        self.account = Account()
        self.place = agent.folder / "jobs"
        self.place.mkdir()
        self._random = random.Random(seed)  # noqa: S311 - the same kills again
        self._until = 0.0
        self._agent_lock = threading.Lock()
        self._environ = {**agent.environment(), "PLACE": str(self.place)}
        self._lock = threading.Lock()
        self._starts_seconds = 0.0

    def run(self, seconds: float, kills: int, *, clients: int = 8) -> Account:
        """Go on for so long and until every victim was killed so often; return the account once all is over."""
        began = time.monotonic()
        self._until = began + seconds
        self._wanted = kills
        self._starts_seconds = 1.5 * self._time_of_a_start()
        threads = [threading.Thread(target=self._client, args=(number,)) for number in range(clients)]
        threads += [threading.Thread(target=each) for each in (self._kill_agent, self._watch)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.account.seconds = time.monotonic() - began
        poll(lambda: not self._open(), "all cards to be free", seconds=60)
        self._judge()
        return self.account

    def _time_of_a_start(self) -> float:
        """Return how long a client takes until it has its cards, as busy as this machine is."""
        began = time.monotonic()
        subprocess.run([*GUA, "run", "--", "true"], env=self._environ, check=True, stderr=subprocess.DEVNULL)
        return time.monotonic() - began

    def _goes_on(self, victim: str) -> bool:
        return time.monotonic() < self._until or self.account.kills[victim] < self._wanted

    def _draw(self, low: float, high: float) -> float:
        with self._lock:
            return self._random.uniform(low, high)

    def _count(self, victim: str) -> None:
        with self._lock:
            self.account.kills[victim] += 1

    def _client(self, number: int) -> None:
        while any(self._goes_on(victim) for victim in VICTIMS if victim != "agent"):
            victim = VICTIMS[int(self._draw(0, 5))] if self._draw(0, 1) < 0.8 else None
            count = 1 + int(self._draw(0, 3))
            lasts = self._draw(0.05, 0.6)
            client = [sys.executable, "-c", _SLOW_CLIENT] if victim == VICTIMS[1] else GUA
            command = [*client, "run", "-g", str(count), "--wait", "5m", "--", "sh", "-c", _JOB, "job", f"{lasts:.2f}"]
            with tempfile.TemporaryFile() as output:
                process = subprocess.Popen(
                    command,
                    env=self._environ,
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL,
                    stderr=output,
                    start_new_session=True,
                )
                with self._lock:
                    self.account.runs += 1
                struck = self._strike(process, victim)
                code = process.wait(timeout=600)
                output.seek(0)
                words = output.read().decode()
            # A request without a running agent is refused; a client with a queue place waits for the next agent.
            if not struck and code != 0 and not (code == 69 and "waiting:" not in words):
                self.account.fault("waits broken off", f"client {number}: exit code {code}: {words}")

    def _strike(self, process: subprocess.Popen[bytes], victim: str | None) -> bool:
        """Kill the victim, and return whether there was one: a client may have ended before."""
        marker = self.place / f"{'granted' if victim == VICTIMS[1] else 'job'}-{process.pid}"
        if victim is None:
            return False
        if victim == VICTIMS[0]:
            time.sleep(self._draw(0, self._starts_seconds))
        else:
            while process.poll() is None and not marker.exists():
                time.sleep(0.002)
            if process.poll() is not None:
                return False
        if victim == "child":
            for child in _children(process.pid):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(child, signal.SIGKILL)
        else:
            process.kill()
        if victim == VICTIMS[0] and self._was_granted(process):
            return True  # it came too late to be one of these
        self._count(victim)
        return True

    def _was_granted(self, process: subprocess.Popen[bytes]) -> bool:
        process.wait()
        with closing(sqlite3.connect(self._truth, timeout=30)) as connection:
            found = connection.execute(
                "SELECT 1 FROM reservations WHERE reservation ->> 'pid' = ?", (process.pid,)
            ).fetchone()
        return found is not None

    def _kill_agent(self) -> None:
        while self._goes_on("agent"):
            time.sleep(self._draw(0.2, 1.5))
            with self._agent_lock:
                self.agent.kill()
                time.sleep(self._draw(0, 0.5))
                self.agent.start()
            self._count("agent")

    def _watch(self) -> None:
        """Look for cards that are reserved without an owner, while the agent runs."""
        left: dict[str, float] = {}
        while any(self._goes_on(victim) for victim in VICTIMS):
            time.sleep(_LOOK_SECONDS)
            with self._agent_lock:
                free = [
                    each["id"]
                    for each in self._open()
                    if not lifeline.is_held(self.agent.home / "reservations" / "locks" / each["id"])
                ]
                left = {identifier: left.get(identifier, -_LOOK_SECONDS) + _LOOK_SECONDS for identifier in free}
                self.account.longest_left = max(self.account.longest_left, *left.values(), 0.0)
                for identifier, seconds in left.items():
                    if LEAK_SECONDS < seconds <= LEAK_SECONDS + _LOOK_SECONDS:
                        self.account.fault("cards leaked", f"reservation {identifier} outlived its command")

    def _open(self) -> list[dict[str, Any]]:
        with closing(sqlite3.connect(self._truth, timeout=5)) as connection:
            rows = connection.execute(
                "SELECT id, reservation ->> 'pid' FROM reservations WHERE ended_ms IS NULL"
            ).fetchall()
        return [{"id": identifier, "pid": pid} for identifier, pid in rows]

    @property
    def _truth(self) -> Path:
        return self.agent.home / "reservations" / "reservations.db"

    def _judge(self) -> None:
        """Hold the whole history to the model.

        No card twice at a time, by the truth and by the locks that the jobs themselves took; nobody before who came
        earlier; and no reservation that ended, or was forgotten, before the last process of its job.
        """
        account = self.account
        twice = self.place / "given-twice"
        for card in twice.read_text().split() if twice.exists() else ():
            account.fault("double grants", f"card {card} was given twice")
        with closing(sqlite3.connect(self._truth, timeout=30)) as connection:
            every = connection.execute(
                "SELECT card, since_ms, r.ended_ms, id FROM cards JOIN reservations AS r ON r.id = cards.reservation"
                " ORDER BY card, since_ms, r.ended_ms"
            ).fetchall()
            order = connection.execute(
                "SELECT reservation ->> 'requested_ms' AS requested_ms, since_ms, id FROM reservations"
                " ORDER BY since_ms, requested_ms"
            )
            grants = order.fetchall()
            ends = dict(connection.execute("SELECT id, ended_ms FROM reservations").fetchall())
        for (card, _, ended, first), (next_card, since, _, second) in pairwise(every):
            if card == next_card and (ended is None or since < ended):
                account.fault("double grants", f"card {card} was reserved by {first} and {second} at a time")
        for (asked, _, first), (next_requested, _, second) in pairwise(grants):
            if next_requested < asked:
                account.fault("served out of order", f"{second} asked before {first} and was served after it")
        for done in self.place.glob("done-*"):
            identifier, at_ms = done.name.removeprefix("done-"), done.stat().st_mtime_ns // 1_000_000
            account.finished += 1
            if ends.get(identifier) is None or ends[identifier] < at_ms - _SLACK_MS:
                account.fault("reservations lost", f"{identifier} ended at {ends.get(identifier)}, its job at {at_ms}")
        account.reservations = len(grants)


def _children(pid: int) -> list[int]:
    try:
        text = Path(f"/proc/{pid}/task/{pid}/children").read_text(encoding="ascii")
    except OSError:
        return []
    return [int(child) for child in text.split()]
