"""What the commands share: ticks to a store or an endpoint, and a store to report from."""

from __future__ import annotations

import os
import tempfile
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from fakes.spooled import extend
from gua.agent.delivery import DrainResult
from gua.app import delivery, opening
from gua.app.destinations import ENDPOINT, agent_destinations
from gua.app.opening import STORE, store_address
from gua.app.single_tick import spool_tick
from gua.core.errors import DataError, NothingRecordedError, TransientError, UnavailableError, UsageError
from gua.core.ports import Mark
from gua.core.tick import CardReading, Origin, Tick
from gua.core.words import Source
from gua.otlp import encode as encoding
from gua.otlp.decode import decode
from gua.otlp.encode import encode
from gua.report.rows import EXTENT
from gua.report.window import choose_extents
from gua.spool.queue import Spool
from gua.state.directory import Home
from gua.store.database import open_store
from gua.store.directory import StoreDirectory
from servers.tap import tapped

START_MS = 1_774_440_000_000
CLOSED_PORT = "http://127.0.0.1:1"


def tick(number: int, source: Source = Source.AGENT) -> Tick:
    card = CardReading(uuid="GPU-1", duration_ms=30_000, gpu_time_ms=30_000, utilization=0.5)
    origin = Origin(host="node-1", source=source, interval_ms=30_000)
    return Tick(ts_ms=START_MS + number * 30_000, origin=origin, cards=(card,))


def by_points(one: Tick) -> Tick:
    """Return the tick with a number that goes by its points alone."""
    return replace(one, cards=tuple(replace(card, energy_total_mj=2**60) for card in one.cards))


def sampler(number: int) -> Callable[[Mark | None], tuple[Tick, Mark]]:
    """Return a sampler of one tick; its mark has the tick's number."""
    return lambda _: (tick(number), Mark(ts_ms=tick(number).ts_ms, monotonic_ms=number, boot_id="boot"))


