"""The list of prices that is kept beside an embedded store is the one that the engine would tell, or is not taken."""

from __future__ import annotations

import errno
import hashlib
import json
import os
import random
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import asdict, replace
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from gua.prices import book, listing
from gua.prices.listing import PriceList
from gua.prices.price import ModelPrice, PriceRow
from gua.store import table_files
from gua.store.database import Store, open_store

pytestmark = pytest.mark.engine

ROOT = Path(__file__).resolve().parents[3]
MODELS = ("H100", "L4", "A100")
SEEN = 1_774_440_000


class KilledError(BaseException):
    """The process was killed here."""


@pytest.fixture
def path(tmp_path: Path, made_store: Callable[[Path], str]) -> Path:
    made_store(tmp_path / "store")
    return tmp_path / "store"


@pytest.fixture
def store(path: Path) -> Iterator[Store]:
    with open_store(f"chdb://{path}") as opened:
        yield opened


def put(store: Store, model: str, price: float, *, hour: int = 0, removed: bool = False) -> None:
    given = ModelPrice(model=model, currency="EUR", per_gpu_hour=price, valid_from_ms=hour * 3_600_000)
    book.write(store, [given], removed=removed)


def test_every_field_of_a_price_is_read_back(store: Store) -> None:
    given = ModelPrice(model="H100", currency="EUR", per_gpu_hour=2.49, valid_from_ms=3_600_000, source="contract 12")
    book.write(store, [given, replace(given, valid_from_ms=7_200_000, source=None)], removed=False)
    assert book.prices(store) == [
        PriceRow(**asdict(given), until_ms=7_200_000),
        PriceRow(**asdict(replace(given, valid_from_ms=7_200_000, source=None)), until_ms=None),
    ]


def see(store: Store, gpu: str, model: str, *, at: int = SEEN) -> None:
    store.insert_json("card_info", [{"host": "n", "gpu": gpu, "ts": at, "model": model}])
    store.insert_json("card_seen", [{"host": "n", "gpu": gpu, "first_seen": SEEN, "last_seen": at}])


def asked(store: Store) -> PriceList:
    return PriceList(book.prices(store), book.models(store))


def kept_of(store: Store) -> PriceList:
    """Return the list of a store with a price and a card, once it is kept."""
    put(store, "H100", 2.5)
    see(store, "GPU-0", "H100")
    return book.listed(store)


def is_right(path: Path, expected: PriceList) -> bool:
    """Return whether a list was taken, which must be the expected one."""
    found = listing.read(path)
    assert found is None or found == expected
    return found is not None


@pytest.mark.parametrize("seed", range(4))
def test_whatever_is_done_in_between_a_list_that_is_taken_is_the_engines(store: Store, path: Path, seed: int) -> None:
    chance = random.Random(seed)  # noqa: S311 - no secret
    taken = 0
    deeds: list[Callable[[], object]] = [
        lambda: book.listed(store),
        lambda: book.keep(store),
        lambda: put(store, chance.choice(MODELS), chance.randrange(9), hour=chance.randrange(3)),
        lambda: put(store, chance.choice(MODELS), 0, hour=chance.randrange(3), removed=True),
        lambda: see(store, f"GPU-{chance.randrange(3)}", chance.choice(MODELS), at=SEEN + chance.randrange(9)),
        lambda: store._run(f"OPTIMIZE TABLE gua.{chance.choice(('prices', 'card_info', 'card_seen'))} FINAL"),  # noqa: SLF001 - as the engine does by itself
        lambda: store._run("TRUNCATE TABLE gua.prices"),  # noqa: SLF001 - as who goes past gua
        lambda: store._run("ALTER TABLE gua.prices UPDATE per_gpu_hour = 7 WHERE 1 SETTINGS mutations_sync = 1"),  # noqa: SLF001 - likewise
        lambda: store._run("DELETE FROM gua.card_seen WHERE gpu = 'GPU-1'"),  # noqa: SLF001 - likewise
    ]
    weights = (6, 4, 5, 2, 4, 1, 0.3, 0.5, 0.5)
    for _ in range(60):
        chance.choices(deeds, weights)[0]()
        taken += is_right(path, asked(store))
    assert taken > 0


