"""Many hosts on a real server: chosen by label however many they are, and named where something is wrong with them."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

import pytest

from fakes.fleet import agent_tick, spooled_ticks
from gua.core.tick import Tick
from gua.store.database import open_store
from servers.clickhouse import ClickHouseServer
from servers.gua import SUMS, Gua

MANY = 2_000
# As long as names may be in DNS; 2,000 of them are 10 times what fits into a line of an HTTP request by default.
NAME = "{:04d}." + "a-long-domain-of-a-large-company." * 6 + "example"
TEN_MINUTES_MS = 600_000
# Cards are seen for three intervals after their last tick: longer than these tests take on a busy machine.
INTERVAL_MS = 120_000
tick_of = partial(agent_tick, interval_ms=INTERVAL_MS)


@dataclass(frozen=True)
class Fleet:
    server: ClickHouseServer
    now_ms: int

    def report(self, gua: Gua, *options: str) -> dict[str, object]:
        return gua.report(self.server.dsn("gua_reader"), "--since", "2h", *options)


def ticks(now_ms: int) -> Iterator[Tick]:
    for back in range(4):
        ts_ms = now_ms - back * INTERVAL_MS
        yield tick_of("a-1", ts_ms, cards=2, labels={"team": "vision", "k8s.cluster.name": "a"})
        yield tick_of("a-2", ts_ms, utilization=0.0, labels={"team": "audio", "k8s.cluster.name": "a"})
        yield tick_of("b-1", ts_ms, labels={"team": "vision", "k8s.cluster.name": "b"})
        yield tick_of("ahead", ts_ms + TEN_MINUTES_MS)
        yield tick_of("twice", ts_ms, instance="0123456789abcdef")
        yield tick_of("twice", ts_ms - 7_000, instance="fedcba9876543210", machine="another")


@pytest.fixture(scope="module")
def fleet(_built: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    server = ClickHouseServer(tmp_path_factory.mktemp("fleet"))
    server.start()
    with open_store(server.dsn("gua_owner")) as store:
        store.schema.apply()
        now_ms = time.time_ns() // 1_000_000
        store.land([*spooled_ticks(ticks(now_ms))])
        # Its last tick came when it was made, not when the others land.
        gone = [tick_of("quiet", now_ms - back * INTERVAL_MS) for back in range(40, 44)]
        store.land([*spooled_ticks(Tick(ts_ms=one.ts_ms, origin=one.origin, cards=one.cards) for one in gone)])
        last = f"{datetime.fromtimestamp(gone[0].ts_ms / 1000, UTC):%Y-%m-%d %H:%M:%S}"
        newest = {"ts": last, "lead_ms": -5, "source": "agent", "interval_ms": INTERVAL_MS, "version": ""}
        seen = {"day": last[:10], "first_seen": last, "last_seen": last, "last_received": last, "newest": newest}
        store.insert_json("agents", [{"host": "quiet", "instance": "q", **seen}])
    yield Fleet(server, now_ms)
    server.kill()


@pytest.fixture
def gua(tmp_path: Path) -> Gua:
    return Gua(tmp_path / "home")


def test_groups_add_up_to_the_headline(fleet: Fleet, gua: Gua) -> None:
    report = fleet.report(gua, "--by", "team", "--by", "cluster", "--by", "model")
    assert [rollup["by"] for rollup in report["groups"]] == ["team", "cluster", "model", "host"]
    for rollup in report["groups"]:
        for state, total in report["headline"]["states"].items():
            groups = [group["states"][state] for group in rollup["groups"]]
            assert sum(group["card_ticks"] for group in groups) == total["card_ticks"]
            assert sum(group["gpu_hours"] for group in groups) == pytest.approx(total["gpu_hours"], abs=1e-5)
    by_team = {group["group"]: group["cards"] for group in report["groups"][0]["groups"]}
    assert by_team == {"vision": 3, "audio": 1, None: 2}  # what is ahead is not expected yet


def test_labels_and_clusters_choose_hosts(fleet: Fleet, gua: Gua) -> None:
    first = ("--section", "headline")
    assert fleet.report(gua, *first, "--where", "team=vision")["hosts"] == ["a-1", "b-1"]
    both = fleet.report(gua, *first, "--where", "team=vision", "--where", "team=audio")
    assert both["hosts"] == ["a-1", "a-2", "b-1"]
    chosen = fleet.report(gua, *first, "--where", "team=vision", "--cluster", "a")
    assert chosen["hosts"] == ["a-1"]
    assert chosen["filters"] == [
        {"key": "k8s.cluster.name", "values": ["a"]},
        {"key": "team", "values": ["vision"]},
    ]


def test_a_label_that_no_host_has_is_refused_with_the_known_labels(fleet: Fleet, gua: Gua) -> None:
    done = gua.run("report", "--store", fleet.server.dsn("gua_reader"), "--where", "teem=vision")
    assert done.returncode == 2
    assert done.stderr.startswith("gua: no host has a label 'teem': there are k8s.cluster.name, team, ")
    assert done.stderr.count("\n") == 1


def test_what_is_wrong_with_hosts_is_named(fleet: Fleet, gua: Gua) -> None:
    report = fleet.report(gua)
    assert [one["host"] for one in report["silent"]] == ["quiet"]
    assert [claim["host"] for claim in report["claimed"]] == ["twice"]
    assert {agent["instance"] for agent in report["claimed"][0]["agents"]} == {"0123456789ab", "fedcba987654"}
    assert [skew["host"] for skew in report["skewed"]] == ["ahead"]
    assert 540 < report["skewed"][0]["ahead_seconds"] <= 600


def test_every_host_of_the_store_has_its_line(fleet: Fleet, gua: Gua) -> None:
    done = gua.run("status", "--all", "--json", "--store", fleet.server.dsn("gua_reader"))
    assert (done.returncode, done.stderr) == (1, "")
    reported = json.loads(done.stdout)
    assert reported["schema"] == "gua.status.all/1"
    hosts = {host["host"]: host for host in reported["hosts"]}
    assert [name for name, host in hosts.items() if host["silent"]] == ["quiet"]
    assert hosts["a-1"]["states"] == {"active": 2, "idle-held": 0, "truly-idle": 0, "unknown": 0}
    assert hosts["a-2"]["states"] == {"active": 0, "idle-held": 1, "truly-idle": 0, "unknown": 0}
    assert hosts["quiet"]["states"] is None
    assert hosts["ahead"]["delay_seconds"] < -540
    assert hosts["twice"]["agents"] == 2


def test_a_store_that_is_away_is_no_silence(gua: Gua) -> None:
    done = gua.run("status", "--all", "--store", "clickhouse://nobody@127.0.0.1:9")
    assert (done.returncode, done.stdout) == (3, "")
    assert done.stderr.count("\n") == 1


def test_two_thousand_hosts_with_long_names_fit_one_query(fleet: Fleet, gua: Gua) -> None:
    with open_store(fleet.server.dsn("gua_owner")) as store:
        store.land(
            [*spooled_ticks(tick_of(NAME.format(number), fleet.now_ms, labels={"part": "x"}) for number in range(MANY))]
        )
    report = fleet.report(gua, *SUMS, "--where", "part=x")
    assert len(report["hosts"]) == MANY
    assert report["headline"]["card_ticks"] == MANY
