"""``gua prices`` on an embedded store: set, listed, taken back, imported."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from gua.cli.main import main
from gua.store.database import open_store

pytestmark = pytest.mark.engine

H100 = "NVIDIA H100 80GB HBM3"
Run = Callable[..., tuple[int, str, str]]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory, made_store: Callable[[Path], str]) -> Path:
    """Return a store with two cards of one model and one of another."""
    path = tmp_path_factory.mktemp("prices") / "store"
    with open_store(made_store(path)) as store:
        for number, model in enumerate((H100, H100, "NVIDIA L4")):
            card = {"host": "n", "gpu": f"GPU-{number}"}
            store.insert_json("card_info", [{**card, "ts": 1_774_440_000, "model": model}])
            store.insert_json("card_seen", [{**card, "first_seen": 1_774_440_000, "last_seen": 1_774_443_600}])
    return path


@pytest.fixture
def gua(folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Run:
    monkeypatch.setenv("GUA_HOME", str(folder.parent))
    monkeypatch.setenv("GUA_STORE", f"chdb://{folder}")
    with open_store(f"chdb://{folder}") as store:
        store._client.command("TRUNCATE TABLE gua.prices")  # noqa: SLF001 - nothing of gua forgets prices

    def run(*arguments: str) -> tuple[int, str, str]:
        code = main(["prices", *arguments])
        printed = capsys.readouterr()
        return code, printed.out, printed.err

    return run


def test_a_price_is_set_listed_replaced_and_taken_back(gua: Run) -> None:
    assert gua("set", "h100 80gb hbm3", "2.40", "--currency", "eur", "--source", "contract 12") == (
        0,
        f"{H100}: 2.4 EUR per GPU-hour from the beginning (contract 12)\n",
        "",
    )
    _, printed, _ = gua("set", H100, "2.49", "--currency", "EUR")
    assert printed == f"{H100}: 2.49 EUR per GPU-hour from the beginning; was 2.4 EUR\n"
    gua("set", H100, "3", "--currency", "EUR", "--from", "2026-04-01T02:00+02:00")
    code, printed, _ = gua("list")
    assert code == 0
    assert printed == (
        "model                  per GPU-hour  from                  until                 source\n"
        f"{H100}  2.49 EUR      the beginning         2026-04-01T00:00:00Z\n"
        f"{H100}  3 EUR         2026-04-01T00:00:00Z\n"
        "without a price (cards): NVIDIA L4 (1)\n"
    )
    code, _, printed = gua("remove", H100)
    assert code == 2
    assert printed == (
        f"gua: {H100} has several: say which with --from, there are prices from 1970-01-01T00:00:00Z, "
        "2026-04-01T00:00:00Z\n"
    )
    code, printed, _ = gua("remove", "H100 80GB HBM3", "--from", "2026-04-01")
    assert (code, printed) == (0, f"removed: {H100}: 3 EUR per GPU-hour from 2026-04-01T00:00:00Z\n")
    _, printed, _ = gua("list", "--json")
    assert json.loads(printed) == {
        "schema": "gua.prices/1",
        "prices": [
            {
                "model": H100,
                "currency": "EUR",
                "per_gpu_hour": 2.49,
                "valid_from": "1970-01-01T00:00:00Z",
                "valid_until": None,
                "source": None,
            }
        ],
        "unpriced": [{"model": "NVIDIA L4", "cards": 1}],
    }


def test_a_price_for_a_model_never_seen_is_refused_without_force(gua: Run) -> None:
    message = f"the store has never seen a card of the model 'B200\\x1b[31m'; it has seen {H100}, NVIDIA L4"
    given = ("set", "B200\x1b[31m", "9", "--currency", "USD")
    assert gua(*given) == (2, "", f"gua: {message}; --force takes the name for cards to come\n")
    assert gua("list")[1].startswith("there are no prices yet")
    printed = "B200[31m: 9 USD per GPU-hour from the beginning\n"
    assert gua(*given, "--force") == (0, printed, f"note: {message}\n")
    assert gua(*given) == (0, printed.replace("\n", "; was 9 USD\n"), "")


def test_an_empty_store_says_that_it_has_seen_no_card(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GUA_HOME", str(tmp_path))
    given = ["prices", "set", "L4", "1", "--currency", "EUR", "--store", f"chdb://{tmp_path / 'store'}"]
    assert main(given) == 2
    assert "'L4'; it has seen none at all yet; --force" in capsys.readouterr().err
    assert main([*given, "--force"]) == 0


@contextmanager
def one_more_card(folder: Path, **of_it: str) -> Iterator[None]:
    """Let the store of these tests have one more card meanwhile."""
    card = {"host": "m", "gpu": "GPU-9"}
    with open_store(f"chdb://{folder}") as store:
        store.insert_json("card_info", [{**card, "ts": 1_774_440_000, **of_it}])
        store.insert_json("card_seen", [{**card, "first_seen": 1_774_440_000, "last_seen": 1_774_443_600}])
    try:
        yield
    finally:
        with open_store(f"chdb://{folder}") as store:
            for table in ("card_info", "card_seen"):
                store._client.command(f"DELETE FROM gua.{table} WHERE host = 'm'")  # noqa: SLF001 - as above


def test_a_name_that_several_models_have_is_refused(gua: Run, folder: Path) -> None:
    with one_more_card(folder, model="L4"):
        message = "gua: 'l4' may be 'L4' or 'NVIDIA L4': write one of them in full\n"
        assert gua("set", "l4", "1", "--currency", "EUR") == (2, "", message)
        assert gua("set", "NVIDIA L4", "1", "--currency", "EUR")[0] == 0


def test_a_second_currency_needs_to_be_meant(gua: Run) -> None:
    gua("set", "L4", "0.80", "--currency", "EUR")
    code, printed, error = gua("set", "L4", "0.90", "--currency", "USD", "--from", "2026-04-01")
    assert (code, printed) == (2, "")
    assert error == (
        "gua: NVIDIA L4 has a price in EUR from the beginning, this one is in USD: its costs would be in two "
        "currencies; give --change-currency if that is meant\n"
    )
    code, printed, _ = gua("set", "L4", "0.90", "--currency", "USD", "--from", "2026-04-01", "--change-currency")
    assert (code, printed) == (0, "NVIDIA L4: 0.9 USD per GPU-hour from 2026-04-01T00:00:00Z\n")


@pytest.mark.parametrize("amount", ["nan", "inf", "-1", "2,49"])
def test_what_is_no_price_is_wrong_usage(gua: Run, amount: str) -> None:
    code, printed, error = gua("set", "L4", amount, "--currency", "EUR")
    assert (code, printed) == (2, "")
    assert error.startswith("gua: ")
    assert len(error.splitlines()) == 1


def test_removing_a_missing_price_lists_the_existing_ones(gua: Run) -> None:
    assert gua("remove", "L4") == (2, "", "gua: there is no price of 'L4': there are prices of none\n")
    gua("set", "L4", "0.80", "--currency", "EUR")
    code, _, error = gua("remove", "L4", "--from", "2026-01-01")
    assert (code, error) == (
        2,
        "gua: NVIDIA L4 has none from then: say which with --from, there are prices from 1970-01-01T00:00:00Z\n",
    )


def test_a_file_is_imported_whole_or_not_at_all(gua: Run, tmp_path: Path) -> None:
    file = tmp_path / "prices.csv"
    header = "model,currency,per_gpu_hour,valid_from\n"
    file.write_text(f"{header}L4,EUR,0.8,2026-01-01\nH100 80GB HBM3,EUR,2,\nL4,EUR,-1,\n", encoding="utf-8")
    code, _, error = gua("import", str(file))
    assert (code, error.startswith(f"gua: {file}:4: '-1' is no price")) == (4, True)
    file.write_text(f"{header}L4,EUR,0.8,2026-01-01\nL4,USD,1,2026-02-01\n", encoding="utf-8")
    code, _, error = gua("import", str(file))
    assert (code, "NVIDIA L4 has a price in EUR" in error) == (4, True)
    file.write_text(f"{header}L4,EUR,0.8,\nNVIDIA L4,EUR,1,\n", encoding="utf-8")
    code, _, error = gua("import", str(file))
    assert (code, "two names of one model" in error) == (4, True)
    _, printed, _ = gua("list")
    assert printed.startswith("there are no prices yet: set one with gua prices set MODEL PRICE --currency EUR\n")
    file.write_text(f"{header}L4,EUR,0.8,2026-01-01\nH100 80GB HBM3,EUR,2,\nL4,EUR,0.9,2026-02-01\n", encoding="utf-8")
    assert gua("import", str(file)) == (0, "3 prices of 2 models set\n", "")


def test_what_is_no_file_of_prices_is_one_line_and_read_to_no_end(gua: Run, tmp_path: Path) -> None:
    assert gua("import", str(tmp_path))[0] == 2
    code, _, printed = gua("import", str(tmp_path / "none.csv"))
    assert (code, printed.count("\n")) == (2, 1)
    assert "No such file or directory: give the path of a CSV file" in printed
    code, _, printed = gua("import", "/dev/zero")
    assert code == 4
    assert "is larger than 16 MiB" in printed


def test_a_price_can_be_set_for_a_card_with_only_its_name_known(gua: Run, folder: Path) -> None:
    with one_more_card(folder, name="NVIDIA A100"):
        code, printed, message = gua("set", "A100", "1", "--currency", "EUR")
    assert (code, printed, message) == (0, "NVIDIA A100: 1 EUR per GPU-hour from the beginning\n", "")
