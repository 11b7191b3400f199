"""``gua daemon`` and ``gua exporter``: run the agent of this host, or take a single tick."""

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Final

import typer

from gua.agent.background import Launched, Ready, detach
from gua.app.agent_process import become_agent
from gua.app.destinations import agent_destinations
from gua.app.first_steps import after_start
from gua.app.local_agent import public_socket
from gua.app.settings import (
    DEFAULT,
    AgentSettings,
    AllocationSettings,
    between,
    chosen_sources,
    poll_seconds,
    require_procfs,
    serving,
)
from gua.cli.options import (
    AllocationFolderOption,
    EndpointOption,
    PodResourcesOption,
    ProcfsOption,
    SlurmJobMappingOption,
    StateDirOption,
    StoreOption,
    flag,
    path_value,
    value,
    with_groups,
)
from gua.core.errors import UsageError
from gua.core.moments import parse_duration_ms
from gua.exporter.address import Serving
from gua.identity.pod_names import Kubelet, parse_kubelet
from gua.otlp.endpoint import absolute_files
from gua.state.directory import home_path, prepare_home
from gua.state.host_lock import HostLock

SHORTEST_INTERVAL_MS: Final = 1_000
LONGEST_INTERVAL_MS: Final = 10 * 60 * 1_000
ACTIVITY_GPM: Final = "gpm"
ACTIVITY_OFF: Final = "off"
OPTIONAL_VALUES: Final = {"daemon": {"--prometheus": DEFAULT}}
"""Default values of options that may be given without one, by command."""

IgnoreProcessOption = Annotated[
    list[str] | None,
    value(
        "NAME",
        "GUA_IGNORE_PROCESS",
        "Do not count processes of this name as users of a card, besides display servers and monitors.",
    ),
]
AgentSocketOption = Annotated[
    Path | None,
    path_value(
        "PATH",
        "GUA_SOCKET",
        "Answer gua status and gua report of all users of this host here; root's agent does at /run/gua/agent.sock "
        "if not given, and nowhere with off.",
    ),
]


@dataclass(frozen=True, kw_only=True, slots=True)
class ServingOptions:
    """Host names and metrics that are served to Prometheus, and the kubelet that is queried for pod names."""

    prometheus_name: Annotated[
        list[str] | None,
        value(
            "NAME",
            "GUA_PROMETHEUS_NAME",
            "Also serve Prometheus under this host name, or any: *; repeatable.",
        ),
    ] = None
    compatible: Annotated[
        bool,
        flag(
            "--compatible/--no-compatible",
            "GUA_COMPATIBLE",
            "Also serve the metrics of gpu-idle-exporter, gpu_idle_….",
        ),
    ] = True
    kubelet: Annotated[
        str | None,
        value(
            "URL",
            "GUA_KUBELET",
            "Names of pods besides their ids, from this node's kubelet: https://NODE:10250/pods, with the service "
            "account's token.",
        ),
    ] = None
    kubelet_insecure: Annotated[
        bool,
        flag(
            "--kubelet-insecure",
            "GUA_KUBELET_INSECURE",
            "Do not check the kubelet's certificate: any server at that address gets the token.",
        ),
    ] = False

    def at(self, address: str | None) -> Serving | None:
        """Return the metrics endpoint at the address of ``--prometheus``. Raises UsageError."""
        names = self.prometheus_name or ()
        return serving(address, os.environ, is_compatible=self.compatible, names=names)

    def kubelet_to_query(self) -> Kubelet | None:
        """Return the kubelet to query, ``None`` for none. Raises UsageError."""
        if self.kubelet is not None and self.kubelet.strip():
            return parse_kubelet(self.kubelet, insecure=self.kubelet_insecure)
        if self.kubelet_insecure:
            raise UsageError("--kubelet-insecure has no effect without --kubelet: name the kubelet")
        return None


