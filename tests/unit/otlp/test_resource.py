from __future__ import annotations

import pytest

from gua.core.errors import UsageError
from gua.core.tick import Origin
from gua.core.words import Source
from gua.otlp.resource import origin


def agent(**environ: str) -> Origin:
    return origin(source=Source.AGENT, interval_ms=30_000, host="machine", host_id="id", environ=environ)


@pytest.mark.parametrize(
    ("environ", "host"),
    [
        ({}, "machine"),
        ({"NODE_NAME": "node"}, "node"),
        ({"NODE_NAME": "node", "GUA_HOST_NAME": "mine"}, "mine"),
        ({"GUA_HOST_NAME": ""}, "machine"),
        ({"GUA_HOST_NAME": "mine", "OTEL_RESOURCE_ATTRIBUTES": "host.name=theirs"}, "theirs"),
    ],
)
def test_the_host_is_named_by_the_most_explicit_source(environ: dict[str, str], host: str) -> None:
    assert agent(**environ).host == host


def test_the_user_s_resource_attributes_win_and_are_percent_decoded() -> None:
    made = agent(OTEL_RESOURCE_ATTRIBUTES="service.name=a, team=r%26d%2C%20b ,host.id=x,service.version=9,")
    assert (made.service_name, made.host_id, made.service_version) == ("a", "x", "9")
    assert made.attributes == (("team", "r&d, b"),)


def test_the_service_name_variable_wins_over_the_attribute() -> None:
    assert agent(OTEL_SERVICE_NAME="b", OTEL_RESOURCE_ATTRIBUTES="service.name=a").service_name == "b"
    assert agent().service_name == "gua"


def test_kubernetes_names_are_sent_if_set_and_the_users_attributes_win() -> None:
    made = agent(NODE_NAME="n", POD_NAME="p", POD_NAMESPACE="", OTEL_RESOURCE_ATTRIBUTES="k8s.pod.name=q")
    assert made.attributes == (("k8s.node.name", "n"), ("k8s.pod.name", "q"))


def test_resource_attributes_cannot_override_source_and_interval() -> None:
    made = agent(OTEL_RESOURCE_ATTRIBUTES="gua.sample.interval=1,gua.source=import")
    assert (made.source, made.interval_ms, made.attributes) == (Source.AGENT, 30_000, ())


def test_recorded_ticks_keep_the_host_they_were_recorded_on() -> None:
    environ = {"GUA_HOST_NAME": "mine", "NODE_NAME": "n", "OTEL_RESOURCE_ATTRIBUTES": "host.name=x,team=y"}
    made = origin(source=Source.IMPORT, interval_ms=30_000, host="imported", environ=environ)
    assert (made.host, made.attributes) == ("imported", (("team", "y"),))


@pytest.mark.parametrize("text", ["novalue", "=x", "team=%FF", "a=b,c"])
def test_resource_attributes_that_cannot_be_read_are_named(text: str) -> None:
    with pytest.raises(UsageError, match="OTEL_RESOURCE_ATTRIBUTES"):
        agent(OTEL_RESOURCE_ATTRIBUTES=text)


def test_a_host_without_any_name_is_refused() -> None:
    with pytest.raises(UsageError, match="GUA_HOST_NAME"):
        origin(source=Source.AGENT, interval_ms=30_000, environ={})
