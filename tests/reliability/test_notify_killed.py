"""`gua notify` killed at random moments: no notice arrives twice, and none that was never begun is lost.

At full size: .venv/bin/python -m pytest -s tests/reliability/test_notify_killed.py --notify-kills 200
"""

from __future__ import annotations

import json
import signal
import subprocess
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any, Final

import pytest

from fakes.attribution import attribute
from fakes.fleet import spooled_ticks
from gua.core.moments import to_rfc3339
from gua.core.tick import CardReading, Origin, ProcessReading, Tick
from gua.core.words import ProcessList, Source
from gua.store.database import open_store
from servers.gua import Gua
from servers.webhook import Webhook

pytestmark = pytest.mark.reliability

CARDS: Final = 24
TICK_MS: Final = 600_000
AT_MS: Final = 1_795_878_000_000
GIB: Final = 2**30
KILLS_OF_A_RULE: Final = 5
POLICY: Final = """
most_per_owner_per_day = 1000
[[rule]]
name = "NAME"
state = "idle-held"
after = "2h"
hosts = ["n*"]
[[rule.step]]
to = ["json://ADDRESS/{owner}/NAME"]
"""


def idle_card(index: int) -> CardReading:
    process = ProcessReading(
        pid=100 + index,
        created_ms=AT_MS - 86_400_000,
        owner=f"user{index}",
        comm="python",
        memory_bytes=GIB,
        utilization=0.0,
    )
    return attribute(
        CardReading(
            uuid=f"GPU-{index}",
            duration_ms=TICK_MS,
            gpu_time_ms=TICK_MS,
            process_list=ProcessList.KNOWN,
            index=index,
            utilization=0.0,
            memory_used_bytes=GIB,
            memory_limit_bytes=80 * GIB,
            memory_reserved_bytes=0,
            processes=(process,),
        )
    )


@dataclass
class Slow(Webhook):
    """A webhook that takes a few milliseconds for each message, and calls when one has come."""

    seconds: float = 0.02
    came: threading.Event = field(default_factory=threading.Event)

    def __post_init__(self) -> None:
        events, pause = self.came, self.seconds

        class Requests(list[tuple[str, bytes]]):
            def append(self, one: tuple[str, bytes]) -> None:
                super().append(one)
                events.set()
                time.sleep(pause)

        self.requests = Requests()

    def count(self) -> Counter[tuple[str, str]]:
        """Return how often each owner got the notice of each rule."""
        found: Counter[tuple[str, str]] = Counter()
        for path, _ in list(self.requests):
            owner, rule = path.strip("/").split("/")
            found[owner, rule] += 1
        return found


@dataclass
class Runs:
    """Runs of ``gua notify`` on one store, some of which are killed."""

    gua: Gua
    store: str
    folder: Path
    hook: Slow
    rng: Random = field(default_factory=lambda: Random("kills"))  # noqa: S311 - moments, no secrets
    seconds: float = 0.0
    kills: int = 0

    def arguments(self, rule: str) -> list[str]:
        policy = self.folder / "policy.toml"
        policy.write_text(POLICY.replace("ADDRESS", self.hook.address).replace("NAME", rule))
        options = ["--policy", str(policy), "--store", self.store, "--at", to_rfc3339(AT_MS), "--json", "--yes"]
        return ["notify", *options]

    def finish(self, rule: str) -> dict[str, Any]:
        """Let a run end, and return what it printed."""
        began = time.monotonic()
        found: dict[str, Any] = json.loads(self.gua.must(*self.arguments(rule)))
        self.seconds = self.seconds or time.monotonic() - began
        return found

    @contextmanager
    def started(self, rule: str) -> Iterator[subprocess.Popen[bytes]]:
        self.hook.came.clear()
        command = [*map(str, self.gua._command), *self.arguments(rule)]  # noqa: SLF001 - to kill it
        environment = self.gua._environment  # noqa: SLF001 - as above
        with subprocess.Popen(
            command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        ) as process:
            yield process

    def kill(self, rule: str) -> None:
        """Kill a run: at any moment of it, or some milliseconds after a message came."""
        with self.started(rule) as process:
            if self.rng.random() < 0.5:
                self.hook.came.wait(self.seconds)
                time.sleep(self.rng.uniform(0, 0.5))
            else:
                time.sleep(self.rng.uniform(0, self.seconds))
            if process.poll() is None:
                process.send_signal(signal.SIGKILL)
                self.kills += 1


def test_killed_runs_send_no_notice_twice_and_lose_none_that_they_did_not_begin(
    tmp_path: Path, made_store: Callable[[Path], str], request: pytest.FixtureRequest
) -> None:
    most = request.config.getoption("--notify-kills")
    address = made_store(tmp_path / "store")
    origin = Origin(host="n1", source=Source.AGENT, interval_ms=TICK_MS)
    cards = tuple(idle_card(index) for index in range(CARDS))
    with open_store(address) as store:
        moments = range(AT_MS - 18 * TICK_MS, AT_MS + 1, TICK_MS)
        ticks = [Tick(ts_ms=ts_ms, origin=origin, cards=cards) for ts_ms in moments]
        assert store.land(list(spooled_ticks(ticks))) == []
    with Slow() as hook:
        runs = Runs(Gua(tmp_path), address, tmp_path, hook)
        assert len(runs.finish("first")["notices"]) == CARDS
        assert hook.count() == {(f"user{index}", "first"): 1 for index in range(CARDS)}

        rules, unresolved = [], []
        while runs.kills < most:
            rules.append(f"rule-{len(rules)}")
            for _ in range(KILLS_OF_A_RULE):
                runs.kill(rules[-1])
            last = runs.finish(rules[-1])
            unresolved = last["unresolved"]
            assert [one["result"] for one in last["notices"]] == ["sent"] * len(last["notices"])
            assert runs.finish(rules[-1])["notices"] == [] if len(rules) == 1 else True

        received = hook.count()
    with open_store(address) as store:
        rows = list(store.rows("sent_notices", {"since_ms": 0}))
    results = Counter((f"user{int(row['holder'].split()[1]) - 100}", row["rule"], row["result"]) for row in rows)
    assert set(results.values()) == {1}
    assert {result for *_, result in results} <= {"sent", "started"}
    expected = {(f"user{index}", rule) for index in range(CARDS) for rule in ("first", *rules)}
    assert {(owner, rule) for owner, rule, _ in results} == expected, "each notice is recorded"
    assert set(received.values()) == {1}, "0 are received twice"
    sent = {(owner, rule) for owner, rule, result in results if result == "sent"}
    unknown = expected - sent
    assert sent <= set(received), "what is recorded as sent was received"
    assert len(unresolved) == len(unknown), "what is unknown is listed"
    arrived = len(unknown & set(received))
    print(  # noqa: T201 - the figures of a run at full size
        f"{runs.kills} kills in {len(rules)} rules: {len(expected)} notices, {len(sent)} sent, {len(unknown)} unknown "
        f"({arrived} of them received), 0 received twice; a run takes {runs.seconds:.1f} s"
    )
    assert unknown, "some run was killed between the record and the result"
