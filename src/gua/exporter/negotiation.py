"""Which format of a page a scraper wants, by its Accept and Accept-Encoding.

https://www.rfc-editor.org/rfc/rfc9110#section-12.4.2 : a quality of 0 means "not this one".
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from gua.exporter.families import PageFormat

OPENMETRICS: Final = "application/openmetrics-text"


def page_format(accept: str, accept_encoding: str) -> PageFormat:
    """Return the format to answer with: plain text, not packed, unless another one is asked for."""
    codings = {coding.lower(): quality for coding, quality, _ in _choices(accept_encoding)}
    return PageFormat(is_openmetrics=_takes_openmetrics(accept), is_gzip=codings.get("gzip", codings.get("*", 0)) > 0)


def _takes_openmetrics(accept: str) -> bool:
    """Return whether OpenMetrics 1 comes before text 1 in the list; of qualities only 0 counts (no such choice)."""
    for kind, quality, parameters in _choices(accept):
        version = parameters.get("version", "").partition(".")[0]
        is_first_or_later = version.isdecimal() and int(version) >= 1
        if quality > 0 and kind == OPENMETRICS and (is_first_or_later or "version" not in parameters):
            return True
        if quality > 0 and kind == "text/plain" and is_first_or_later:
            return False
    return False


def _choices(header: str) -> Iterator[tuple[str, float, Mapping[str, str]]]:
    """Yield each choice of a header: what it is, its quality, 0 where that is no number, and its parameters."""
    for choice in header.split(","):
        kind, *texts = (part.strip() for part in choice.split(";"))
        pairs = (text.partition("=") for text in texts)
        parameters = {name.strip().lower(): value.strip() for name, _, value in pairs}
        try:
            quality = float(parameters.get("q", 1))
        except ValueError:
            quality = 0
        yield kind, quality, parameters
