"""gua enroll and gua sync-once against a receiver that requires a token."""

from __future__ import annotations

import json
import os
import re
import secrets
from collections.abc import Iterator
from pathlib import Path

import pytest

from driver.fixture import SimulatedDriver
from driver.scenario import Scenario, Unload
from fakes.otlp import Answer, HttpReceiver, Received
from fakes.spooled import spooled
from gua.app import backfill
from gua.app.destinations import agent_destinations, open_agent_endpoint
from gua.app.enrolling import is_loopback, parse_token, read_token
from gua.cli.main import main
from gua.core.errors import GuaError, TransientError, UnavailableError, UsageError
from gua.otlp.endpoint import read_settings
from gua.sim.host import HOST
from gua.state.enrollment import Enrollment, enrollment_file, forget_enrollment, read_enrollment, store_enrollment
from gua.store.database import open_store
from servers.agent import Agent
from servers.process import poll

TOKEN = f"tok-{secrets.token_hex(12)}"


class Guarded(HttpReceiver):
    """Takes what comes with the token, and answers 401 to the rest."""

    def answer_to(self, received: Received) -> Answer:
        answer = super().answer_to(received)
        good = received.headers.get("authorization") == f"Bearer {TOKEN}"
        return answer if good else Answer(status=401)


@pytest.fixture
def fleet() -> Iterator[Guarded]:
    with Guarded() as receiver:
        yield receiver


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in [name for name in os.environ if name.startswith(("GUA_", "OTEL_"))]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("GUA_HOST_LOCK", f"gua-test-{secrets.token_hex(6)}")
    monkeypatch.setenv("GUA_HOME", str(tmp_path / "home"))
    (tmp_path / "home").mkdir(mode=0o700)
    return tmp_path / "home"


@pytest.fixture
def token_file(tmp_path: Path) -> Path:
    path = tmp_path / "token"
    path.write_text(f"{TOKEN}\n")
    path.chmod(0o600)
    return path


def enrollment(endpoint: str = "https://collector.example:4318") -> Enrollment:
    return Enrollment(endpoint=endpoint, protocol="http/protobuf", token=TOKEN, since_ms=1)


@pytest.mark.parametrize("end", ["", "\n", "\r\n"])
def test_a_token_is_one_word_and_a_newline_after_it_is_no_part_of_it(end: str) -> None:
    assert parse_token(TOKEN + end, "here") == TOKEN


@pytest.mark.parametrize(
    "text",
    [
        "",
        "\n",
        "two words",
        "two\nlines",
        "tab\t",
        "nul\0",
        "del\x7f",
        "é",
        "\ud800",
        "Bearer abc",
        "x" * 4097,
    ],
)
def test_what_is_no_token_is_refused_and_not_repeated(text: str) -> None:
    with pytest.raises(UsageError, match=r"^here .*: give the token alone, on one line$") as refused:
        parse_token(text, "here")
    assert not text.strip() or text not in str(refused.value)


@pytest.mark.parametrize("mode", [0o604, 0o640, 0o620, 0o602, 0o601, 0o644])
def test_a_token_file_that_others_reach_is_refused_with_the_chmod(token_file: Path, mode: int) -> None:
    token_file.chmod(mode)
    with pytest.raises(UnavailableError, match=rf"mode {mode:04o}\): chmod 600 {token_file}"):
        read_token(token_file)


