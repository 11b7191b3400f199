"""Prices from a CSV file: all of them or none, with the line of what is wrong."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from gua.core.errors import DataError, UnavailableError, UsageError
from gua.prices.price import ALWAYS_MS, ModelPrice, parse_amount, parse_currency, parse_valid_from

NEEDED: Final = ("model", "currency", "per_gpu_hour")
OPTIONAL: Final = ("valid_from", "source")
_MOST_BYTES: Final = 16 * 2**20
_NAMES: Final = f"{','.join(NEEDED)}, and valid_from and source if wanted"


def read_prices(path: Path, *, now_ms: int) -> list[ModelPrice]:
    """Return the prices of a CSV file with a header, in the order of its lines.

    Raises DataError, naming the line, for what is no price and for two prices of a model from the same moment,
    UsageError for what is no file and UnavailableError if it cannot be read.
    """
    prices: list[ModelPrice] = []
    lines: dict[tuple[str, int], int] = {}
    for line, price in _rows(path, now_ms):
        before = lines.setdefault((price.model, price.valid_from_ms), line)
        if before != line:
            msg = f"{path}:{line}: {price.model} has a price from {price.since} in line {before} already"
            raise DataError(msg)
        prices.append(price)
    if not prices:
        msg = f"{path}: holds no price: write a header, {_NAMES}, and a line for each"
        raise DataError(msg)
    return prices


def _rows(path: Path, now_ms: int) -> Iterator[tuple[int, ModelPrice]]:
    with io.TextIOWrapper(io.BytesIO(_read(path)), encoding="utf-8-sig", newline="") as file:
        reader = csv.reader(file, strict=True)
        names: list[str] | None = None
        try:
            for cells in reader:
                if not any(cell.strip() for cell in cells):
                    continue
                if names is None:
                    names = _header(path, reader.line_num, cells)
                    continue
                yield reader.line_num, _price(path, reader.line_num, names, cells, now_ms)
        except UnicodeDecodeError:
            msg = f"{path}: after line {reader.line_num} it is not UTF-8 text: save it as CSV in UTF-8"
            raise DataError(msg) from None
        except csv.Error as error:
            msg = f"{path}:{reader.line_num}: is not CSV ({error})"
            raise DataError(msg) from None


def _read(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            content = file.read(_MOST_BYTES + 1)
    except (FileNotFoundError, IsADirectoryError) as error:
        msg = f"{path}: {error.strerror}: give the path of a CSV file with the header {_NAMES}"
        raise UsageError(msg) from None
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        msg = f"{path} cannot be read: {reason}: check the path and its permissions"
        raise UnavailableError(msg) from None
    if len(content) > _MOST_BYTES:
        msg = f"{path}: is larger than {_MOST_BYTES // 2**20} MiB: give a CSV file with the header {_NAMES}"
        raise DataError(msg)
    return content


def _header(path: Path, line: int, cells: list[str]) -> list[str]:
    names = [cell.strip().lower() for cell in cells]
    unknown = [name for name in names if name not in {*NEEDED, *OPTIONAL}]
    if unknown or not {*NEEDED} <= {*names} or len({*names}) < len(names):
        msg = f"{path}:{line}: the header is {','.join(names)}: it must be {_NAMES}, each once"
        raise DataError(msg)
    return names


def _price(path: Path, line: int, names: list[str], cells: list[str], now_ms: int) -> ModelPrice:
    if len(cells) != len(names):
        msg = f"{path}:{line}: has {len(cells)} cells, the header {len(names)}: put what holds a comma in quotes"
        raise DataError(msg)
    row = {name: cell.strip() for name, cell in zip(names, cells, strict=True)}
    if not row["model"]:
        msg = f"{path}:{line}: names no model"
        raise DataError(msg)
    try:
        return ModelPrice(
            model=row["model"],
            currency=parse_currency(row["currency"]),
            per_gpu_hour=parse_amount(row["per_gpu_hour"]),
            valid_from_ms=parse_valid_from(row["valid_from"], now_ms=now_ms) if row.get("valid_from") else ALWAYS_MS,
            source=row.get("source") or None,
        )
    except UsageError as error:
        msg = f"{path}:{line}: {error}"
        raise DataError(msg) from None
