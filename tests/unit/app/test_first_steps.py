"""Messages before anything is recorded, and right after the agent was started."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from fakes.spooled import extend
from gua.app.destinations import Destination, agent_destinations
from gua.app.first_steps import after_start, nothing_recorded, older_history
from gua.app.local_agent import host_socket, places, public_socket
from gua.app.opening import store_address
from gua.app.settings import AgentSettings
from gua.core.errors import NothingRecordedError, UnavailableError
from gua.procfs.reader import ProcFs
from gua.spool.queue import Spool
from gua.spool.waiting import awaiting
from gua.state.directory import Home
from gua.state.pid_file import last_failure
from gua.store.dsn import EmbeddedDsn

DONE = "2026-03-25T04:47:19Z INFO the agent stops on request and has released the driver\n"
ENDPOINT = Destination(name="endpoint", where="https://otel.example:4318", endpoint="https://otel.example:4318")


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Home:
    for name in ("GUA_STORE", "GUA_ENDPOINT", "GUA_SOCKET"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("GUA_HOST_LOCK", f"test-{os.getpid()}-{tmp_path.name}")
    monkeypatch.setenv("GUA_RUN_DIR", str(tmp_path / "run"))
    made = Home(tmp_path / ".gua")
    made.path.mkdir()
    monkeypatch.setenv("GUA_HOME", str(made.path))
    return made


class TestTheLastFailure:
    def test_is_the_error_that_ends_the_log_with_its_time(self, home: Home) -> None:
        home.log_file.write_text(f"{DONE}gua: no driver\x1b[31m: install it\n")
        os.utime(home.log_file, (1_774_440_000, 1_774_440_000))
        assert last_failure(home.log_file) == "2026-03-25 12:00 UTC: no driver[31m: install it"
        error = nothing_recorded(EmbeddedDsn(path=home.store), home.path)
        assert "as the last start of the agent failed (2026-03-25 12:00 UTC: no driver[31m: install it)" in str(error)
        assert error.hints == ("everything that it needs, checked: gua doctor", "just looking: gua demo")

    @pytest.mark.parametrize("log", [None, "", "\n", DONE, f"gua: no driver\n{DONE}", "x" * 100_000])
    def test_the_last_failure_is_none_if_the_agent_started_or_was_never_started(
        self, log: str | None, home: Home
    ) -> None:
        if log is not None:
            home.log_file.write_text(log)
        assert last_failure(home.log_file) is None
        assert isinstance(nothing_recorded(EmbeddedDsn(path=home.store), home.path), NothingRecordedError)


def test_an_older_history_is_one_of_the_users_own_directory(home: Home, tmp_path: Path) -> None:
    assert older_history() is None
    (home.path / "gua.db").mkdir()
    assert older_history() is None
    (home.path / "gua.db").rmdir()
    (home.path / "gua.db").touch()
    assert older_history() == tmp_path / ".gua" / "gua.db"
    assert (
        nothing_recorded(EmbeddedDsn(path=home.store), home.path)
        .hints[0]
        .endswith(f": gua import gua-sqlite {home.path / 'gua.db'}")
    )


def test_a_spool_awaits_a_destination_only_while_it_holds_ticks_for_it(home: Home) -> None:
    with Spool(home.spool, destinations=("store", "endpoint")) as spool:
        assert awaiting(home.spool) == frozenset()
        extend(spool, [(1_774_440_000_000, b"1"), (1_774_440_030_000, b"2")])
        assert awaiting(home.spool) == {"store", "endpoint"}
        (first, last) = (tick.id for tick in spool.peek("store", 2))
        spool.acknowledge("store", first)
        assert awaiting(home.spool) == {"store", "endpoint"}
        spool.acknowledge("store", last)
        assert awaiting(home.spool) == {"endpoint"}


def test_a_plain_path_is_a_store_and_a_lone_word_is_not(
    home: Home, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert store_address("/data/my store") == "chdb:///data/my%20store"
    assert store_address("./s") == f"chdb://{tmp_path}/s"
    assert store_address("localhost") == "localhost"
    (one,) = agent_destinations(str(home.store), None, home.path)
    assert one.name == "store"  # the same place under another name of it
    monkeypatch.setenv("GUA_STORE", "/data")
    assert store_address(None) == "chdb:///data"


def settings(home: Home, *destinations: Destination, public: Path | None = None) -> AgentSettings:
    return AgentSettings(
        interval_ms=30_000, procfs=Path("/proc"), home=home, destinations=destinations, public_socket=public
    )


def test_after_the_start_it_says_where_ticks_go_and_what_to_type(home: Home) -> None:
    (own,) = agent_destinations(None, None, home.path)
    assert [*after_start(settings(home, own), os.environ)] == [
        f"ticks go to {home.store}",
        "next: gua status shows the cards now, gua report the hours so far, gua stop ends it",
    ]
    (other,) = agent_destinations("/data/my store", None, home.path)
    first, then = after_start(settings(home, other, ENDPOINT, public=Path("/run/gua/agent.sock")), os.environ)
    assert first == (
        "ticks go to /data/my store and https://otel.example:4318; all users of this host may ask (/run/gua/agent.sock)"
    )
    assert "gua report --store '/data/my store' the hours" in then
    _, then = after_start(settings(Home(Path("/var/lib/gua")), ENDPOINT), os.environ)
    assert then == (
        "next: GUA_HOME=/var/lib/gua gua status shows the cards now, GUA_HOME=/var/lib/gua gua stop ends it"
    )


class TestWhereAllUsersAreAnswered:
    @pytest.mark.skipif(os.geteuid() != 0, reason="root's agent does it by itself")
    def test_root_makes_the_folder_for_all_to_enter(self, tmp_path: Path) -> None:
        os.umask(0o077)
        assert public_socket(None, os.environ) == host_socket(os.environ) == tmp_path / "run" / "agent.sock"
        assert (tmp_path / "run").stat().st_mode & 0o7777 == 0o755
        assert public_socket(None, os.environ) == tmp_path / "run" / "agent.sock"

    @pytest.mark.skipif(os.geteuid() != 0, reason="root's agent does it by itself")
    def test_with_hidepid_processes_are_shown_to_other_users_only_on_request(
        self, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(ProcFs, "hidepid", lambda _: "2")
        assert public_socket(None, os.environ) is None
        assert "(hidepid=2); with --socket PATH they are" in capsys.readouterr().err
        assert not (tmp_path / "run").exists()
        assert public_socket(tmp_path / "run" / "agent.sock", os.environ) == tmp_path / "run" / "agent.sock"

    def test_with_socket_off_the_agent_listens_nowhere_and_clients_try_the_usual_places(self, tmp_path: Path) -> None:
        assert public_socket(Path("off"), os.environ) is None
        assert not (tmp_path / "run").exists()
        usual = [tmp_path / ".gua" / "agent.sock", tmp_path / "run" / "agent.sock"]
        assert places(Path("off"), tmp_path / ".gua") == places(None, tmp_path / ".gua") == usual
        assert places(Path("/x"), tmp_path) == [Path("/x")]

    def test_another_place_is_taken_as_it_is_named(self, tmp_path: Path) -> None:
        assert public_socket(tmp_path / "s", os.environ) == tmp_path / "s"
        assert not (tmp_path / "run").exists()

    @pytest.mark.parametrize("mode", [0o777, 0o775])
    def test_a_folder_writable_by_others_is_skipped_by_default_and_refused_on_request(
        self, mode: int, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        (tmp_path / "run").mkdir()
        (tmp_path / "run").chmod(mode)
        monkeypatch.setattr(os, "geteuid", lambda: 0) if os.geteuid() else None
        assert public_socket(None, os.environ) is None
        printed = capsys.readouterr().err
        assert printed.startswith("note: other users of this host are not answered: ")
        with pytest.raises(UnavailableError, match="is not this user's own folder; make it with sudo install -d"):
            public_socket(tmp_path / "run" / "agent.sock", os.environ)

    @pytest.mark.skipif(os.geteuid() != 0, reason="root's agent does it by itself")
    def test_where_it_cannot_be_made_or_written_the_agent_goes_on_without(
        self, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(os, "access", lambda *_: False)  # a folder that is there, on a disk that is read-only now
        assert public_socket(None, os.environ) is None
        assert "run cannot be written; with --socket PATH they are" in capsys.readouterr().err
        monkeypatch.setenv("GUA_RUN_DIR", "/proc/gua")
        assert public_socket(None, os.environ) is None
        assert "/proc/gua cannot be made (" in capsys.readouterr().err
