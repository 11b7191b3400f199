"""Secrets that gua must not know of processes on cards, and must not report of itself: searched for everywhere."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from driver.build import build
from driver.fixture import SimulatedDriver
from driver.scenario import IDLE, MIB, Card, Constant, Process, Scenario, uuid
from fakes.otlp import Answer, GrpcReceiver, HttpReceiver, Receiver
from gua.app import children
from gua.app.destinations import Destination
from gua.core.errors import TransientError
from gua.state.directory import Home
from servers.agent import Agent
from servers.process import free_ports, poll
from servers.secrets import Holder, files_below, places_of, start_holder, start_server, token

pytestmark = pytest.mark.engine

DUMP = """
import sys
from gua.store.database import open_store
with open_store(sys.argv[1]) as store:
    named = "SELECT database, name FROM system.tables WHERE engine LIKE '%Tree' AND database != 'system'"
    tables = store.select(named)
    for table in tables:
        sys.stdout.buffer.write(f"{table}\\n".encode())
        sql = f"SELECT * FROM {table['database']}.{table['name']}"
        sys.stdout.buffer.write(store._client.raw_query(sql, fmt="JSONEachRow"))
"""


@dataclass
class Traces:
    """Everything that gua printed, wrote and sent, by name; ``arguments`` are the command lines of its processes.

    ``holders`` are processes that the test started.
    """

    said: dict[str, bytes] = field(default_factory=dict)
    kept: dict[str, bytes] = field(default_factory=dict)
    sent: dict[str, bytes] = field(default_factory=dict)
    arguments: dict[str, bytes] = field(default_factory=dict)
    holders: frozenset[int] = frozenset()

    def run(self, agent: Agent, name: str, *arguments: str | Path) -> int:
        """Run a command and keep what it prints."""
        done = agent.run(*arguments)
        self.said[f"{name}: {arguments[0]} {' '.join(map(str, arguments[1:]))}"] = (done.stdout + done.stderr).encode()
        return done.returncode

    def wire(self, name: str, receiver: Receiver) -> None:
        """Keep what a receiver got: bodies without compression, paths and headers."""
        for number, request in enumerate(receiver.requests):
            head = f"{request.path} {sorted(request.headers.items())}".encode()
            self.sent[f"{name} body {number}"] = request.body
            self.sent[f"{name} head {number}"] = head

    def everything(self) -> Mapping[str, bytes]:
        return {**self.said, **self.kept, **self.sent, **self.arguments}


@dataclass
class AllocationFile:
    """Content of an allocation file: names that may be known, and data that gua must not use."""

    owner: str = field(default_factory=token)
    job_name: str = field(default_factory=token)
    identity: str = field(default_factory=token)
    secret: str = field(default_factory=token)

    def write(self, folder: Path) -> None:
        """Write the file, with a command line and an environment that were not requested."""
        told = {"source": "site", "id": self.identity, "owner": self.owner, "job_name": self.job_name}
        hidden = {"command": f"train --password={self.secret}", "environment": {"TOKEN": self.secret}}
        folder.mkdir(mode=0o755)
        text = json.dumps({**told, **hidden, "cards": [uuid(1)], "since": 1_700_000_000})
        (folder / "one.json").write_text(text)


@dataclass
class Own:
    """The agent's credentials."""

    header: str = field(default_factory=token)
    key: str = field(default_factory=token)
    store: str = field(default_factory=token)
    address: str = field(default_factory=token)
    proxy: str = field(default_factory=token)


@contextlib.contextmanager
def watched(pid: int, arguments: dict[str, bytes], besides: frozenset[int] = frozenset()) -> Iterator[None]:
    """Note the command lines of a process and of all that it starts, but those ``besides``."""
    over = threading.Event()

    def look() -> None:
        while not over.wait(0.01):
            for one in {pid, *_children(pid)} - besides:
                with contextlib.suppress(OSError):
                    line = Path(f"/proc/{one}/cmdline").read_bytes()
                    arguments[f"process {line.decode(errors='replace')}"] = line

    watching = threading.Thread(target=look)
    watching.start()
    try:
        yield
    finally:
        over.set()
        watching.join()


