"""Processes that come and go by the thousand, and a pid that passes to another, while a real agent runs."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import time
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from driver.fixture import SimulatedDriver
from driver.scenario import MIB, Process, Scenario, replace_text
from gua.core.tick import ProcessReading, Tick
from gua.otlp.decode import decode
from gua.spool.queue import Spool
from gua.state.compression import decompress
from reliability.promises import assert_none_is_missing, assert_time_is_told_once, due_ms
from servers.agent import Agent, wall_ms
from servers.process import poll

TREE = Path(__file__).parents[1] / "fixtures" / "proc" / "host"
LARGEST_PID = 2**22
BATCHES = 20
UNUSED_PIDS = 460
REAL = 40
# After so many batches every cache of the agent is full.
WARM = 5


def held(lab: Scenario, pids: list[int], *, memory: int) -> Scenario:
    """Return the lab with these processes on its second card."""
    cards = list(lab.cards)
    cards[1] = replace(cards[1], processes=[Process(pid, memory=memory) for pid in pids])
    return replace(lab, cards=cards)


def rss_kib(pid: int) -> int:
    status = Path(f"/proc/{pid}/status").read_text()
    return next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmRSS:"))


def open_files(pid: int) -> int:
    return len(list(Path(f"/proc/{pid}/fd").iterdir()))


def unused_pids(count: int) -> list[int]:
    """Return pids that no process has, from the far end of those that Linux gives."""
    return [pid for pid in range(LARGEST_PID - 1, LARGEST_PID - 2 * count, -1) if not Path(f"/proc/{pid}").exists()][
        :count
    ]


def newest_is_of(agent: Agent, since_ms: int) -> bool:
    """Return whether the newest tick that is spooled was due since then."""
    with Spool(agent.home / "spool.db", destinations=None) as spool:
        return due_ms(decode(decompress(spool.peek("store", 1_000_000)[-1].blob))) > since_ms


def second_card(tick: Tick) -> dict[int, ProcessReading]:
    return {process.pid: process for process in tick.cards[1].processes}


@pytest.mark.reliability
def test_10_000_short_lived_processes_each_have_a_row_and_cost_no_tick_and_no_memory(
    agent: Agent, simulated_driver: SimulatedDriver, lab: Scenario, capsys: pytest.CaptureFixture[str]
) -> None:
    began_ms = wall_ms()
    agent.start()
    assert agent.process is not None
    pid = agent.process.pid
    nobodys = unused_pids(BATCHES * UNUSED_PIDS)
    born: list[list[int]] = []
    ended = set(nobodys)
    rss: list[int] = []
    files: list[int] = []
    living: list[subprocess.Popen[bytes]] = []
    due_s = due_ms(agent.wait_for_ticks(2)[-1]) / 1000 + 1
    for batch in range(BATCHES):
        while due_s < time.time() + 0.5:
            due_s += 1
        # In the middle between two ticks, so that each batch is there for one tick.
        time.sleep(max(0.0, due_s - 0.6 - time.time()))
        rss.append(rss_kib(pid))
        files.append(open_files(pid))
        # One half has ended by the time of the tick, the other half once no tick lists it any more.
        before, living = living, [subprocess.Popen(["sleep", "60" if number % 2 else "0.1"]) for number in range(REAL)]
        born.append([*nobodys[batch * UNUSED_PIDS :][:UNUSED_PIDS], *(process.pid for process in living)])
        for short in living[::2]:
            short.wait()
        ended |= {short.pid for short in living[::2]}
        simulated_driver.write(held(lab, born[-1], memory=MIB))
        wrote_ms = wall_ms()
        poll(partial(newest_is_of, agent, wrote_ms), "a tick that was due after the batch was born")
        for process in before:
            process.kill()
            process.wait()
    agent.stop()
    for process in living:
        process.kill()
        process.wait()
    ticks = agent.ticks()
    assert_time_is_told_once(ticks, began_ms)
    assert_none_is_missing(ticks, kept_waiting_ms=agent.kept_waiting_ms)
    rows = [second_card(tick) for tick in ticks]
    for pids in born:
        assert any(set(pids) == set(row) for row in rows)
    seen = [process for row in rows for process in row.values()]
    for process in seen:
        if process.pid in ended:
            assert (process.comm, process.owner, process.created_ms) == (None, None, None)
        elif process.pid != os.getpid():
            assert process.comm in {"sleep", "python", "pytest"}
            assert process.owner
            assert process.created_ms
        assert process.memory_bytes
    assert len(ended) == BATCHES * (UNUSED_PIDS + REAL // 2)
    late = sorted(1000 * (tick.agent.tick_lateness_seconds or 0) for tick in ticks if tick.agent)
    with capsys.disabled():
        print(  # noqa: T201 - the figures of docs/reliability.md
            f"\n{len({process.pid for process in seen})} processes in {len(ticks)} ticks: latest {late[-1]:.0f} ms, "
            f"RSS {rss[WARM]} to {rss[-1]} KiB, open files {files[WARM]} to {files[-1]}"
        )
    assert files[-1] <= files[WARM] + 2  # a look may come in the middle of a tick, and each process would be one
    # Clocks and samples of processes that are gone are kept for half a minute: memory grew by 7.3 MiB until the 30th
    # batch, and by 1.5 MiB in the 120 batches (60,000 processes) after it.
    assert rss[-1] - rss[WARM] < 8 * 1024
    assert late[len(late) // 2] < 500  # a busy machine may wake it too late at times


def test_a_pid_that_passed_to_another_process_is_another_process(
    agent: Agent, simulated_driver: SimulatedDriver, lab: Scenario, tmp_path: Path
) -> None:
    tree = tmp_path / "proc"
    shutil.copytree(TREE, tree, symlinks=True)
    stat = (tree / "4242/stat").read_text()
    simulated_driver.write(held(lab, [4242], memory=900 * MIB))
    began_ms = wall_ms()
    agent.start("--procfs", str(tree))
    agent.wait_for_ticks(1)
    # First one of the same name, then one of another.
    again = stat.replace(" 987654 ", " 1987654 ")
    for text in (again, again.replace("jupyter (lab) x", "trainer").replace(" 1987654 ", " 2987654 ")):
        made = len(agent.ticks())
        replace_text(tree / "4242/stat", text)
        agent.wait_for_ticks(made + 2)
    agent.stop()
    ticks = agent.ticks()
    assert_time_is_told_once(ticks, began_ms)
    assert_none_is_missing(ticks, kept_waiting_ms=agent.kept_waiting_ms)
    seen = [second_card(tick)[4242] for tick in ticks]
    assert None not in {process.created_ms for process in seen}
    # Each began a million clock ticks after the one before.
    apart_ms = 1_000_000 * 1000 // os.sysconf("SC_CLK_TCK")
    first_ms = seen[0].created_ms or 0
    assert {(process.comm, process.created_ms) for process in seen} == {
        ("jupyter (lab) x", first_ms),
        ("jupyter (lab) x", first_ms + apart_ms),
        ("trainer", first_ms + 2 * apart_ms),
    }
    report = json.loads(agent.must("report", "--json", "--section", "usage"))
    assert {row["program"] for row in report["owners"]} >= {"jupyter (lab) x", "trainer"}
