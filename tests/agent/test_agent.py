from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import time
from dataclasses import replace
from pathlib import Path

import pytest

from driver.fixture import SimulatedDriver
from driver.scenario import Card, Constant, Hang, Scenario, uuid
from fakes.sockets import bound
from gua.otlp.decode import decode
from gua.store.engine import install_command
from servers.agent import GUA, Agent, assert_spans_never_overlap, observed_ms, wall_ms
from servers.process import poll
from servers.tap import tapped


def test_the_agent_samples_from_its_start_to_its_stop_without_a_hole(agent: Agent) -> None:
    began = wall_ms()
    agent.start()
    agent.wait_for_ticks(3)
    missed_ms = 1000 * agent.status()["ticks"]["skipped"].get("missed", 0)  # a machine that is too busy
    requested_ms = wall_ms()
    agent.stop()
    ticks = agent.ticks()
    assert_spans_never_overlap(ticks)
    assert ticks[0].agent is not None
    assert began <= ticks[0].agent.started_ms
    assert ticks[0].ts_ms - ticks[0].agent.started_ms < 5_000
    hole_ms = ticks[-1].ts_ms - ticks[0].ts_ms + ticks[0].cards[0].duration_ms - observed_ms(ticks)
    assert -5 <= hole_ms <= missed_ms + (5 if missed_ms == 0 else 1005)
    assert ticks[-1].ts_ms >= requested_ms - 1
    assert [card.utilization for card in ticks[1].cards] == pytest.approx([0.8, 0, 0])
    assert ticks[1].cards[1].processes[0].comm


def test_the_background_agent_says_when_it_is_ready_answers_and_stops(agent: Agent) -> None:
    started = agent.must("daemon", "--interval", "1s")
    try:
        assert started.startswith("gua agent started: pid ")
        status = agent.status()
        assert status["running"] is True
        assert status["agent"]["pid"] == int(started.split("pid ")[1].split(",")[0])
        assert [card["state"] for card in status["cards"]] == ["active", "idle-held", "truly-idle"]
    finally:
        stopped = agent.run("stop")
    assert stopped.stdout.startswith("gua agent stopped: pid ")
    assert agent.run("status").returncode == 3
    assert agent.run("stop").returncode == 0
    log = (agent.home / "agent.log").read_text()
    assert "released the driver" in log
    assert "Traceback" not in log
    modes = {path.name: path.stat().st_mode & 0o777 for path in [agent.home, *agent.home.iterdir()]}
    assert modes.pop("home") == modes.pop("reservations") == 0o700
    assert set(modes.values()) == {0o600}, modes


def test_a_second_agent_of_the_host_is_refused_with_the_pid_of_the_running_one(agent: Agent, tmp_path: Path) -> None:
    agent.start()
    other = Agent(agent.driver, tmp_path / "other", lock=agent.lock)
    other.folder.mkdir()
    done = other.run("daemon")
    assert done.returncode == 3
    assert done.stderr.count("\n") == 1
    assert agent.process is not None
    assert f"pid {agent.process.pid}" in done.stderr
    agent.stop()


def test_a_second_agent_in_the_same_home_is_refused_also_where_no_other_lock_is_shared(agent: Agent) -> None:
    agent.start()
    ticks = len(agent.ticks())
    other = Agent(agent.driver, agent.folder)  # another lock of the host, as in another network namespace
    done = other.run("daemon", "--foreground", "--pid-file", str(agent.folder / "other.pid"))
    assert done.returncode == 3
    assert "another agent keeps its state in" in done.stderr
    assert ticks
    agent.stop()
    assert_spans_never_overlap(agent.ticks())


def test_a_single_tick_beside_the_agent_is_refused_as_it_would_count_time_twice(agent: Agent) -> None:
    agent.start()
    done = agent.run("daemon", "--once")
    assert done.returncode == 3
    assert agent.process is not None
    assert f"pid {agent.process.pid}" in done.stderr
    agent.stop()
    assert agent.run("daemon", "--once").returncode == 0
    assert_spans_never_overlap(agent.ticks())


def test_a_single_tick_reports_allocations_and_their_owners(agent: Agent) -> None:
    folder = agent.folder / "allocations"
    folder.mkdir(mode=0o755)
    (folder / "one.json").write_text('{"source": "lab", "id": "42", "owner": "ada", "cards": [2], "since": 1700000000}')
    (folder / "one.json").chmod(0o644)
    with tapped() as (endpoint, requests):
        where = ("--endpoint", endpoint, "--allocation", "files", "--allocation-folder", str(folder))
        agent.must("sync-once", *where)
        agent.must("daemon", "--once", *where)
    first, second = map(decode, requests)
    for tick in (first, second):
        assert [card.allocation for card in tick.cards] == ["unallocated", "unallocated", "allocated"]
        [allocation] = tick.cards[2].allocations
        assert (allocation.id, allocation.owner, allocation.relation) == ("42", "ada", "nobody")
        assert [(each.source, each.reason) for each in tick.allocation_sources] == [("files", None)]


