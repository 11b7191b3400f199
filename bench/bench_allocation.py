"""What it costs the agent to know allocations: `look()` with 8 cards and 50 jobs, and Slurm's commands a minute.

Limits: 2 ms CPU a tick and 3 MB with all sources; 50 ms CPU a minute for all children. Children are measured where
SLURM_CONF, or /etc/slurm, leads to a Slurm that answers, else on a real one that is started for it (needs root).
"""

# ruff: noqa: PLC0415 - memory is measured before what is measured is imported

from __future__ import annotations

import importlib
import json
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gua.allocation.slurm_poll import SlurmPoll

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests"))
LOOKS = 2000
POLLS = 20
JOBS = 8


def memory_kib() -> int:
    """Return what this process has in memory now."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmRSS"):
            return int(line.split()[1])
    raise AssertionError


def look(jobs: int) -> None:
    """Print the cost of a look at so many jobs of the hooks, also known by polling."""
    importlib.import_module("gua.app.agent_process")  # what an agent has in any case
    before_kib = memory_kib()
    from gua.allocation.files import AllocationFolder, FilesReader
    from gua.allocation.slurm import SlurmReader
    from gua.allocation.slurm_conf import GresConf
    from gua.allocation.slurm_poll import Gres, PollAnswer, SlurmJob, SlurmPoll
    from gua.allocation.sources import Sources
    from gua.core.allocation import CardKey

    class Known(SlurmPoll):
        def answer(self) -> PollAnswer:
            return newest

    now_ms = time.time_ns() // 1_000_000
    cards = [CardKey(f"GPU-{card}", card, card, f"00000000:{card:02x}:00.0") for card in range(8)]
    polled = {
        str(job): SlurmJob(
            id=str(job),
            shown_by=str(job),
            uid=1000,
            user="alice",
            name="train",
            gres=Gres(places=frozenset({job % 8}), kind="shard"),
            since_ms=now_ms - 60_000,
            until_ms=None,
        )
        for job in range(jobs)
    }
    newest = PollAnswer(at_ms=now_ms, node="node7", jobs=polled)
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        (folder / "gres.conf").write_text("Name=gpu File=/dev/nvidia[0-7]\n")
        for job in range(jobs):
            content = {"source": "slurm", "id": str(job), "uid": 1000, "owner": "alice", "node": "node7"}
            card_entries = [{"gres": job % 8}]
            (folder / f"slurm-{job}.json").write_text(
                json.dumps({**content, "cards": card_entries, "since": now_ms / 1000 - 60})
            )
        shared, conf = AllocationFolder(folder), GresConf(folder)
        sources = Sources(
            [
                FilesReader(shared, without=lambda name: name.startswith("slurm-"), conf=conf),
                SlurmReader(shared, poll=Known(), conf=conf),
            ]
        )
        for tick in range(10):
            sources.look(now_ms + tick - 1, now_ms + tick, cards)
        began = time.process_time()
        for tick in range(LOOKS):
            found = sources.look(now_ms + tick + 9, now_ms + tick + 10, list(cards))
        spent = (time.process_time() - began) / LOOKS
        if len(found.allocations) != jobs or any(each.reason for each in found.sources):
            raise AssertionError(found)
    print(
        f"look at {jobs} jobs, 8 cards: {spent * 1000:.3f} ms CPU (limit 2), +{memory_kib() - before_kib} KiB (3,072)"
    )


def children_ms() -> float:
    """Return the CPU time of all children that have ended, in ms."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return (used.ru_utime + used.ru_stime) * 1000


@contextmanager
def slurm() -> Iterator[str]:
    """Let this process query the host's Slurm, or one of its own with jobs; yield its description."""
    from servers.slurm import Slurm
    from servers.tools import MissingToolError

    if os.environ.get("SLURM_CONF") or Path("/etc/slurm/slurm.conf").exists():
        yield "the Slurm that is there"
        return
    with tempfile.TemporaryDirectory(prefix="gua-bench-") as scratch:
        Path(scratch).chmod(0o755)
        try:
            own = Slurm(Path(scratch), cards=8, hooks={})
        except MissingToolError as error:
            yield f"no Slurm: {error}"
            return
        try:
            own.start()
            for _ in range(JOBS):
                own.submit("daemon", "gpu:1", "sleep 600")
            os.environ["SLURM_CONF"] = own.environment["SLURM_CONF"]
            time.sleep(2)
            yield f"a Slurm of its own with {JOBS} jobs on 8 cards"
        finally:
            os.environ.pop("SLURM_CONF", None)
            own.stop()


def children() -> None:
    """Print what a poll's children cost, and what the poll costs the agent itself."""
    from gua.allocation.slurm_poll import PERIOD_SECONDS, SlurmPoll

    with slurm() as queries:
        poll = SlurmPoll()
        answer = poll.poll()
        if answer.reason is not None:
            print(f"polls of Slurm: not measured ({queries}; {answer.reason})")
            return
        _show_polls(poll, f"{queries}, a poll every {PERIOD_SECONDS:g} s")


def _show_polls(poll: SlurmPoll, queries: str) -> None:
    before_ms, began = children_ms(), time.process_time()
    for _ in range(POLLS):
        poll.poll()
    child_ms = (children_ms() - before_ms) / POLLS
    own_ms = (time.process_time() - began) * 1000 / POLLS
    print(f"{queries}: {child_ms:.1f} ms CPU of its children a poll (limit 50 a minute), {own_ms:.1f} ms of the agent")


def hooks() -> None:
    """Print what the shipped hooks cost."""
    with tempfile.TemporaryDirectory() as scratch:
        for hook in ("prolog", "epilog"):
            began_ms = children_ms()
            for job in range(100):
                environ = {"SLURM_JOB_ID": str(job), "SLURM_JOB_UID": "1000", "SLURM_JOB_USER": "alice"}
                environ |= {"SLURM_JOB_GPUS": "0,1", "GUA_ALLOCATION_FOLDER": f"{scratch}/a"}
                subprocess.run([ROOT / "deploy" / "slurm" / hook], env=environ, check=True)
            print(f"{hook}: {(children_ms() - began_ms) / 100:.1f} ms CPU")


if __name__ == "__main__":
    for jobs in map(int, sys.argv[1:] or ["50"]):
        look(jobs)
    if shutil.which("squeue"):
        children()
    hooks()
