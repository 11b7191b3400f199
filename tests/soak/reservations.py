"""Commands with cards of their own, killed at random with the agent beside them, and the account of it.

Each command takes a lock of its own on every card that it was given, which its children inherit. So a card that was
given twice shows however the agent sees it.
"""

from __future__ import annotations

import os
import random
import signal
import sqlite3
import subprocess
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
LEAK_SECONDS: Final = 5.0
VICTIMS: Final = ("client before the grant", "around the grant", "leader", "child", "agent")
# Descriptors 4 to 7 are the locks of the cards 0 to 3; the child has them as well as its parent.
_JOB: Final = """
for card in $(echo "$CUDA_VISIBLE_DEVICES" | tr , ' '); do
  eval "exec $((card + 4))>>$PLACE/card-$card"
  flock -n $((card + 4)) || echo "$card" >> "$PLACE/given-twice"
done
echo $$ > "$PLACE/job-$$"
sleep "$1" & wait
"""


@dataclass
class Account:
    """What happened: kills by victim, commands that ran, and every fault that was seen, in words."""

    kills: Counter[str] = field(default_factory=Counter)
    runs: int = 0
    reservations: int = 0
    faults: list[str] = field(default_factory=list)

    def text(self) -> str:
        """Return the counts in one line."""
        killed = ", ".join(f"{self.kills[victim]} {victim}" for victim in VICTIMS)
        return f"{self.runs} runs, {self.reservations} reservations; killed: {killed}; faults: {len(self.faults)}"


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

    def run(self, seconds: float, kills: int, *, clients: int = 8) -> Account:
        """Go on for so long and until every victim was killed so often; return the account once all is over."""
        self._until = time.monotonic() + seconds
        self._wanted = kills
        threads = [threading.Thread(target=self._client, args=(number,)) for number in range(clients)]
        threads += [threading.Thread(target=each) for each in (self._kill_agent, self._watch)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        poll(lambda: not self._open(), "all cards to be free", seconds=LEAK_SECONDS + 5)
        self._judge()
        return self.account

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
            command = [*GUA, "run", "-g", str(count), "--wait", "2m", "--", "sh", "-c", _JOB, "job", f"{lasts:.2f}"]
            process = subprocess.Popen(
                command,
                env=self._environ,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
            )
            with self._lock:
                self.account.runs += 1
            self._strike(process, victim)
            code = process.wait(timeout=180)
            if victim is None and code not in {0, 69, 75}:
                self.account.faults.append(f"client {number}: exit code {code}")

    def _strike(self, process: subprocess.Popen[bytes], victim: str | None) -> None:
        if victim == "client before the grant":
            time.sleep(self._draw(0, 0.25))
            process.kill()
        elif victim == "around the grant":
            deadline = time.monotonic() + 30
            while process.poll() is None and time.monotonic() < deadline and not self._is_granted(process.pid):
                time.sleep(0.002)
            process.kill()
        elif victim in {"leader", "child"}:
            marker = self.place / f"job-{process.pid}"
            deadline = time.monotonic() + 30
            while process.poll() is None and time.monotonic() < deadline and not marker.exists():
                time.sleep(0.005)
            if not marker.exists():
                return
            if victim == "leader":
                process.kill()
            else:
                for child in _children(process.pid):
                    os.kill(child, signal.SIGKILL)
        if victim is not None and victim != "agent":
            self._count(victim)

    def _is_granted(self, pid: int) -> bool:
        return any(each["pid"] == pid for each in self._open())

    def _kill_agent(self) -> None:
        while self._goes_on("agent"):
            time.sleep(self._draw(0.5, 2.0))
            with self._agent_lock:
                self.agent.kill()
                time.sleep(self._draw(0, 0.5))
                self.agent.start()
            self._count("agent")

    def _watch(self) -> None:
        """Look for cards that are reserved for nobody, and for commands that live without a reservation."""
        free_since: dict[str, float] = {}
        while any(self._goes_on(victim) for victim in VICTIMS):
            time.sleep(0.25)
            with self._agent_lock:
                seen = {each["id"]: each for each in self._open()}
                now = time.monotonic()
                for identifier in seen:
                    if lifeline.is_held(self.agent.home / "reservations" / "locks" / identifier):
                        free_since.pop(identifier, None)
                    elif now - free_since.setdefault(identifier, now) > LEAK_SECONDS:
                        self.account.faults.append(f"reservation {identifier} outlived its command by {LEAK_SECONDS} s")
                        free_since[identifier] = now + 3600
                free_since = {identifier: since for identifier, since in free_since.items() if identifier in seen}

    def _open(self) -> list[dict[str, Any]]:
        with closing(sqlite3.connect(self._truth, timeout=5)) as connection:
            rows = connection.execute("SELECT id, pid FROM reservations WHERE ended_ms IS NULL").fetchall()
        return [{"id": identifier, "pid": pid} for identifier, pid in rows]

    @property
    def _truth(self) -> Path:
        return self.agent.home / "reservations" / "reservations.db"

    def _judge(self) -> None:
        """Hold the whole history to the model: no card twice at a time, and nobody before who came earlier."""
        twice = self.place / "given-twice"
        if twice.exists():
            self.account.faults += [f"card {card} was given twice" for card in twice.read_text().split()]
        with closing(sqlite3.connect(self._truth, timeout=5)) as connection:
            every = connection.execute(
                "SELECT card, since_ms, r.ended_ms, id FROM cards JOIN reservations AS r ON id = reservation"
                " ORDER BY card, since_ms, r.ended_ms"
            ).fetchall()
            order = connection.execute("SELECT asked_ms, since_ms, id FROM reservations ORDER BY since_ms, asked_ms")
            grants = order.fetchall()
        for (card, _, ended, first), (next_card, since, _, second) in pairwise(every):
            if card == next_card and (ended is None or since < ended):
                self.account.faults.append(f"card {card} was reserved by {first} and {second} at a time")
        for (asked, _, first), (next_asked, _, second) in pairwise(grants):
            if next_asked < asked:
                self.account.faults.append(f"{second} asked before {first} and was served after it")
        self.account.reservations = len(grants)


def _children(pid: int) -> list[int]:
    try:
        text = Path(f"/proc/{pid}/task/{pid}/children").read_text(encoding="ascii")
    except OSError:
        return []
    return [int(child) for child in text.split()]
