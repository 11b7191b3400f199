"""``gua exporter`` as a process: the older exporter's variables, a restart, a port that is taken, and no ticks kept."""

from __future__ import annotations

import http.client
import re
import socket
import subprocess
import threading
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from driver.scenario import crowd
from servers.agent import GUA, Agent
from servers.process import free_ports, poll

Start = Callable[[Mapping[str, str]], int]
PROC = Path(__file__).parents[1] / "fixtures" / "proc" / "host"


@pytest.fixture
def start(agent: Agent) -> Start:
    """Return what starts the exporter with these variables, and returns its port once it is ready."""

    def run(environ: Mapping[str, str]) -> int:
        [port] = free_ports(1)
        agent.environ = {"POLL_INTERVAL": "1s", "HTTP_PORT": str(port), **environ}
        with agent.log.open("ab") as log:
            agent.process = subprocess.Popen(
                [*GUA, "exporter"], env=agent.environment(), stdin=subprocess.DEVNULL, stdout=log, stderr=log
            )
        poll(lambda: ask(port, "/readyz")[0] == 200, "the exporter to be ready")
        return port

    return run


def ask(port: int, path: str) -> tuple[int, str]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    try:
        connection.request("GET", path)
        answer = connection.getresponse()
        return answer.status, answer.read().decode()
    except OSError:
        return 0, ""
    finally:
        connection.close()


def idle_seconds(port: int) -> float:
    """Return how long the process of the lab's second card has been idle by the rule of two polls."""
    lines = ask(port, "/metrics")[1].splitlines()
    return max(
        [
            float(line.split()[-1])
            for line in lines
            if line.startswith("gpu_idle_process_idle_seconds{") and 'gpu="1"' in line
        ],
        default=0,
    )


def test_the_older_exporters_variables_count_and_no_tick_is_kept(start: Start, agent: Agent) -> None:
    port = start({"NODE_NAME": "n1", "POD_NAME": "gua-x", "POD_NAMESPACE": "gpu"})
    page = ask(port, "/metrics")[1]
    series = [line for line in page.splitlines() if line.startswith("gpu_idle_")]
    assert series
    assert all(set(line.replace("{", ",").split(",")) >= {'node="n1"', 'namespace="gpu"'} for line in series)
    assert all(re.search(r'[{,]pod="gua-x"', line) for line in series)
    assert not any('pod="' in line for line in page.splitlines() if line.startswith(("gua_", "hw_")))
    status = agent.status()
    assert (status["running"], status["agent"]["interval_seconds"]) == (True, 1)
    assert (status["destinations"], status["spool"]["ticks"]) == ([], 0)
    agent.stop()


def test_a_restart_and_a_crash_set_no_clock_back(start: Start, agent: Agent) -> None:
    port = start({})
    poll(lambda: idle_seconds(port) > 2, "the process to be idle")
    before = idle_seconds(port)
    agent.stop()
    port = start({"GUA_COMPATIBLE": "1"})
    assert idle_seconds(port) >= before
    agent.kill()
    port = start({})
    assert idle_seconds(port) >= before
    agent.stop()


def test_a_port_that_is_taken_is_one_line_and_exit_code_3(agent: Agent) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        agent.environ = {"HTTP_PORT": str(taken.getsockname()[1])}
        for command in (["exporter"], ["daemon", "--prometheus"]):
            done = agent.run(*command)
            assert done.returncode == 3
            last = done.stderr.strip().splitlines()[-1]
            assert "cannot serve Prometheus at 127.0.0.1:" in last
            assert "in use" in last
            assert "Traceback" not in done.stderr
            assert agent.status()["running"] is False


def test_scrapers_and_hangers_on_cost_no_tick(start: Start, agent: Agent) -> None:
    port = start({})
    hanging = [socket.create_connection(("127.0.0.1", port)) for _ in range(100)]
    before = agent.status()["ticks"]["made"]
    scrapers = [threading.Thread(target=lambda: [ask(port, "/metrics") for _ in range(20)]) for _ in range(50)]
    for one in scrapers:
        one.start()
    for one in scrapers:
        one.join(180)
    poll(lambda: agent.status()["ticks"]["made"] >= before + 3, "three more ticks")
    # Those who hang on are there all the time; a machine that is busy with the others may cost a tick.
    assert agent.status()["ticks"]["skipped"].get("missed", 0) <= 1
    assert ask(port, "/healthz") == (200, "ok\n")
    for one in hanging:
        one.close()
    agent.stop()


def test_an_unreachable_kubelet_leaves_pod_ids_one_log_line_and_an_error_count(start: Start, agent: Agent) -> None:
    agent.driver.write(crowd([4545], cards=1))
    port = start({"GUA_PROCFS": str(PROC), "GUA_KUBELET": "https://127.0.0.1:1/pods", "GUA_KUBELET_INSECURE": "1"})
    poll(lambda: 'gua_agent_errors_total{call="kubelet GET /pods"' in ask(port, "/metrics")[1], "the count")
    made = agent.status()["ticks"]["made"]
    poll(lambda: agent.status()["ticks"]["made"] >= made + 2, "two more ticks")
    page = ask(port, "/metrics")[1]
    assert 'k8s_pod_uid="0a1b2c3d-4e5f-6071-8293-a4b5c6d7e8f9"' in page
    assert "k8s_pod_name" not in page
    status = agent.status()
    assert [each for each in status["conditions"] if each.startswith("pods have ids but no names: https://127.0.0.1:1")]
    [holder] = status["cards"][0]["holders"]
    assert (holder["pod_uid"] is not None, holder["pod_name"], holder["container_name"]) == (True, None, None)
    agent.stop()
    log = agent.tail()
    assert log.count("pods have ids but no names") == 1
    assert "--kubelet-insecure: any server at that address gets the service account's token" in log