def _children(pid: int) -> list[int]:
    with contextlib.suppress(OSError):
        return [
            int(child)
            for task in Path(f"/proc/{pid}/task").iterdir()
            for child in (task / "children").read_text().split()
        ]
    return []


def damaged_and_set_aside(home: Path) -> bool:
    """Damage the spool unless that was noticed; what its log holds of a page is emptied first, as it would heal it."""
    if [*home.glob("spool.db.corrupt-*")]:
        return True
    with (
        contextlib.suppress(sqlite3.DatabaseError),
        contextlib.closing(sqlite3.connect(home / "spool.db", timeout=1)) as spool,
    ):
        spool.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
    with (home / "spool.db").open("r+b") as file:
        file.write(b"damaged" * 200)
    return False


def to_http_and_store(
    agent: Agent, own: Own, promise: AllocationFile, told: Traces, receiver: HttpReceiver, holders: list[Holder]
) -> None:
    """An agent that delivers to a store and to a receiver that refuses its credentials at first."""
    refusals = [Answer(status=401, message=f"unknown token Bearer {own.header}"), Answer(status=503, message="busy")]
    receiver.script = refusals
    promise.write(agent.folder / "allocations")
    agent.environ = {
        "GUA_DEBUG": "1",
        "GUA_ALLOCATION": "files",
        "GUA_ALLOCATION_FOLDER": str(agent.folder / "allocations"),
        "GUA_ENDPOINT": f"{receiver.url}/v1/metrics?key={own.key}",
        "OTEL_EXPORTER_OTLP_HEADERS": f"authorization=Bearer%20{own.header}",
        "GUA_STORE": f"chdb://{agent.home / 'store'}",
        "GUA_STORE_PASSWORD": own.store,
    }
    public = agent.folder / "public.sock"
    told.run(agent, "http", "daemon", "--interval", "1s", "--socket", public)
    pid = int((agent.home / "agent.pid").read_text().partition('"pid":')[2].partition(",")[0])
    with watched(pid, told.arguments):
        poll(lambda: len(receiver.requests) > 3, "the receiver to be sent ticks")
        holders[-1].end()  # it stays on its card's list for a while
        told.run(agent, "http", "status")
        told.run(agent, "http", "status", "--json")
        told.run(agent, "http", "top", "--once")
        told.run(agent, "http", "doctor")
        told.run(agent, "http", "doctor", "--json")
        agent.environ = {**agent.environ, "GUA_HOME": str(agent.folder / "somebody else's"), "GUA_STORE": ""}
        told.run(agent, "by socket", "report", "--socket", public)
        told.run(agent, "by socket", "report", "--socket", public, "--json")
        del agent.environ["GUA_HOME"]
        poll(lambda: damaged_and_set_aside(agent.home), "the damaged spool to be set aside")
        made = len(receiver.requests)
        poll(lambda: len(receiver.requests) > made + 1, "the delivery to go on")
        told.run(agent, "after damage", "status", "--json")
    told.run(agent, "http", "stop")
    told.run(agent, "http", "report", "--store", f"chdb://{agent.home / 'store'}")
    told.run(agent, "http", "report", "--json", "--store", f"chdb://{agent.home / 'store'}")
    told.wire("http", receiver)
    dumped = subprocess.run(
        [sys.executable, "-c", DUMP, f"chdb://{agent.home / 'store'}"], capture_output=True, check=True, timeout=60
    )
    told.kept["http store's tables"] = dumped.stdout
    told.kept |= {f"http home {name}": data for name, data in files_below(agent.home).items()}


