"""Options that several commands share: one name, one meaning, one environment variable."""

from __future__ import annotations

from typing import Annotated

import typer

StoreOption = Annotated[
    str | None,
    typer.Option(
        metavar="DSN",
        envvar="GUA_STORE",
        help="chdb:///path or clickhouse://user@host:8123; ~/.gua/store if not given.",
    ),
]
EndpointOption = Annotated[
    str | None,
    typer.Option(
        metavar="URL", envvar="GUA_ENDPOINT", help="Send to an OTLP endpoint, over HTTP or gRPC, instead of a store."
    ),
]
HistoryOption = Annotated[
    bool,
    typer.Option(
        "--with-history",
        envvar="GUA_WITH_HISTORY",
        help="Also send what the local store holds of this host from before; again changes nothing.",
    ),
]