def test_a_token_file_that_is_none_is_refused_without_waiting_for_it(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe", 0o600)
    for path, said in ((tmp_path / "pipe", "not a regular file"), (tmp_path, "not a regular file")):
        with pytest.raises(UsageError, match=said):
            read_token(path)
    with pytest.raises(UnavailableError, match="No such file"):
        read_token(tmp_path / "nothing")
    (tmp_path / "bytes").write_bytes(b"\xff\xfe")
    (tmp_path / "bytes").chmod(0o600)
    with pytest.raises(UsageError, match="beyond ASCII"):
        read_token(tmp_path / "bytes")


def test_an_enrollment_is_read_back_and_shows_its_token_nowhere(home: Path) -> None:
    kept = store_enrollment(home, enrollment(), b"-----BEGIN")
    assert read_enrollment(home) == kept
    assert TOKEN not in repr(kept)
    assert {path.stat().st_mode & 0o777 for path in home.iterdir()} == {0o600}
    assert kept.certificate is not None
    assert Path(kept.certificate).read_bytes() == b"-----BEGIN"
    store_enrollment(home, enrollment(), None)
    assert [path.name for path in home.iterdir()] == ["enrolled.json"]


def test_a_link_in_the_place_of_the_enrollment_is_neither_read_nor_written_through(home: Path, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.write_text("mine")
    enrollment_file(home).symlink_to(elsewhere)
    with pytest.raises(UnavailableError, match="symbolic link"):
        read_enrollment(home)
    store_enrollment(home, enrollment(), None)
    assert elsewhere.read_text() == "mine"
    assert not enrollment_file(home).is_symlink()


def test_an_enrollment_that_others_can_read_is_not_used(home: Path) -> None:
    store_enrollment(home, enrollment(), None)
    enrollment_file(home).chmod(0o640)
    with pytest.raises(UnavailableError, match=r"mode 0640\): chmod 600 .*, and have its token replaced"):
        read_enrollment(home)


@pytest.mark.parametrize(
    "text", ["", "{}", "[]", "null", '{"version": true}', '{"version": 1, "token": 7}', "\ud800", "[" * 99_999]
)
def test_a_file_that_is_no_enrollment_is_refused(home: Path, text: str) -> None:
    store_enrollment(home, enrollment(), None)
    enrollment_file(home).write_text(text, errors="surrogatepass")
    with pytest.raises(UnavailableError, match="no enrollment that this gua understands"):
        read_enrollment(home)


def test_an_enrollment_of_another_version_is_named_as_such(home: Path) -> None:
    store_enrollment(home, enrollment(), None)
    enrollment_file(home).write_text('{"version": 2}')
    with pytest.raises(UnavailableError, match=r"another version of gua \(2, .*: run gua enroll again"):
        read_enrollment(home)


def test_an_enrollment_counts_where_nothing_names_another_endpoint(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def named(store: str | None = None, endpoint: str | None = None) -> list[tuple[str | None, bool]]:
        return [(one.endpoint or one.name, one.enrolled) for one in agent_destinations(store, endpoint, home)]

    kept = store_enrollment(home, enrollment(), None)
    assert named() == [(kept.endpoint, True), ("store", False)]
    assert named(endpoint="http://localhost:4318") == [("http://localhost:4318", False)]
    assert named(endpoint=f"{kept.endpoint}/v1/metrics") == [(kept.endpoint, True)]
    assert named(store="chdb:///elsewhere") == [("store chdb:///elsewhere", False)]
    monkeypatch.setenv("GUA_STORE", "chdb:///elsewhere")
    assert named(store="chdb:///elsewhere") == [(kept.endpoint, True), ("store chdb:///elsewhere", False)]
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://localhost:4318")
    assert named() == [("http://localhost:4318/v1/metrics", False)]


def test_the_token_of_the_enrollment_beats_the_environment_and_its_remedy_is_to_enroll() -> None:
    environ = {
        "OTEL_EXPORTER_OTLP_HEADERS": "authorization=Bearer%20other,x-team=vision",
        "OTEL_EXPORTER_OTLP_PROTOCOL": "grpc",
    }
    settings = read_settings("https://collector.example:4318", environ, enrollment())
    assert settings.headers == {"authorization": f"Bearer {TOKEN}", "x-team": "vision"}
    assert settings.protocol == "http/protobuf"
    assert "gua enroll" in settings.credentials_remedy
    assert settings.without_secrets(f"bad token {TOKEN}") == "bad token ***"


def test_the_token_goes_to_the_endpoint_that_it_was_given_for_and_to_no_other(home: Path, fleet: Guarded) -> None:
    store_enrollment(home, enrollment(fleet.url), None)
    (destination, _) = agent_destinations(None, None, home)
    store_enrollment(home, enrollment("http://localhost:1"), None)
    with pytest.raises(UnavailableError, match="was enrolled with another endpoint"):
        open_agent_endpoint(destination, home, patience_seconds=0)
    (destination,) = agent_destinations(None, fleet.url, home)
    opened = open_agent_endpoint(destination, home, patience_seconds=0)
    with pytest.raises(GuaError, match="401"):
        opened.land([spooled(1)])
    opened.close()
    assert "authorization" not in fleet.requests[-1].headers


def test_enrolling_prints_what_is_sent_proves_it_and_stores_it(
    home: Path, fleet: Guarded, token_file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["enroll", "--endpoint", fleet.url, "--token-file", str(token_file)]) == 0
    said = capsys.readouterr().out
    assert said.startswith(f"the agent will send to {fleet.url}/v1/metrics (http/protobuf, without TLS), every 30s:\n")
    assert "never command lines, environments or files\naccepted: 1 tick of " in said
    assert len(fleet.requests) == 1
    assert len(fleet.requests[0].hosts) == 1
    kept = read_enrollment(home)
    assert kept is not None
    assert (kept.endpoint, kept.token) == (fleet.url, TOKEN)
    assert main(["enroll", "--show", "--json"]) == 0
    shown = capsys.readouterr().out
    assert json.loads(shown)["endpoint"] == f"{fleet.url}/v1/metrics"
    assert TOKEN not in said + shown
    assert main(["enroll", "--remove"]) == 0
    assert main(["enroll", "--remove"]) == 0
    assert "nothing to remove" in capsys.readouterr().out
    assert read_enrollment(home) is None


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (Answer(status=403), "answered 403 Forbidden: it does not accept the token"),
        (Answer(status=503), "answered 503"),
        (Answer(rejected_points=1, message="no room"), r"does not accept a tick \(no room\)"),
        (Answer(status=404), "check the URL"),
    ],
)
def test_a_tick_that_is_not_accepted_stores_nothing(
    home: Path, fleet: Guarded, token_file: Path, capsys: pytest.CaptureFixture[str], answer: Answer, said: str
) -> None:
    fleet.script = [answer]
    assert main(["enroll", "--endpoint", fleet.url, "--token-file", str(token_file)]) == 3
    error = capsys.readouterr().err
    assert re.search(said, error), error
    assert "(this host was not enrolled)" in error
    assert TOKEN not in error
    assert not [*home.glob("enrolled*")]
    assert not (home / "spool.db").exists()


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ([], "no endpoint is given"),
        (["--endpoint", "http://collector.example:4318"], "everybody on the way reads the token"),
        (["--endpoint", "http://192.0.2.1:4318"], "say --insecure"),
        (["--endpoint", "ftp://localhost"], "is not an endpoint"),
        (["--endpoint", "http://localhost:1", "--certificate", "ca.pem"], "--certificate is for https"),
        (["--endpoint", "https://localhost:1", "--certificate", "nothing.pem"], "cannot read the certificate"),
        (["--show", "--remove"], "exclude each other"),
    ],
)
def test_wrong_usage_is_refused_before_anything_is_sent(
    home: Path, token_file: Path, capsys: pytest.CaptureFixture[str], options: list[str], said: str
) -> None:
    assert main(["enroll", "--token-file", str(token_file), *options]) == 2
    assert said in capsys.readouterr().err
    assert not [*home.iterdir()]


