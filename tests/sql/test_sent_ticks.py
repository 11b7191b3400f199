"""Reports of one open store: the ticks of a window are rolled up once for a report, and anew for the next."""

from __future__ import annotations

import pytest

from fakes.fleet import agent_tick, spooled_ticks
from gua.store.database import Store
from sql.engine import Engine

BEGIN_MS = 1_774_569_600_000
WINDOW = {"since_ms": BEGIN_MS, "until_ms": BEGIN_MS + 600_000, "hosts": []}
READ = {**WINDOW, "tick_hours": [BEGIN_MS // 3_600_000], "use_hourly": 0, "timezone": "UTC"}


@pytest.mark.parametrize("opened", ["embedded", "served"], indirect=True)
def test_a_report_reads_the_ticks_that_came_since_the_last_one(engine: Engine) -> None:
    writer, reader = engine.writer, engine.reader
    assert isinstance(writer, Store)
    assert isinstance(reader, Store)

    for number in (1, 2):
        writer.land([*spooled_ticks([agent_tick("a", BEGIN_MS + number * 30_000)])])
        assert len(reader.rows("hours", WINDOW)) == 1
        (card,) = reader.rows("overview", READ)
        found = {str(row["state"]): int(row["card_ticks"]) for row in reader.rows("time_of_day", READ)}
        assert found == {"active": card["active_card_ticks"]} == {"active": number}
