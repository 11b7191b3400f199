"""The zone of this host, by TZ and /etc/localtime, as the C library would tell it."""

from __future__ import annotations

import os
import shutil
import subprocess
from importlib import resources
from pathlib import Path

import pytest

from gua.app.local_zone import asked_zone, local_zone
from gua.core.errors import UsageError


def compiled(name: str) -> Path:
    """Return a zone's file as the package of the database has it."""
    return Path(str(resources.files("tzdata").joinpath("zoneinfo", name)))


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
        ("JST-9", "Etc/GMT-9"),
        ("<+03>-3", "Etc/GMT-3"),
        ("EST+05:00:00", "Etc/GMT+5"),
    ],
)
def test_tz_names_a_zone_a_file_or_an_offset(tz: str, name: str) -> None:
    assert local_zone({"TZ": tz}, Path("/nowhere")).name == name
    assert local_zone({"TZ": tz}, Path("/nowhere")).doubt is None


@pytest.mark.parametrize("tz", ["JST-9", "<+03>-3", "EST+05:00:00", "UTC0"])
def test_an_offset_is_that_of_the_c_library(tz: str) -> None:
    told = [
        subprocess.run(["date", "-d", "@1774414039", "+%H:%M"], env={"TZ": one}, capture_output=True, check=True).stdout
        for one in (tz, local_zone({"TZ": tz}).name)
    ]
    assert told[0] == told[1]


@pytest.mark.parametrize("tz", ["CET-1CEST", "CET-1CEST,M3.5.0,M10.5.0/3", "Mars", "/nowhere/zone", "IST-5:30", "X+15"])
def test_a_rule_without_a_name_is_utc_and_doubtful(tz: str) -> None:
    found = local_zone({"TZ": tz})
    assert found.name == "UTC"
    assert found.doubt is not None
    assert found.doubt.startswith(f"TZ='{tz}' is no zone of the IANA database")


def test_without_tz_the_first_link_that_has_a_name_tells_it(tmp_path: Path) -> None:
    middle, localtime = tmp_path / "zoneinfo/Europe/Oslo", tmp_path / "localtime"
    middle.parent.mkdir(parents=True)
    middle.symlink_to("Berlin")  # as the database has it, where a link keeps the old name
    localtime.symlink_to("zoneinfo/Europe/Oslo")
    assert local_zone({}, localtime).name == "Europe/Oslo"


def test_a_link_through_another_folder_is_followed(tmp_path: Path) -> None:
    (tmp_path / "zone").symlink_to("/usr/share/zoneinfo/America/New_York")  # need not be there: no tzdata in containers
    (tmp_path / "localtime").symlink_to("zone")
    assert local_zone({}, tmp_path / "localtime").name == "America/New_York"


def test_a_name_that_some_systems_give_their_own_zone_is_none(tmp_path: Path) -> None:
    (tmp_path / "zoneinfo").mkdir()
    (tmp_path / "zoneinfo/localtime").symlink_to("/usr/share/zoneinfo/Asia/Tokyo")
    (tmp_path / "localtime").symlink_to("zoneinfo/localtime")
    assert local_zone({}, tmp_path / "localtime").name == "Asia/Tokyo"


@pytest.mark.parametrize("name", ["Europe/Berlin", "UTC", "Asia/Kolkata", "America/Sao_Paulo", "Australia/Lord_Howe"])
def test_a_copy_is_known_by_its_content(tmp_path: Path, name: str) -> None:
    shutil.copyfile(compiled(name), tmp_path / "localtime")
    assert local_zone({}, tmp_path / "localtime").name == name
    assert local_zone({"TZ": f":{tmp_path / 'localtime'}"}).name == name


def test_no_localtime_is_utc_and_one_that_is_no_zone_is_doubtful(tmp_path: Path) -> None:
    assert local_zone({}, tmp_path / "none").doubt is None
    (tmp_path / "localtime").write_bytes(b"TZif2 and nothing more")
    found = local_zone({}, tmp_path / "localtime")
    assert found.name == "UTC"
    assert found.doubt is not None
    (tmp_path / "loop").symlink_to("loop")
    assert local_zone({}, tmp_path / "loop").name == "UTC"


def test_what_is_asked_for_wins_and_local_is_this_host(capsys: pytest.CaptureFixture[str]) -> None:
    environ = {"TZ": "Asia/Tokyo"}
    assert asked_zone(None, environ) == asked_zone(" Local ", environ) == "Asia/Tokyo"
    assert asked_zone("europe/berlin", environ) == "Europe/Berlin"
    assert asked_zone("UTC", {"TZ": "CET-1CEST"}) == "UTC"
    assert capsys.readouterr().err == ""


def test_a_doubt_is_said_once_or_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert asked_zone(None, {"TZ": "CET-1CEST"}) == "UTC"
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("gua: TZ='CET-1CEST' is no zone")
    with pytest.raises(UsageError, match="--timezone Europe/Berlin"):
        asked_zone(None, {"TZ": "CET-1CEST"}, or_fail=True)


def test_this_process_is_asked_as_it_is() -> None:
    assert asked_zone("local", os.environ)