def test_loopback_is_recognized_by_address_and_not_by_a_similar_name() -> None:
    for url in ("http://127.0.0.1:1", "http://127.9.9.9", "http://[::1]:1", "http://localhost:1", "http://LOCALHOST."):
        assert is_loopback(url), url
    for url in (
        "http://127.0.0.1.example",
        "http://localhost.example",
        "http://[::2]",
        "http://0.0.0.0",
        "http://10.0.0.1",
    ):
        assert not is_loopback(url), url


def test_the_proof_of_a_host_with_cards_is_a_tick_that_the_local_store_gets_too(
    agent: Agent, fleet: Guarded, token_file: Path
) -> None:
    said = agent.must("enroll", "--endpoint", fleet.url, "--token-file", token_file)
    assert "3 GPUs" in said
    (proof,) = agent.ticks("store")
    assert [card.uuid for card in proof.cards] == [card.uuid for card in agent.ticks("endpoint")[0].cards]


def test_the_proof_beside_an_agent_is_one_of_its_own_ticks_and_its_next_ones_wait_for_the_fleet(
    agent: Agent, fleet: Guarded, token_file: Path
) -> None:
    agent.start()
    agent.wait_for_ticks(2)
    said = agent.must("enroll", "--endpoint", fleet.url, "--token-file", token_file)
    assert "accepted: the newest tick of the agent that runs (pid" in said
    assert "next: restart the agent (pid" in said
    assert len(fleet.requests) == 1
    waiting = len(agent.wait_for_ticks(3, destination="endpoint"))
    agent.stop()
    agent.start()
    poll(lambda: sum(len(request.hosts) for request in fleet.requests[1:]) >= waiting, "the ticks that waited")


