"""No message sends anybody in a circle: each command that one names is typed, and the next answer is another."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from driver.fixture import SimulatedDriver
from driver.scenario import Scenario, Unload
from fakes.older_database import GENERATIONS, OlderDatabase
from gua.app.local_agent import other_agent, public_socket
from gua.state.host_lock import HostLock
from servers.agent import Agent
from servers.process import poll
from servers.second_user import SecondUser, second_user
from servers.tools import TOOLS
from servers.user import as_user, other_uid, shared_folder

ARGUMENT = r"(?: (?:--[a-z-]+(?: [^\s;,]+)?|/[^\s;,]+))"
NAMED = rf"gua (?:daemon|demo|report|status|stop|doctor|import gua-sqlite|schema apply){ARGUMENT}*"
HINT = re.compile(rf"(?:sudo install -d -o \S+ \S+ && )?{NAMED}(?: && {NAMED})*")
QUERY_COMMANDS = (["report"], ["top", "--once"], ["explain", "0"], ["schema", "check"], ["rollup"], ["status"])
WITHOUT_ENGINE = "import sys; sys.modules['chdb'] = None; from gua.cli.main import main; sys.exit(main(sys.argv[1:]))"
Ran = subprocess.CompletedProcess[str]


@pytest.fixture
def agent(new_agent: Callable[[str], Agent]) -> Iterator[Agent]:
    made = new_agent("agent")
    yield made
    made.run("stop")  # one that a hint has started in the background


def hints(printed: str) -> list[str]:
    return [match.group() for match in HINT.finditer(printed)]


def words(hint: str) -> list[str]:
    return hint.removeprefix("gua ").split()


def follow(run_command: Callable[[], Ran], obey: Callable[[str], object]) -> list[str]:
    """Type the first command of each answer until one is good; fails where an answer names none, or comes again."""
    printed: list[str] = []
    while (done := run_command()).returncode:
        assert done.stderr not in printed, f"a circle: {[*printed, done.stderr]}"
        assert "Traceback" not in done.stderr
        printed.append(done.stderr)
        assert hints(done.stderr), f"no way on: {done.stderr}"
        obey(hints(done.stderr)[0])
    return printed


@pytest.mark.engine
def test_where_nothing_is_recorded_the_first_command_leads_to_an_answer(agent: Agent) -> None:
    for query_args in QUERY_COMMANDS:
        done = agent.run(*query_args)
        assert (done.returncode != 0, hints(done.stderr)[:1]) == (True, ["gua daemon"]), query_args
    agent.must("daemon")
    for query_args in QUERY_COMMANDS:
        follow(partial(agent.run, *query_args), lambda hint: agent.must(*words(hint)))


@pytest.mark.engine
def test_the_two_lines_of_a_report_without_recordings_name_a_start_and_a_look(agent: Agent) -> None:
    done = agent.run("report")
    assert (done.returncode, done.stdout) == (3, "")
    assert done.stderr.splitlines() == [
        f"gua: nothing is recorded in {agent.home / 'store'} yet: start with gua daemon",
        "just looking: gua demo",
    ]
    assert not agent.home.exists()
    assert "Simulated" in agent.must(*words(hints(done.stderr)[1]))


@pytest.mark.engine
def test_an_agent_that_failed_is_named_with_its_reason_until_it_starts(
    agent: Agent, simulated_driver: SimulatedDriver, lab: Scenario
) -> None:
    simulated_driver.write(replace(lab, unload=Unload()))
    failed = agent.run("daemon")
    assert failed.returncode == 3
    reason = failed.stderr.strip().removeprefix("gua: ")
    for query_args in QUERY_COMMANDS:
        done = agent.run(*query_args)
        assert (done.returncode, reason in done.stderr) == (3, True), query_args
        assert not (agent.home / "store").exists()
        assert hints(done.stderr)[0] == "gua doctor"
    checked = agent.run("doctor")
    assert checked.returncode == 3
    assert reason in " ".join(checked.stdout.split())
    simulated_driver.write(lab)
    assert hints(checked.stdout)[-1] == "gua daemon"
    agent.must("daemon")
    assert agent.run("report").returncode == 0


@pytest.mark.engine
def test_an_older_history_is_offered_and_comes_over(agent: Agent) -> None:
    (agent.folder / ".gua").mkdir()
    history = OlderDatabase(agent.folder / ".gua" / "gua.db", GENERATIONS[-1])
    history.host()
    history.run(30)
    for seconds in range(0, 600, 30):
        history.card(seconds)
    history.close()
    (offered,) = [hint for hint in hints(agent.run("report").stderr) if "import" in hint]
    checked = agent.run("doctor", "--json").stdout
    assert [one["detail"] for one in json.loads(checked)["checks"] if offered in one["detail"]]
    agent.must(*words(offered))
    assert agent.must("report").startswith("GPU usage of ")


@contextmanager
def queried_by_another(driver: SimulatedDriver, *options: str) -> Iterator[tuple[Agent, SecondUser]]:
    with shared_folder() as folder:
        agent = Agent(driver, folder / "agents")
        agent.folder.mkdir()
        agent.folder.chmod(0o755)
        agent.must("daemon", "--interval", "1s", *options)
        user = second_user(folder, {name: agent.environment()[name] for name in ("GUA_HOST_LOCK", "GUA_RUN_DIR")})
        try:
            yield agent, user
        finally:
            agent.run("stop")


@pytest.mark.engine
@pytest.mark.skipif(os.geteuid() != 0, reason="only root becomes another user")
def test_roots_agent_answers_another_user_without_any_option(simulated_driver: SimulatedDriver, lab: Scenario) -> None:  # noqa: ARG001 - the world
    with queried_by_another(simulated_driver) as (agent, user):
        poll(lambda: agent.ticks() or None, "a tick")
        for query_args in (["status"], ["report"], ["top", "--once"], ["explain", "0"]):
            done = user.run(*query_args)
            assert (done.returncode, done.stderr) == (0, ""), query_args


@pytest.mark.engine
@pytest.mark.skipif(os.geteuid() != 0, reason="only root becomes another user")
def test_with_socket_off_the_hints_of_the_message_work_for_the_owner(
    simulated_driver: SimulatedDriver,
    lab: Scenario,  # noqa: ARG001 - the world
) -> None:
    with queried_by_another(simulated_driver, "--socket", "off") as (agent, user):

        def obey(hint: str) -> None:
            for part in hint.split(" && "):
                agent.must(*words(part))

        others = (["status"], ["top", "--once"], ["explain", "0"])
        printed = {tuple(hints(user.run(*query_args).stderr)) for query_args in others}
        assert len(follow(partial(user.run, "report"), obey)) == 1
        assert len(printed) == 1
        for query_args in others:
            assert user.run(*query_args).returncode == 0, query_args


@pytest.mark.skipif(os.geteuid() != 0, reason="only root becomes another user")
def test_an_agent_of_another_user_gets_a_folder_where_it_answers_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with shared_folder() as folder:
        run = folder / "run"
        environ = {"GUA_RUN_DIR": str(run), "GUA_HOST_LOCK": f"gua-test-{tmp_path.name}-{os.getpid()}"}
        for name, value in environ.items():
            monkeypatch.setenv(name, value)
        reading, writing = os.pipe()
        child = os.fork()
        if child == 0:
            os.setuid(other_uid())
            lock = HostLock.of(os.environ)
            lock.acquire()
            os.write(writing, b"1")
            signal.pause()
        os.read(reading, 1)
        try:
            printed = other_agent(os.environ) or ""
        finally:
            os.kill(child, 9)
            os.waitpid(child, 0)
        (hint,) = hints(printed)
        make, stop, start = hint.split(" && ")
        assert (stop, start) == ("gua stop", f"gua daemon --socket {run / 'agent.sock'}")
        subprocess.run(make.removeprefix("sudo ").split(), check=True)
        assert as_user(other_uid(), lambda: public_socket(run / "agent.sock", os.environ)) == run / "agent.sock"


def test_a_light_installation_names_the_command_that_adds_the_engine(agent: Agent) -> None:
    environ = {**agent.environment(), "UV_OFFLINE": "1", "PATH": f"{TOOLS / 'uv' / 'bin'}:{os.environ['PATH']}"}

    def light(*arguments: str) -> Ran:
        command = [sys.executable, "-c", WITHOUT_ENGINE, *arguments]
        return subprocess.run(command, env=environ, capture_output=True, text=True, check=False)

    for query_args in (["report"], ["top", "--once"], ["explain", "0"], ["schema", "check"], ["rollup"], ["daemon"]):
        done = light(*query_args)
        assert done.returncode == 3, query_args
        _, hint_line, other = done.stderr.splitlines()
        assert (hint_line[:8], other[:3], sys.executable in hint_line) == ("add it: ", "or ", True)
    command = ["/bin/sh", "-c", hint_line.removeprefix("add it: ")]
    added = subprocess.run(command, env=environ, capture_output=True, text=True, check=False)
    assert added.returncode == 0, added.stderr
    assert not agent.home.exists()
