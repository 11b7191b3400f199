"""docker-compose.yml, started as processes: it comes up, in any order, and whatever is killed comes back whole."""

from __future__ import annotations

import json
import sqlite3
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from servers.compose import Trial, load_project
from servers.process import poll

# As long as the script makes them, but known here; a number and syntax among them.
PASSWORDS = {
    "GUA_OWNER_PASSWORD": "owner'\"1",
    "GUA_WRITER_PASSWORD": "00042",
    "GUA_READER_PASSWORD": "reader",
    "GUA_GRAFANA_PASSWORD": "admin",
}
QUICK = {"GUA_TRIAL_INTERVAL": "1s", "GUA_TRIAL_HISTORY": "2m", "GUA_TRIAL_GPUS": "3"}
SERVERS = ("clickhouse", "collector", "simulated-host")


@pytest.fixture
def trial(_built: None, tmp_path: Path) -> Iterator[Trial]:
    started = Trial(tmp_path, {**PASSWORDS, **QUICK})
    yield started
    started.kill_all()


def report(trial: Trial) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(trial.once("report", "--json"))
    return found


def reported_card_ticks(trial: Trial) -> int:
    return sum(state["card_ticks"] for state in report(trial)["headline"]["states"].values())


def query(trial: Trial, sql: str) -> str:
    """Return what the owner reads through the published port."""
    owner = {"X-ClickHouse-User": "gua_owner", "X-ClickHouse-Key": PASSWORDS["GUA_OWNER_PASSWORD"]}
    request = urllib.request.Request(f"http://{trial.address('clickhouse', 8123)}/", data=sql.encode(), headers=owner)
    with urllib.request.urlopen(request, timeout=30) as answer:  # noqa: S310 - see above
        return str(answer.read().decode()).strip()


def stored_moments(trial: Trial) -> int:
    return int(query(trial, "SELECT uniqExact(ts) FROM gua.card_ticks"))


def stored_moments_if_up(trial: Trial) -> int:
    try:
        return stored_moments(trial)
    except OSError:
        trial.revive()
        return 0


def wait_for_ticks(trial: Trial) -> None:
    poll(lambda: stored_moments_if_up(trial) > 0, "ticks in ClickHouse")


def recorded_ticks(trial: Trial) -> int:
    """Return how many ticks the simulated host has ever recorded: its spool never uses a number twice."""
    with closing(sqlite3.connect(trial.volume("simulated-host") / "spool.db")) as spool:
        return int(spool.execute("SELECT seq FROM sqlite_sequence WHERE name = 'ticks'").fetchone()[0])


def waiting_ticks(trial: Trial) -> int:
    with closing(sqlite3.connect(trial.volume("simulated-host") / "spool.db")) as spool:
        return int(spool.execute("SELECT count() FROM ticks").fetchone()[0])


def assert_every_tick_arrives_once(trial: Trial) -> None:
    poll(lambda: waiting_ticks(trial) == 0, "the simulated host to send what waits")
    trial.stop("simulated-host")
    expected = recorded_ticks(trial)
    poll(lambda: stored_moments(trial) >= expected, f"{expected} ticks in ClickHouse", seconds=240)

    assert stored_moments(trial) == expected
    assert int(query(trial, "SELECT count() FROM gua.card_ticks FINAL")) == 3 * expected
    # The Collector inserts gauges and sums one after the other: ticks may be there before how long they are.
    poll(lambda: reported_card_ticks(trial) >= 3 * expected, f"{expected} ticks in the report")
    assert reported_card_ticks(trial) == 3 * expected


@pytest.mark.usefixtures("_built")
def test_docker_compose_s_own_parser_takes_the_file() -> None:
    names = load_project(settings=PASSWORDS)["services"].keys()
    assert {*SERVERS, "schema"} <= names
    assert {"report", "grafana"}.isdisjoint(names), "only when asked for"
    assert "grafana" in load_project("grafana", settings=PASSWORDS)["services"]


@pytest.mark.usefixtures("_built")
@pytest.mark.parametrize("name", PASSWORDS)
@pytest.mark.parametrize("value", [None, ""])
def test_docker_compose_s_own_parser_refuses_a_missing_password(name: str, value: str | None) -> None:
    others = {other: password for other, password in PASSWORDS.items() if other != name}
    with pytest.raises(AssertionError, match=f"{name} is missing a value: run sh deploy/docker/passwords.sh"):
        load_project(settings=others if value is None else {**others, name: value})


def test_it_comes_up_as_compose_starts_it_and_one_command_shows_a_report(trial: Trial) -> None:
    trial.up("simulated-host")
    trial.wait_until_healthy("simulated-host")
    trial.complete("schema")  # was done before the Collector came; run again by every `up`
    wait_for_ticks(trial)

    text = trial.once("report")
    assert "simulated-host" in text
    assert "idle-held" in text
    # As it is typed: docker compose run --rm report --since 1d --section cards
    assert "simulated-host" in trial.once("report", "--since", "1d", "--section", "cards")
    assert "refusing data" not in trial.log("collector")
    assert_every_tick_arrives_once(trial)
    assert {card["host"] for card in report(trial)["cards"]} == {"simulated-host"}


def test_it_comes_up_in_the_opposite_order(trial: Trial) -> None:
    trial.start("simulated-host")
    trial.wait_until_healthy("simulated-host")
    trial.start("collector-health")
    assert not trial.healthy("collector-health"), "no Collector yet"
    trial.complete("queue-folder")
    trial.start("collector")
    trial.wait_until_healthy("collector-health")
    poll(lambda: waiting_ticks(trial) == 0, "the Collector to take everything without ClickHouse")
    assert not trial.healthy("clickhouse")
    trial.start("clickhouse")
    trial.wait_until_healthy("clickhouse")
    trial.complete("schema")

    assert_every_tick_arrives_once(trial)


def test_it_survives_the_kill_of_each(trial: Trial) -> None:
    trial.up("simulated-host")
    wait_for_ticks(trial)

    for killed in SERVERS:
        trial.kill(killed)
        before = recorded_ticks(trial)
        if killed != "simulated-host":
            poll(lambda before=before: recorded_ticks(trial) > before + 2, "the simulated host to go on")  # type: ignore[misc]
        trial.start(killed)
        poll(
            lambda before=before: stored_moments_if_up(trial) > before,  # type: ignore[misc]
            f"ticks from after the kill of {killed}",
            seconds=90,
        )
    assert_every_tick_arrives_once(trial)


def test_readers_and_the_collector_may_do_no_more_than_their_part(trial: Trial) -> None:
    trial.up("clickhouse")
    trial.wait_until_healthy("clickhouse")
    trial.complete("schema")

    for user in ("gua_reader", "gua_writer", "default"):
        password = PASSWORDS.get(f"{user.upper()}_PASSWORD", "")
        request = urllib.request.Request(
            f"http://{trial.address('clickhouse', 8123)}/",
            data=b"DROP TABLE gua.card_ticks",
            headers={"X-ClickHouse-User": user, "X-ClickHouse-Key": password},
        )
        with pytest.raises(urllib.error.HTTPError):
            urllib.request.urlopen(request, timeout=30)  # noqa: S310 - see above
    assert stored_moments(trial) == 0