@dataclass(frozen=True, kw_only=True, slots=True)
class AllocationOptions:
    """Which allocation sources are read, and where each one is."""

    allocation: Annotated[
        list[str] | None,
        value(
            "SOURCE",
            "GUA_ALLOCATION",
            "Allocation sources: files, slurm, kubernetes, auto for what this host has, or off; auto if not "
            "given, repeatable.",
        ),
    ] = None
    allocation_folder: AllocationFolderOption = None
    slurm_node: Annotated[
        str | None, value("NAME", "GUA_SLURM_NODE", "What Slurm calls this node; read from slurmd if not given.")
    ] = None
    slurm_poll: Annotated[
        str | None,
        value("DURATION", "GUA_SLURM_POLL", "Interval of Slurm queries, 30s or more, or off; 60s if not given."),
    ] = None
    slurm_job_mapping: SlurmJobMappingOption = None
    pod_resources: PodResourcesOption = None

    def settings(self) -> AllocationSettings:
        """Return the settings, with absolute paths. Raises UsageError."""
        return AllocationSettings(
            sources=chosen_sources(self.allocation),
            folder=self.allocation_folder and self.allocation_folder.absolute(),
            slurm_node=self.slurm_node or None,
            slurm_poll_seconds=poll_seconds(self.slurm_poll),
            slurm_job_mapping=self.slurm_job_mapping and self.slurm_job_mapping.absolute(),
            pod_resources=self.pod_resources and self.pod_resources.absolute(),
        )


@with_groups
def daemon(
    *,
    foreground: Annotated[
        bool, flag("--foreground", "GUA_FOREGROUND", "Stay in the foreground, as under systemd.")
    ] = False,
    once: Annotated[bool, flag("--once", "GUA_ONCE", "Read one tick, deliver it and exit.")] = False,
    interval: Annotated[
        str | None, value("DURATION", "GUA_INTERVAL", "Time between ticks, 1s to 10m; 30s if not given.")
    ] = None,
    store: StoreOption = None,
    endpoint: EndpointOption = None,
    prometheus: Annotated[
        str | None,
        value(
            "[HOST:PORT]", "GUA_PROMETHEUS", "Serve /metrics to Prometheus, at 127.0.0.1:9835 if no address is given."
        ),
    ] = None,
    http: ServingOptions,
    allocations: AllocationOptions,
    idle_release: Annotated[
        str | None,
        value(
            "DURATION",
            "GUA_IDLE_RELEASE",
            "End a reservation whose owner has not used its cards for so long, as in 30m; never if not given.",
        ),
    ] = None,
    detect_models: Annotated[
        bool,
        flag(
            "--detect-models",
            "GUA_DETECT_MODELS",
            "Read the arguments of processes on cards, and keep of them the model's name that a known server has.",
        ),
    ] = False,
    activity: Annotated[
        str | None,
        value(
            "gpm|off",
            "GUA_ACTIVITY",
            "gpm: read how much of each card's SMs, tensor cores and memory bandwidth was used, on Hopper and newer.",
        ),
    ] = None,
    procfs: ProcfsOption = Path("/proc"),
    ignore_process: IgnoreProcessOption = None,
    state_dir: StateDirOption = None,
    pid_file: Annotated[
        Path | None, path_value("FILE", "GUA_PID_FILE", "agent.pid in the state directory if not given.")
    ] = None,
    log_file: Annotated[
        Path | None,
        path_value("FILE", "GUA_LOG_FILE", "agent.log in the state directory if not given; stderr in the foreground."),
    ] = None,
    socket: AgentSocketOption = None,
) -> None:
    """Sample this host's cards and who holds them, until gua stop.

    Goes into the background once the first tick is made; gua start is another name for it. Ticks go to an OTLP
    endpoint, to a store, or to both. Needs the NVIDIA driver. Reads no environments, and no command lines without
    --detect-models.

    Example:
        gua daemon
        gua daemon --interval 10s --endpoint https://collector.example:4318
        gua daemon --prometheus
        gua daemon --once
    """
    served = http.at(prometheus)
    text, of = between(interval, os.environ if served else {}, default="30s")
    interval_ms = parse_interval_ms(text, of=of)
    kubelet = http.kubelet_to_query()
    allocation = allocations.settings()
    reads_activity = parse_activity(activity)
    idle_release_ms = None if idle_release is None else parse_duration_ms(idle_release)
    home = home_path(state_dir, os.environ)
    destinations = agent_destinations(store, endpoint, home)
    require_procfs(procfs)
    os.umask(0o077)
    prepared = prepare_home(home)
    log = log_file.absolute() if log_file else None if foreground else prepared.log_file
    settings = AgentSettings(
        interval_ms=interval_ms,
        procfs=procfs.absolute(),
        home=prepared,
        ignored=tuple(ignore_process or ()),
        destinations=tuple(destinations),
        pid_file=pid_file and pid_file.absolute(),
        log_file=log,
        public_socket=None if once else public_socket(socket, os.environ),
        serving=served,
        kubelet=None if once else kubelet,
        allocation=allocation,
        idle_release_ms=idle_release_ms,
        detect_models=detect_models,
        activity=reads_activity,
    )
    if once:
        from gua.app.host import open_host  # noqa: PLC0415 - the agent's own process imports it
        from gua.app.single_tick import tick_once  # noqa: PLC0415 - only for --once

        with HostLock.of(os.environ).held():  # an agent's ticks cover this time; another would count it twice
            tick_once(open_host(settings), destinations, prepared)
        return
    os.environ.update(absolute_files(os.environ))  # the background agent changes its directory
    launched = Ready() if foreground or log is None else detach(log)
    if isinstance(launched, Launched):
        for line in (launched.text, *after_start(settings, os.environ)):
            typer.echo(line)
        return
    become_agent(settings, launched)


