"""Joining a fleet, with the Collector that checks tokens and speaks TLS: enroll, deliver, history, leave."""

from __future__ import annotations

import json
import secrets
import ssl
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import trustme

from driver.scenario import Scenario, Unload
from servers.agent import Agent
from servers.clickhouse import ClickHouseServer
from servers.collector import Collector
from servers.gua import SUMS, Gua, differences
from servers.process import poll
from servers.secrets import files_below, places_of
from servers.tools import ROOT

SECURE = ROOT / "otel-collector" / "secure.yaml"
TOKEN = f"tok-{secrets.token_hex(12)}"
OTHER_TOKEN = f"tok-{secrets.token_hex(12)}"


@dataclass
class SecureCollector:
    """The Collector with tokens and TLS."""

    process: Collector
    tokens: Path
    authority: Path

    @property
    def endpoint(self) -> str:
        return self.process.endpoint.replace("http:", "https:")

    @property
    def grpc_endpoint(self) -> str:
        return self.process.grpc_endpoint.replace("http:", "https:")


@pytest.fixture
def secure(clickhouse: ClickHouseServer, tmp_path: Path) -> Iterator[SecureCollector]:
    authority = trustme.CA()
    issued = authority.issue_cert("127.0.0.1")
    issued.private_key_pem.write_to_path(tmp_path / "key.pem")
    for blob in issued.cert_chain_pems:
        blob.write_to_path(tmp_path / "cert.pem", append=True)
    authority.cert_pem.write_to_path(tmp_path / "authority.pem")
    tokens = tmp_path / "tokens"
    tokens.write_text(f"{OTHER_TOKEN} gpu02\n{TOKEN} gpu01\n")
    process = Collector(
        tmp_path / "secure",
        clickhouse,
        {
            "COLLECTOR_TOKENS": str(tokens),
            "COLLECTOR_TLS_CERT": str(tmp_path / "cert.pem"),
            "COLLECTOR_TLS_KEY": str(tmp_path / "key.pem"),
        },
        over=[SECURE],
    )
    process.start()
    yield SecureCollector(process, tokens, tmp_path / "authority.pem")
    process.kill()


@pytest.fixture
def served(applied: ClickHouseServer) -> str:
    return applied.dsn("gua_reader")


@pytest.fixture
def token_file(tmp_path: Path) -> Callable[[str], Path]:
    def write(token: str) -> Path:
        path = tmp_path / "token"
        path.write_text(f"{token}\n")
        path.chmod(0o600)
        return path

    return write


def status_of(secure: SecureCollector, authorization: str | None) -> int:
    """Return the HTTP status of an empty OTLP/JSON request."""
    headers = {"Content-Type": "application/json"} | ({"Authorization": authorization} if authorization else {})
    request = urllib.request.Request(f"{secure.endpoint}/v1/metrics", b"{}", headers)  # noqa: S310 - the test's own
    try:
        context = ssl.create_default_context(cafile=str(secure.authority))
        with urllib.request.urlopen(request, timeout=60, context=context) as answer:  # noqa: S310 - as above
            return int(answer.status)
    except urllib.error.HTTPError as error:
        return error.code


def enroll(agent: Agent, endpoint: str, secure: SecureCollector, token: Path, *options: str) -> str:
    return agent.must(
        "enroll", "--endpoint", endpoint, "--token-file", token, "--certificate", secure.authority, *options
    )


def card_ticks(clickhouse: ClickHouseServer) -> int:
    return int(clickhouse.query("SELECT count() FROM gua.card_ticks FINAL"))


def test_the_collector_accepts_the_tokens_of_its_file_and_no_others(secure: SecureCollector) -> None:
    assert status_of(secure, f"Bearer {TOKEN}") == 200
    assert status_of(secure, f"Bearer {OTHER_TOKEN}") == 200
    for wrong in (None, "", "Bearer", "Bearer ", "Bearer nobody", TOKEN, f"Basic {TOKEN}", "Bearer gpu01"):
        assert status_of(secure, wrong) == 401, wrong


