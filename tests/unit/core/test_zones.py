"""Time zones by name."""

from __future__ import annotations

from datetime import datetime, timedelta

import pytest

from gua.core.errors import UsageError
from gua.core.zones import zone, zone_name


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("Europe/Berlin", "Europe/Berlin"),
        (" europe/berlin ", "Europe/Berlin"),
        ("posix/Europe/Oslo", "Europe/Oslo"),
        ("utc", "UTC"),
        ("Etc/UTC", "UTC"),
        ("Zulu", "UTC"),
        ("EST5EDT", "EST5EDT"),
    ],
)
def test_a_zone_is_known_by_the_name_that_stores_know(text: str, name: str) -> None:
    assert zone_name(text) == name


@pytest.mark.parametrize(
    "name", ["Mars/Olympus", "", "../etc/passwd", "Europe", "/etc/localtime", "UTC\0", "CET-1CEST", "localtime"]
)
def test_an_unknown_zone_is_refused(name: str) -> None:
    for ask in (zone, zone_name):
        with pytest.raises(UsageError, match=r"unknown time zone .*: give an IANA name, .*, or UTC or local"):
            ask(name)


def test_what_is_nearly_a_name_is_told_the_name() -> None:
    with pytest.raises(UsageError, match="did you mean Europe/Berlin"):
        zone_name("europe/berln")


def test_a_zone_of_leap_seconds_is_refused() -> None:
    with pytest.raises(UsageError, match=r"leap seconds|unknown time zone"):
        zone_name("right/UTC")


def test_a_zone_tells_the_offset() -> None:
    assert datetime(2026, 7, 1, tzinfo=zone("Europe/Berlin")).utcoffset() == timedelta(hours=2)
