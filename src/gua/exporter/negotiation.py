"""Which form of a page a scraper wants, by its Accept and Accept-Encoding.

https://www.rfc-editor.org/rfc/rfc9110#section-12.4.2 : a quality of 0 means "not this one".
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from prometheus_client.exposition import choose_encoder

from gua.exporter.families import Form

OPENMETRICS: Final = "application/openmetrics-text"


def wanted(accept: str, accept_encoding: str) -> Form:
    """Return the form to answer with: plain text, not packed, unless another one is asked for."""
    return Form(is_openmetrics=_takes_openmetrics(accept), is_gzip=_takes_gzip(accept_encoding))


def _takes_openmetrics(accept: str) -> bool:
    # The library looks at the order alone, and takes what has a quality of 0 for wanted.
    left = ",".join(f"{one};{parameters}" for one, parameters, quality in _choices(accept) if quality > 0)
    try:
        _, content_type = choose_encoder(left)
    except (TypeError, ValueError):  # a version that is no number
        return False
    return content_type.startswith(OPENMETRICS)


def _takes_gzip(accept_encoding: str) -> bool:
    qualities = {coding.lower(): quality for coding, _, quality in _choices(accept_encoding)}
    return qualities.get("gzip", qualities.get("*", 0)) > 0


def _choices(header: str) -> Iterator[tuple[str, str, float]]:
    """Yield each choice of a header: what it is, its parameters, and its quality, 0 where that is no number."""
    for choice in header.split(","):
        what, _, parameters = choice.partition(";")
        quality = 1.0
        for parameter in parameters.split(";"):
            name, _, value = parameter.partition("=")
            if name.strip().lower() == "q":
                quality = _number(value)
        yield what.strip(), parameters, quality


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return 0