def test_without_a_driver_nothing_starts_and_nothing_is_left(agent: Agent) -> None:
    agent.environ = {"LD_LIBRARY_PATH": ""}
    done = agent.run("daemon")
    assert done.returncode == 3
    assert done.stderr.startswith("gua: cannot read the GPUs (NVML LIBRARY_NOT_FOUND)")
    assert done.stderr.count("\n") == 1
    assert not (agent.home / "agent.pid").exists()
    assert agent.run("status").returncode == 3


@pytest.mark.parametrize("interval", ["0s", "1ms", "10d", "-5s", "soon"])
def test_an_interval_that_cannot_be_is_refused_before_anything_is_made(agent: Agent, interval: str) -> None:
    done = agent.run("daemon", "--interval", interval)
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1
    assert not agent.home.exists()


def test_a_stop_in_the_middle_of_a_tick_lets_it_be_finished(
    agent: Agent, simulated_driver: SimulatedDriver, lab: Scenario
) -> None:
    agent.start()
    text = lab.text().replace("card ", "hang nvmlDeviceGetName 0\ncard ", 1)
    assert text != lab.text()
    simulated_driver.write(lab.text().replace("driver ", "latency nvmlDeviceGetPowerUsage 300000\ndriver ", 1))
    assert agent.process is not None
    time.sleep(1.2)
    agent.process.send_signal(signal.SIGTERM)
    assert agent.process.wait(timeout=60) == 0
    agent.process = None
    assert_spans_never_overlap(agent.ticks())
    assert all(len(tick.cards) == 3 for tick in agent.ticks())


def test_a_report_lands_what_the_running_agent_has_spooled(agent: Agent) -> None:
    agent.start()
    agent.wait_for_ticks(3)
    report = json.loads(agent.must("report", "--json", "--section", "headline"))
    assert report["headline"]["card_ticks"] >= 9
    assert report["headline"]["states"]["idle-held"]["gpu_hours"] > 0
    assert report["headline"]["states"]["unknown"]["card_ticks"] == 0
    agent.stop()


def test_ctrl_c_ends_it_like_any_other_stop(agent: Agent) -> None:
    agent.start()
    assert agent.process is not None
    agent.process.send_signal(signal.SIGINT)
    assert agent.process.wait(timeout=60) == 0
    agent.process = None


