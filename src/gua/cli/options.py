"""Options shared by several commands (one name, one meaning, one environment variable), single or in groups."""

import dataclasses
import inspect
import re
import shutil
from collections.abc import Callable, Mapping
from functools import wraps
from pathlib import Path
from typing import Annotated, Any, Final, TextIO, TypeVar, get_type_hints

import typer

from gua.cli.completion import hosts, zones
from gua.core.errors import UsageError
from gua.report.kit.style import NARROWEST, WIDEST, Style

T = TypeVar("T")


def flag(name: str, envvar: str, text: str) -> object:
    """Return an option that is on or off."""
    return typer.Option(name, envvar=envvar, help=text)


def value(metavar: str, envvar: str, text: str, *names: str, **limits: Any) -> object:  # noqa: ANN401 - numbers of any option type
    """Return an option with a value, named as its parameter if no other name is given."""
    return typer.Option(*names, metavar=metavar, envvar=envvar, help=text, **limits)


def path_value(metavar: str, envvar: str, text: str, *names: str) -> object:
    """Return an option with a path that need not be readable: opening it reports the error."""
    return typer.Option(*names, metavar=metavar, envvar=envvar, help=text, readable=False)


StoreOption = Annotated[
    str | None,
    value("DSN", "GUA_STORE", "/path, chdb:///path or clickhouse://user@host:8123; ~/.gua/store if not given."),
]
EndpointOption = Annotated[
    str | None, value("URL", "GUA_ENDPOINT", "Send to an OTLP endpoint, over HTTP or gRPC, instead of a store.")
]
ProcfsOption = Annotated[Path, value("DIR", "GUA_PROCFS", "The host's /proc, as mounted in a container.")]
StateDirOption = Annotated[Path | None, path_value("DIR", "GUA_HOME", "Spool and state; ~/.gua if not given.")]
AgentStateOption = Annotated[Path | None, path_value("DIR", "GUA_HOME", "The agent's state; ~/.gua if not given.")]
PidFileOption = Annotated[Path | None, path_value("FILE", "GUA_PID_FILE", "The agent's PID file, if not in its state.")]
SocketOption = Annotated[
    Path | None,
    path_value(
        "PATH",
        "GUA_SOCKET",
        "Where the agent answers; agent.sock in its state, else /run/gua/agent.sock, if not given.",
        "--socket",
    ),
]
AllocationFolderOption = Annotated[
    Path | None,
    path_value(
        "DIR", "GUA_ALLOCATION_FOLDER", "Allocation files of hooks and others; /run/gua-allocations if not given."
    ),
]
SlurmJobMappingOption = Annotated[
    Path | None,
    path_value("DIR", "GUA_SLURM_JOB_MAPPING", "dcgm-exporter's job mapping, a file of jobs for each card."),
]
PodResourcesOption = Annotated[
    Path | None,
    path_value(
        "SOCKET",
        "GUA_POD_RESOURCES",
        "The kubelet's PodResources; /var/lib/kubelet/pod-resources/kubelet.sock if not given.",
    ),
]
HostsOption = Annotated[
    list[str] | None, value("NAME", "GUA_HOST", "Only this host; repeatable.", autocompletion=hosts)
]
TimezoneOption = Annotated[
    str | None,
    value(
        "ZONE",
        "GUA_TIMEZONE",
        "Zone of times: an IANA name (Europe/Berlin), UTC or local, the host's. Local if not given. In JSON and CSV "
        "times are always in UTC, and hours of the day if it is not given.",
        autocompletion=zones,
    ),
]
WidthOption = Annotated[int | None, value("COLUMNS", "GUA_WIDTH", "Columns of text; the terminal's if not given.")]


def with_groups(command: Callable[..., T]) -> Callable[..., T]:
    """Return the command with each field of its dataclass parameters as an option of its own."""
    groups: dict[str, Any] = {}
    parameters: list[inspect.Parameter] = []
    for name, parameter in inspect.signature(command, eval_str=True).parameters.items():
        if not dataclasses.is_dataclass(parameter.annotation):
            parameters.append(parameter)
            continue
        groups[name] = kind = parameter.annotation
        hints = get_type_hints(kind, include_extras=True)
        parameters += [
            inspect.Parameter(each.name, parameter.KEYWORD_ONLY, default=each.default, annotation=hints[each.name])
            for each in dataclasses.fields(kind)
            if hasattr(hints[each.name], "__metadata__")
        ]

    @wraps(command)
    def flat(**options: Any) -> T:  # noqa: ANN401 - any option types
        for name, kind in groups.items():
            options[name] = kind(
                **{each.name: options.pop(each.name) for each in dataclasses.fields(kind) if each.name in options}
            )
        return command(**options)

    flat.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined] # read by inspect
    return flat


_PIPE_WIDTH: Final = 80
_COLUMNS: Final = re.compile(r"[1-9][0-9]{0,4}", re.ASCII)


def style_for(stream: TextIO, width: int | None, environ: Mapping[str, str], *, narrowest: int = NARROWEST) -> Style:
    """Return the style for a stream: colour on terminals or if forced, block characters with UTF-8.

    ``NO_COLOR`` (https://no-color.org) wins over ``FORCE_COLOR`` and ``CLICOLOR_FORCE``. Where no width is given
    ``COLUMNS`` counts, else a terminal's own, from ``narrowest`` columns up.
    """
    terminal = stream.isatty()
    if width is None:
        variable = environ.get("COLUMNS", "")
        columns = int(variable) if _COLUMNS.fullmatch(variable) else _PIPE_WIDTH
        if terminal:
            columns = shutil.get_terminal_size((_PIPE_WIDTH, 24)).columns
        width = min(max(columns, narrowest), WIDEST)
    encoding = (stream.encoding or "").lower().replace("-", "").replace("_", "")
    forced = any(environ.get(name, "0") not in {"", "0"} for name in ("FORCE_COLOR", "CLICOLOR_FORCE"))
    coloured = forced or (terminal and environ.get("TERM") != "dumb")
    return Style(width=width, unicode=encoding == "utf8", colour=coloured and not environ.get("NO_COLOR"))


def check_width(width: int | None, *, narrowest: int = NARROWEST) -> None:
    """Raise UsageError for a width below the narrowest."""
    if width is not None and width < narrowest:
        raise UsageError(f"--width {width} is too narrow: give {narrowest} or more")
