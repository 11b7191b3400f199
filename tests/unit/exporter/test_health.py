"""What probes answer, and when: about ticks, the driver, and a stalled loop."""

from __future__ import annotations

import gzip
from collections.abc import Iterator
from dataclasses import dataclass, replace

import pytest

from fakes.cards import GIB, START_MS, card, tick
from fakes.clock import FakeClock
from fakes.pages import ask
from gua.core.idleness import IdleCounters
from gua.core.tick import CardReading, Origin, ReadError
from gua.core.words import ProcessList, Source
from gua.exporter.address import Address, Serving
from gua.exporter.endpoint import PrometheusEndpoint

INTERVAL_MS = 30_000


@dataclass
class Probe:
    """An endpoint that gets ticks, and is queried without a socket."""

    endpoint: PrometheusEndpoint
    clock: FakeClock

    def ask(self, path: str) -> tuple[int, str]:
        answer = ask(self.endpoint, path)
        return answer.status, answer.text.strip()

    def ticked(self, *cards: CardReading, errors: tuple[ReadError, ...] = ()) -> None:
        self.endpoint.alive()
        one = replace(tick(START_MS, *(cards or [card(held=GIB, failed=False)])), errors=errors)
        self.endpoint.ticked(one, lateness_ms=0)


def unread(uuid: str = "GPU-1", *, failed: bool | None = None, **values: object) -> CardReading:
    """Return a reading that identifies its card, and has of other values only the given ones."""
    told: dict[str, object] = {
        "memory_used_bytes": None,
        "memory_limit_bytes": None,
        "memory_reserved_bytes": None,
        "process_list": ProcessList.FAILED,
        **values,
    }
    return card(uuid, busy=None, failed=failed, **told)


@pytest.fixture
def probe() -> Iterator[Probe]:
    clock = FakeClock()
    origin = Origin(host="gpu-1", source=Source.AGENT, interval_ms=INTERVAL_MS)
    endpoint = PrometheusEndpoint(Serving(address=Address(port=0)), clock=clock, origin=origin, clocks=dict)
    with endpoint:
        yield Probe(endpoint, clock)


def test_before_the_first_tick_it_is_not_ready_and_serves_no_card(probe: Probe) -> None:
    assert probe.ask("/readyz")[0] == 503
    assert probe.ask("/healthz")[0] == 200
    assert "gua_agent_stale 1" in probe.ask("/metrics")[1]


def test_after_a_tick_it_is_ready_and_well(probe: Probe) -> None:
    probe.ticked()
    assert [probe.ask(path) for path in ("/readyz", "/healthz")] == [(200, "ok")] * 2
    assert "gua_agent_stale 0" in probe.ask("/metrics")[1]


def test_a_failing_driver_is_unhealthy_with_its_reason_until_it_answers_again(probe: Probe) -> None:
    probe.ticked()
    probe.endpoint.skipped("driver", "NVML: DRIVER_NOT_LOADED")
    assert probe.ask("/healthz") == (503, "the cards cannot be read: NVML: DRIVER_NOT_LOADED")
    probe.ticked()
    assert probe.ask("/healthz") == (200, "ok")


def test_a_host_whose_cards_are_all_lost_is_not_well(probe: Probe) -> None:
    probe.ticked(unread(failed=True))
    assert probe.ask("/healthz") == (503, "the cards cannot be read: every card is lost or needs a reset")


def test_a_missing_driver_is_unhealthy_although_ticks_go_on(probe: Probe) -> None:
    probe.ticked(unread(), errors=(ReadError(call="nvmlInit_v2", code="DRIVER_NOT_LOADED"),))
    assert probe.ask("/healthz") == (503, "the cards cannot be read: nvmlInit_v2 DRIVER_NOT_LOADED")


