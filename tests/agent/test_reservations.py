"""Cards reserved through a running agent, by the commands that people type."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from driver.fixture import SimulatedDriver
from driver.scenario import MIB, Card, Constant, Process, Scenario
from fakes.sockets import listening
from gua.app.reserving import reserve
from servers.agent import GUA, Agent
from servers.fixture import uuid
from servers.process import poll

FREE = [Card(uuid(number), memory_reserved=500 * MIB) for number in range(1, 5)]
SHOW = "echo $CUDA_VISIBLE_DEVICES $CUDA_DEVICE_ORDER $NVIDIA_VISIBLE_DEVICES $GUA_RESERVATION"


@pytest.fixture
def host(simulated_driver: SimulatedDriver, agent: Agent) -> Iterator[Agent]:
    """Return a running agent of a host with four free cards."""
    simulated_driver.write(Scenario(FREE))
    agent.start()
    yield agent
    agent.stop()
    log = agent.tail()
    assert "Traceback" not in log
    assert "unexpected" not in log


def begun(host: Agent, *arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [*GUA, *arguments],
        env=host.environment(),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def reserved(host: Agent) -> list[Any]:
    return host.reservations()


def test_a_command_gets_cards_of_its_own_and_its_exit_code_is_the_one_of_gua(host: Agent) -> None:
    done = host.run("run", "-g", "2", "--note", "paper", "--", "sh", "-c", f"{SHOW}; exit 7")
    assert done.returncode == 7
    visible, order, uuids, reservation = done.stdout.split()
    assert (visible, order, uuids) == ("0,1", "PCI_BUS_ID", f"{uuid(1)},{uuid(2)}")
    assert done.stderr == f"gua: reserved GPU 0,1 ({reservation})\n"
    poll(lambda: not reserved(host), "the cards to be free")


def test_cards_are_reserved_extended_and_released_by_hand(host: Agent) -> None:
    assert host.must("reserve", "-g", "2", "--short") == "0,1"
    assert host.must("reserve", "-G", "3", "--for", "2h").splitlines()[1] == (
        "export CUDA_DEVICE_ORDER=PCI_BUS_ID CUDA_VISIBLE_DEVICES=3"
    )
    taken = host.run("reserve", "-g", "2", "--nonblock")
    assert taken.returncode == 75
    me = reserved(host)[0]["owner"]
    held = "; ".join(f"GPU {gpu} reserved by {me}" for gpu in (0, 1, 3))
    assert taken.stderr == f"gua: no cards now: 1 more GPU needed: {held}\n"
    assert host.must("extend", "--for", "3h", "-G", "3").startswith("reserved GPU 3 until ")
    assert host.must("release", "-G", "3").startswith("released GPU 3 (")
    assert len(host.must("release").splitlines()) == 1
    assert host.run("release").stdout == "nothing to release\n"
    assert reserved(host) == []


def test_who_waits_is_served_in_order(host: Agent) -> None:
    first = begun(host, "run", "-g", "4", "--", "sleep", "600")
    poll(lambda: len(reserved(host)) == 1, "the first to have its cards")
    second = begun(host, "run", "-g", "3", "--", "sh", "-c", SHOW)
    poll(lambda: len(host.queue()) == 1, "the second to wait")
    third = begun(host, "reserve", "-g", "1", "--wait", "10m", "--short")
    poll(lambda: len(host.queue()) == 2, "the third to wait")
    queue = json.loads(host.must("queue", "--json"))["queue"]
    assert [(each["position"], each["kind"], each["count"]) for each in queue] == [(1, "run", 3), (2, "manual", 1)]
    assert host.must("queue").count("GPU") == 2
    os.killpg(first.pid, signal.SIGKILL)
    out, err = second.communicate(timeout=120)
    assert out.startswith("0,1,2 ")
    assert "waiting: you are first, 3 more needed: GPU 0 reserved by " in err
    assert third.communicate(timeout=120)[0] in {"0", "3"}
    first.communicate()


def test_a_card_that_somebody_uses_is_not_given(host: Agent, simulated_driver: SimulatedDriver) -> None:
    used = Card(uuid(1), memory_reserved=500 * MIB, processes=[Process(os.getpid(), memory=900 * MIB)])
    simulated_driver.write(Scenario([used, *FREE[1:]]))
    assert host.must("reserve", "--short") == "1"
    refused = host.run("reserve", "-G", "0", "--nonblock")
    assert refused.returncode == 75
    assert "GPU 0 is held by " in refused.stderr
    assert "0.9 GiB" in refused.stderr


def test_what_a_command_leaves_keeps_its_card_and_a_killed_one_frees_it(host: Agent) -> None:
    stop = host.folder / "stop"
    script = f"until test -e {stop}; do sleep 0.1; done > /dev/null 2>&1 & exit 0"
    assert host.run("run", "--", "sh", "-c", script).returncode == 0
    assert len(reserved(host)) == 1
    stop.touch()
    poll(lambda: not reserved(host), "the child to end")
    killed = begun(host, "run", "--", "sleep", "600")
    poll(lambda: reserved(host), "the card to be reserved")
    os.killpg(killed.pid, signal.SIGKILL)
    poll(lambda: not reserved(host), "the card to be free")
    killed.communicate()


def test_an_agent_that_is_killed_loses_no_reservation_and_no_place(host: Agent) -> None:
    first = begun(host, "run", "-g", "4", "--", "sleep", "600")
    poll(lambda: len(reserved(host)) == 1, "the first to have its cards")
    second = begun(host, "run", "-g", "1", "--", "sh", "-c", SHOW)
    # From the first message on, its queue place outlasts the agent.
    assert second.stderr is not None
    assert "waiting: you are first" in second.stderr.readline()
    before = reserved(host)
    host.kill()
    time.sleep(1)
    host.start()
    assert [{**each, "idle_since_ms": None} for each in reserved(host)] == [
        {**each, "idle_since_ms": None} for each in before
    ]
    third = begun(host, "reserve", "--wait", "10m", "--short")
    poll(lambda: len(host.queue()) == 2, "both to wait")
    assert [each["kind"] for each in host.queue()] == ["run", "manual"]
    os.killpg(first.pid, signal.SIGKILL)
    assert second.communicate(timeout=120)[0].startswith("0 ")
    assert third.communicate(timeout=120)[0] != ""
    first.communicate()


def test_a_command_whose_time_is_over_is_ended(host: Agent) -> None:
    began = time.monotonic()
    # All of its process group, and not only the first: a pipe of two.
    done = host.run("run", "--timeout", "1s", "--", "sh", "-c", "sleep 60 | sleep 60")
    assert done.returncode == 124
    assert time.monotonic() - began < 50
    poll(lambda: not reserved(host), "the card to be free")


WRONG: list[tuple[list[str], int, str]] = [
    (["run", "-g", "1", "python", "train.py"], 2, "put -- before the command: gua run -g 1 -- python train.py"),
    (["run", "-g", "0", "--", "true"], 2, "give a number of cards from 1 to 1024, or name them"),
    (["run", "-g", "-1", "--", "true"], 2, "give a number of cards from 1 to 1024, or name them"),
    (["run", "-g", "5", "--", "true"], 2, "this host has 4 GPUs that can be given, not 5"),
    (["run", "-g", "3", "-G", "0,1", "--", "true"], 2, "--gpus 3 and --gpu-ids 0,1 do not agree"),
    (["run", "-G", "0,0", "--", "true"], 2, "a card is named twice"),
    (["run", "-g", "99999", "--", "true"], 2, "give a number of cards from 1 to 1024, or name them"),
    (["run", "-G", "0,-1", "--", "true"], 2, "there is no GPU '-1' here: there are 0, 1, 2, 3"),
    (["run", "-G", "9", "--", "true"], 2, "there is no GPU '9' here: there are 0, 1, 2, 3"),
    (["run", "-G", ",", "--", "true"], 2, "--gpu-ids names no card"),
    (["run", "--timeout", "0s", "--", "true"], 2, "is shorter than 1 ms"),
    (["run", "--wait", "1h", "--nonblock", "--", "true"], 2, "--wait and --nonblock exclude each other"),
    (["run", "--", "gua-no-such-command"], 127, "gua-no-such-command: no such command"),
    (["run", "--", "/etc/passwd"], 126, "/etc/passwd cannot be executed"),
    (["run", "--"], 2, "Missing argument"),
    (["reserve", "--for", "soon"], 2, "soon"),
    (["release", "-G", "9"], 2, "there is no GPU '9' here"),
    (["extend", "--for", "2h"], 3, "you have no reservation without a command"),
]


def test_impossible_requests_are_refused_in_one_line(host: Agent) -> None:
    for arguments, code, words in WRONG:
        done = host.run(*arguments)
        assert (done.returncode, done.stderr.count("\n")) == (code, 1 + done.stderr.startswith("gua: reserved")), (
            arguments
        )
        assert words in done.stderr
    poll(lambda: not reserved(host), "nothing to be left")


def test_a_script_without_a_first_line_runs_as_in_a_shell(host: Agent, tmp_path: Path) -> None:
    script = tmp_path / "job"
    script.write_text("echo it runs on $CUDA_VISIBLE_DEVICES\n")
    script.chmod(0o755)
    assert host.must("run", "--", str(script)) == "it runs on 0\n"


def test_without_an_agent_nothing_is_reserved(agent: Agent) -> None:
    done = agent.run("run", "--", "true")
    assert done.returncode == 69
    assert done.stderr.count("\n") == 1
    assert "gua daemon" in done.stderr


def test_a_client_repeats_its_request_to_the_next_agent_if_the_first_ends_before_it_answers(tmp_path: Path) -> None:
    places: list[str] = []

    def answer(listener: socket.socket) -> None:
        for response in (b"", json.dumps({"granted": {"id": "a", "cards": ["GPU-0"], "gpus": [0]}}).encode() + b"\n"):
            connection, _ = listener.accept()
            with connection:
                places.append(json.loads(connection.recv(4096))["place"])
                if response:
                    connection.sendall(response)
                    assert json.loads(connection.recv(4096)) == {"got": True}
                    connection.sendall(b'{"kept":true}\n')

    with listening(tmp_path / "agent.sock") as listener:
        thread = threading.Thread(target=answer, args=(listener,))
        thread.start()
        assert reserve([tmp_path / "agent.sock"], {"kind": "manual", "count": 1}, progress=print).gpus == "0"
        thread.join(60)
    assert len(places) == 2
    assert len(set(places)) == 1


def test_signals_are_the_commands_own(host: Agent) -> None:
    code = "import signal; print(*(signal.getsignal(n) is signal.SIG_DFL for n in (signal.SIGXFSZ,)))"
    shown = host.must("run", "--", "sh", "-c", "grep SigIgn /proc/self/status")
    assert int(shown.split()[1], 16) & (1 << (signal.SIGPIPE - 1) | 1 << (signal.SIGXFSZ - 1)) == 0
    assert host.must("run", "--", sys.executable, "-c", code)


def test_called_as_canhazgpu_it_speaks_its_language(
    host: Agent, simulated_driver: SimulatedDriver, tmp_path: Path
) -> None:
    used = Card(uuid(4), memory_reserved=500 * MIB, processes=[Process(os.getpid(), memory=2000 * MIB)])
    simulated_driver.write(Scenario([*FREE[:3], used]))
    link = tmp_path / "canhazgpu"
    link.write_text(f"#!{sys.executable}\nfrom gua.cli.main import run\nrun()\n")
    link.chmod(0o755)
    host.environ = {"PATH": f"{tmp_path}:{os.environ['PATH']}"}

    def canhazgpu(line: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            ["sh", "-c", f"canhazgpu {line}"], env=host.environment(), capture_output=True, text=True, check=False
        )

    ran = canhazgpu("run --gpus 2 -- sh -c 'echo $CUDA_VISIBLE_DEVICES; exit 5'")
    assert (ran.returncode, ran.stdout) == (5, "Reserved 2 GPU(s): [0 1] for command execution\n0,1\n")
    assert canhazgpu("reserve -g 2 -d 30m -s").stdout == "0,1"
    poll(lambda: host.status()["cards"][3]["holders"], "the agent to see who uses a card")
    rows = json.loads(canhazgpu("status --json").stdout)
    assert [row["status"] for row in rows] == ["IN_USE", "IN_USE", "AVAILABLE", "UNRESERVED"]
    assert rows[0]["type"] == "MANUAL"
    assert "WITHOUT RESERVATION" in rows[3]["details"]
    assert canhazgpu("status | grep -c AVAILABLE").stdout == "1\n"
    assert canhazgpu("status --summary").stdout.startswith("Available GPUs: 1 out of 4\n")
    refused = canhazgpu("run --gpus 3 --nonblock -- true")
    assert (refused.returncode, refused.stderr.count("\n")) == (1, 1)
    assert refused.stderr.startswith("Error: Not enough GPUs available. Requested: 3, Available: 1 ")
    assert canhazgpu("run --gpus 1 true").stderr == (
        "Error: put -- before the command: canhazgpu run --gpus 1 -- true\n"
    )
    assert json.loads(canhazgpu("queue --json").stdout)["total_waiting"] == 0
    assert canhazgpu("release").stdout == "Released 2 GPU(s): [0 1]\n"
    assert canhazgpu("release").returncode == 0
    report = json.loads(canhazgpu("report --json").stdout)
    assert (report["total_reservations"], report["users"][0]["run_count"]) == (2, 1)
    assert canhazgpu("admin --gpus 8").returncode == 1


def test_unused_cards_are_released_with_idle_release(agent: Agent, simulated_driver: SimulatedDriver) -> None:
    used = Card(
        uuid(2), memory_reserved=500 * MIB, load=Constant(90), processes=[Process(os.getpid(), memory=900 * MIB)]
    )
    simulated_driver.write(Scenario(FREE))
    agent.start("--idle-release", "6s")
    for gpu in ("0", "1"):
        reserve([agent.home / "agent.sock"], {"kind": "manual", "cards": [gpu], "for_ms": 600_000}, progress=print)
    simulated_driver.write(Scenario([FREE[0], used, *FREE[2:]]))
    poll(lambda: [each["gpus"] for each in reserved(agent)] == [[1]], "the unused card to be given back")
    assert reserved(agent)[0]["idle_since_ms"] is None
    assert "ended: its cards were not used for too long" in agent.tail()
    simulated_driver.write(Scenario(FREE))
    poll(lambda: not reserved(agent), "the other one, too")
    agent.stop()


def test_what_is_reserved_is_an_allocation_of_the_audit(host: Agent) -> None:
    host.wait_for_ticks(2)
    assert {card.allocation for tick in host.ticks() for card in tick.cards} == {None}  # no reservations: not read
    began = time.time_ns() // 1_000_000
    host.must("reserve", "-G", "1")
    job = begun(host, "run", "-G", "2", "--", "sleep", "600")
    poll(lambda: len(reserved(host)) == 2, "both to be reserved")
    host.wait_for_ticks(len(host.ticks()) + 2)
    host.must("release")
    os.killpg(job.pid, signal.SIGKILL)
    job.communicate()
    ended = time.time_ns() // 1_000_000
    host.wait_for_ticks(len(host.ticks()) + 2)
    ticks = [tick for tick in host.ticks() if tick.allocation_sources]
    assert {source.source for tick in ticks for source in tick.allocation_sources} == {"gua"}
    manual: dict[int | None, int] = {}
    run: dict[int | None, int] = {}
    for tick in ticks:
        for card in tick.cards:
            for each in card.allocations:
                expected = manual if each.kind == "manual" else run
                expected[card.index] = expected.get(card.index, 0) + each.duration_ms
                assert each.relation == "nobody"
        free = [card for card in tick.cards if card.index in {0, 3}]
        assert [card.unallocated_gpu_time_ms for card in free] == [card.gpu_time_ms for card in free]
    assert (set(manual), set(run)) == ({1}, {2})
    assert 0 < manual[1] <= ended - began


def test_where_a_scheduler_gives_cards_out_one_line_refuses(
    simulated_driver: SimulatedDriver, agent: Agent, tmp_path: Path
) -> None:
    simulated_driver.write(Scenario(FREE))
    folder = tmp_path / "allocations"
    folder.mkdir()
    agent.start("--allocation", "slurm", "--allocation-folder", str(folder))
    try:
        for gua_arguments in (("run", "--", "true"), ("reserve",)):
            refused = agent.run(*gua_arguments)
            assert (refused.returncode, refused.stdout) == (75, "")
            assert refused.stderr == (
                "gua: slurm gives out the cards of this host: request cards from it, or pass --beside-scheduler\n"
            )
        assert reserved(agent) == []
        assert agent.run("run", "--beside-scheduler", "--", "true").returncode == 0
    finally:
        agent.stop()
