"""What may be a price, and files of them."""

from __future__ import annotations

from pathlib import Path

import pytest

from gua.core.errors import DataError, UsageError
from gua.prices.book import (
    ModelPrice,
    check_currencies,
    known_model,
    parse_amount,
    parse_currency,
    parse_valid_from,
    read_prices,
)

NOW_MS = 1_774_440_000_000
HEADER = "model,currency,per_gpu_hour,valid_from,source\n"


def price(model: str = "H100", currency: str = "EUR", valid_from_ms: int = 0) -> ModelPrice:
    return ModelPrice(model=model, currency=currency, per_gpu_hour=2.0, valid_from_ms=valid_from_ms)


@pytest.mark.parametrize(("text", "amount"), [("2.49", 2.49), ("0", 0.0), (".5", 0.5), (" 3 ", 3.0)])
def test_a_price_is_a_number_of_zero_or_more(text: str, amount: float) -> None:
    assert parse_amount(text) == amount


@pytest.mark.parametrize("text", ["-1", "nan", "inf", "-inf", "", "2,49", "1e3", "1_000", "9" * 400, "2.49 EUR", "٢"])
def test_what_is_no_price_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="is no price: write a number"):
        parse_amount(text)


@pytest.mark.parametrize("text", ["", "E", "EURO", "€", "E1R", "\u017fek", "US$"])
def test_what_is_no_currency_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="is no currency"):
        parse_currency(text)


def test_a_currency_is_kept_in_capitals() -> None:
    assert parse_currency(" usd ") == "USD"


@pytest.mark.parametrize(
    ("text", "unix_ms"),
    [("1970-01-01", 0), ("2026-03-25T12:00", NOW_MS), ("2026-03-25T17:30+05:30", NOW_MS), ("1h", NOW_MS - 3_600_000)],
)
def test_a_price_begins_with_a_utc_hour(text: str, unix_ms: int) -> None:
    assert parse_valid_from(text, now_ms=NOW_MS) == unix_ms


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("2026-03-25T00:00+05:45", "write 2026-03-24T18:00:00Z"),
        ("2026-03-25T12:00:00.001", "write 2026-03-25T12:00:00Z"),
        ("1969-12-31T23:00", "between 1970 and 2106"),
        ("2107-01-01", "between 1970 and 2106"),
        ("soon", "'soon' is no moment"),
    ],
)
def test_another_moment_is_refused_and_the_one_before_it_named(text: str, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        parse_valid_from(text, now_ms=NOW_MS)


KNOWN = ["NVIDIA H100 PCIe", "NVIDIA GeForce RTX 4090", "NVIDIA L4", "L4"]


@pytest.mark.parametrize(
    ("name", "model"),
    [
        ("NVIDIA H100 PCIe", "NVIDIA H100 PCIe"),
        ("H100 PCIe", "NVIDIA H100 PCIe"),
        ("h100  pcie", "NVIDIA H100 PCIe"),
        ("RTX 4090", "NVIDIA GeForce RTX 4090"),
        ("L4", "L4"),
        ("H100", None),
    ],
)
def test_a_model_is_known_as_the_report_writes_it(name: str, model: str | None) -> None:
    assert known_model(name, KNOWN) == model


def test_a_name_that_two_models_have_is_refused() -> None:
    with pytest.raises(UsageError, match="'l4' may be 'L4' or 'NVIDIA L4'"):
        known_model("l4", KNOWN)


def test_a_second_currency_of_a_model_is_refused() -> None:
    with pytest.raises(
        UsageError, match=r"H100 has a price in EUR from the beginning, this one is in USD: .*--change-currency"
    ):
        check_currencies([price()], [price(currency="USD", valid_from_ms=3_600_000)])
    with pytest.raises(UsageError, match="in USD"):
        check_currencies([price()], [price(currency="USD")])
    with pytest.raises(UsageError, match="in USD"):
        check_currencies([], [price(), price(currency="USD", valid_from_ms=3_600_000)])


def test_other_models_and_what_was_let_in_before_do_not_matter() -> None:
    both = [price("A100", "EUR"), price("A100", "USD", 3_600_000)]
    check_currencies([*both, price()], [price("L4", "JPY"), price(valid_from_ms=3_600_000)])


def test_a_file_of_prices_is_read_whole(tmp_path: Path) -> None:
    file = tmp_path / "prices.csv"
    file.write_text(f'\ufeff{HEADER}H100,eur,2.49,2026-01-01,"contract 12, a"\n\nL4,USD,0,,\n', encoding="utf-8")
    assert read_prices(file, now_ms=NOW_MS) == [
        ModelPrice(
            model="H100", currency="EUR", per_gpu_hour=2.49, valid_from_ms=1_767_225_600_000, source="contract 12, a"
        ),
        ModelPrice(model="L4", currency="USD", per_gpu_hour=0.0, valid_from_ms=0),
    ]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "holds no price"),
        (HEADER, "holds no price"),
        ("model,price\n", r"prices\.csv:1: the header is model,price: it must be model,currency,per_gpu_hour"),
        ("model,currency,per_gpu_hour,model\n", "each once"),
        (f"{HEADER}H100,EUR,2,,\nL4,EUR,-2,,\n", r"prices\.csv:3: '-2' is no price"),
        (f"{HEADER}H100,EUR,NaN,,\n", r"prices\.csv:2: 'NaN' is no price"),
        (f"{HEADER}H100,Euro,2,,\n", r"prices\.csv:2: 'Euro' is no currency"),
        (f"{HEADER}H100,EUR,2,2026-01-01T00:30,\n", r"prices\.csv:2: a price begins with a UTC hour"),
        (f"{HEADER}H100,EUR,2\n", r"prices\.csv:2: has 3 cells, the header 5"),
        (f"{HEADER} ,EUR,2,,\n", r"prices\.csv:2: names no model"),
        (f'{HEADER}"H100\n', r"prices\.csv:2: is not CSV"),
        (
            f"{HEADER}H100,EUR,2,2026-01-01,\nL4,EUR,1,,\nH100,EUR,3,2026-01-01T00:00Z,\n",
            r"prices\.csv:4: H100 has a price from 2026-01-01T00:00:00Z in line 2 already",
        ),
    ],
)
def test_a_wrong_line_is_named_and_nothing_is_read(tmp_path: Path, text: str, said: str) -> None:
    file = tmp_path / "prices.csv"
    file.write_text(text, encoding="utf-8")
    with pytest.raises(DataError, match=said):
        read_prices(file, now_ms=NOW_MS)


def test_a_file_that_is_no_text_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "prices.csv"
    file.write_bytes(b"model,currency,per_gpu_hour\nH\xff100,EUR,2\n")
    with pytest.raises(DataError, match="not UTF-8 text"):
        read_prices(file, now_ms=NOW_MS)
