"""Pages for Prometheus, read back with prometheus-client's own parsers, in both formats."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from prometheus_client.openmetrics import parser as openmetrics
from prometheus_client.parser import text_string_to_metric_families

from gua.exporter.families import Family, Page, PageFormat

TEXT: Final = PageFormat(is_openmetrics=False, is_gzip=False)
OPENMETRICS: Final = PageFormat(is_openmetrics=True, is_gzip=False)

Series = dict[tuple[str, tuple[tuple[str, str], ...]], float]


def read(text: str, in_openmetrics: str) -> Series:
    """Return name and labels of each sample and its value, after both parsers have found the same, and none twice."""
    found = _series(text_string_to_metric_families(text))
    assert found == _series(openmetrics.text_string_to_metric_families(in_openmetrics))
    return found


def read_families(families: Iterable[Family]) -> Series:
    """Return the series of the page that families make."""
    page = Page(families)
    return read(page.body(TEXT).decode(), page.body(OPENMETRICS).decode())


def _series(parsed: Iterable[Any]) -> Series:
    found: Series = {}
    for family in parsed:
        for sample in family.samples:
            key = (sample.name, tuple(sorted(sample.labels.items())))
            assert key not in found, key
            found[key] = sample.value
    return found