def to_grpc(agent: Agent, own: Own, told: Traces, receiver: GrpcReceiver) -> None:
    """An agent whose receiver speaks gRPC, and at first not to it; it looks for models in command lines."""
    receiver.script = [Answer(status="UNAUTHENTICATED", message=f"unknown token Bearer {own.header}")]
    agent.environ = {
        "GUA_DEBUG": "1",
        "OTEL_EXPORTER_OTLP_PROTOCOL": "grpc",
        "OTEL_EXPORTER_OTLP_HEADERS": f"authorization=Bearer%20{own.header}",
    }
    endpoint = f"{receiver.url}/?key={own.key}"
    told.run(agent, "grpc", "daemon", "--interval", "1s", "--endpoint", endpoint, "--detect-models")
    pid = int((agent.home / "agent.pid").read_text().partition('"pid":')[2].partition(",")[0])
    with watched(pid, told.arguments):
        poll(lambda: len(receiver.requests) > 2, "the receiver to be sent ticks")
        told.run(agent, "grpc", "status", "--json")
        told.run(agent, "grpc", "status")
        told.run(agent, "grpc", "doctor")
    told.run(agent, "grpc", "stop")
    told.wire("grpc", receiver)
    told.kept |= {f"grpc home {name}": data for name, data in files_below(agent.home).items()}


def to_unreachable(agent: Agent, own: Own, told: Traces) -> None:
    """An agent whose server, proxy and endpoint are not there."""
    (port,) = free_ports(1)
    agent.environ = {
        "GUA_DEBUG": "1",
        "GUA_STORE": f"clickhouse://gua:{own.address}@127.0.0.1:{port}",
        "GUA_ENDPOINT": f"http://collector.invalid:4318/v1/metrics?key={own.key}",
        "OTEL_EXPORTER_OTLP_HEADERS": f"x-key={own.header}",
        "HTTP_PROXY": f"http://gua:{own.proxy}@127.0.0.1:{port}",
    }
    told.run(agent, "nobody", "daemon", "--interval", "1s")
    pid = int((agent.home / "agent.pid").read_text().partition('"pid":')[2].partition(",")[0])
    with watched(pid, told.arguments):
        poll(lambda: "WARNING endpoint" in (agent.home / "agent.log").read_text(), "the failure to be logged")
        told.run(agent, "nobody", "status", "--json")
        told.run(agent, "nobody", "status")
        told.run(agent, "nobody", "doctor")
        told.run(agent, "nobody", "doctor", "--json")
        told.run(agent, "nobody", "report")
    told.run(agent, "nobody", "stop")
    told.kept |= {f"nobody home {name}": data for name, data in files_below(agent.home).items()}
    landing_that_waits(agent, own, told)


def landing_that_waits(agent: Agent, own: Own, told: Traces) -> None:
    """The child that lands, as the agent starts it, before a server that never answers."""
    stopping = threading.Event()
    failed: list[str] = []
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = f"clickhouse://gua:{own.address}@127.0.0.1:{server.getsockname()[1]}"
        destination = Destination(name="store", where="a server", store=address)

        def land() -> None:
            try:
                children.land(Home(agent.home), destination, stopping)
            except TransientError as error:
                failed.append(str(error))

        landing = threading.Thread(target=land)
        with watched(os.getpid(), told.arguments, besides=told.holders):
            landing.start()
            server.accept()[0].close()
            stopping.set()
            landing.join()
    told.said["landing: failed"] = "".join(failed).encode()