def test_a_change_in_the_same_moment_of_a_coarse_clock_is_seen(
    store: Store, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def coarse(found: os.stat_result) -> list[int]:
        return [found.st_dev, found.st_ino]

    monkeypatch.setattr(table_files, "_identity", coarse)
    assert is_right(path, kept_of(store))
    put(store, "H100", 3)
    assert listing.read(path) is None


def test_a_list_is_not_kept_where_something_landed_while_it_was_asked(
    store: Store, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    models = book.models

    def slowly(of: Store) -> dict[str, int]:
        found = models(of)
        see(of, "GPU-7", "L4")
        return found

    monkeypatch.setattr(book, "models", slowly)
    book.listed(store)
    assert listing.read(path) is None


def killed_at(line: int) -> Callable[..., Any]:
    """Return a trace function that ends what is kept, with all of its clearing up, at so many lines."""
    left = iter(range(line))

    def step(frame: FrameType, event: str, _: object) -> object:
        if frame.f_code.co_filename != listing.__file__:
            return None
        if event == "line" and next(left, None) is None:
            raise KilledError
        return step

    return step


def test_killed_between_any_two_steps_a_list_that_is_taken_is_the_tables(store: Store, path: Path) -> None:
    kept_of(store)
    older = (path / "prices.json").read_bytes()
    put(store, "L4", 1)
    state, found, taken = listing.state(path), asked(store), []
    assert state is not None
    for line in range(200):
        (path / "prices.json").write_bytes(older)
        traced = sys.gettrace()
        sys.settrace(killed_at(line))
        try:
            listing.write(path, state, found)
        except KilledError:
            sys.settrace(traced)
            taken.append(is_right(path, found))
        else:
            break
        finally:
            sys.settrace(traced)
    assert len(taken) > 8
    assert not taken[0]
    assert is_right(path, found)


def test_of_a_damaged_file_nothing_is_taken(store: Store, path: Path) -> None:
    kept_of(store)
    file = path / "prices.json"
    whole = file.read_bytes()
    for place in range(len(whole)):
        file.write_bytes(whole[:place])
        assert listing.read(path) is None
        file.write_bytes(whole[:place] + bytes([whole[place] ^ 1]) + whole[place + 1 :])
        assert listing.read(path) is None
    file.write_bytes(whole)
    assert listing.read(path) is not None
    for body in (b"{}", b"[]", b"1", b'{"form": "%s"}' % listing.FORM.encode()):
        file.write_bytes(listing._checksum(body) + b"\n" + body)  # noqa: SLF001 - as another program might
        assert listing.read(path) is None


def test_a_file_of_another_form_is_not_taken(store: Store, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as older:
        older.setattr(listing, "FORM", "gua.kept-prices/0")
        kept_of(store)
        assert listing.read(path) is not None
    assert listing.read(path) is None


def test_a_link_and_a_pipe_are_not_followed(store: Store, path: Path, tmp_path: Path) -> None:
    kept_of(store)
    file, elsewhere = path / "prices.json", tmp_path / "elsewhere"
    file.rename(elsewhere)
    file.symlink_to(elsewhere)
    assert listing.read(path) is None
    file.unlink()
    os.mkfifo(file)
    assert listing.read(path) is None
    (path / "prices.json.new").symlink_to(elsewhere)
    before = elsewhere.read_bytes()
    assert is_right(path, book.listed(store))
    assert elsewhere.read_bytes() == before


def test_a_moved_store_keeps_its_list_and_a_copy_has_none(path: Path, tmp_path: Path) -> None:
    with open_store(f"chdb://{path}") as store:
        expected = kept_of(store)
    copy, moved = tmp_path / "copy", tmp_path / "moved"
    shutil.copytree(path, copy, symlinks=True)
    assert listing.read(copy) is None
    path.rename(moved)
    assert is_right(moved, expected)
    shutil.rmtree(moved / "data")
    assert listing.read(moved) is None
    shutil.copytree(copy / "data", moved / "data", symlinks=True)
    assert listing.read(moved) is None


def test_a_table_whose_folder_was_put_back_is_asked_for(path: Path) -> None:
    with open_store(f"chdb://{path}") as store:
        kept_of(store)
    folder = (path / "data/data/gua/prices").resolve()
    away = folder.rename(path / "away")
    shutil.copytree(away, folder)
    assert listing.read(path) is None


def test_after_a_crash_of_the_machine_the_engine_is_asked(
    store: Store, path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept_of(store)
    (tmp_path / "boot_id").write_text("another\n", encoding="ascii")
    monkeypatch.setattr(table_files, "_BOOT_ID", tmp_path / "boot_id")
    assert listing.read(path) is None
    monkeypatch.setattr(table_files, "_BOOT_ID", tmp_path / "none")
    assert is_right(path, book.listed(store)) is False


def test_where_it_cannot_be_kept_it_is_asked_for(store: Store, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kept_of(store)
    put(store, "L4", 1)
    real = os.open

    def full(file: Path, flags: int, mode: int = 0o777) -> int:
        if flags & os.O_CREAT:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(file))
        return real(file, flags, mode)

    with monkeypatch.context() as disk:
        disk.setattr(os, "open", full)
        found = book.listed(store)
    assert [row.model for row in found.prices] == ["H100", "L4"]
    assert listing.read(path) is None
    (path / "prices.json").unlink()
    with monkeypatch.context() as other:
        other.setattr(os, "geteuid", lambda: path.stat().st_uid + 1)
        book.listed(store)
    assert sorted(each.name for each in path.iterdir()) == ["data", "gua-store.json", "lock"]


def test_it_is_private(store: Store, path: Path) -> None:
    old = os.umask(0)
    try:
        kept_of(store)
    finally:
        os.umask(old)
    assert (path / "prices.json").stat().st_mode & 0o777 == 0o600


def test_the_command_lists_what_is_kept_without_the_engine(path: Path, tmp_path: Path) -> None:
    with open_store(f"chdb://{path}") as store:
        kept_of(store)
    code = (
        "import sys; from gua.cli.main import main; code = main(['prices', 'list', '--json']); "
        "heavy = {'chdb', 'clickhouse_connect', 'sqlite3', 'gua.store.database', 'gua.core.view'}; "
        "print(sorted(heavy & {*sys.modules}), file=sys.stderr); sys.exit(code)"
    )
    environ = {**os.environ, "GUA_HOME": str(tmp_path), "GUA_STORE": str(path)}
    done = subprocess.run([sys.executable, "-c", code], env=environ, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "[]\n")
    assert json.loads(done.stdout)["prices"][0]["per_gpu_hour"] == 2.5


def test_other_sql_of_the_list_has_another_form() -> None:
    """Raise the number in ``listing.FORM`` with a change of what the views tell; then write both here."""
    names = ("40_report/5_time_and_money/06_prices.sql", "10_ticks/30_cards.sql")
    files = [ROOT / "clickhouse" / name for name in names]
    digest = hashlib.sha256(b"".join(file.read_bytes() for file in files)).hexdigest()
    assert (listing.FORM, digest[:16]) == ("gua.kept-prices/1", "c4156b0599b382d5")
