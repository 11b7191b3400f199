"""Whatever a report adds up by, the parts are the headline: hours of the week, days, costs and energy of one store."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from gua.core.moments import to_rfc3339
from gua.report.collect import collect
from gua.report.hours import choose_hours, tick_hours
from gua.report.model import Window
from gua.report.rows import OVERVIEW, coverage_of, states_of
from gua.report.sections.calendar import Days, Week
from gua.report.sections.energy import Energy
from gua.report.sections.money import Money
from gua.report.sections.previous import before
from gua.report.states import STATES
from gua.report.window import ReportRequest
from gua.store.database import Store, open_store
from servers.gua import Gua

pytestmark = pytest.mark.engine

DAY_MS = 86_400_000
UNTIL_MS = 1_774_627_200_000  # where simulated time ends


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    """Open a store with four simulated days of eight cards, one of them partitioned, and a price from the third on."""
    folder = tmp_path_factory.mktemp("sums")
    address = f"chdb://{folder / 'store'}"
    Gua(folder).must("demo", "--store", address, "--days", "4", "--width", "80")
    with open_store(address) as opened:
        model = next(iter(opened.rows("models", {})))["model"]
        price = {"model": model, "valid_from": (UNTIL_MS - 2 * DAY_MS) // 3_600_000 * 3600, "currency": "EUR"}
        opened.insert_json("prices", [{**price, "per_gpu_hour": 2.0}])
        yield opened


@pytest.mark.parametrize("from_ticks", [False, True], ids=["from counted hours", "from ticks"])
@pytest.mark.parametrize(
    ("since_ms", "until_ms", "timezone"),
    [
        pytest.param(UNTIL_MS - 4 * DAY_MS, UNTIL_MS, "UTC", id="all of it"),
        pytest.param(UNTIL_MS - 3 * DAY_MS - 12_345_678, UNTIL_MS - 87_654_321, "Asia/Kathmandu", id="some of it"),
        pytest.param(UNTIL_MS - DAY_MS, UNTIL_MS + 3 * DAY_MS, "Europe/Berlin", id="and what is not there"),
    ],
)
def test_parts_sum_to_the_headline(
    store: Store, since_ms: int, until_ms: int, timezone: str, *, from_ticks: bool
) -> None:
    bounds: dict[str, object] = {"since_ms": since_ms, "until_ms": until_ms, "hosts": []}
    read = {
        **bounds,
        "tick_hours": tick_hours(choose_hours(store, bounds, from_ticks=from_ticks)),
        "use_hourly": int(not from_ticks),
    }
    headline = {state: time.gpu_ms for state, time in states_of(OVERVIEW.rows(store, read)).items()}
    assert sum(headline.values()) > 0
    request = ReportRequest(
        since=to_rfc3339(since_ms),
        until=to_rfc3339(until_ms),
        timezone=timezone,
        from_ticks=from_ticks,
        sections=frozenset({"money", "week", "days", "energy"}),
        now_ms=until_ms,
    )
    report = collect(store, request)
    costs, week, days = report[Money].costs, report[Week], report[Days]
    for state in STATES:
        assert sum(hour.states[state].gpu_ms for hour in week) == pytest.approx(headline[state], abs=1e-3)
        assert sum(day.states[state].gpu_ms for day in days) == pytest.approx(headline[state], abs=1e-3)
        parts = [(cost.states[state].gpu_ms, cost.states[state].unpriced_gpu_ms) for cost in costs]
        assert sum(map(sum, parts)) == pytest.approx(headline[state], abs=1e-3)
        assert sum(cost.states[state].cost or 0 for cost in costs) == pytest.approx(
            sum(one for one, _ in parts) / 3_600_000 * 2
        )
    assert sum(day.seconds for day in days) == pytest.approx((until_ms - since_ms) / 1000)
    observed = {
        (row["host"], row["gpu"]): row["observed_ms"]
        for row in store.rows("overview", read)
        if row["mig"] != "instance"
    }
    assert {
        (card.host, card.gpu): sum(one.measured_ms + one.estimated_ms + one.unknown_ms for one in card.states.values())
        for card in report[Energy].cards
    } == observed


def test_the_window_before_is_what_a_report_on_it_says(store: Store) -> None:
    earlier: dict[str, object] = {"since_ms": UNTIL_MS - 2 * DAY_MS, "until_ms": UNTIL_MS - DAY_MS, "hosts": []}
    read = {**earlier, "tick_hours": tick_hours(choose_hours(store, earlier)), "use_hourly": 1}
    cards = OVERVIEW.rows(store, read)
    found = before(store, Window(since_ms=UNTIL_MS - DAY_MS, until_ms=UNTIL_MS, timezone="UTC"), [])()
    assert found.coverage is not None
    assert found.coverage.expected_gpu_ms == coverage_of(cards).expected_gpu_ms > 0
    assert found.states == states_of(cards)
    longer = before(store, Window(since_ms=UNTIL_MS - 5 * DAY_MS, until_ms=UNTIL_MS, timezone="UTC"), [])()
    assert longer.coverage is None