def test_the_proof_of_a_host_without_cards_says_so(
    agent: Agent, simulated_driver: SimulatedDriver, fleet: Guarded, token_file: Path
) -> None:
    simulated_driver.write(Scenario(unload=Unload()))
    said = agent.must("enroll", "--endpoint", fleet.url, "--token-file", token_file)
    assert "without cards" in said
    assert agent.ticks("store") == []


def test_sync_once_keeps_its_tick_whatever_the_endpoint_does(agent: Agent, fleet: Guarded, token_file: Path) -> None:
    assert agent.run("sync-once").returncode == 3
    agent.must("enroll", "--endpoint", fleet.url, "--token-file", token_file)
    fleet.script = [Answer(status=401)]
    failed = agent.run("sync-once")
    assert failed.returncode == 3
    assert len(failed.stderr.splitlines()) == 1
    assert "is kept in" in failed.stderr
    assert len(agent.ticks("endpoint")) == 2
    done = agent.must("sync-once")
    assert f"3 ticks delivered to {fleet.url}" in done
    assert agent.ticks("endpoint") == []


def test_sync_once_beside_an_agent_takes_no_tick_and_delivers_what_waits(
    agent: Agent, fleet: Guarded, token_file: Path
) -> None:
    agent.start()
    agent.must("enroll", "--endpoint", fleet.url, "--token-file", token_file)
    agent.wait_for_ticks(3, destination="endpoint")
    said = agent.must("sync-once")
    assert "samples this host: no tick was taken" in said
    sent = [host for request in fleet.requests[1:] for host in request.hosts]
    assert len(sent) >= 3
    assert f"{len(sent)} ticks delivered" in said


def test_what_changes_about_the_enrollment_counts_from_the_next_request_on(home: Path, fleet: Guarded) -> None:
    store_enrollment(home, enrollment(fleet.url), None)
    destination, *_ = agent_destinations(None, None, home)
    opened = open_agent_endpoint(destination, home, patience_seconds=0)
    assert opened.land([spooled(1)]) == []
    store_enrollment(home, enrollment(fleet.url), None)
    with pytest.raises(TransientError, match="opened anew"):
        opened.land([spooled(2)])
    forget_enrollment(home)
    with pytest.raises(UnavailableError, match="no longer enrolled, nothing is sent"):
        opened.land([spooled(2)])
    opened.close()
    assert len(fleet.requests) == 1


@pytest.mark.engine
def test_interrupted_history_goes_on_where_it_was(
    home: Path, fleet: Guarded, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    store = f"chdb://{tmp_path / 'store'}"
    assert main(["demo", "--ticks", "300", "--gpus", "1", "--store", store]) == 0
    monkeypatch.setenv("GUA_HOST_NAME", HOST)
    monkeypatch.setattr(backfill, "_PART_BYTES", 1)  # the rest of a day at a time, in two requests
    store_enrollment(home, enrollment(fleet.url), None)
    destination, *_ = agent_destinations(None, None, home)
    fleet.script = [Answer(), Answer(), Answer(status=401)]
    with pytest.raises(UnavailableError, match="gua sync-once --with-history goes on with it"):
        backfill.send_history(store, home, destination, interval_ms=300_000)
    del fleet.requests[2:]
    before = sum(len(request.hosts) for request in fleet.requests)
    backfill.send_history(store, home, destination, interval_ms=300_000)
    sent = [host for request in fleet.requests for host in request.hosts]
    assert sent == [HOST] * len(sent)
    with open_store(store) as opened:
        (row,) = opened.select("SELECT uniqExact(ts) AS ticks FROM gua.card_ticks", {})
    assert len(sent) == row["ticks"]
    assert f"history: {row['ticks'] - before} ticks of {HOST} " in capsys.readouterr().out
    assert not (home / "history.json").exists()
