"""Options that several commands share: one name, one meaning, one environment variable."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from gua.cli.completion import hosts, zones


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
    value("DSN", "GUA_STORE", "/path, chdb:///path or clickhouse://user@host:8123; ~/.gua/store if not given."),
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
        "Answer gua status and gua report of all users of this host here; root's agent does at /run/gua/agent.sock "
        "if not given, and nowhere with off.",
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
PrometheusNameOption = Annotated[
    list[str] | None,
    value(
        "NAME",
        "GUA_PROMETHEUS_NAME",
        "Also answer Prometheus where it asks for the page by this name, or by any: *; repeatable.",
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
GpusOption = Annotated[
    int | None, value("N", "GUA_GPUS", "How many cards, all of one model; 1 if not given.", "-g", "--gpus")
]
GpuIdsOption = Annotated[
    str | None, value("IDS", "GUA_GPU_IDS", "These cards, by index or UUID, as in 0,3.", "-G", "--gpu-ids")
]
NoteOption = Annotated[str | None, value("TEXT", "GUA_NOTE", "What it is for; all users see it.", "-n", "--note")]
LabelOption = Annotated[
    list[str] | None,
    value("KEY=VALUE", "GUA_LABEL", "What runs there, for reports: kind=… or model=…; repeatable.", "--label"),
]
WaitOption = Annotated[
    str | None, value("DURATION", "GUA_WAIT", "Wait so long for cards; as long as it takes if not given.")
]
NonblockOption = Annotated[bool, flag("--nonblock", "GUA_NONBLOCK", "Do not wait: fail if there are no cards now.")]
AcceptUnknownOption = Annotated[
    bool, flag("--accept-unknown", "GUA_ACCEPT_UNKNOWN", "Also take cards of which it cannot be told who uses them.")
]
BesideSchedulerOption = Annotated[
    bool, flag("--beside-scheduler", "GUA_BESIDE_SCHEDULER", "Reserve also where a scheduler gives the cards.")
]
AllocationOption = Annotated[
    list[str] | None,
    value(
        "SOURCE",
        "GUA_ALLOCATION",
        "To whom cards are promised: files, slurm, kubernetes, auto for what this host has, or off; auto if not given, "
        "repeatable.",
    ),
]
AllocationFolderOption = Annotated[
    Path | None,
    path_value(
        "DIR", "GUA_ALLOCATION_FOLDER", "Where hooks and others tell by files; /run/gua-allocations if not given."
    ),
]
SlurmNodeOption = Annotated[
    str | None, value("NAME", "GUA_SLURM_NODE", "What Slurm calls this node; asked of slurmd if not given.")
]
SlurmPollOption = Annotated[
    str | None,
    value("DURATION", "GUA_SLURM_POLL", "How often Slurm is asked, 30s or more, or off; 60s if not given."),
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
HistoryOption = Annotated[
    bool,
    flag(
        "--with-history",
        "GUA_WITH_HISTORY",
        "Also send what the local store holds of this host from before; again changes nothing.",
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
RecordingsArgument = Annotated[
    list[Path],
    typer.Argument(metavar="FILE", help="Recordings of one host's cards, in any order; - is stdin."),
]
RowIntervalOption = Annotated[
    str | None,
    value("DURATION", "GUA_INTERVAL", "What a row stands for; the median distance of a card's rows if not given."),
]
RowZoneOption = Annotated[
    str | None,
    value(
        "ZONE",
        "GUA_TIMEZONE",
        "Zone of times without an offset: Europe/Berlin, UTC; the host's if not given.",
        autocompletion=zones,
    ),
]
