"""What gua top shows of a store, on ticks of the last minutes."""

from __future__ import annotations

from gua.report.top.live import snapshot_of_store
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
    found = snapshot_of_store(engine.reader, where="here", hosts=["node-1"])

    shown, gone = found.cards
    assert (shown.gpu, shown.state, shown.utilization, shown.power_watts) == ("GPU-a", "idle-held", 0.0, 71.8)
    assert (shown.memory_used_bytes, shown.memory_limit_bytes, shown.interval_ms) == (8 * GIB, 80 * GIB, 30_000)
    assert shown.state_ms is not None
    assert 85_000 < shown.state_ms < 95_000
    assert found.due_ms is not None
    assert found.due_ms < 20_001
    assert (gone.gpu, gone.state, gone.last_state) == ("GPU-z", "unobserved", "idle-held")
    assert gone.state_ms is not None
    assert 600_000 <= gone.state_ms < 660_000
    assert [(one.pid, one.state, one.idle_ms) for one in found.holders] == [
        (1, "idle", 90_000),
        (2, "unobserved", None),
    ]


def test_a_card_is_free_since_its_last_allocation_ended(engine: Engine) -> None:
    times = {seconds: ago(seconds) for seconds in (100, 70, 40, 10)}
    idle = {"memory_used_bytes": 0, "utilization": 0}
    found = {
        "GPU-given-back": ("allocated", "allocated", "unallocated", "unallocated"),
        "GPU-within-the-tick": ("allocated", "allocated", "allocated", "allocated"),
        "GPU-allocated": ("allocated", "allocated", "allocated", "allocated"),
        "GPU-of-nobody": ("unallocated",) * 4,
        "GPU-unknown": ("allocated", "allocated", "unknown", "unknown"),
        "GPU-not-looked-at": (None,) * 4,
    }
    ticks = [
        {**card(seconds), **idle, "ts": ts, "gpu": gpu, "allocation": status}
        for gpu, statuses in found.items()
        for (seconds, ts), status in zip(times.items(), statuses, strict=True)
    ]
    insert_cards(engine, ticks)
    allocation = {"source": "gua", "allocation_id": "r", "relation": "nobody", "owner": "ana", "since": ago(20_000)}
    until = {"GPU-within-the-tick": ago(15), "GPU-allocated": ago(-3600)}
    allocated = [tick for tick in ticks if tick["allocation"] == "allocated"]
    engine.insert_rows(
        "allocation_ticks",
        [
            {**allocation, **{key: tick[key] for key in ("host", "gpu", "ts", "duration_ms", "gpu_time_ms")}}
            | {"until": until.get(str(tick["gpu"]))}
            for tick in allocated
        ],
    )
    cards = snapshot_of_store(engine.reader, where="here").cards
    assert {one.state_ms is not None and round(one.state_ms, -4) for one in cards} == {120_000}
    assert {one.gpu: one.free_ms and round(one.free_ms / 1000) for one in cards} == {
        "GPU-given-back": 60,
        "GPU-within-the-tick": 5,
        "GPU-allocated": None,
        "GPU-of-nobody": 120,
        "GPU-unknown": None,
        "GPU-not-looked-at": 120,
    }