@pytest.mark.parametrize("failed", [False, None])
def test_cards_whose_every_call_fails_are_unhealthy_whether_or_not_they_are_lost(
    probe: Probe,
    failed: bool | None,  # noqa: FBT001 - a parameter of the test
) -> None:
    errors = [
        ReadError(call=call, code="UNKNOWN", uuid=uuid)
        for uuid in ("GPU-1", "GPU-2")
        for call in ("nvmlDeviceGetMemoryInfo", "nvmlDeviceGetPowerUsage")
    ]
    probe.ticked(unread(failed=failed), unread("GPU-2", failed=True), errors=tuple(errors))
    assert probe.ask("/healthz") == (
        503,
        "the cards cannot be read: nvmlDeviceGetMemoryInfo UNKNOWN, nvmlDeviceGetPowerUsage UNKNOWN",
    )
    probe.ticked()
    assert probe.ask("/healthz") == (200, "ok")


@pytest.mark.parametrize(
    "told",
    [
        {"memory_used_bytes": 0},
        {"memory_limit_bytes": GIB},
        {"process_list": ProcessList.KNOWN},
        {"utilization_encoder": 0.0},
        {"power_watts": 0.0},
        {"temperature_celsius": 0.0},
        {"energy_total_mj": 0},
    ],
)
def test_one_card_with_one_readable_value_is_healthy(probe: Probe, told: dict[str, object]) -> None:
    cards = (unread("GPU-1", failed=True), unread("GPU-2"), unread("GPU-3", failed=None, **told))
    probe.ticked(*cards, errors=(ReadError(call="nvmlDeviceGetMemoryInfo", code="UNKNOWN"),))
    assert probe.ask("/healthz") == (200, "ok")


def test_a_driver_without_cards_is_well(probe: Probe) -> None:
    probe.endpoint.ticked(tick(START_MS), lateness_ms=0)
    assert probe.ask("/healthz") == (200, "ok")


def test_a_tick_older_than_two_intervals_is_too_old(probe: Probe) -> None:
    probe.ticked()
    probe.clock.advance(2 * INTERVAL_MS)
    probe.endpoint.alive()
    assert probe.ask("/healthz")[0] == 200
    probe.clock.advance(1)
    probe.endpoint.skipped("fault", "a tick could not be made")
    status, words = probe.ask("/healthz")
    assert status == 503
    assert words == "the last tick is 60 s old, one is due every 30 s: a tick could not be made"


def test_a_stalled_loop_is_unhealthy_before_the_tick_is_old(probe: Probe) -> None:
    probe.ticked()
    probe.clock.advance(30_001)
    assert probe.ask("/healthz") == (503, "the loop that samples has not moved for 30 s")


def test_a_start_may_take_a_while_and_no_longer(probe: Probe) -> None:
    probe.clock.advance(90_000)
    assert probe.ask("/healthz") == (200, "ok")
    probe.clock.advance(1)
    assert probe.ask("/healthz") == (503, "no tick for 90 s since the start")


def test_a_page_that_cannot_be_rendered_is_unhealthy_and_does_no_harm() -> None:
    def no_clocks() -> IdleCounters:
        raise ZeroDivisionError

    origin = Origin(host="gpu-1", source=Source.AGENT, interval_ms=INTERVAL_MS)
    serving = Serving(address=Address(port=0))
    with PrometheusEndpoint(serving, clock=FakeClock(), origin=origin, clocks=no_clocks) as endpoint:
        endpoint.ticked(tick(START_MS, card(held=GIB)), lateness_ms=0)
        answer = ask(endpoint, "/healthz")
    assert answer.status == 503
    assert answer.body.startswith(b"the page could not be made: unexpected ZeroDivisionError")


def test_a_suspend_makes_the_last_tick_old_although_the_monotonic_clock_stood(probe: Probe) -> None:
    probe.ticked()
    probe.clock.wall += 3_600_000
    assert probe.ask("/healthz")[0] == 503
    assert "gua_gpu_state" not in probe.ask("/metrics")[1]


def test_state_without_a_new_tick_is_dropped_after_a_minute(probe: Probe) -> None:
    probe.ticked()
    probe.clock.advance(60_000)
    assert "gua_gpu_state" in probe.ask("/metrics")[1]
    probe.clock.advance(1)
    page = probe.ask("/metrics")[1]
    assert "gua_gpu_state" not in page
    assert "gpu_idle_" not in page
    assert "gua_agent_stale 1" in page
    probe.ticked()
    assert "gua_gpu_state" in probe.ask("/metrics")[1]