@with_groups
def exporter(
    *,
    prometheus: Annotated[
        str | None, value("HOST:PORT", "GUA_PROMETHEUS", "Where to serve; 127.0.0.1:9835 if not given.")
    ] = None,
    interval: Annotated[
        str | None, value("DURATION", "GUA_INTERVAL", "Time between ticks, 1s to 10m; 5s if not given.")
    ] = None,
    http: ServingOptions,
    allocations: AllocationOptions,
    procfs: ProcfsOption = Path("/proc"),
    ignore_process: IgnoreProcessOption = None,
    state_dir: StateDirOption = None,
    socket: AgentSocketOption = None,
) -> None:
    """Sample this host's cards in the foreground and serve them to Prometheus, and to nobody else.

    No tick is kept or sent: for that, and this endpoint too, run gua daemon --prometheus. The state directory holds
    for how long processes have idled, so that a restart does not set them back. POLL_INTERVAL, HTTP_PORT, NODE_NAME,
    POD_NAME and POD_NAMESPACE count as they do for gpu-idle-exporter. Needs the NVIDIA driver.

    Example:
        gua exporter
        gua exporter --prometheus 0.0.0.0:9835 --interval 15s --no-compatible
    """
    served = http.at(prometheus or DEFAULT)
    if served is None:
        raise UsageError(f"--prometheus {prometheus!r} turns off all that gua exporter does: give an address, or none")
    text, of = between(interval, os.environ, default="5s")
    interval_ms = parse_interval_ms(text, of=of)
    kubelet = http.kubelet_to_query()
    allocation = allocations.settings()
    require_procfs(procfs)
    os.umask(0o077)
    settings = AgentSettings(
        interval_ms=interval_ms,
        procfs=procfs.absolute(),
        home=prepare_home(home_path(state_dir, os.environ)),
        ignored=tuple(ignore_process or ()),
        public_socket=public_socket(socket, os.environ),
        serving=served,
        kubelet=kubelet,
        allocation=allocation,
    )
    become_agent(settings, Ready())


def parse_activity(text: str | None) -> bool:
    """Return whether performance counters are read. Raises UsageError for any word but gpm and off."""
    chosen = (text or ACTIVITY_OFF).strip().lower()
    if chosen not in {ACTIVITY_GPM, ACTIVITY_OFF}:
        raise UsageError(f"--activity {text!r} is unknown: take {ACTIVITY_GPM} or {ACTIVITY_OFF}")
    return chosen == ACTIVITY_GPM


def parse_interval_ms(text: str, *, of: str = "--interval") -> int:
    """Return an interval in ms. Raises UsageError that names its source ``of`` unless it is within 1 s and 10 min."""
    try:
        interval_ms = parse_duration_ms(text)
    except UsageError as error:
        raise UsageError(f"{of}: {error}") from None
    if not SHORTEST_INTERVAL_MS <= interval_ms <= LONGEST_INTERVAL_MS:
        raise UsageError(f"{of} {text!r} is not within 1s and 10m: give another, as in 30s")
    return interval_ms
