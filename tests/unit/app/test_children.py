from __future__ import annotations

import json
import threading
from pathlib import Path

import pytest

from gua.agent.delivery import DrainResult
from gua.app import children
from gua.app.destinations import Destination, agent_destinations
from gua.app.settings import AgentSettings, AllocationSettings
from gua.cli.main import main
from gua.core.errors import TransientError
from gua.core.tick import CardReading, Origin, Tick
from gua.core.words import Source
from gua.exporter.address import Address, Serving
from gua.identity.pod_names import parse_kubelet
from gua.otlp.encode import encode
from gua.spool.queue import Spool
from gua.state.directory import Home

FIRST_MS = 1_774_000_000_000


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Home:
    monkeypatch.setenv("GUA_HOME", str(tmp_path))
    for name in ("GUA_STORE", "GUA_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT"):
        monkeypatch.delenv(name, raising=False)
    return Home(tmp_path)


def spooled(home: Home, ticks: int) -> Destination:
    (destination,) = agent_destinations(None, None, home.path)
    with Spool(home.spool, destinations=[destination.name]) as spool:
        for number in range(ticks):
            tick = Tick(
                ts_ms=FIRST_MS + number * 1_000,
                origin=Origin(host="gpu01", source=Source.AGENT, interval_ms=1_000),
                cards=(CardReading(uuid="GPU-a", duration_ms=1_000, gpu_time_ms=1_000),),
            )
            spool.append(tick.ts_ms, encode(tick))
    return destination


@pytest.mark.engine
def test_a_child_lands_the_spool_and_a_report_finds_it_there(home: Home, capsys: pytest.CaptureFixture[str]) -> None:
    destination = spooled(home, 7)
    assert children.land(home, destination, threading.Event()) == DrainResult(landed=7, refused=0)
    assert children.land(home, destination, threading.Event()) == DrainResult(landed=0, refused=0)
    with Spool(home.spool, destinations=None) as spool:
        assert spool.depth(destination.name) == 0
    assert main(["report", "--json", "--section", "headline", "--since", "2026-03-20", "--until", "2026-03-21"]) == 0
    assert json.loads(capsys.readouterr().out)["headline"]["card_ticks"] == 7


def test_a_child_that_the_agent_ends_leaves_the_spool_as_it_was(home: Home) -> None:
    destination = spooled(home, 3)
    stopping = threading.Event()
    stopping.set()
    with pytest.raises(TransientError, match="what was not landed stays in the spool"):
        children.land(home, destination, stopping)
    with Spool(home.spool, destinations=None) as spool:
        assert spool.depth(destination.name) == 3


def test_a_store_that_cannot_be_used_is_one_line_of_the_childs_own(home: Home, tmp_path: Path) -> None:
    spooled(home, 1)
    (tmp_path / "file").write_text("")
    destination = Destination(name="store", where="there", store=f"chdb://{tmp_path}/file/store")
    with pytest.raises(TransientError, match="cannot be used") as caught:
        children.land(home, destination, threading.Event())
    assert "\n" not in str(caught.value)
    assert not str(caught.value).startswith("gua:")


def test_all_options_reach_the_agents_process(home: Home) -> None:
    settings = AgentSettings(
        interval_ms=30_000,
        procfs=Path("/host/proc"),
        ignored=("Xorg", "a name with spaces"),
        destinations=(
            Destination(name="endpoint", where="http://c:4318/v1/metrics", endpoint="http://c:4318"),
            Destination(name="store", where="chdb:///x", store="chdb:///x"),
        ),
        home=home,
        pid_file=home.pid_file,
        public_socket=Path("/run/gua/agent.sock"),
        serving=Serving(address=Address(port=9835), constant={"cluster": "a"}, names=("gpu01",)),
        kubelet=parse_kubelet("https://127.0.0.1:10250", insecure=False),
        allocation=AllocationSettings(
            sources=("slurm", "files"), folder=Path("/run/elsewhere"), slurm_node="n1", slurm_poll_seconds=0.0
        ),
        idle_release_ms=60_000,
    )
    assert AgentSettings.from_json(settings.to_json()) == settings
