"""``gua daemon``: the agent of this host, or a single tick of it."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from gua.agent.background import Launched, Ready, detach
from gua.app.agent_process import become_agent
from gua.app.agent_settings import AgentSettings, Places, require_procfs
from gua.app.allocations import AllocationSettings
from gua.app.destinations import agent_destinations
from gua.app.first_steps import after_start
from gua.app.local_agent import public_socket
from gua.app.serving import DEFAULT, between, kubelet_of, serving
from gua.cli.options import (
    AgentSocketOption,
    AllocationFolderOption,
    AllocationOption,
    CompatibleOption,
    EndpointOption,
    IgnoreProcessOption,
    InsecureKubeletOption,
    KubeletOption,
    PodResourcesOption,
    ProcfsOption,
    PrometheusNameOption,
    SlurmJobMappingOption,
    SlurmNodeOption,
    SlurmPollOption,
    StateDirOption,
    StoreOption,
    flag,
    path_value,
    value,
)
from gua.core.durations import parse_duration_ms
from gua.core.errors import UsageError
from gua.otlp.endpoint import absolute_files
from gua.state.directory import home_path, prepare_home
from gua.state.host_lock import HostLock

SHORTEST_INTERVAL_MS = 1_000
LONGEST_INTERVAL_MS = 10 * 60 * 1_000
ACTIVITY_GPM = "gpm"
ACTIVITY_OFF = "off"
OPTIONAL_VALUES = {"--prometheus": DEFAULT}
"""Options whose value may be left out, and what it is then."""


def command(
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
    prometheus_name: PrometheusNameOption = None,
    compatible: CompatibleOption = True,
    kubelet: KubeletOption = None,
    kubelet_insecure: InsecureKubeletOption = False,
    allocation: AllocationOption = None,
    allocation_folder: AllocationFolderOption = None,
    slurm_node: SlurmNodeOption = None,
    slurm_poll: SlurmPollOption = None,
    slurm_job_mapping: SlurmJobMappingOption = None,
    pod_resources: PodResourcesOption = None,
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
    served = serving(prometheus, os.environ, is_compatible=compatible, of="--prometheus", names=prometheus_name or ())
    text, of = between(interval, os.environ if served else {}, default="30s")
    interval_ms = parse_interval_ms(text, of=of)
    asked = kubelet_of(kubelet, insecure=kubelet_insecure)
    promises = AllocationSettings.of_options(
        sources=allocation,
        folder=allocation_folder,
        slurm_node=slurm_node,
        slurm_poll=slurm_poll,
        slurm_job_mapping=slurm_job_mapping,
        pod_resources=pod_resources,
    )
    reads_activity = parse_activity(activity)
    idle_release_ms = None if idle_release is None else parse_duration_ms(idle_release)
    home = home_path(state_dir, os.environ)
    destinations = agent_destinations(store, endpoint, home)
    require_procfs(procfs)
    os.umask(0o077)
    prepared = prepare_home(home)
    if once:
        from gua.app.host import open_host  # noqa: PLC0415 - the agent's own process imports it
        from gua.app.single_tick import tick_once  # noqa: PLC0415 - only for this

        with HostLock.of(os.environ).held():  # an agent's own ticks cover this moment: a second would count it twice
            host = open_host(
                procfs,
                interval_ms=interval_ms,
                home=prepared,
                ignored=ignore_process or [],
                allocation=promises,
                detect_models=detect_models,
                activity=reads_activity,
            )
            tick_once(host, destinations, prepared)
        return
    log = log_file.absolute() if log_file else None if foreground else prepared.log_file
    settings = AgentSettings(
        interval_ms=interval_ms,
        procfs=procfs.absolute(),
        ignored=tuple(ignore_process or ()),
        destinations=tuple(destinations),
        places=Places(
            home=prepared,
            pid_file=pid_file.absolute() if pid_file else prepared.pid_file,
            log_file=log,
            public_socket=public_socket(socket, os.environ),
        ),
        serving=served,
        kubelet=asked,
        allocation=promises,
        idle_release_ms=idle_release_ms,
        detect_models=detect_models,
        activity=reads_activity,
    )
    os.environ.update(absolute_files(os.environ))  # in the background the agent is in another directory
    launched = Ready() if foreground or log is None else detach(log)
    if isinstance(launched, Launched):
        for line in (launched.text, *after_start(settings, os.environ)):
            typer.echo(line)
        return
    become_agent(settings, launched)


def parse_activity(text: str | None) -> bool:
    """Return whether performance counters are read. Raises UsageError for what is neither gpm nor off."""
    chosen = (text or ACTIVITY_OFF).strip().lower()
    if chosen not in {ACTIVITY_GPM, ACTIVITY_OFF}:
        msg = f"--activity {text!r} is unknown: take {ACTIVITY_GPM} or {ACTIVITY_OFF}"
        raise UsageError(msg)
    return chosen == ACTIVITY_GPM


def parse_interval_ms(text: str, *, of: str = "--interval") -> int:
    """Return an interval in ms. Raises UsageError, naming whose it is, if it is none or not within 1 s and 10 min."""
    try:
        interval_ms = parse_duration_ms(text)
    except UsageError as error:
        msg = f"{of}: {error}"
        raise UsageError(msg) from None
    if not SHORTEST_INTERVAL_MS <= interval_ms <= LONGEST_INTERVAL_MS:
        msg = f"{of} {text!r} is not within 1s and 10m: give another, as in 30s"
        raise UsageError(msg)
    return interval_ms
