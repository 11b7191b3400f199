"""The metrics of gpu-idle-exporter on a host with faults: the documented meaning of each, and what is served.

The table in tests/golden also says what that tool itself would show there, by the faults that are known of it; its
numbers come from a model of its rules, :func:`theirs`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from driver.exporting import Exporting
from driver.fixture import SimulatedDriver
from driver.scenario import GIB, Card, Constant, Fault, Process, Scenario, Unload, Window, uuid

NOW = 1_700_000_000
INTERVAL = 5
RESTART, FAULTS, END = 60, 92, 120
NOT_SUPPORTED, UNKNOWN_ERROR = 3, 999
NOT_AVAILABLE = 2**64 - 1
MODEL = "NVIDIA H100 80GB HBM3"
Key = tuple[str, tuple[tuple[str, str], ...]]


def world(*, is_whole: bool = True) -> list[Card]:
    """Return the cards; one of them has vanished unless the host ``is_whole``."""
    faults = Window(start=NOW + FAULTS)
    cards = [
        Card(uuid(0), processes=[Process(101, 8 * GIB, Constant(50)), Process(102, 4 * GIB)]),
        Card(uuid(1), memory_base=GIB, processes=[Process(103, None)]),
        Card(
            uuid(2),
            processes=[Process(104, 2 * GIB, Constant(80))],
            wrong=[Fault("nvmlDeviceGetProcessUtilization", UNKNOWN_ERROR, faults)],
        ),
        Card(
            uuid(3),
            wrong=[
                Fault("nvmlDeviceGetPowerUsage", NOT_SUPPORTED),
                Fault("nvmlDeviceGetTemperature*", NOT_SUPPORTED),
            ],
        ),
        Card(uuid(4), processes=[Process(105, 3 * GIB)]),
    ]
    return cards if is_whole else cards[:-1]


class Host:
    """That host in simulated time, with an exporter that can be restarted."""

    def __init__(self, driver: SimulatedDriver, interval: int = INTERVAL) -> None:
        self._driver = driver
        self._clock = driver.scenario.with_name("clock")
        self._clock.write_text(f"{NOW * 1_000_000}\n")
        self._interval = interval
        self.passed = 0
        self.has(world())
        self.exporter = self._start()

    def has(self, cards: list[Card], unload: Unload | None = None) -> None:
        self._driver.write(Scenario(cards, clock=self._clock, unload=unload))

    def _start(self) -> Exporting:
        return Exporting(
            self._driver.environment, self._clock, self._driver.scenario.with_name("spool.db"), self._interval
        )

    def restart(self) -> None:
        self.exporter.kill()
        self.exporter = self._start()

    def run_to(self, seconds: int) -> None:
        while self.passed < seconds:
            self.passed += self._interval
            self.exporter.do(f"at {NOW + self.passed}")
            self.exporter.do("tick")

    def page(self) -> dict[Key, float]:
        families = text_string_to_metric_families(self.exporter.do("page"))
        return {(sample.name, tuple(sample.labels.items())): sample.value for one in families for sample in one.samples}

    def idle_seconds(self, pid: int) -> dict[str, float]:
        """Return for how long a process has idled, by each rule that knows."""
        return {
            name: value
            for (name, labels), value in self.page().items()
            if name.endswith(("idle_seconds", "idle_duration_seconds"))
            and str(pid) in (dict(labels).get("pid"), dict(labels).get("process_pid"))
        }


@pytest.fixture
def host(simulated_driver: SimulatedDriver) -> Iterator[Host]:
    one = Host(simulated_driver)
    yield one
    one.exporter.kill()


def device(index: int) -> tuple[tuple[str, str], ...]:
    return ("gpu", str(index)), ("model", MODEL), ("uuid", uuid(index))


def program(index: int, pid: int) -> tuple[tuple[str, str], ...]:
    return ("gpu", str(index)), ("pid", str(pid)), ("process", f"program{pid}")


def of_devices(rows: dict[int, tuple[float | None, ...]]) -> dict[Key, float]:
    names = ("utilization_percent", "memory_used_bytes", "memory_total_bytes", "power_watts", "temperature_celsius")
    return {
        (f"gpu_idle_device_{name}", device(index)): value
        for index, values in rows.items()
        for name, value in zip(names, values, strict=True)
        if value is not None
    }


def of_processes(rows: dict[tuple[int, int], tuple[float | None, ...]]) -> dict[Key, float]:
    names = ("compute_utilization_percent", "memory_used_bytes", "idle_seconds", "idle_memory_bytes")
    return {
        (f"gpu_idle_process_{name}", program(*place)): value
        for place, values in rows.items()
        for name, value in zip(names, values, strict=True)
        if value is not None
    }


def of_sums(rows: dict[int, float]) -> dict[Key, float]:
    return {("gpu_idle_memory_total_bytes", (("gpu", str(index)),)): value for index, value in rows.items()}


def documented() -> dict[Key, float]:
    """Return what is true after two minutes and can be read: idle since the second poll at 0 %, at 10 s."""
    return {
        **of_processes(
            {
                (0, 101): (50, 8 * GIB, 0, 0),
                (0, 102): (0, 4 * GIB, END - 10, 4 * GIB),
                (1, 103): (0, None, END - 10, None),
                (2, 104): (None, 2 * GIB, None, None),
            }
        ),
        **of_devices(
            {
                0: (50, 12 * GIB, 80 * GIB, 70, 35),
                1: (0, GIB, 80 * GIB, 70, 35),
                2: (80, 2 * GIB, 80 * GIB, 70, 35),
                3: (0, 0, 80 * GIB, None, None),
            }
        ),
        **of_sums({0: 4 * GIB, 3: 0}),
    }


def theirs() -> dict[Key, float]:
    """Return what gpu-idle-exporter would show by the faults that are known of it.

    After its restart it sees each process for the first time at 65 s and calls it idle from 70 s on. A utilization
    error is 0 %, from the poll at 95 s on; memory that is not available is all ones; what is not supported is 0; a
    card that has gone keeps its gauges, its processes do not.
    """
    since_restart = float(END - RESTART - 2 * INTERVAL)
    since_error = float(END - 95)
    return {
        **documented(),
        **of_processes(
            {
                (0, 102): (0, 4 * GIB, since_restart, 4 * GIB),
                (1, 103): (0, NOT_AVAILABLE, since_restart, NOT_AVAILABLE),
                (2, 104): (0, 2 * GIB, since_error, 2 * GIB),
            }
        ),
        **of_devices({3: (0, 0, 80 * GIB, 0, 0), 4: (0, 3 * GIB, 80 * GIB, 70, 35)}),
        **of_sums({1: NOT_AVAILABLE, 2: 2 * GIB, 4: 3 * GIB}),
    }


def table(ours: dict[Key, float]) -> str:
    """Return the three side by side."""

    def cell(shown: dict[Key, float], key: Key) -> str:
        return f"{shown[key]:.15g}" if key in shown else "-"

    keys = sorted(documented() | theirs() | ours)
    rows = [
        f"| `{name}{{{', '.join(value for label, value in labels if label not in ('model', 'uuid'))}}}` "
        f"| {cell(documented(), (name, labels))} | {cell(ours, (name, labels))} "
        f"| {cell(theirs(), (name, labels))} |"
        for name, labels in keys
    ]
    return "\n".join(["| series | documented and readable | gua | gpu-idle-exporter |", "|---|---|---|---|", *rows, ""])


def test_every_series_matches_its_documented_meaning_and_none_is_invented(
    host: Host, golden: Callable[[str, str], None]
) -> None:
    host.run_to(RESTART)
    host.restart()
    host.run_to(90)
    host.has(world(is_whole=False))
    host.run_to(END)
    ours = {key: value for key, value in host.page().items() if key[0].startswith("gpu_idle_")}
    assert ours == documented()
    golden("gpu-idle-exporter.md", table(ours))


def test_the_states_explain_missing_samples(host: Host) -> None:
    host.run_to(END)
    page = host.page()
    states = {
        dict(labels)["process_pid"]: dict(labels)["state"] for name, labels in page if name == "gua_process_state"
    }
    assert states == {"101": "active", "102": "idle", "103": "idle", "104": "unknown", "105": "idle"}
    held = [
        dict(labels)["hw_id"] for (name, labels), value in page.items() if ("state", "idle-held") in labels and value
    ]
    assert held == [uuid(1), uuid(4)]


def test_two_hours_of_idling_are_two_hours_through_a_restart(simulated_driver: SimulatedDriver) -> None:
    host = Host(simulated_driver, interval=60)
    host.run_to(3600)
    host.restart()
    host.run_to(7200)
    shown = host.idle_seconds(102)
    host.exporter.kill()
    # The first tick of an agent covers its own age; the other rule counts from the second poll.
    assert shown == {
        "gua_process_idle_duration_seconds": pytest.approx(7200, abs=60),
        "gpu_idle_process_idle_seconds": 7200 - 120,
    }


def test_another_process_under_the_same_pid_begins_at_zero(host: Host) -> None:
    host.run_to(60)
    assert host.idle_seconds(102)["gpu_idle_process_idle_seconds"] == 50
    host.exporter.do(f"born 102 {NOW * 1000}")
    host.run_to(65)
    assert host.idle_seconds(102) == {
        "gua_process_idle_duration_seconds": 5,
        "gpu_idle_process_idle_seconds": 0,
    }


def test_health_is_not_green_with_the_driver_gone_and_nothing_old_is_shown(host: Host) -> None:
    host.run_to(30)
    assert host.exporter.do("health") == [200, "ok"]
    host.has(world(), unload=Unload())
    host.run_to(35)
    status, why = host.exporter.do("health")
    assert (status, "DRIVER_NOT_LOADED" in why) == (503, True)
    # The cards are still exported, as unknown; metrics without an unknown value are all gone.
    page = host.page()
    assert [key for key in page if key[0].startswith("gpu_idle_")] == []
    assert {dict(labels)["reason"] for name, labels in page if name == "gua_gpu_unknown"} == {"utilization"}
    host.has(world())
    host.run_to(120)
    assert host.exporter.do("health") == [200, "ok"]
    assert host.idle_seconds(102)


def test_health_is_not_green_while_the_driver_is_there_and_every_call_about_cards_fails(host: Host) -> None:
    host.run_to(30)
    host.has([Card(uuid(index), wrong=[Fault("nvmlDevice*", UNKNOWN_ERROR)]) for index in range(5)])
    host.run_to(60)
    status, why = host.exporter.do("health")
    assert (status, why.startswith("the cards cannot be read: nvml")) == (503, True)
    assert {value for (name, labels), value in host.page().items() if ("state", "unknown") in labels} == {1}
    host.has(world())
    host.run_to(65)
    assert host.exporter.do("health") == [200, "ok"]


def test_a_scrape_makes_no_driver_call(simulated_driver: SimulatedDriver, tmp_path: Path) -> None:
    trace = tmp_path / "trace"
    host = Host(simulated_driver)
    simulated_driver.write(Scenario(world(), clock=simulated_driver.scenario.with_name("clock"), trace=trace))
    host.run_to(10)
    calls = trace.read_text().count("\n")
    assert calls
    for _ in range(20):
        host.page()
    assert trace.read_text().count("\n") == calls
    host.exporter.kill()
