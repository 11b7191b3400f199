"""Reports through the agent: the same as one's own, two at once, as another user; and nothing but the shipped views."""

from __future__ import annotations

import contextlib
import io
import json
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

import pytest

from fakes.sockets import connected
from fakes.store import UNTIL_MS, FakeStore, lab
from gua.app import children, opening
from gua.app.children import answer_in_child
from gua.cli import answer
from gua.cli.answer import converse
from gua.cli.main import main
from gua.cli.report import render_report
from gua.core.errors import DataError, GuaError, TransientError, UnavailableError, UsageError
from gua.core.ports import ViewReader
from gua.local_socket.client import NobodyError, RemoteReader, checked_query, checked_row
from gua.local_socket.server import PUBLIC_MODE, Listen, LocalServer
from gua.report.views import SHARED
from gua.report.window import ReportRequest
from gua.state.socket_address import Peer
from servers.user import as_user, other_uid, shared_folder

Opener = Callable[[], AbstractContextManager[ViewReader]]
BOUNDS = {"since_ms": 0, "until_ms": UNTIL_MS, "hosts": []}
# Where a host is wrong, priced, gives cards out, looks busy and is not, or has recorded for months.
RARE = {
    "fleet",
    "host_name_conflicts",
    "prices",
    "reservations",
    "waits",
    "allocation_names",
    "busy_with_few_sms",
    "held_days",
}


@pytest.fixture
def folder() -> Iterator[Path]:
    with shared_folder() as made:
        yield made


@contextlib.contextmanager
def reporting(path: Path, serve: Callable[[socket.socket, Peer], None]) -> Iterator[None]:
    server = LocalServer(listen=[Listen(path=path, mode=PUBLIC_MODE)], status=dict, answer=serve)
    server.start()
    try:
        yield
    finally:
        server.close()


def from_store(open_reader: Opener) -> Callable[[socket.socket, Peer], None]:
    """Return an answer in this process."""
    return lambda connection, _: converse(connection, open_reader)


def text_of(reader: ViewReader) -> str:
    out = io.StringIO()
    render_report(reader, ReportRequest(since="2d", now_ms=UNTIL_MS), width=80, out=out)
    return out.getvalue()


def test_a_report_through_the_agent_is_the_same(folder: Path) -> None:
    with (
        reporting(folder / "s", from_store(lambda: nullcontext(lab()))),
        RemoteReader(folder / "s", SHARED) as reader,
    ):
        assert text_of(reader) == text_of(lab())


def test_another_user_gets_the_same_report(folder: Path) -> None:
    def ask() -> str:
        with RemoteReader(folder / "s", SHARED) as reader:
            return text_of(reader)

    expected = text_of(lab())  # which also loads what that user may not be able to read
    with reporting(folder / "s", from_store(lambda: nullcontext(lab()))):
        assert as_user(other_uid(), ask) == expected


def test_names_that_are_no_unicode_survive(folder: Path) -> None:
    store = FakeStore({"rules": [{"key": "\udcff\u202e\x00", "value": 1.0, "is_default": 0}]})
    with reporting(folder / "s", from_store(lambda: nullcontext(store))), RemoteReader(folder / "s", SHARED) as reader:
        assert reader.rows("rules", {})[0]["key"] == "\udcff\u202e\x00"