def test_a_token_that_is_taken_out_of_the_file_is_refused_without_a_restart(secure: SecureCollector) -> None:
    secure.tokens.write_text(f"{OTHER_TOKEN} gpu02\n")
    poll(lambda: status_of(secure, f"Bearer {TOKEN}") == 401, "the token to be revoked")
    assert status_of(secure, f"Bearer {OTHER_TOKEN}") == 200


def test_the_collector_does_not_start_without_its_tokens(clickhouse: ClickHouseServer, tmp_path: Path) -> None:
    issued = trustme.CA().issue_cert("127.0.0.1")
    issued.private_key_and_cert_chain_pem.write_to_path(tmp_path / "both.pem")
    process = Collector(
        tmp_path / "without",
        clickhouse,
        {
            "COLLECTOR_TOKENS": str(tmp_path / "nothing"),
            "COLLECTOR_TLS_CERT": str(tmp_path / "both.pem"),
            "COLLECTOR_TLS_KEY": str(tmp_path / "both.pem"),
        },
        over=[SECURE],
    )
    with pytest.raises(AssertionError, match="collector exited"):
        process.start()


@pytest.mark.parametrize("protocol", ["http/protobuf", "grpc"])
def test_a_host_enrolls_over_tls_and_its_agent_delivers(
    agent: Agent,
    clickhouse: ClickHouseServer,
    served: str,
    secure: SecureCollector,
    token_file: Callable[[str], Path],
    protocol: str,
) -> None:
    agent.environ = {"OTEL_EXPORTER_OTLP_PROTOCOL": protocol}
    endpoint = secure.endpoint if protocol == "http/protobuf" else secure.grpc_endpoint
    printed = enroll(agent, endpoint, secure, token_file(TOKEN))
    assert "accepted: 1 tick of " in printed
    assert "3 GPUs" in printed
    secure.process.wait_until_delivered()
    assert card_ticks(clickhouse) == 3

    agent.environ = {}  # address, protocol, token and certificate come from the enrollment alone
    agent.start()
    poll(lambda: card_ticks(clickhouse) >= 9, f"the agent's ticks:\n{agent.tail()}")
    names = [destination["name"] for destination in agent.status()["destinations"]]
    assert names == ["endpoint", "store"]
    agent.stop()
    assert served


def test_the_token_is_nowhere_but_in_its_file(
    agent: Agent, served: str, secure: SecureCollector, token_file: Callable[[str], Path]
) -> None:
    printed = enroll(agent, secure.endpoint, secure, token_file(TOKEN))
    agent.start()
    agent.wait_for_ticks(2)
    assert agent.process is not None
    shown = {
        "enroll": printed.encode(),
        "log": agent.log.read_bytes(),
        "status": agent.run("status").stdout.encode(),
        "status --json": json.dumps(agent.status()).encode(),
        "doctor": agent.run("doctor").stdout.encode(),
        "show": agent.run("enroll", "--show", "--json").stdout.encode(),
        **{name: Path(f"/proc/{agent.process.pid}/{name}").read_bytes() for name in ("environ", "cmdline")},
        **files_below(agent.home),
    }
    assert places_of(TOKEN, shown) == ["enrolled.json"]
    assert (agent.home / "enrolled.json").stat().st_mode & 0o777 == 0o600
    assert served


def test_a_wrong_token_and_an_unknown_authority_store_nothing(
    agent: Agent, secure: SecureCollector, token_file: Callable[[str], Path]
) -> None:
    common = ("enroll", "--endpoint", secure.endpoint, "--token-file", token_file("wrong-token-4711"))
    refused = agent.run(*common, "--certificate", secure.authority)
    assert refused.returncode == 3
    assert "answered 401" in refused.stderr
    assert "this host was not enrolled" in refused.stderr
    assert "wrong-token-4711" not in refused.stdout + refused.stderr
    untrusted = agent.run(*common)
    assert untrusted.returncode == 3
    assert "its certificate is not trusted" in untrusted.stderr
    assert not [*agent.home.glob("enrolled*")]
    assert agent.must("enroll", "--show").startswith("this host is not enrolled")


