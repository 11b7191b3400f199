"""What gua top shows of a store, on ticks of the last minutes."""

from __future__ import annotations

from gua.report.top.store import snapshot_of_store
from sql.engine import Engine
from sql.test_now import GIB, ago, card, insert_cards, process


def test_cards_and_holders_of_now_are_shown_and_silent_ones_are_unobserved(engine: Engine) -> None:
    born, times = ago(3600), {seconds: ago(seconds) for seconds in (70, 40, 10)}
    held = [
        {**card(seconds), "ts": ts, "memory_limit_bytes": 80 * GIB, "power_mw": 71_800} for seconds, ts in times.items()
    ]
    silent = {**card(600), "gpu": "GPU-z"}
    insert_cards(engine, [*held, silent])
    rows = [{**process(seconds, 1), "ts": ts, "created": born} for seconds, ts in times.items()]
    engine.insert_rows("process_ticks", [*rows, {**process(600, 2), "gpu": "GPU-z", "ts": silent["ts"]}])
    told = snapshot_of_store(engine.reader, where="here", hosts=["node-1"])

    shown, gone = told.cards
    assert (shown.gpu, shown.state, shown.utilization, shown.power_watts) == ("GPU-a", "idle-held", 0.0, 71.8)
    assert (shown.used_bytes, shown.limit_bytes, shown.interval_ms) == (8 * GIB, 80 * GIB, 30_000)
    assert shown.state_ms is not None
    assert 85_000 < shown.state_ms < 95_000
    assert told.due_ms is not None
    assert told.due_ms < 20_001
    assert (gone.gpu, gone.state, gone.last_state) == ("GPU-z", "unobserved", "idle-held")
    assert gone.state_ms is not None
    assert 600_000 <= gone.state_ms < 660_000
    assert [(one.pid, one.state, one.idle_ms) for one in told.holders] == [(1, "idle", 90_000), (2, "unobserved", None)]