@dataclass
class Host:
    holders: list[Holder]
    server: Holder
    own: Own
    promise: AllocationFile
    told: Traces


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Host]:
    """Return what agents reported of holders with secrets, and of their own."""
    holders = [start_holder(tmp_path_factory.mktemp("holder")) for _ in range(3)]
    server = start_server(tmp_path_factory.mktemp("server"))
    world = tmp_path_factory.mktemp("driver") / "driver.scenario"
    driver = SimulatedDriver(library=build(), scenario=world)
    driver.write(
        Scenario(
            [
                Card(
                    uuid(1),
                    memory_reserved=500 * MIB,
                    load=Constant(80),
                    processes=[Process(one.pid) for one in (holders[0], server)],
                ),
                Card(
                    uuid(2), memory_reserved=500 * MIB, processes=[Process(one.pid, load=IDLE) for one in holders[1:]]
                ),
            ]
        )
    )
    own, promise = Own(), AllocationFile()
    told = Traces(holders=frozenset(one.pid for one in (*holders, server)))
    agents = [Agent(driver, tmp_path_factory.mktemp("agent")) for _ in range(3)]
    try:
        with HttpReceiver() as http, GrpcReceiver() as grpc:
            to_http_and_store(agents[0], own, promise, told, http, holders)
            to_grpc(agents[1], own, told, grpc)
            to_unreachable(agents[2], own, told)
        yield Host(holders, server, own, promise, told)
    finally:
        for agent in agents:
            agent.run("stop")
        for holder in (*holders, server):
            holder.end()


def test_the_search_finds_what_may_be_known(host: Host) -> None:
    told, (busy, *_) = host.told, host.holders
    assert any(name.endswith("status --json") for name in places_of(busy.comm, told.said))
    assert any("report" in name for name in places_of(host.holders[1].comm, told.said))
    kept = places_of(busy.comm, told.kept)
    assert "http store's tables" in kept
    assert any(name.startswith("http home spool.db.corrupt-") for name in kept)
    assert any(name.startswith("http home store/data/") for name in kept)
    assert any(name.startswith("nobody home spool.db") for name in kept)
    sent = places_of(busy.comm, told.sent)
    assert any(name.startswith("http body") for name in sent)
    assert any(name.startswith("grpc body") for name in sent)


def test_an_allocations_owner_job_and_id_are_reported_and_its_secret_is_not(host: Host) -> None:
    told, promise = host.told, host.promise
    for name in (promise.owner, promise.job_name, promise.identity):
        assert any(place.endswith(("status", "status --json")) for place in places_of(name, told.said)), name
        assert "http store's tables" in places_of(name, told.kept)
        assert any(place.startswith("http body") for place in places_of(name, told.sent))
    assert places_of(promise.secret, told.everything()) == []


def test_no_secret_of_a_holder_is_reported_stored_or_sent(host: Host) -> None:
    everything = host.told.everything()
    found = {
        (place, where): places_of(secret, everything)
        for place, holder in enumerate((*host.holders, host.server))
        for where, secret in holder.secrets.items()
    }
    assert {of: places for of, places in found.items() if places} == {}


def test_a_served_model_is_known_only_where_that_is_on_and_then_its_name_alone(host: Host) -> None:
    told = host.told
    found = places_of(host.server.comm, {**told.said, **told.kept, **told.sent})
    assert {place.split()[0].rstrip(":") for place in found} == {"grpc"}
    assert any(place.startswith("grpc: status --json") for place in found)
    assert any(place.startswith("grpc body") for place in found)
    says_so = {name.partition(": ")[0] for name, said in told.said.items() if b"--detect-models" in said}
    assert says_so == {"grpc"}
    for name in ("status", "doctor"):
        assert b"--detect-models" in told.said[f"grpc: {name} "]
    assert b"--detect-models" in told.kept["grpc home agent.log"]


def test_the_agents_credentials_reach_their_receivers_alone(host: Host) -> None:
    told, own = host.told, host.own
    assert {name.split()[0] for name in places_of(own.header, told.sent)} == {"http", "grpc"}
    assert {name.split()[0] for name in places_of(own.key, told.sent)} == {"http"}
    elsewhere = {**told.said, **told.kept, **told.arguments}
    assert {name: places_of(secret, elsewhere) for name, secret in vars(own).items()} == {
        name: [] for name in vars(own)
    }


def test_every_process_of_the_agent_was_looked_at(host: Host) -> None:
    lines = [line.decode().split("\0") for line in host.told.arguments.values()]
    assert any("gua.app.agent_process" in line for line in lines)
    assert any("answer" in line for line in lines)
    assert any("land" in line for line in lines)
