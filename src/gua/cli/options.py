"""Options that several commands share: one name, one meaning, one environment variable."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer


def flag(name: str, envvar: str, text: str) -> object:
    """Return an option that is on or off."""
    return typer.Option(name, envvar=envvar, help=text)


def value(metavar: str, envvar: str, text: str, *names: str, **limits: Any) -> object:  # noqa: ANN401 - numbers, of whatever type the option is
    """Return an option with a value, named as its parameter if no other name is given."""
    return typer.Option(*names, metavar=metavar, envvar=envvar, help=text, **limits)


def path_value(metavar: str, envvar: str, text: str, *names: str) -> object:
    """Return an option with a path that need not be readable yet: what opens it says what is wrong with it."""
    return typer.Option(*names, metavar=metavar, envvar=envvar, help=text, readable=False)


StoreOption = Annotated[
    str | None,
    value("DSN", "GUA_STORE", "chdb:///path or clickhouse://user@host:8123; ~/.gua/store if not given."),
]
EndpointOption = Annotated[
    str | None, value("URL", "GUA_ENDPOINT", "Send to an OTLP endpoint, over HTTP or gRPC, instead of a store.")
]
ProcfsOption = Annotated[Path, value("DIR", "GUA_PROCFS", "The host's /proc, as mounted in a container.")]
IgnoreProcessOption = Annotated[
    list[str] | None,
    value(
        "NAME",
        "GUA_IGNORE_PROCESS",
        "Do not count processes of this name as users of a card, besides display servers and monitors.",
    ),
]
StateDirOption = Annotated[Path | None, path_value("DIR", "GUA_HOME", "Spool and state; ~/.gua if not given.")]
AgentStateOption = Annotated[Path | None, path_value("DIR", "GUA_HOME", "The agent's state; ~/.gua if not given.")]
PidFileOption = Annotated[Path | None, path_value("FILE", "GUA_PID_FILE", "The agent's PID file, if not in its state.")]
AgentSocketOption = Annotated[
    Path | None,
    path_value(
        "PATH",
        "GUA_SOCKET",
        "Answer gua status and gua report of all users of this host here, as at /run/gua/agent.sock.",
    ),
]
SocketOption = Annotated[
    Path | None,
    path_value(
        "PATH",
        "GUA_SOCKET",
        "Where the agent answers; agent.sock in its state, else /run/gua/agent.sock, if not given.",
        "--socket",
    ),
]
CompatibleOption = Annotated[
    bool,
    flag(
        "--compatible/--no-compatible",
        "GUA_COMPATIBLE",
        "Also serve the metrics of gpu-idle-exporter, gpu_idle_….",
    ),
]
KubeletOption = Annotated[
    str | None,
    value(
        "URL",
        "GUA_KUBELET",
        "Names of pods besides their ids, from this node's kubelet: https://NODE:10250/pods, with the service "
        "account's token.",
    ),
]
InsecureKubeletOption = Annotated[
    bool,
    flag(
        "--kubelet-insecure",
        "GUA_KUBELET_INSECURE",
        "Do not check the kubelet's certificate: whoever answers there gets the token.",
    ),
]
HistoryOption = Annotated[
    bool,
    flag(
        "--with-history",
        "GUA_WITH_HISTORY",
        "Also send what the local store holds of this host from before; again changes nothing.",
    ),
]
HostsOption = Annotated[list[str] | None, value("NAME", "GUA_HOST", "Only this host; repeatable.")]
WidthOption = Annotated[int | None, value("COLUMNS", "GUA_WIDTH", "Columns of text; the terminal's if not given.")]
