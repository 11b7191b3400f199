"""gpu-usage-audit 1.8.0 records on the simulated driver; the import and its own rule here give its own counts."""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
import subprocess
from collections.abc import Iterator
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path

import pytest

from driver.fixture import SimulatedDriver
from driver.scenario import GIB, MIB, Burst, Card, Constant, Fault, Process, Scenario
from servers.gua import Gua
from servers.older import CannotInstallError, install
from servers.process import poll

STATES = ("active", "idle-held", "truly-idle")
# Its report prints shares; with the numbers of samples, from the same functions, they are counts again.
_ITS_COUNTS = """
import json, sys
from datetime import datetime, UTC
from gpu_usage_audit.db import open_db
from gpu_usage_audit.report import load_per_gpu
found = load_per_gpu(open_db(sys.argv[1]), datetime(2000, 1, 1, tzinfo=UTC))
print(json.dumps({
    card.uuid: [round(share * card.samples) for share in (card.active, card.idle_held, card.truly_idle)]
    for card in found
}))
"""


@pytest.fixture(scope="session")
def older_gua() -> Path:
    """Return the command of 1.8.0; where it cannot be installed, leave the tests out, or fail if none may be."""
    try:
        return install()
    except CannotInstallError as error:
        reason = f"left out: gpu-usage-audit 1.8.0 cannot be installed: {error}"
        if os.environ.get("GUA_REQUIRE_ALL") or os.environ.get("CI"):
            pytest.fail(reason)
        pytest.skip(reason)


@contextmanager
def programs(folder: Path, *names: str) -> Iterator[dict[str, int]]:
    """Run processes of these names that sleep, and return their ids."""
    sleep = shutil.which("sleep")
    assert sleep is not None
    started = {}
    try:
        for name in names:
            (folder / name).symlink_to(sleep)
            started[name] = subprocess.Popen(["sleep", "1000000"], executable=str(folder / name))
        yield {name: process.pid for name, process in started.items()}
    finally:
        for process in started.values():
            process.kill()
            process.wait()


def world(pids: dict[str, int]) -> Scenario:
    """Return eight cards; GPU-2 to GPU-6 are those that the tools may see differently."""
    reserve = 643 * MIB
    return Scenario(
        cards=[
            Card("GPU-0", processes=[Process(pids["train"], 60 * GIB, load=Constant(95))]),
            Card("GPU-1", processes=[Process(pids["notebook"], 9 * GIB, load=Burst(period_ms=4000, on_ms=1500))]),
            Card("GPU-2", memory_reserved=reserve, processes=[Process(pids["Xorg"], 300 * MIB, lists=("graphics",))]),
            Card("GPU-3", memory_reserved=reserve, processes=[Process(pids["vllm"], None)]),
            Card("GPU-4", memory_reserved=reserve, memory_base=20 * GIB),
            Card("GPU-5", memory_reserved=reserve, wrong=[Fault("nvmlDeviceGetComputeRunningProcesses*", 999)]),
            Card("GPU-6", processes=[Process(pids["train"], 60 * MIB), Process(pids["notebook"], 40 * MIB)]),
            Card("GPU-7", memory_reserved=reserve),
        ]
    )


def recorded(database: Path) -> int:
    """Return how many samples of cards it has recorded so far."""
    if not database.exists():
        return 0
    with closing(sqlite3.connect(f"file:{database}?mode=ro", uri=True, timeout=60)) as connection:
        try:
            return int(connection.execute("SELECT count(*) FROM gpu_sample").fetchone()[0])
        except sqlite3.OperationalError:  # it makes its tables only now
            return 0


def recorded_more(database: Path, count: int) -> bool:
    return recorded(database) >= count


def its_counts(older_gua: Path, database: Path) -> dict[str, list[int]]:
    python = older_gua.with_name("python")
    found = subprocess.run([python, "-c", _ITS_COUNTS, database], check=True, capture_output=True, text=True)
    counts = json.loads(found.stdout)
    assert isinstance(counts, dict)
    return counts


def test_its_own_counts_card_by_card(
    older_gua: Path, simulated_driver: SimulatedDriver, gua: Gua, tmp_path: Path
) -> None:
    database = tmp_path / ".gua" / "gua.db"  # the only one to which it adds
    log = (tmp_path / "log").open("wb")
    store = f"chdb://{tmp_path / 'store'}"
    (tmp_path / "bin").mkdir()
    with programs(tmp_path / "bin", "train", "notebook", "Xorg", "vllm") as pids:
        simulated_driver.write(world(pids))
        environment = {**os.environ, **simulated_driver.environment, "HOME": str(tmp_path)}
        for interval, samples in (("200ms", 25), ("1s", 4)):
            command = [older_gua, "daemon", "--foreground", "--interval", interval]
            before = recorded(database)
            daemon = subprocess.Popen(command, env=environment, stdout=log, stderr=log)
            try:
                poll(partial(recorded_more, database, before + 8 * samples), f"{samples} samples of each card")
                # Its daemon still has it open: what is there so far is taken, and nothing of it is disturbed.
                gua.must("import", "gua-sqlite", database, "--store", store)
            finally:
                daemon.terminate()
                daemon.wait()
        printed = gua.must("import", "gua-sqlite", database, "--store", store)
    assert "interval  200ms, 1s" in printed

    theirs = its_counts(older_gua, database)
    found = json.loads(gua.must("report", "--rules", "gpu-usage-audit", "--json", "--store", store, "--since", "1d"))

    assert sum(map(sum, theirs.values())) >= 8 * 29
    assert {card["gpu"]: [card["gpu-usage-audit"][state] for state in STATES] for card in found["cards"]} == theirs
    assert all(card["gpu-usage-audit"]["not-counted"] == 0 for card in found["cards"])
    ticks = sum(theirs["GPU-0"])
    ours = {card["gpu"]: {state: count for state, count in card["gua"].items() if count} for card in found["cards"]}
    assert ours["GPU-0"] == {"active": ticks}
    assert theirs["GPU-1"][0] > 0
    assert theirs["GPU-1"][1] > 0
    assert ours["GPU-1"] == {"active": theirs["GPU-1"][0], "idle-held": theirs["GPU-1"][1]}
    assert (theirs["GPU-2"], ours["GPU-2"]) == ([0, ticks, 0], {"truly-idle": ticks})
    assert (theirs["GPU-3"], ours["GPU-3"]) == ([0, 0, ticks], {"idle-held": ticks})
    assert (theirs["GPU-4"], ours["GPU-4"]) == ([0, 0, ticks], {"idle-held": ticks})
    assert (theirs["GPU-5"], ours["GPU-5"]) == ([0, 0, ticks], {"unknown": ticks})
    assert (theirs["GPU-6"], ours["GPU-6"]) == ([0, 0, ticks], {"truly-idle": ticks})
    assert (theirs["GPU-7"], ours["GPU-7"]) == ([0, 0, ticks], {"truly-idle": ticks})
    reasons = {cell["reason"]: cell["card_ticks"] for cell in found["cross"] if cell["reason"]}
    assert reasons == {"ignored": ticks, "unknown-memory": ticks, "unattributed": ticks, "processes": ticks}