def test_many_rows_come_in_bounded_parts(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(answer, "_CHUNK_BYTES", 1000)
    rows = [{"hour": number, "is_counted": 0, "is_merged": 0, "card_ticks": number} for number in range(5000)]
    store = FakeStore({"hours": rows})
    chunks = list(answer._chunks(SHARED["hours"], rows))  # noqa: SLF001 - what goes over the wire
    assert max(map(len, chunks)) < 1200
    with reporting(folder / "s", from_store(lambda: nullcontext(store))), RemoteReader(folder / "s", SHARED) as reader:
        assert reader.rows("hours", BOUNDS) == rows
        assert reader.rows("hours", BOUNDS) == rows


@pytest.mark.parametrize(
    ("view", "parameters"),
    [
        ("cards", {}),
        ("extent; DROP TABLE gua.cards", {"hosts": []}),
        ("overview", {}),
        ("extent", {"hosts": [], "since_ms": 1}),
        ("extent", {"hosts": "gpu-1"}),
        ("extent", {"hosts": [1]}),
        ("extent", {"hosts": ["\udc80"]}),
        ("extent", {"hosts": ["x"] * 10_001}),
        ("extent", {"hosts": ["x" * 1025]}),
        ("hours", {**BOUNDS, "since_ms": "0"}),
        ("hours", {**BOUNDS, "since_ms": True}),
        ("hours", {**BOUNDS, "since_ms": 1.5}),
        ("hours", {**BOUNDS, "until_ms": 2**63}),
        ("time_of_day", {**BOUNDS, "timezone": "UTC' OR 1"}),
        ("time_of_day", {**BOUNDS, "timezone": None}),
        (None, {}),
        (["extent"], {"hosts": []}),
        ("extent", None),
    ],
)
def test_only_the_reports_views_with_their_parameters_may_be_queried(view: object, parameters: object) -> None:
    with pytest.raises(ValueError, match=r"view|parameter"):
        checked_query(SHARED, view, parameters)


def test_a_question_that_is_not_allowed_never_reaches_the_store(folder: Path) -> None:
    store = lab()
    with reporting(folder / "s", from_store(lambda: nullcontext(store))), RemoteReader(folder / "s", SHARED) as reader:
        with pytest.raises(DataError, match="no such view"):
            reader.rows("cards", {"hosts": []})
        assert store.asked == []
        assert reader.rows("extent", {"hosts": []})  # the next question is answered


@pytest.mark.parametrize("line", [b"\n", b"x\n", b"[]\n", b"{}\n", b'{"view":1}\n', b"[" * 100_000 + b"\n"])
def test_garbage_in_a_report_ends_in_an_error_line(folder: Path, line: bytes) -> None:
    with (
        reporting(folder / "s", from_store(lambda: nullcontext(lab()))),
        connected(folder / "s") as connection,
    ):
        connection.sendall(b'{"gua":1,"ask":"report"}\n')
        assert connection.recv(100) == b'{"ready":true}\n'
        connection.sendall(line)
        assert "error" in json.loads(connection.recv(10_000))


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (UsageError("wrong"), UsageError),
        (UnavailableError("not there"), UnavailableError),
        (TransientError("busy"), UnavailableError),
        (DataError("refused"), DataError),
        (ValueError("inside"), UnavailableError),
    ],
)
def test_an_error_of_the_store_is_the_users_error(folder: Path, error: Exception, kind: type[GuaError]) -> None:
    @contextlib.contextmanager
    def fails() -> Iterator[ViewReader]:
        raise error
        yield lab()

    with (
        reporting(folder / "s", from_store(fails)),
        pytest.raises(kind) as caught,
        RemoteReader(folder / "s", SHARED),
    ):
        pass
    assert "inside" not in str(caught.value)


class Scripted:
    """An agent of bad will: says it is ready, then answers the first question with whatever it likes."""

    def __init__(self, said: bytes) -> None:
        self._said = said

    def __call__(self, connection: socket.socket, _peer: Peer) -> None:
        connection.sendall(b'{"ready":true}\n')
        connection.recv(4096)
        with contextlib.suppress(OSError):
            connection.sendall(self._said)


@pytest.mark.parametrize(
    "said",
    [
        b"",
        b"half",
        b"[]\n",
        b'{"rows":{}}\n',
        b'{"rows":[1]}\n',
        b'{"rows":[{}]}\n',
        b'{"rows":[{"hour":"1","is_counted":0,"is_merged":0,"card_ticks":1}]}\n',
        b'{"rows":[{"hour":1e300,"is_counted":0,"is_merged":0,"card_ticks":1}]}\n',
        b'{"rows":[{"hour":1,"is_counted":0,"is_merged":0,"card_ticks":NaN}]}\n',
        b'{"rows":[{"hour":1,"is_counted":2,"is_merged":0,"card_ticks":1}]}\n',
        b'{"rows":[],"more":true}\nx\n',
        b'{"error":5,"exit_code":"x"}\n',
    ],
)
def test_rows_of_a_wrong_kind_are_refused(folder: Path, said: bytes) -> None:
    with (
        reporting(folder / "s", Scripted(said)),
        pytest.raises(GuaError) as caught,
        RemoteReader(folder / "s", SHARED) as reader,
    ):
        reader.rows("hours", BOUNDS)
    assert "\n" not in str(caught.value)


def test_rows_contain_no_column_that_was_not_requested() -> None:
    row = {"key": "k", "value": 1, "is_default": True, "more": "x"}
    assert checked_row(SHARED["rules"], row) == {"key": "k", "value": 1, "is_default": True}