def card_ticks(address: str) -> int:
    with open_store(address) as store:
        return int(store.select("SELECT count() AS ticks FROM gua.card_ticks FINAL")[0]["ticks"])


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Give every test a home of its own, and none of the caller's settings."""
    for name in [name for name in os.environ if name.startswith(("GUA_", "OTEL_"))]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("GUA_HOME", str(tmp_path / "home"))
    return tmp_path / "home"


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return where temporary files are made."""
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    return folder


def test_the_store_is_the_one_named_else_the_environments_else_the_homes(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert store_address(None) == f"chdb://{home}/store"
    monkeypatch.delenv("GUA_HOME")
    assert store_address(None) == f"chdb://{home.parent}/.gua/store"
    monkeypatch.setenv("GUA_STORE", "clickhouse://db")
    assert store_address(None) == "clickhouse://db"
    assert store_address("chdb:///mine") == "chdb:///mine"


@pytest.mark.engine
def deliver_agent_tick(
    sample: Callable[[Mark | None], tuple[Tick, Mark]], *, store: str | None, endpoint: str | None, home: Path
) -> DrainResult:
    destinations = agent_destinations(store, endpoint, home)
    with Spool(home / "spool.db", destinations=[destination.name for destination in destinations]) as spool:
        spool_tick(spool, sample)
        drained = delivery.deliver_spooled(spool, destinations, Home(home)).values()
    return DrainResult(landed=sum(each.landed for each in drained), refused=sum(each.refused for each in drained))


class TestDeliver:
    def test_to_a_store(self, tmp_path: Path, temporary: Path, home: Path) -> None:
        address = f"chdb://{tmp_path / 'store'}"
        seen: list[int] = []
        done = delivery.deliver((tick(n) for n in range(5)), store=address, on_tick=seen.append)
        assert done == 5
        assert sum(seen) == 5
        assert card_ticks(address) == 5
        assert list(temporary.iterdir()) == []
        assert not home.exists()

    def test_again_changes_nothing(self, made_store: Callable[[Path], str], tmp_path: Path) -> None:
        address = made_store(tmp_path / "store")
        for _ in range(2):
            delivery.deliver((tick(n) for n in range(5)), store=address)
        assert card_ticks(address) == 5

    @pytest.mark.parametrize("name", ["my home #1 100% 'x' %20", "[1] \\ {a,b} *"])
    def test_to_the_default_store_whatever_the_homes_name(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
    ) -> None:
        odd = tmp_path / name
        monkeypatch.setenv("GUA_HOME", str(odd))
        assert delivery.deliver(map(tick, range(3))) == 3
        assert sorted(path.name for path in odd.iterdir()) == ["store"]
        assert sorted(path.name for path in (odd / "store").iterdir()) == ["data", "gua-store.json", "lock"]
        with opening.open_reader(None) as store:
            assert len(store.rows("extent", {"hosts": []})) == 1

    def test_that_fails_half_way_keeps_what_was_delivered_and_leaves_no_spool(
        self, made_store: Callable[[Path], str], tmp_path: Path, temporary: Path
    ) -> None:
        def ticks() -> Iterator[Tick]:
            yield from (tick(n) for n in range(delivery.BATCH_TICKS))
            msg = "the rest cannot be read"
            raise UnavailableError(msg)

        address = made_store(tmp_path / "store")
        with pytest.raises(UnavailableError, match="the rest"):
            delivery.deliver(ticks(), store=address)
        assert card_ticks(address) == delivery.BATCH_TICKS
        assert list(temporary.iterdir()) == []

    def test_a_refused_tick_is_reported_and_the_others_are_stored(
        self, made_store: Callable[[Path], str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        damaged = by_points(tick(1))
        whole = encoding.encode
        monkeypatch.setattr(encoding, "encode", lambda one: b"abcde" if one == damaged else whole(one))
        address = made_store(tmp_path / "store")
        with pytest.raises(DataError, match="refused 1 of 4 ticks"):
            delivery.deliver([tick(0), damaged, by_points(tick(2)), tick(3)], store=address)
        assert card_ticks(address) == 3

    def test_delivering_no_tick_stores_nothing(self, tmp_path: Path) -> None:
        assert delivery.deliver([], store=f"chdb://{tmp_path / 'store'}") == 0


def test_ticks_go_to_an_endpoint_and_no_store_is_made(home: Path) -> None:
    with tapped() as (endpoint, requests):
        done = delivery.deliver((tick(n) for n in range(3)), endpoint=endpoint)
    assert done == 3
    assert b"".join(requests) == b"".join(encode(tick(n)) for n in range(3))
    assert not home.exists()


def test_a_store_and_an_endpoint_are_one_too_many() -> None:
    with pytest.raises(UsageError, match="not both"):
        delivery.deliver([tick(1)], store="chdb:///nowhere", endpoint=CLOSED_PORT)


class TestAgentTick:
    @pytest.mark.engine
    def test_goes_to_a_store_and_an_endpoint_where_both_are_named(self, home: Path, tmp_path: Path) -> None:
        address = f"chdb://{tmp_path / 'store'}"
        with tapped() as (endpoint, requests):
            deliver_agent_tick(sampler(1), store=address, endpoint=endpoint, home=home)
        assert len(requests) == 1
        assert card_ticks(address) == 1

    def test_goes_to_an_endpoint_alone(self, home: Path) -> None:
        with tapped() as (endpoint, requests):
            done = deliver_agent_tick(sampler(1), store=None, endpoint=endpoint, home=home)
        assert done == DrainResult(landed=1)
        assert [decode(body).ts_ms for body in requests] == [tick(1).ts_ms]
        assert sorted(path.name for path in home.iterdir()) == ["spool.db", "spool.db.lock"]

    def test_goes_to_the_endpoint_also_where_the_environment_names_a_store(
        self, home: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("GUA_STORE", "clickhouse://db")
        with tapped() as (endpoint, requests):
            deliver_agent_tick(sampler(1), store=None, endpoint=endpoint, home=home)
        assert len(requests) == 1

    def test_that_cannot_be_delivered_is_kept_with_its_mark_and_goes_with_the_next(
        self, home: Path, tmp_path: Path
    ) -> None:
        (tmp_path / "file").write_text("")
        with pytest.raises(
            UnavailableError, match=r"what was not delivered is kept in .*spool\.db and goes with the next"
        ):
            deliver_agent_tick(sampler(1), store=f"chdb://{tmp_path}/file/store", endpoint=None, home=home)
        with Spool(home / "spool.db", destinations=(STORE,)) as spool:
            assert spool.depth(STORE) == 1
            assert spool.mark() == Mark(ts_ms=tick(1).ts_ms, monotonic_ms=1, boot_id="boot")

        marks: list[Mark | None] = []

        def second(mark: Mark | None) -> tuple[Tick, Mark]:
            marks.append(mark)
            return sampler(2)(mark)

        with tapped() as (endpoint, requests):
            done = deliver_agent_tick(second, store=None, endpoint=endpoint, home=home)
        assert done == DrainResult(landed=2)
        assert b"".join(requests) == encode(tick(1)) + encode(tick(2))
        assert marks == [Mark(ts_ms=tick(1).ts_ms, monotonic_ms=1, boot_id="boot")]

    def test_a_tick_to_a_server_that_is_down_raises_an_error_that_can_be_retried(self, home: Path) -> None:
        with pytest.raises(TransientError, match=r"cannot reach .*\(what was not delivered is kept"):
            deliver_agent_tick(sampler(1), store="clickhouse://127.0.0.1:1", endpoint=None, home=home)

    def test_a_home_that_cannot_be_made_is_one_line(self, tmp_path: Path) -> None:
        (tmp_path / "file").write_text("")
        with pytest.raises(UnavailableError, match=r"the spool .*file/home/spool.db cannot be used: Not a directory"):
            deliver_agent_tick(sampler(1), store=None, endpoint=CLOSED_PORT, home=tmp_path / "file" / "home")

    def test_a_damaged_spool_is_set_aside_and_reported(self, home: Path, capfd: pytest.CaptureFixture[str]) -> None:
        home.mkdir()
        (home / "spool.db").write_bytes(b"no database" * 1000)
        with tapped() as (endpoint, _):
            deliver_agent_tick(sampler(1), store=None, endpoint=endpoint, home=home)
        assert "note: the spool was damaged and is kept as" in capfd.readouterr().err


class TestReader:
    @pytest.mark.parametrize("store", [None, "chdb:///nowhere/at/all", "/nowhere/at/all"])
    def test_a_missing_store_is_reported_with_how_to_fill_one(self, store: str | None, home: Path) -> None:
        start = "gua daemon" if store is None else "gua daemon --store /nowhere/at/all"
        with (
            pytest.raises(NothingRecordedError, match=f"nothing is recorded in .* yet: start with {start}$") as raised,
            opening.open_reader(store),
        ):
            pass
        assert raised.value.hints == ("just looking: gua demo",)
        assert not home.exists()
        assert not Path("/nowhere").exists()

    @pytest.mark.engine
    def test_a_store_without_ticks_says_the_same_as_one_that_is_not_there(self, home: Path) -> None:
        with opening.open_writer(None):
            pass
        with (
            pytest.raises(NothingRecordedError, match=r"nothing is recorded in .* yet: start with gua daemon$"),
            opening.open_reader(None) as store,
        ):
            choose_extents(EXTENT.rows(store, {"hosts": []}), ())
        assert (home / "store").exists()

    @pytest.mark.engine
    def test_lands_first_what_the_agent_left_in_its_spool_where_that_is_needed(self, home: Path) -> None:
        for first, needs_newest, depth in ((0, False, 0), (3, False, 3), (3, True, 0)):  # without a store there is none
            with Spool(home / "spool.db", destinations=(STORE,)) as spool:
                if not spool.depth(STORE):
                    extend(spool, ((tick(n).ts_ms, encode(tick(n))) for n in range(first, first + 3)))
            with opening.open_reader(None, needs_newest=needs_newest) as store:
                (extent,) = store.rows("extent", {"hosts": []})
            assert extent["last_ms"] == tick(2 if depth else first + 2).ts_ms
            with Spool(home / "spool.db", destinations=(STORE,)) as spool:
                assert spool.depth(STORE) == depth

    @pytest.mark.engine
    def test_leaves_alone_what_waits_for_an_endpoint(self, home: Path) -> None:
        with Spool(home / "spool.db", destinations=(ENDPOINT,)) as spool:
            extend(spool, [(tick(1).ts_ms, encode(tick(1)))])
        with pytest.raises(UnavailableError, match="nothing is recorded"), opening.open_reader(None):
            pass
        delivery.deliver([tick(2)])
        with opening.open_reader(None) as store:
            (extent,) = store.rows("extent", {"hosts": []})
        assert extent["first_ms"] == tick(1).ts_ms  # the second tick's start: the first did not land
        with Spool(home / "spool.db", destinations=(ENDPOINT,)) as spool:
            assert spool.depth(ENDPOINT) == 1

    @pytest.mark.engine
    def test_a_reader_of_another_store_leaves_the_spools_ticks_in_place(self, home: Path, tmp_path: Path) -> None:
        other = f"chdb://{tmp_path / 'other'}"
        delivery.deliver([tick(5)], store=other)
        with Spool(home / "spool.db", destinations=(STORE,)) as spool:
            extend(spool, [(tick(1).ts_ms, encode(tick(1)))])
        with opening.open_reader(other) as store:
            (extent,) = store.rows("extent", {"hosts": []})
        assert extent["last_ms"] == tick(5).ts_ms
        with Spool(home / "spool.db", destinations=(STORE,)) as spool:
            assert spool.depth(STORE) == 1


@pytest.mark.engine
def test_a_home_that_gpu_usage_audit_1_uses_keeps_its_files(home: Path) -> None:
    home.mkdir()
    theirs = {"gua.db": b"SQLite format 3\0" + bytes(range(256)) * 16, "gua.pid": b"1\n", "gua.log": b"started\n"}
    for name, content in theirs.items():
        (home / name).write_bytes(content)
    stamps = {name: (home / name).stat() for name in theirs}

    deliver_agent_tick(sampler(1), store=None, endpoint=None, home=home)
    delivery.deliver([replace(tick(2), origin=replace(tick(2).origin, source=Source.IMPORT, host="imported"))])
    with opening.open_reader(None) as store:
        assert {row["host"] for row in store.rows("extent", {"hosts": []})} == {"node-1", "imported"}

    for name, content in theirs.items():
        assert (home / name).read_bytes() == content
        assert (home / name).stat().st_mtime_ns == stamps[name].st_mtime_ns
        assert (home / name).stat().st_mode == stamps[name].st_mode
    assert {path.name for path in home.iterdir()} >= {*theirs, "spool.db", "store"}


@pytest.mark.parametrize(
    ("environment", "store", "endpoint", "meant"),
    [
        ({"GUA_STORE": "chdb:///a"}, "chdb:///a", "http://b", (None, "http://b")),
        ({"GUA_ENDPOINT": "http://b"}, "chdb:///a", "http://b", ("chdb:///a", None)),
        ({}, "chdb:///a", None, ("chdb:///a", None)),
        ({}, None, None, (None, None)),
    ],
)
def test_an_option_as_given_beats_one_of_the_environment(
    environment: dict[str, str],
    store: str | None,
    endpoint: str | None,
    meant: tuple[str | None, str | None],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in ("GUA_STORE", "GUA_ENDPOINT"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    assert delivery.single_destination(store, endpoint) == meant


@pytest.mark.engine
def test_a_writer_that_waits_for_a_store_names_the_pid_that_uses_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    held = StoreDirectory(tmp_path / "store")
    held.hold()
    timer = threading.Timer(1.5, held.release)
    timer.start()
    with opening.open_writer(f"chdb://{tmp_path / 'store'}"):
        timer.join()
    (line,) = capsys.readouterr().err.splitlines()
    assert line == f"gua: the store {tmp_path / 'store'} is in use by pid {os.getpid()}: waiting for it, 60 s at most"
