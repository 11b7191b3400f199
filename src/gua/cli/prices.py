"""``gua prices``: prices of GPU time, by model and start time."""

import sys
import time
from pathlib import Path
from typing import Annotated

import typer

from gua.app.output import safe
from gua.cli.options import StoreOption, flag, value
from gua.core.errors import DataError, UsageError
from gua.core.moments import to_rfc3339
from gua.prices import book
from gua.prices.book import (
    ALWAYS_MS,
    ModelPrice,
    known_model,
    parse_amount,
    parse_currency,
    parse_valid_from,
    read_prices,
)

app = typer.Typer(no_args_is_help=True)

ChangeCurrencyOption = Annotated[
    bool,
    flag(
        "--change-currency", "GUA_PRICES_CHANGE_CURRENCY", "Let a model's price be in another currency than its others."
    ),
]


@app.callback()
def group() -> None:
    """Set what GPU time costs: a price of a whole GPU's hour for each model, from a moment on.

    Example:
        gua prices set "H100 80GB HBM3" 2.49 --currency EUR --from 2026-01-01
        gua prices list
    """


@app.command("list")
def list_(
    *,
    as_json: Annotated[bool, flag("--json", "GUA_JSON", 'One JSON object, schema "gua.prices/1".')] = False,
    store: StoreOption = None,
) -> None:
    """List the prices, and the models of the store that have none.

    Example:
        gua prices list --json
    """
    from gua.app import opening  # noqa: PLC0415 - invalid options save its 0.1 s

    with opening.open_reader(store, needs_newest=False) as opened:
        prices, models = book.prices(opened), book.models(opened)
    sys.stdout.write((book.to_json if as_json else book.to_text)(prices, models))


@app.command("set")
def set_(
    model: Annotated[str, typer.Argument(metavar="MODEL", help="As a report shows it.")],
    price: Annotated[str, typer.Argument(metavar="PRICE", help="Of an hour of a whole GPU.")],
    *,
    currency: Annotated[str, value("CODE", "GUA_PRICES_CURRENCY", "ISO 4217, as in EUR.")],
    valid_from: Annotated[
        str | None,
        value(
            "WHEN",
            "GUA_PRICES_FROM",
            "Start of the UTC hour from which on it counts; from ever if not given.",
            "--from",
        ),
    ] = None,
    source: Annotated[
        str | None, value("TEXT", "GUA_PRICES_SOURCE", "Who says so: a contract, a list, an estimate.")
    ] = None,
    change_currency: ChangeCurrencyOption = False,
    force: Annotated[
        bool, flag("--force", "GUA_PRICES_FORCE", "Accept a model that no known card has, for cards to come.")
    ] = False,
    store: StoreOption = None,
) -> None:
    """Set what a model costs from a moment on.

    It counts until the model's next price; a price from the same moment is replaced. Capitals do not matter,
    and neither do NVIDIA and GeForce before the name.

    Example:
        gua prices set "H100 80GB HBM3" 2.49 --currency EUR --from 2026-01-01 --source "contract 12"
    """
    from gua.app import opening  # noqa: PLC0415 - as in the list command

    entered = ModelPrice(
        model=_named(model),
        currency=parse_currency(currency),
        per_gpu_hour=parse_amount(price),
        valid_from_ms=ALWAYS_MS
        if valid_from is None
        else parse_valid_from(valid_from, now_ms=time.time_ns() // 1_000_000),
        source=source or None,
    )
    with opening.open_writer(store) as opened:
        (new,), there = book.put(opened, [entered], unseen=_note if force else _refuse, change_currency=change_currency)
    was = next((one for one in there if (one.model, one.valid_from_ms) == (new.model, new.valid_from_ms)), None)
    before = f"; was {was.per_gpu_hour:.10g} {was.currency}" if was else ""
    typer.echo(safe(f"{new}{before}"))


@app.command("import")
def import_(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="CSV: model,currency,per_gpu_hour,valid_from,source.")],
    *,
    change_currency: ChangeCurrencyOption = False,
    store: StoreOption = None,
) -> None:
    """Set the prices of a CSV file, all or none.

    It has a header; the columns valid_from and source may be left out or empty. If a line is wrong nothing is set.

    Example:
        gua prices import prices.csv
    """
    from gua.app import opening  # noqa: PLC0415 - as in the list command

    entered = read_prices(file, now_ms=time.time_ns() // 1_000_000)
    with opening.open_writer(store) as opened:
        try:
            new, _ = book.put(opened, entered, unseen=_note, change_currency=change_currency)
        except UsageError as error:
            raise DataError(f"{file}: {error}") from None
    typer.echo(f"{len(new)} prices of {len({price.model for price in new})} models set")


@app.command()
def remove(
    model: Annotated[str, typer.Argument(metavar="MODEL", help="As gua prices list shows it.")],
    *,
    valid_from: Annotated[
        str | None,
        value(
            "WHEN",
            "GUA_PRICES_FROM",
            "Which of its prices, by the moment from which on it counts; needed if it has several.",
            "--from",
        ),
    ] = None,
    store: StoreOption = None,
) -> None:
    """Take a price back.

    The one before it counts on; where there is none, that time is not priced.

    Example:
        gua prices remove "H100 80GB HBM3" --from 2026-01-01
    """
    from gua.app import opening  # noqa: PLC0415 - as in the list command

    wanted_ms = None if valid_from is None else parse_valid_from(valid_from, now_ms=time.time_ns() // 1_000_000)
    with opening.open_writer(store) as opened:
        there = book.prices(opened)
        name = known_model(_named(model), dict.fromkeys(price.model for price in there)) or model
        of_model = [price for price in there if price.model == name]
        fitting = [price for price in of_model if wanted_ms in {None, price.valid_from_ms}]
        if not of_model:
            priced = book.some({price.model for price in there})
            raise UsageError(f"there is no price of {name!r}: there are prices of {priced}")
        if len(fitting) != 1:
            moments = ", ".join(to_rfc3339(price.valid_from_ms) for price in of_model)
            which = "none from then" if wanted_ms is not None else "several"
            raise UsageError(f"{name} has {which}: say which with --from, there are prices from {moments}")
        book.write(opened, fitting, removed=True)
    typer.echo(safe(f"removed: {fitting[0]}"))


def _named(model: str) -> str:
    if not model.strip():
        raise UsageError("the model is empty: write it as a report shows it, as in 'H100 80GB HBM3'")
    return model.strip()


def _refuse(text: str) -> None:
    raise UsageError(f"{text}; --force takes the name for cards to come")


def _note(text: str) -> None:
    typer.echo(safe(f"note: {text}"), err=True)