@pytest.mark.parametrize(
    ("accept", "kind"),
    [
        ("", "text/plain; version=0.0.4"),
        ("*/*", "text/plain; version=0.0.4"),
        ("text/html", "text/plain; version=0.0.4"),
        ("application/openmetrics-text;version=1.0.0;q=0.5,text/plain;version=0.0.4;q=0.3", "application/openmetrics"),
        ("application/openmetrics-text;version=x", "text/plain; version=0.0.4"),
        (";;;,,q", "text/plain; version=0.0.4"),
        ("text/plain;version=1.0.0, application/openmetrics-text", "text/plain; version=0.0.4"),
        ("application/openmetrics-text;version=1.9.9;escaping=dots", "application/openmetrics-text; version=1.0.0"),
    ],
)
def test_the_response_has_the_requested_format(probe: Probe, accept: str, kind: str) -> None:
    probe.ticked()
    answer = ask(probe.endpoint, HTTP_ACCEPT=accept)
    assert answer.headers["Content-Type"].startswith(kind)
    assert answer.body.endswith(b"# EOF\n") == kind.startswith("application")


@pytest.mark.parametrize(
    ("accepted", "packed"),
    [
        ("", False),
        ("gzip", True),
        ("deflate, gzip;q=0.5", True),
        ("GZIP;Q=0.001", True),
        ("*;q=0, gzip", True),
        ("*;q=0", False),
        ("identity", False),
        (";,", False),
    ],
)
def test_a_page_is_compressed_for_clients_that_accept_it(probe: Probe, accepted: str, *, packed: bool) -> None:
    probe.ticked()
    answer = ask(probe.endpoint, HTTP_ACCEPT_ENCODING=accepted)
    assert ("Content-Encoding" in answer.headers, answer.body.startswith(b"\x1f\x8b")) == (packed, packed)


def test_a_page_is_rendered_once_a_tick(probe: Probe) -> None:
    probe.ticked()
    packed = [
        [ask(probe.endpoint, HTTP_ACCEPT=accept, HTTP_ACCEPT_ENCODING="gzip").body for _ in range(2)]
        for accept in ("", "application/openmetrics-text")
    ]
    assert all(first is again for first, again in packed)
    probe.ticked()
    assert ask(probe.endpoint, HTTP_ACCEPT_ENCODING="gzip").body is not packed[0][0]


def test_a_page_is_the_same_packed_and_not(probe: Probe) -> None:
    probe.ticked()
    for accept in ("", "application/openmetrics-text"):
        packed = ask(probe.endpoint, HTTP_ACCEPT=accept, HTTP_ACCEPT_ENCODING="gzip").body
        assert gzip.decompress(packed) == ask(probe.endpoint, HTTP_ACCEPT=accept).body


def test_head_is_answered_without_the_page_and_other_methods_are_refused(probe: Probe) -> None:
    probe.ticked()
    head = ask(probe.endpoint, REQUEST_METHOD="HEAD")
    assert (head.status, head.body) == (200, b"")
    assert head.headers["Content-Length"] == str(len(ask(probe.endpoint).body))
    for method in ("POST", "PUT", "DELETE", "OPTIONS", "BREW"):
        answer = ask(probe.endpoint, REQUEST_METHOD=method)
        assert (answer.status, answer.headers["Allow"]) == (405, "GET, HEAD")


def test_the_compatible_set_can_be_left_out() -> None:
    origin = Origin(host="gpu-1", source=Source.AGENT, interval_ms=INTERVAL_MS)
    serving = Serving(address=Address(port=0), constant=None)
    with PrometheusEndpoint(serving, clock=FakeClock(), origin=origin, clocks=dict) as endpoint:
        endpoint.ticked(tick(START_MS, card(held=GIB)), lateness_ms=0)
        page = ask(endpoint).body
    assert b"gpu_idle_" not in page
    assert b"gua_gpu_state" in page
