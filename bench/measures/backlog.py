"""What piled up in an outage: how fast it leaves, and whether sampling goes on on time meanwhile."""

from __future__ import annotations

import shutil
import tempfile
import time
from pathlib import Path

from bench_tick import tick
from measures.cost import environment, receiver_of
from measures.figures import show, title
from measures.host import crowded, new_agent

from driver.fixture import SimulatedDriver
from fakes.otlp import Receiver
from fakes.spooled import extend
from gua.app.destinations import ENDPOINT
from gua.local_socket.client import query_status
from gua.otlp.encode import encode
from gua.spool.queue import Spool

LIMIT_S = 60.0
GIVE_UP_SECONDS = 300


def catch_up(ticks: int) -> None:
    """Show how long a spool full of ticks takes to leave, and the largest lateness of the ticks made meanwhile."""
    title(f"Catch-up with {ticks:,} spooled ticks of 8 cards x 10 processes, while a tick is made each second")
    with tempfile.TemporaryDirectory(prefix="gua-bench-") as folder, crowded() as driver:
        path = Path(folder) / "spool.db"
        with Spool(path, destinations=[ENDPOINT], max_bytes=None) as spool:
            extend(spool, ((made.ts_ms, encode(made)) for made in map(tick, range(ticks))))
        for way in ("HTTP", "gRPC"):
            with receiver_of(way) as receiver:
                if receiver is not None:
                    _catch_up(driver, path, way, receiver, ticks)


def _catch_up(driver: SimulatedDriver, spool: Path, way: str, receiver: Receiver, ticks: int) -> None:
    with new_agent(driver, environment(way)) as agent:
        agent.home.mkdir(mode=0o700)
        shutil.copy(spool, agent.home / "spool.db")
        agent.start("--endpoint", receiver.url, interval="1s")
        begun = time.monotonic()
        late: list[float] = []
        while True:
            status = query_status(agent.home / "agent.sock", timeout_seconds=60)
            late.append(status["last_tick"]["lateness_seconds"])
            receiver.requests.clear()  # they would fill this process's memory
            delivery = status["destinations"][0]
            if delivery["delivered_ticks"] >= ticks or time.monotonic() - begun > GIVE_UP_SECONDS:
                break
            time.sleep(0.25)
        took = time.monotonic() - begun
        left = "" if delivery["delivered_ticks"] >= ticks else f"given up with {delivery['waiting_ticks']} left"
        show(f"{way}: everything delivered", took, "s", LIMIT_S, note=left or f"{ticks / took:.0f} ticks/s")
        made, skipped = status["ticks"]["made"], sum(status["ticks"]["skipped"].values())
        show(f"{way}: largest lateness meanwhile", max(late), "s", note=f"{made} ticks made, {skipped} skipped")
        agent.stop()