def test_a_running_agent_takes_a_new_token_and_sends_nothing_after_it_is_removed(
    agent: Agent,
    clickhouse: ClickHouseServer,
    served: str,
    secure: SecureCollector,
    token_file: Callable[[str], Path],
) -> None:
    enroll(agent, secure.endpoint, secure, token_file(TOKEN))
    agent.start()
    poll(lambda: card_ticks(clickhouse) >= 6, f"the agent's ticks:\n{agent.tail()}")
    secure.tokens.write_text(f"{OTHER_TOKEN} gpu01\n")
    poll(lambda: "answered 401" in agent.tail(), "the old token to be refused")
    printed = enroll(agent, secure.endpoint, secure, token_file(OTHER_TOKEN))
    assert "shows the new token with its next request" in printed
    before = card_ticks(clickhouse)
    poll(lambda: card_ticks(clickhouse) >= before + 6, f"ticks with the new token:\n{agent.tail()}")

    assert "sends nothing more" in agent.must("enroll", "--remove")
    poll(lambda: "no longer enrolled" in json.dumps(agent.status()), "the agent to notice")
    secure.process.wait_until_delivered()
    accepted = secure.process.accepted_points()
    kept = len(agent.ticks("store"))
    poll(lambda: len(agent.ticks("store")) >= kept + 3, "more ticks, kept here")
    assert secure.process.accepted_points() == accepted
    agent.stop()
    agent.start()
    assert [one["name"] for one in agent.status()["destinations"]] == ["store"]
    assert served


def test_sync_once_keeps_what_the_collector_cannot_take_and_delivers_it_later(
    agent: Agent,
    clickhouse: ClickHouseServer,
    served: str,
    secure: SecureCollector,
    token_file: Callable[[str], Path],
) -> None:
    enroll(agent, secure.endpoint, secure, token_file(TOKEN))
    secure.process.kill()
    agent.environ = {"OTEL_EXPORTER_OTLP_TIMEOUT": "1000", "GUA_STORE": ""}
    waiting = len(agent.ticks("endpoint"))
    for more in (1, 2):
        failed = agent.run("sync-once", seconds=120)
        assert failed.returncode == 3
        assert len(failed.stderr.splitlines()) == 1
        assert "is kept in" in failed.stderr
        assert len(agent.ticks("endpoint")) == waiting + more
    secure.process.start()
    assert f"{waiting + 3} ticks delivered to {secure.endpoint}" in agent.must("sync-once")
    secure.process.wait_until_delivered()
    assert card_ticks(clickhouse) == 4 * 3
    assert agent.ticks("endpoint") == []
    assert served


def test_history_from_before_gives_the_fleet_the_same_report(
    agent: Agent, gua: Gua, served: str, secure: SecureCollector, token_file: Callable[[str], Path], tmp_path: Path
) -> None:
    store = f"chdb://{tmp_path / 'embedded'}"
    gua.must("demo", "--seed", "7", "--ticks", "60", "--gpus", "4", "--store", store)
    local = gua.report(store, *SUMS)
    (host,) = local["hosts"]
    agent.environ = {"GUA_HOST_NAME": host, "GUA_STORE": store}
    agent.driver.write(Scenario(unload=Unload()))  # nothing but history is sent
    printed = enroll(agent, secure.endpoint, secure, token_file(TOKEN), "--with-history")
    assert f"history: {local['headline']['card_ticks'] // 4} ticks of {host}" in printed
    secure.process.wait_until_delivered()
    window = ("--since", local["window"]["since"], "--until", local["window"]["until"])
    assert not [*differences(gua.report(served, *window, *SUMS), gua.report(store, *window, *SUMS))]
