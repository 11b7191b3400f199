"""What a reservation is declared to be for stays with it."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from fakes.desks import asked, got, opened
from gua.reservations.ledger import Ledger

QWEN = {"workload_kind": "serving", "workload_model": "qwen"}


def told(path: Path) -> list[tuple[str | None, str | None]]:
    with closing(Ledger(path)) as ledger:
        return [(each.workload_kind, each.workload_model) for each in ledger.open_ones()]


def test_labels_outlast_the_agent_with_the_reservation_and_in_the_queue(tmp_path: Path) -> None:
    desk = opened(tmp_path / "reservations")
    got(desk, asked(4, **QWEN))
    waiting = asked(1, uid=1001, **QWEN)
    desk.enter(waiting)
    desk.keep_place(waiting)
    desk.close()
    assert told(tmp_path / "reservations/reservations.db") == [("serving", "qwen")]
    again = opened(tmp_path / "reservations")
    (kept,) = again.queue()
    assert (kept.workload_kind, kept.workload_model) == ("serving", "qwen")
    again.close()


def test_a_file_of_another_version_is_set_aside(tmp_path: Path) -> None:
    path = tmp_path / "reservations.db"
    with closing(Ledger(path)), closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("PRAGMA user_version = 2")
    with closing(Ledger(path)) as ledger:
        assert ledger.set_aside is not None
        assert ledger.open_ones() == []


@pytest.mark.parametrize("damage", ["{", "[]", "{}", '{"kind": "run"}'])
def test_a_file_with_a_damaged_row_is_set_aside(tmp_path: Path, damage: str) -> None:
    desk = opened(tmp_path)
    got(desk, asked(1))
    desk.close()
    path = tmp_path / "reservations.db"
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        assert other.execute("UPDATE reservations SET reservation = ?", (damage,)).rowcount == 1
    with closing(Ledger(path)) as ledger:
        assert ledger.set_aside is not None
        assert ledger.open_ones() == []
