"""Options that several commands share: one name, one meaning, one environment variable."""

from __future__ import annotations

from pathlib import Path
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
ProcfsOption = Annotated[
    Path, typer.Option(metavar="DIR", envvar="GUA_PROCFS", help="The host's /proc, as mounted in a container.")
]
IgnoreProcessOption = Annotated[
    list[str] | None,
    typer.Option(
        metavar="NAME",
        envvar="GUA_IGNORE_PROCESS",
        help="Do not count processes of this name as users of a card, besides display servers and monitors.",
    ),
]
StateDirOption = Annotated[
    Path | None,
    typer.Option(metavar="DIR", envvar="GUA_HOME", readable=False, help="Spool and state; ~/.gua if not given."),
]
SocketOption = Annotated[
    Path | None,
    typer.Option(
        metavar="PATH",
        envvar="GUA_SOCKET",
        readable=False,
        help="Answer gua status and gua report of all users of this host here, as at /run/gua/agent.sock.",
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
