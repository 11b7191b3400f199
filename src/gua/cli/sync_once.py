"""``gua sync-once``: one tick of this host, kept here first, and then everything that waits on its way."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

from gua.app.agent_settings import require_procfs
from gua.app.allocations import AllocationSettings
from gua.app.destinations import agent_destinations
from gua.app.host import open_host
from gua.app.sync import sync_alone, sync_beside
from gua.cli.daemon import parse_interval_ms
from gua.cli.options import (
    AllocationFolderOption,
    AllocationOption,
    EndpointOption,
    HistoryOption,
    IgnoreProcessOption,
    PodResourcesOption,
    ProcfsOption,
    SlurmJobMappingOption,
    SlurmNodeOption,
    SlurmPollOption,
    StateDirOption,
    StoreOption,
    value,
)
from gua.core.errors import UnavailableError
from gua.state.directory import home_path, prepare_home
from gua.state.host_lock import HostLock


def command(
    *,
    interval: Annotated[
        str, value("DURATION", "GUA_INTERVAL", "Time between calls, as of a timer; 1s to 10m.")
    ] = "30s",
    store: StoreOption = None,
    endpoint: EndpointOption = None,
    with_history: HistoryOption = False,
    allocation: AllocationOption = None,
    allocation_folder: AllocationFolderOption = None,
    slurm_node: SlurmNodeOption = None,
    slurm_poll: SlurmPollOption = None,
    slurm_job_mapping: SlurmJobMappingOption = None,
    pod_resources: PodResourcesOption = None,
    procfs: ProcfsOption = Path("/proc"),
    ignore_process: IgnoreProcessOption = None,
    state_dir: StateDirOption = None,
) -> None:
    """Take one tick, keep it here, then deliver what waits for the endpoint that this host is enrolled with.

    Whatever happens on the way, what was not delivered stays. Beside a running agent no tick is taken, as its own
    cover this moment; what waits is delivered.

    Example:
        gua sync-once
        gua sync-once --with-history
    """
    interval_ms = parse_interval_ms(interval)
    promises = AllocationSettings.of_options(
        sources=allocation,
        folder=allocation_folder,
        slurm_node=slurm_node,
        slurm_poll=slurm_poll,
        slurm_job_mapping=slurm_job_mapping,
        pod_resources=pod_resources,
    )
    home = home_path(state_dir, os.environ)
    destinations = agent_destinations(store, endpoint, home)
    fleet = next((destination for destination in destinations if destination.endpoint), None)
    if fleet is None:
        msg = "nothing says where to deliver: gua enroll --endpoint URL, or name it with --endpoint"
        raise UnavailableError(msg)
    require_procfs(procfs)
    os.umask(0o077)
    prepared = prepare_home(home)
    lock = HostLock.of(os.environ)
    holder = lock.holder()
    if holder is not None:
        sync_beside(holder, fleet, prepared)
    else:
        with lock.held():
            host = open_host(
                procfs, interval_ms=interval_ms, home=prepared, ignored=ignore_process or [], allocation=promises
            )
            sync_alone(host, destinations, prepared)
    if with_history:
        from gua.app.backfill import send_history  # noqa: PLC0415 - only for this

        send_history(store, home, fleet, interval_ms=interval_ms)
