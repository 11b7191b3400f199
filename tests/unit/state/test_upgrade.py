"""The state directory of an agent of the version before, as it left it: opened as before, and nothing in it is lost."""

from __future__ import annotations

from pathlib import Path

import pytest

from gua.core.errors import UnavailableError
from gua.spool.queue import Spool
from gua.state.directory import examine_home, prepare_home
from gua.state.enrollment import read_enrollment

BEFORE = Path(__file__).parents[2] / "fixtures" / "state" / "3"
ENDPOINT = "http://127.0.0.1:9"


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """Return a copy of what an agent of schema version 3 left: ticks for an endpoint that did not answer."""
    folder = tmp_path / "home"
    folder.mkdir(mode=0o700)
    for file in BEFORE.iterdir():
        (folder / file.name).write_bytes(file.read_bytes())
        (folder / file.name).chmod(0o600)
    return folder


def test_the_directory_is_taken_as_it_is(home: Path) -> None:
    assert examine_home(home) is None
    assert prepare_home(home).path == home
    assert {file.name for file in home.iterdir()} >= {file.name for file in BEFORE.iterdir()}


def test_a_spool_of_another_version_is_left_as_it_is(home: Path) -> None:
    before = (home / "spool.db").read_bytes()
    with pytest.raises(UnavailableError, match="is of version 1, and this gua reads version 2: deliver what waits"):
        Spool(home / "spool.db", destinations=None)
    assert (home / "spool.db").read_bytes() == before


def test_the_host_stays_enrolled(home: Path) -> None:
    enrollment = read_enrollment(home)
    assert enrollment is not None
    assert (enrollment.endpoint, enrollment.token) == (ENDPOINT, "a-token-of-a-test")
