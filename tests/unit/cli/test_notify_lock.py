"""The lock of gua notify: runs with one state directory, or on one embedded store, wait for each other."""

from __future__ import annotations

from pathlib import Path

import pytest

from gua.cli import notify
from gua.core.errors import UnavailableError


@pytest.fixture(autouse=True)
def _no_patience(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(notify, "_LOCK_SECONDS", 0.0)
    monkeypatch.setattr(notify, "_POLL_SECONDS", 0.0)


def store(folder: Path) -> str:
    folder.mkdir()
    (folder / "gua-store.json").write_text("{}")
    return str(folder)


def test_runs_of_two_state_directories_on_one_embedded_store_wait_for_each_other(tmp_path: Path) -> None:
    shared = store(tmp_path / "store")
    with (
        notify.lock(tmp_path / "one", shared),
        pytest.raises(UnavailableError, match="another gua notify runs"),
        notify.lock(tmp_path / "two", shared),
    ):
        pytest.fail("both had the lock")
    with notify.lock(tmp_path / "two", shared):
        pass


def test_runs_on_two_stores_do_not_wait(tmp_path: Path) -> None:
    with notify.lock(tmp_path / "home", store(tmp_path / "a")), notify.lock(tmp_path / "home", store(tmp_path / "b")):
        pass


def test_runs_of_one_state_directory_on_a_server_wait(tmp_path: Path) -> None:
    server = "clickhouse://gua_notify@db.example:8123"
    with (
        notify.lock(tmp_path, server),
        pytest.raises(UnavailableError, match="another gua notify runs"),
        notify.lock(tmp_path, server),
    ):
        pytest.fail("both had the lock")


def test_a_lock_file_that_is_a_link_is_refused_and_its_target_is_left_alone(tmp_path: Path) -> None:
    shared, target = store(tmp_path / "store"), tmp_path / "target"
    target.write_text("kept")
    (tmp_path / "store" / "notify.lock").symlink_to(target)
    with pytest.raises(UnavailableError, match=r"notify.lock cannot be opened"), notify.lock(tmp_path / "home", shared):
        pytest.fail("the link was followed")
    assert target.read_text() == "kept"
