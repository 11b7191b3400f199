"""A store that is opened ahead is the store; what is in the way is told as if nothing had been begun."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from gua.core.errors import TransientError, UnavailableError
from gua.store import ahead
from gua.store.database import open_store
from gua.store.directory import StoreDirectory

pytestmark = pytest.mark.engine
BEGIN = "import os, sys; from gua.store import ahead; from pathlib import Path; ahead.begin(Path(sys.argv[1]))"
ZONE = "import time; time.tzset(); print(time.tzname[0])"


@pytest.fixture
def store(tmp_path: Path, made_store: Callable[[Path], str]) -> Iterator[Path]:
    path = tmp_path / "store"
    made_store(path)
    yield path
    assert ahead.taken(path) is None


def is_free(path: Path) -> bool:
    directory = StoreDirectory(path)
    try:
        directory.hold(patience_seconds=0)
    except TransientError:
        return False
    directory.release()
    return True


def test_it_is_held_from_then_on_and_free_once_it_is_closed(store: Path) -> None:
    ahead.begin(store)
    with open_store(f"chdb://{store}", patience_seconds=0) as opened:
        assert opened.select("SELECT count() AS cards FROM gua.cards") == [{"cards": 0}]
        assert not is_free(store)
    assert is_free(store)


def test_another_store_is_opened_all_the_same(store: Path, tmp_path: Path) -> None:
    ahead.begin(store)
    with open_store(f"chdb://{tmp_path / 'other'}", patience_seconds=0) as opened:
        assert opened.schema.check().lines == []
        assert is_free(store)


def test_one_that_another_process_has_open_is_waited_for_as_ever(store: Path) -> None:
    holder = StoreDirectory(store)
    holder.hold()
    ahead.begin(store)
    with pytest.raises(TransientError, match=f"is in use by pid {os.getpid()}, after 0 s"):
        open_store(f"chdb://{store}", patience_seconds=0)
    holder.release()


@pytest.mark.parametrize(("stamp", "said"), [('{"engine": "999.1"}', "install a newer engine"), ("{", "is damaged")])
def test_what_is_wrong_with_it_is_told_as_ever(store: Path, stamp: str, said: str) -> None:
    (store / "gua-store.json").write_text(stamp)
    ahead.begin(store)
    with pytest.raises(UnavailableError, match=said):
        open_store(f"chdb://{store}")
    assert is_free(store)


def test_none_is_made(tmp_path: Path) -> None:
    ahead.begin(tmp_path / "nowhere")
    assert ahead.taken(tmp_path / "nowhere") is None
    assert list(tmp_path.iterdir()) == []


def test_the_zone_of_the_process_stays_what_it_is(store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "Nowhere/Land")
    opened = "from gua.store.database import open_store; open_store('chdb://' + sys.argv[1]).close()"
    program = f"{BEGIN}; print(os.environ['TZ']); {opened}; {ZONE}"
    done = subprocess.run([sys.executable, "-c", program, str(store)], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["Nowhere/Land", "Nowhere"]


def test_a_process_that_ends_meanwhile_leaves_it_free(store: Path) -> None:
    program = f"{BEGIN}; os._exit(5)"
    assert subprocess.run([sys.executable, "-c", program, str(store)], check=False).returncode == 5
    deadline = time.monotonic() + 60
    while not is_free(store) and time.monotonic() < deadline:
        time.sleep(0.01)
    assert is_free(store)
