"""The zone of this host, by TZ and /etc/localtime, as the C library would determine it."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from zoneinfo import ZoneInfoNotFoundError, available_timezones

import pytest
import tzlocal

from gua.app import local_zone as module
from gua.app.local_zone import chosen_zone, local_zone
from gua.core.errors import UsageError


@pytest.fixture
def berlin(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Let the C library have the zone of Berlin."""
    monkeypatch.setenv("TZ", "Europe/Berlin")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


Configure = Callable[[Callable[[], str | None]], None]


@pytest.fixture
def configure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Configure:
    """Return a function that sets what tzlocal reads from the host's files; /etc/localtime exists."""
    localtime = tmp_path / "localtime"
    localtime.touch()
    monkeypatch.setattr(module, "LOCALTIME", localtime)
    return lambda read: monkeypatch.setattr(tzlocal, "get_localzone_name", read)


@pytest.mark.parametrize(
    ("tz", "name"),
    [
        ("", "UTC"),
        (":", "UTC"),
        ("UTC", "UTC"),
        ("Etc/UTC", "UTC"),
        ("Europe/Berlin", "Europe/Berlin"),
        (":Europe/Berlin", "Europe/Berlin"),
        ("posix/Asia/Tokyo", "Asia/Tokyo"),
        ("/usr/share/zoneinfo/Asia/Tokyo", "Asia/Tokyo"),
        (":/usr/share/zoneinfo/Asia/Tokyo", "Asia/Tokyo"),
        ("EST5EDT", "EST5EDT"),
        ("UTC0", "UTC"),
    ],
)
def test_tz_names_a_zone_or_a_file(tz: str, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "LOCALTIME", Path("/nowhere"))
    assert local_zone({"TZ": tz}) == name


@pytest.mark.parametrize("tz", ["CET-1CEST", "JST-9", "CET-1CEST,M3.5.0,M10.5.0/3", "Mars", "/nowhere/zone", "X+15"])
def test_a_rule_or_a_file_without_a_name_is_none(tz: str) -> None:
    assert local_zone({"TZ": tz}) is None


@pytest.mark.usefixtures("berlin")
def test_the_hosts_files_are_believed_where_the_c_library_has_the_same_offsets(configure: Configure) -> None:
    def resolved(name: str | None) -> str | None:
        configure(lambda: name)
        return local_zone({})

    assert resolved("Europe/Berlin") == "Europe/Berlin"
    assert [resolved(name) for name in ("Etc/UTC", "Africa/Lagos", "Europe/London", "Mars", None)] == [None] * 5


@pytest.mark.usefixtures("berlin")
def test_files_that_contradict_each_other_are_not_believed(configure: Configure) -> None:
    def contradiction() -> str:
        raise ZoneInfoNotFoundError

    configure(contradiction)
    assert local_zone({}) is None


def test_a_host_without_localtime_has_utc(configure: Configure, monkeypatch: pytest.MonkeyPatch) -> None:
    configure(lambda: "Asia/Tokyo")
    monkeypatch.setattr(module, "LOCALTIME", Path("/nowhere"))
    assert local_zone({}) == "UTC"


def test_the_files_of_this_host_can_be_read() -> None:
    assert local_zone({}) in {*available_timezones(), None}


def test_a_requested_zone_wins_and_local_is_the_hosts(capsys: pytest.CaptureFixture[str]) -> None:
    environ = {"TZ": "Asia/Tokyo"}
    assert chosen_zone(None, environ) == chosen_zone(" Local ", environ) == "Asia/Tokyo"
    assert chosen_zone("europe/berlin", environ) == "Europe/Berlin"
    assert chosen_zone("UTC", {"TZ": "CET-1CEST"}) == "UTC"
    assert capsys.readouterr().err == ""


def test_a_host_zone_without_a_name_is_a_warning_once_or_an_error(capsys: pytest.CaptureFixture[str]) -> None:
    assert chosen_zone(None, {"TZ": "CET-1CEST"}) == "UTC"
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("gua: TZ='CET-1CEST' is no zone")
    with pytest.raises(UsageError, match="--timezone Europe/Berlin"):
        chosen_zone(None, {"TZ": "CET-1CEST"}, or_fail=True)


def test_the_local_zone_of_this_process_is_known() -> None:
    assert chosen_zone("local", os.environ)
