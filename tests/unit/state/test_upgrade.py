"""The state directory of an agent of the version before, as it left it: opened as before, and nothing in it is lost."""

from __future__ import annotations

from pathlib import Path

import pytest

from gua.otlp.decode import decode
from gua.spool.queue import Spool
from gua.spool.waiting import destinations_of
from gua.state.compression import decompress
from gua.state.directory import examine_home, prepare_home
from gua.state.enrollment import read_enrollment

BEFORE = Path(__file__).parents[2] / "fixtures" / "state" / "3"
ENDPOINT = "http://127.0.0.1:9"
TICKS = 7


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """Return a copy of what an agent of schema version 3 left: ticks for an endpoint that did not answer."""
    folder = tmp_path / "home"
    folder.mkdir(mode=0o700)
    for file in BEFORE.iterdir():
        (folder / file.name).write_bytes(file.read_bytes())
        (folder / file.name).chmod(0o600)
    return folder


def test_the_directory_is_taken_as_it_is(home: Path) -> None:
    assert examine_home(home) is None
    assert prepare_home(home).path == home
    assert {file.name for file in home.iterdir()} >= {file.name for file in BEFORE.iterdir()}


def test_every_tick_that_waits_can_be_sent(home: Path) -> None:
    with Spool(home / "spool.db", destinations=None) as spool:
        (destination,) = destinations_of(home / "spool.db")
        waiting = spool.peek(destination, 100)
        mark = spool.mark()
    assert len(waiting) == TICKS
    ticks = [decode(decompress(tick.blob)) for tick in waiting]
    assert [tick.ts_ms for tick in ticks] == [tick.ts_ms for tick in waiting]
    assert {tick.origin.host for tick in ticks} == {"node-1"}
    assert all(len(tick.cards) == 1 for tick in ticks)
    assert mark is not None
    assert mark.ts_ms == ticks[-1].ts_ms


def test_the_host_stays_enrolled(home: Path) -> None:
    enrollment = read_enrollment(home)
    assert enrollment is not None
    assert (enrollment.endpoint, enrollment.token) == (ENDPOINT, "a-token-of-a-test")
