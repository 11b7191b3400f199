"""Pages for Prometheus: requested without a socket, and read back with prometheus-client's parsers in both formats."""

from __future__ import annotations

import gzip
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple
from wsgiref.types import WSGIApplication
from wsgiref.util import setup_testing_defaults

from prometheus_client.openmetrics import parser as openmetrics
from prometheus_client.parser import text_string_to_metric_families

from gua.exporter.catalogue import Family
from gua.exporter.endpoint import Page
from gua.exporter.server import ARRIVED_AT

Series = dict[tuple[str, tuple[tuple[str, str], ...]], float]


class Answer(NamedTuple):
    """What an application answered."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def text(self) -> str:
        return self.body.decode()


def ask(app: WSGIApplication, path: str = "/metrics", **environ: str) -> Answer:
    """Return the answer to a request without headers, but for those in ``environ``, named as WSGI names them."""
    found: list[tuple[str, list[tuple[str, str]]]] = []
    request_environ: dict[str, Any] = {"HTTP_HOST": "", "PATH_INFO": path, ARRIVED_AT: "127.0.0.1", **environ}
    setup_testing_defaults(request_environ)

    def start_response(status: str, headers: list[tuple[str, str]], _: object = None) -> Any:  # noqa: ANN401 - WSGI's
        found.append((status, headers))

    body = b"".join(app(request_environ, start_response))
    [(status, headers)] = found
    assert environ.get("REQUEST_METHOD") == "HEAD" or dict(headers)["Content-Length"] == str(len(body))
    return Answer(int(status.split()[0]), dict(headers), body)


def read(text: str, in_openmetrics: str) -> Series:
    """Return name and labels of each sample and its value, after both parsers have found the same, and none twice."""
    found = _series(text_string_to_metric_families(text))
    assert found == _series(openmetrics.text_string_to_metric_families(in_openmetrics))
    return found


def text_of(families: Iterable[Family], *, is_openmetrics: bool = False) -> str:
    """Return the page that families make."""
    packed, _ = Page(families).packed(is_openmetrics=is_openmetrics)
    return gzip.decompress(packed).decode()


def read_families(families: Iterable[Family]) -> Series:
    """Return the series of the page that families make."""
    made = list(families)
    return read(text_of(made), text_of(made, is_openmetrics=True))


def _series(parsed: Iterable[Any]) -> Series:
    found: Series = {}
    for family in parsed:
        for sample in family.samples:
            key = (sample.name, tuple(sorted(sample.labels.items())))
            assert key not in found, key
            found[key] = sample.value
    return found
