"""Situations of canhazgpu's pages on its status and on validation, on a simulated driver, and what its users rely on.

What is printed is kept in ``tests/golden/canhazgpu*.txt``, with lengths, times, pids and this user by placeholders.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from datetime import datetime
from pathlib import Path

import pytest

from driver.fixture import SimulatedDriver
from driver.scenario import MIB, Card, Lost, Process, Scenario
from servers.agent import Agent
from servers.fixture import uuid
from servers.process import poll

# What monitoring and integration on its pages do with the JSON and the table: the same calls, keys and words.
ASKS = """
import json, subprocess
done = subprocess.run(['canhazgpu', 'status', '--json'], capture_output=True, text=True)
assert done.returncode == 0, done.stderr
status = json.loads(done.stdout)
print([gpu['gpu_id'] for gpu in status if gpu['status'] == 'AVAILABLE'])
print(len([gpu for gpu in status if gpu.get('user') == 'ME']))
for gpu in [gpu for gpu in status if gpu['status'] == 'UNRESERVED']:
    print(gpu['gpu_id'], gpu.get('unreserved_users', []), gpu.get('process_info', 'Unknown processes'))
count = {of: sum(gpu['status'] == of for gpu in status) for of in ('AVAILABLE', 'IN_USE', 'UNRESERVED')}
print(count, (count['IN_USE'] + count['UNRESERVED']) / len(status) * 100)
"""
COUNTS = """
STATUS=$(canhazgpu status)
AVAILABLE=$(echo "$STATUS" | grep "AVAILABLE" | wc -l)
IN_USE=$(echo "$STATUS" | grep "IN_USE" | wc -l)
UNRESERVED=$(echo "$STATUS" | grep "UNRESERVED" | wc -l)
echo "gpu_available $AVAILABLE"; echo "gpu_in_use $IN_USE"; echo "gpu_unreserved $UNRESERVED"
if [ $AVAILABLE -ge 1 ]; then canhazgpu run --gpus 1 -- sh -c 'echo started on $CUDA_VISIBLE_DEVICES'; fi
"""


def link(folder: Path) -> Path:
    made = folder / "canhazgpu"
    made.write_text(f"#!{sys.executable}\nfrom gua.cli.main import run\nrun()\n")
    made.chmod(0o755)
    return made


@pytest.fixture
def programs(tmp_path: Path) -> Iterator[Callable[[str], int]]:
    """Return what starts a program of a name and returns its pid; its memory is what the scenario says."""
    sleep = shutil.which("sleep")
    assert sleep is not None
    running: list[subprocess.Popen[bytes]] = []

    def start(name: str) -> int:
        copy = tmp_path / "programs" / name
        copy.parent.mkdir(exist_ok=True)
        if not copy.exists():
            shutil.copy(sleep, copy)
        running.append(subprocess.Popen([copy, "300"]))
        return running[-1].pid

    yield start
    for one in running:
        one.kill()
        one.wait()


@pytest.fixture
def host(simulated_driver: SimulatedDriver, agent: Agent, tmp_path: Path) -> Iterator[Agent]:
    """Return a running agent; ``canhazgpu`` is on its PATH."""
    link(tmp_path)
    agent.environ = {"PATH": f"{tmp_path}:{os.environ['PATH']}"}
    simulated_driver.write(Scenario([Card(uuid(number), memory_reserved=500 * MIB) for number in range(1, 7)]))
    agent.start()
    yield agent
    agent.stop()
    assert "Traceback" not in agent.tail()


def run_line(host: Agent, line: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["sh", "-c", line], env=host.environment(), capture_output=True, text=True, check=False, timeout=120
    )


def placed(text: str, me: str, pids: dict[str, int]) -> str:
    """Return a text with placeholders for what differs from run to run; columns are set apart by two blanks."""
    for name, pid in pids.items():
        text = text.replace(f"PID {pid} ", f"PID <{name}> ")
    text = re.sub(r"[0-9]+h [0-9]+m [0-9]+s", "<h m s>", text)
    text = re.sub(r'"[0-9]{4}-[0-9-]+T[^"]*"', '"<time>"', text)
    text = re.sub(rf"\b{re.escape(me)}\b", "<me>", text)
    return re.sub(r"-{3,}", "---", re.sub(r" {2,}(?=\S)", "  ", text)) if not text.startswith("[") else text


def test_situations_of_its_pages(
    host: Agent,
    simulated_driver: SimulatedDriver,
    programs: Callable[[str], int],
    golden: Callable[[str, str], None],
) -> None:
    """0 is free, 1 runs, 2 and 4 are used without a reservation, 3 is reserved by hand and empty, 5 is lost."""
    assert run_line(host, "canhazgpu reserve -G 0 -d 5m && canhazgpu release -G 0").returncode == 0
    running = subprocess.Popen(
        ["sh", "-c", "exec canhazgpu run -G 1 -- sleep 300"], env=host.environment(), stdout=subprocess.PIPE, text=True
    )
    poll(lambda: host.status()["reservations"], "the command to have its card")
    assert run_line(host, "canhazgpu reserve -G 3 -d 4h -n debugging").returncode == 0
    me = host.status()["reservations"][0]["owner"]
    names = ("python3", "jupyter", "pytorch", "worker-1", "worker-2")
    pids = {name: programs(name) for name in names}

    def card(number: int, *users: tuple[int, int]) -> Card:
        processes = [Process(pid, memory=mib * MIB) for pid, mib in users]
        return Card(uuid(number), memory_reserved=500 * MIB, processes=processes)

    lost = Card(uuid(6), memory_reserved=500 * MIB, wrong=[Lost()])
    simulated_driver.write(
        Scenario(
            [
                card(1),
                card(2, (running.pid, 8452)),
                card(3, (pids["python3"], 768), (pids["jupyter"], 256)),
                card(4),
                card(5, *((pids[name], 2048 - 300 * at) for at, name in enumerate(names) if name != "jupyter")),
                lost,
            ]
        )
    )
    poll(lambda: len(host.status()["cards"][4]["holders"]) == 4, "the agent to see who is there")
    table, as_json = run_line(host, "canhazgpu status").stdout, run_line(host, "canhazgpu status --json").stdout
    lower = run_line(host, "canhazgpu status --memory-threshold 512 -j").stdout
    summary = run_line(host, "canhazgpu status -s").stdout
    rows = json.loads(as_json)
    assert [row["status"] for row in rows] == [
        "AVAILABLE",
        "IN_USE",
        "UNRESERVED",
        "IN_USE",
        "UNRESERVED",
        "ERROR",
    ]
    assert [row["status"] for row in json.loads(lower)] == [row["status"] for row in rows]
    for name in ("last_released", "last_heartbeat", "expiry_time"):
        (value,) = (row[name] for row in rows if name in row)
        assert datetime.fromisoformat(value).tzinfo is not None
    completed = subprocess.run(
        [sys.executable, "-c", ASKS.replace("ME", me)],
        env=host.environment(),
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    counted = run_line(host, COUNTS)
    refused = run_line(host, "canhazgpu run --gpus 3 --nonblock -- true")
    parts = {
        "canhazgpu status": table,
        "canhazgpu status --json": as_json,
        "canhazgpu status -s": summary,
        "a program that reads the JSON": completed,
        "a script that counts lines": counted.stdout,
        "canhazgpu run --gpus 3 --nonblock -- true": f"{refused.stderr}exit code {refused.returncode}\n",
    }
    golden("canhazgpu.txt", "\n".join(f"$ {title}\n{placed(text, me, pids)}" for title, text in parts.items()))
    running.kill()
    running.communicate()


ENTRY = (
    "id user actual_user requested_count requested_ids allocated_gpus reservation_type expiry_duration note "
    "enqueue_time last_heartbeat wait_timeout"
)
REPORT = "users total_gpu_hours total_reservations unique_users start_date end_date days"
WRONG = (
    ("admin -g 4 --force", "gua daemon"),
    ("web -p 8080", "--prometheus"),
    ("status --all", "other hosts"),
    ("run -g 1 true", "canhazgpu run -g 1 -- true"),
    ("run -g 2 -G 0,1,2 -- true", "do not agree"),
    ("reserve -G 0,0", "twice"),
    ("reserve -g -1", "number of cards"),
    ("reserve -d soon", "soon"),
    ("reserve -g 7 --nonblock", "7"),
)


def fails(host: Agent, line: str, words: str) -> None:
    done = run_line(host, f"canhazgpu {line}")
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (1, "", 1), (line, done)
    assert done.stderr.startswith("Error: ")
    assert words in done.stderr


def test_commands_options_texts_and_exit_codes_match_canhazgpu(host: Agent) -> None:
    """The rows of the table: commands, options, texts, exit codes."""
    me = run_line(host, "id -un").stdout.strip()

    for line, words in WRONG:
        fails(host, line, words)
    absent = run_line(host, "canhazgpu run -- no-such-command-of-ours")
    assert (absent.returncode, absent.stderr) == (1, "Error: no-such-command-of-ours: no such command\n")
    poll(lambda: not host.status()["reservations"], "the card to be free")
    ran = run_line(host, "canhazgpu run -g 2 -t 1h -n paper -u bob -- sh -c 'echo $CUDA_VISIBLE_DEVICES; exit 5'")
    assert (ran.returncode, ran.stdout) == (
        5,
        "Reserved 2 GPU(s): [0 1] for command execution (timeout: 1h)\n0,1\n",
    )
    poll(lambda: not host.status()["reservations"], "the cards to be free")
    by_hand = run_line(host, "canhazgpu reserve -g 2 -G 1,2 -d 1.5h").stdout.splitlines()
    assert by_hand[0].startswith("Reserved 2 GPU(s): [1 2] until ")
    assert by_hand[1] == "export CUDA_VISIBLE_DEVICES=1,2"
    (one,) = host.status()["reservations"]
    assert (one["owner"], one["until_ms"] - one["since_ms"]) == (me, 5_400_000)
    assert run_line(host, "canhazgpu reserve -d '' -s").stdout == "0"
    assert host.status()["reservations"][1]["until_ms"] - host.status()["reservations"][1]["since_ms"] == 28_800_000
    fails(host, "reserve -g 4 --nonblock", "Not enough GPUs available. Requested: 4, Available: 3")
    waited = run_line(host, "canhazgpu reserve -G 0 -w 100ms")
    assert (waited.returncode, waited.stderr.splitlines()[-1][:18]) == (1, "Error: no cards no")
    waiting = subprocess.Popen(
        ["sh", "-c", "exec canhazgpu reserve -g 4 -d 30m -n later -s"],
        env=host.environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    poll(lambda: host.status()["queue"], "the fourth card to be waited for")
    queue = json.loads(run_line(host, "canhazgpu queue --json").stdout)
    assert (queue["total_waiting"], queue["total_gpus_requested"], queue["total_gpus_allocated"]) == (1, 4, 0)
    (entry,) = queue["entries"]
    assert " ".join(entry) == ENTRY
    assert (entry["user"], entry["requested_count"], entry["expiry_duration"]) == (me, 4, 1_800_000_000_000)
    assert (entry["reservation_type"], entry["note"]) == ("manual", "later")
    assert run_line(host, "canhazgpu release").stdout == "Released 3 GPU(s): [0 1 2]\n"
    assert waiting.communicate(timeout=120)[0].count(",") == 3
    assert run_line(host, "canhazgpu release").returncode == 0
    nothing = run_line(host, "canhazgpu release")
    assert (nothing.returncode, nothing.stdout) == (0, "No manually reserved GPUs found for current user\n")
    assert run_line(host, "canhazgpu queue").stdout == "Queue is empty\n"
    report = json.loads(run_line(host, "canhazgpu report -d 1 -j").stdout)
    assert " ".join(report) == REPORT
    (user,) = report["users"]
    assert (user["name"], user["run_count"], user["manual_count"]) == (me, 2, 3)
    assert user["percentage"] == pytest.approx(100)
    assert report["days"] == 1
    assert time.time() - datetime.fromisoformat(report["end_date"]).timestamp() < 60
