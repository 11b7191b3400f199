"""What a reservation is declared to be for stays with it."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

from fakes.desks import asked, got, opened
from gua.core.workloads import Work
from gua.reservations.ledger import Ledger

QWEN = Work("serving", "qwen")


def told(path: Path) -> list[tuple[str | None, str | None]]:
    with closing(Ledger(path)) as ledger:
        return [(each.workload_kind, each.workload_model) for each in ledger.open_ones()]


def test_labels_outlast_the_agent_with_the_reservation_and_in_the_queue(tmp_path: Path) -> None:
    desk = opened(tmp_path / "reservations")
    got(desk, asked(4, workload=QWEN))
    waiting = asked(1, uid=1001, workload=QWEN)
    desk.enter(waiting)
    desk.keep_place(waiting)
    desk.close()
    assert told(tmp_path / "reservations/reservations.db") == [("serving", "qwen")]
    again = opened(tmp_path / "reservations")
    (kept,) = again.queue()
    assert (kept.workload_kind, kept.workload_model) == ("serving", "qwen")
    again.close()


def test_a_file_of_before_labels_goes_on(tmp_path: Path) -> None:
    desk = opened(tmp_path / "reservations")
    got(desk, asked(1))
    desk.close()
    path = tmp_path / "reservations/reservations.db"
    with closing(sqlite3.connect(path, isolation_level=None)) as older:
        for name in ("workload_kind", "workload_model"):
            older.execute(f"ALTER TABLE reservations DROP COLUMN {name}")
    assert told(path) == [(None, None)]
    assert not [*path.parent.glob("*.damaged-*")]
    desk = opened(tmp_path / "reservations")
    got(desk, asked(1, workload=QWEN))
    desk.close()
    assert told(path) == [(None, None), ("serving", "qwen")]