def test_an_agent_without_engine_and_endpoint_names_both_remedies(agent: Agent, tmp_path: Path) -> None:
    blind = tmp_path / "blind"
    blind.mkdir()
    (blind / "sitecustomize.py").write_text(
        "import importlib.util as u\n"
        "found = u.find_spec\n"
        "u.find_spec = lambda name, package=None: None if name == 'chdb' else found(name, package)\n"
    )
    done = subprocess.run(
        [*GUA, "daemon"],
        env={**agent.environment(), "PYTHONPATH": str(blind)},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 3
    assert install_command() in done.stderr
    assert "--endpoint" in done.stderr


def test_a_killed_agent_leaves_nothing_that_stops_the_next_one(agent: Agent) -> None:
    for _ in range(3):
        agent.start()
        agent.kill()
    agent.start()
    poll(lambda: len(agent.ticks()) >= 5, "ticks")
    agent.stop()
    assert_spans_never_overlap(agent.ticks())
    assert os.listdir(agent.home)  # noqa: PTH208 - names only


def test_a_service_manager_hears_that_it_is_ready_alive_and_stopping(agent: Agent) -> None:
    with bound(agent.folder / "notify", socket.SOCK_DGRAM) as manager:
        manager.settimeout(120)
        agent.environ = {"NOTIFY_SOCKET": str(agent.folder / "notify"), "WATCHDOG_USEC": "60000000"}
        agent.start()
        heard = manager.recv(4096).decode()
        assert "READY=1" in heard.splitlines()
        while "WATCHDOG=1" not in heard.splitlines():
            heard = manager.recv(4096).decode()
        agent.stop()
        while "STOPPING=1" not in heard.splitlines():
            heard = manager.recv(4096).decode()


def test_an_agent_reports_the_owners_of_allocated_cards_and_the_file_it_cannot_read(
    agent: Agent, tmp_path: Path
) -> None:
    folder = tmp_path / "allocations"
    folder.mkdir(mode=0o755)
    told = {"source": "site", "id": "7", "owner": "ada", "job_name": "train", "since": time.time() - 60}
    (folder / "one.json").write_text(json.dumps({**told, "cards": [2]}))
    agent.environ = {"GUA_ALLOCATION": "files slurm", "GUA_ALLOCATION_FOLDER": str(folder), "GUA_SLURM_POLL": "off"}
    agent.start()
    agent.wait_for_ticks(2)
    cards = agent.status()["cards"]
    assert [card["allocation"] for card in cards] == ["unallocated", "unallocated", "allocated"]
    (allocation,) = cards[2]["allocations"]
    assert (allocation["owner"], allocation["use"], allocation["relation"]) == ("ada", "empty", "nobody")
    assert "allocated to ada (site 7, train) 1m" in agent.must("status")
    checked = agent.run("doctor").stdout
    assert f"can be read (the folder {folder})" in " ".join(checked.split())
    (folder / "two.json").write_text('{"source": ')
    made = len(agent.ticks())
    agent.wait_for_ticks(made + 2)
    status = agent.status()
    assert [(each["source"], each["ok"]) for each in status["allocation_sources"]] == [
        ("files", False),
        ("slurm", True),
    ]
    assert "two.json" in status["allocation_sources"][0]["reason"]
    assert [card["allocation"] for card in status["cards"]] == ["unknown", "unknown", "allocated"]
    for name in ("one.json", "two.json"):
        (folder / name).unlink()
    agent.wait_for_ticks(made + 5)
    assert [card["allocation"] for card in agent.status()["cards"]] == ["unallocated"] * 3
    agent.stop()
    assert_spans_never_overlap(agent.ticks())


def test_an_agent_with_allocation_off_reports_no_allocation(agent: Agent) -> None:
    agent.environ = {"GUA_ALLOCATION": "off"}
    agent.start()
    agent.wait_for_ticks(2)
    assert agent.status()["allocation_sources"] == []
    assert [card["allocation"] for card in agent.status()["cards"]] == [None] * 3
    assert "not looked at" in agent.must("status")
    agent.stop()


def test_an_agent_with_gpm_enabled_reads_activity_and_reports_none_while_the_driver_hangs(agent: Agent) -> None:
    stuck = Card(uuid(0), gpm=True, load=Constant(100), activity=(3, 2, 0, 1))
    agent.driver.write(Scenario(cards=[stuck, Card(uuid(1), load=Constant(50))]))
    agent.environ = {"GUA_ACTIVITY": "gpm"}
    agent.start()
    poll(lambda: agent.status()["last_tick"]["activity_cards"] == 1, "the activity to be told")
    assert "read by gpm (--activity); 1 card in the last tick" in " ".join(agent.must("status").split())
    told = [tick.cards for tick in agent.ticks() if tick.cards[0].sm_utilization is not None][-1]
    first = told[0]
    assert (first.sm_utilization, first.sm_occupancy) == (pytest.approx(0.03), pytest.approx(0.02))
    assert (first.tensor_utilization, first.memory_bandwidth_utilization) == (0, pytest.approx(0.01))
    assert (told[1].sm_utilization, told[1].utilization) == (None, pytest.approx(0.5))
    agent.driver.write(Scenario(cards=[replace(stuck, wrong=[Hang("nvmlGpmSampleGet")]), Card(uuid(1))]))
    poll(lambda: "nvmlGpmSampleGet NO_ANSWER" in " ".join(agent.must("status").split()), "the hang to be told")
    made = len(agent.ticks())
    agent.wait_for_ticks(made + 2)
    assert [card["state"] for card in agent.status()["cards"]] == ["active", "truly-idle"]
    assert agent.ticks()[-1].cards[0].sm_utilization is None
    agent.driver.write(Scenario(cards=[stuck, Card(uuid(1))]))
    agent.stop()
    assert_spans_never_overlap(agent.ticks())


def test_a_card_that_needs_a_reset_is_named_from_the_driver_to_the_report(agent: Agent) -> None:
    actions: list[int | str] = [0, 1, "unsupported", 9]
    agent.driver.write(Scenario(cards=[Card(uuid(n), recovery=action) for n, action in enumerate(actions)]))
    agent.start()
    agent.wait_for_ticks(3)
    reset = "end its processes, then nvidia-smi --gpu-reset -i 1"
    cards = agent.status()["cards"]
    assert [card["recovery_action"] for card in cards] == [0, 1, None, 9]
    assert [card["recovery_seconds"] is None for card in cards] == [True, False, True, False]
    status = " ".join(agent.must("status").split())
    assert "! GPU 1 needs a reset, reported for ≥" in status
    assert reset in status
    doctor = " ".join(agent.run("doctor").stdout.split())
    assert f"needs a reset -> {reset}" in doctor
    assert "needs attention (recovery action code 9)" in doctor
    told = json.loads(agent.must("report", "--json", "--section", "cards", "--section", "slow-cards"))
    assert [card["recovery_action"] for card in told["cards"]] == [0, 1, None, 9]
    hours = [card["recovery_hours"] for card in told["cards"]]
    assert (hours[0], hours[1], hours[2]) == (0, pytest.approx(told["cards"][1]["observed_gpu_hours"]), None)
    assert {card["index"]: card["recovery_action"] for card in told["slow_cards"]["cards"]} == dict(
        enumerate([0, 1, None, 9])
    )
    for options in ((), ("--full",), ("--section", "slow-cards"), ("--markdown",)):
        report = " ".join(agent.must("report", *options).split())
        assert report.count("GPU 1 needs a reset, reported for") == 1
        assert reset in report
        assert "GPU 3 needs attention (recovery action code 9)" in report
        assert "GPU 0 needs" not in report
        assert "GPU 2 needs" not in report
    explained = " ".join(agent.must("explain", "1").split())
    assert "the card needs a reset" in explained
    agent.stop()