@pytest.fixture
def gua(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Callable[..., Any]:
    """Return ``gua report`` with a home of its own, and none of this host's agents."""
    for name in [name for name in os.environ if name.startswith("GUA_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("GUA_HOME", str(tmp_path))
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("GUA_HOST_LOCK", f"test-{os.getpid()}-{tmp_path.name}")
    monkeypatch.setenv("GUA_RUN_DIR", str(tmp_path / "run"))

    def run(*arguments: str) -> tuple[int, str, str]:
        code = main(["report", "--until", "2026-03-27", *arguments])
        printed = capsys.readouterr()
        return code, printed.out, printed.err

    return run


def test_without_an_own_store_the_agent_is_queried(gua: Callable[..., Any], tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    for path in (tmp_path / "run" / "agent.sock", tmp_path / "agent.sock"):
        with reporting(path, from_store(lambda: nullcontext(lab()))):
            code, out, err = gua()
        assert (code, err) == (0, "")
        assert "gpu-1" in out


def test_a_given_socket_is_queried_before_the_own_store(
    gua: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "store").mkdir()
    (tmp_path / "store" / "gua-store.json").write_text("{}")
    monkeypatch.setattr(opening, "open_reader", lambda _: pytest.fail("opened"))
    with reporting(tmp_path / "other.sock", from_store(lambda: nullcontext(lab()))):
        assert gua("--socket", str(tmp_path / "other.sock"))[0] == 0
    code, _, err = gua("--socket", str(tmp_path / "other.sock"))
    assert (code, err) == (3, f"gua: no agent listens at {tmp_path / 'other.sock'}\n")


def test_ones_own_store_is_opened_though_an_agent_answers(
    gua: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "store").mkdir()
    (tmp_path / "store" / "gua-store.json").write_text("{}")
    opened: list[str | None] = []

    @contextlib.contextmanager
    def open_reader(store: str | None) -> Iterator[ViewReader]:
        opened.append(store)
        yield lab()

    monkeypatch.setattr(opening, "open_reader", open_reader)
    with reporting(tmp_path / "agent.sock", Scripted(b"")):
        assert gua()[0] == 0
        assert gua("--store", "chdb:///elsewhere")[0] == 0
    assert opened == [None, "chdb:///elsewhere"]


def test_with_neither_store_nor_agent_the_error_says_how_to_start(gua: Callable[..., Any], tmp_path: Path) -> None:
    code, out, err = gua()
    assert (code, out) == (3, "")
    assert err == (
        f"gua: nothing is recorded in {tmp_path / 'store'} yet: start with gua daemon\njust looking: gua demo\n"
    )


def test_a_store_and_a_socket_are_too_much(gua: Callable[..., Any]) -> None:
    code, _, err = gua("--store", "chdb:///x", "--socket", "/y")
    assert code == 2
    assert "not both" in err


def test_an_option_beats_the_environment(
    gua: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GUA_STORE", "chdb:///nowhere")
    with reporting(tmp_path / "s", from_store(lambda: nullcontext(lab()))):
        assert gua("--socket", str(tmp_path / "s"))[0] == 0


@contextlib.contextmanager
def standing_in(monkeypatch: pytest.MonkeyPatch, code: str) -> Iterator[list[subprocess.Popen[bytes]]]:
    """Let the agent start this code instead of ``gua answer``; yields what it started."""
    started: list[subprocess.Popen[bytes]] = []
    popen = subprocess.Popen

    def start(arguments: list[str], **options: object) -> subprocess.Popen[bytes]:
        started.append(popen([sys.executable, "-c", code, arguments[-1]], **options))  # type: ignore[call-overload]
        return started[-1]

    monkeypatch.setattr(subprocess, "Popen", start)
    yield started


def wait_for_end(child: subprocess.Popen[bytes], seconds: float) -> None:
    deadline = time.monotonic() + seconds
    while child.poll() is None and time.monotonic() < deadline:
        time.sleep(0.02)
    assert child.poll() is not None


READY_THEN_SLEEP = (
    "import socket, sys, time; s = socket.socket(fileno=int(sys.argv[1]));"
    "s.sendall(b'{\"ready\":true}\\n'); time.sleep(600)"
)


def test_a_child_whose_user_is_gone_is_ended(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(children, "_GRACE_SECONDS", 0.5)
    with (
        standing_in(monkeypatch, READY_THEN_SLEEP) as started,
        reporting(folder / "s", answer_in_child(home=folder, store=None)),
    ):
        with RemoteReader(folder / "s", SHARED):
            assert started[0].poll() is None
        wait_for_end(started[0], 5)


def test_a_child_that_takes_too_long_is_ended_and_the_user_gets_an_error(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with (
        standing_in(monkeypatch, READY_THEN_SLEEP) as started,
        reporting(folder / "s", answer_in_child(home=folder, store=None, seconds=0.5)),
    ):
        # On a machine that is busy the time may be over before the child is ready.
        with pytest.raises(UnavailableError, match=r"more than 0\.5 s"), RemoteReader(folder / "s", SHARED) as reader:
            reader.rows("rules", {})
        wait_for_end(started[0], 5)


def test_a_child_that_crashes_is_an_error_of_one_line(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with (
        standing_in(monkeypatch, "import os; os.abort()"),
        reporting(folder / "s", answer_in_child(home=folder, store=None)),
        pytest.raises(UnavailableError, match="ended early"),
        RemoteReader(folder / "s", SHARED),
    ):
        pass


def test_stopping_the_agent_ends_its_children(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(children, "_GRACE_SECONDS", 0.2)
    with standing_in(monkeypatch, READY_THEN_SLEEP) as started:
        with reporting(folder / "s", answer_in_child(home=folder, store=None)):
            reader = RemoteReader(folder / "s", SHARED)
        wait_for_end(started[0], 5)
        reader.close()


def test_the_child_command_run_by_hand_names_gua_report(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["answer", "--fd", "999"]) == 3
    assert "gua report" in capsys.readouterr().err


def test_a_socket_without_a_listener_is_a_separate_error(tmp_path: Path) -> None:
    with pytest.raises(NobodyError), RemoteReader(tmp_path / "none", SHARED):
        pass


@pytest.fixture(scope="module")
def home() -> Iterator[Path]:
    """Yield a home with a store of its own."""
    with shared_folder() as made:
        path = made / "home"
        path.mkdir(0o700)
        assert main(["demo", "--days", "1", "--store", f"chdb://{path / 'store'}"]) == 0
        yield path


@pytest.mark.engine
class TestWithTheEngine:
    @staticmethod
    def report(reader: ViewReader) -> str:
        out = io.StringIO()
        render_report(reader, ReportRequest(now_ms=time.time_ns() // 1_000_000), width=100, out=out)
        return out.getvalue()

    def test_reports_at_once_all_succeed_and_are_the_same(
        self, home: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("GUA_HOME", str(home))
        monkeypatch.delenv("GUA_STORE", raising=False)
        texts: list[str] = []
        failed: list[Exception] = []

        def ask() -> None:
            try:
                with RemoteReader(folder / "s", SHARED) as reader:
                    texts.append(self.report(reader))
            except Exception as error:  # noqa: BLE001 - passed to the test
                failed.append(error)

        with reporting(folder / "s", answer_in_child(home=home, store=None)):
            crowd = [threading.Thread(target=ask) for _ in range(3)]  # one more than a user may have at a time
            for each in crowd:
                each.start()
            with opening.open_report_source(None, None) as own:  # the owner reports at the same time
                expected = self.report(own)
            for each in crowd:
                each.join()
            other = as_user(other_uid(), lambda: self._ask_as_other(folder / "s"))
        assert failed == []
        assert texts == [expected] * 3
        assert other == expected

    def _ask_as_other(self, path: Path) -> str:
        with RemoteReader(path, SHARED) as reader:
            return self.report(reader)

    def test_the_shipped_views_answer_with_these_columns(self, home: Path) -> None:
        parameters: Mapping[str, object] = {
            "since_ms": 0,
            "until_ms": 4_102_444_800_000,
            "hosts": [],
            "timezone": "UTC",
            "use_hourly": 0,
            "by": "model",
            "long_streak_ms": 1_800_000,
            "stuck_ms": 600_000,
            "current_since_ms": 0,
            "days": [-1],
            "unmerged_since_ms": 0,
            "false_alarm_ms": 600_000,
            "cell_ms": 86_400_000,
            "in_parts": 0,
            "limits_ms": [0, 300_000],
            "price_models": [],
            "price_starts": [],
        }
        with opening.open_writer(f"chdb://{home / 'store'}") as store:
            every = [row["hour"] for row in store.rows("hours", {one: parameters[one] for one in BOUNDS})]
            parameters = {**parameters, "tick_hours": every, "hours": every}
            card = next(iter(store.rows("explain_cards", {"hosts": []})))
            parameters |= {"host": card["host"], "gpu": card["gpu"], "at_ms": card["last_ms"], "limit": 2}
            for name, view in SHARED.items():
                rows = list(store.rows(name, {one: parameters[one] for one in sorted(view.parameters)}))
                assert rows or name in RARE, name
                for row in rows:
                    checked_row(view, json.loads(json.dumps(dict(row))))
