"""Names in requests for the page: the agent's own, however they are written, and no others."""

from __future__ import annotations

import socket
from collections.abc import Iterator

import pytest

from fakes.clock import FakeClock
from gua.core.tick import Origin
from gua.core.words import Source
from gua.exporter.address import Address, HostNames, Serving
from gua.exporter.endpoint import PrometheusEndpoint

OWN = HostNames(["0.0.0.0", "gpu01", "prom-gpu.lab.example", "2001:db8::7", ""])  # noqa: S104 - as where it is bound


@pytest.mark.parametrize(
    "header",
    [
        *(
            "",
            "localhost",
            "localhost:9835",
            "LOCALHOST.:80",
            "127.0.0.1:9835",
            "127.8.9.1",
            "[::1]:9835",
            "[::1]",
            "::1",
        ),
        *("gpu01", "gpu01:9835", "GPU01", "prom-gpu.lab.example.:9835"),
        *("[2001:db8::7]:9835", "[2001:DB8:0::7]", "2001:db8::7"),
        # The address of arrival, as a pod's; a socket of both families writes an IPv4 address so.
        *("10.244.3.7:9835", "10.244.3.7", "[::ffff:10.244.3.7]:9835"),
    ],
)
@pytest.mark.parametrize("arrived_at", ["10.244.3.7", "::ffff:10.244.3.7"])
def test_its_own_names_and_addresses_are_admitted(header: str, arrived_at: str) -> None:
    assert OWN.admit(header, arrived_at=arrived_at)


@pytest.mark.parametrize(
    "header",
    [
        *(
            "evil.example",
            "evil.example:9835",
            "gpu01.evil.example",
            "localhost.evil.example",
            "127.0.0.1.evil.example",
        ),
        *(
            "10.244.3.8",
            "[fe80::1]:9835",
            "[evil.example]",
            "gpu01@evil.example",
            "evil.example#gpu01",
            "gpu01/x",
            ":9835",
        ),
        *("[::1", "*", "2130706433", "127.1", "١٢٧.0.0.1", "evil.example\tgpu01", " "),
    ],
)
def test_no_other_is(header: str) -> None:
    assert not OWN.admit(header, arrived_at="10.244.3.7")


def test_an_address_with_a_scope_is_where_it_arrived() -> None:
    assert OWN.admit("[fe80::2]:9835", arrived_at="fe80::2%eth0")


def test_a_star_admits_all() -> None:
    assert HostNames(["*"]).admit("evil.example", arrived_at="10.0.0.1")


@pytest.fixture
def endpoint() -> Iterator[PrometheusEndpoint]:
    serving = Serving(address=Address(port=0), names=("prom.lab.example",))
    origin = Origin(host="gpu01", source=Source.AGENT, interval_ms=30_000)
    with PrometheusEndpoint(serving, clock=FakeClock(), origin=origin, clocks=dict) as one:
        yield one


def asked(endpoint: PrometheusEndpoint, *headers: str, path: str = "/metrics") -> int:
    """Return the status of the answer to a request with these header lines."""
    with socket.create_connection(("127.0.0.1", endpoint.port), timeout=5) as caller:
        caller.sendall("\r\n".join([f"GET {path} HTTP/1.1", *headers, "", ""]).encode())
        return int(caller.recv(64).split()[1])


def test_a_page_of_another_name_reads_nothing(endpoint: PrometheusEndpoint) -> None:
    own = ("127.0.0.1:9835", "localhost", "gpu01:9835", socket.gethostname(), "prom.lab.example")
    assert [asked(endpoint, f"Host: {name}") for name in own] == [200] * len(own)
    assert asked(endpoint) == 200  # no browser sends that
    for path in ("/metrics", "/healthz", "/readyz", "/", "/other"):
        assert asked(endpoint, "Host: evil.example:9835", path=path) == 421
    assert asked(endpoint, "HOST: evil.example") == 421
    assert asked(endpoint, "Host: evil.example", "Host: localhost") == 421
