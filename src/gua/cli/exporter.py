"""``gua exporter``: the agent of this host for Prometheus alone, in place of gpu-idle-exporter."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

from gua.agent.background import Ready
from gua.app.agent_process import become_agent
from gua.app.agent_settings import AgentSettings, Places, require_procfs
from gua.app.allocations import AllocationSettings
from gua.app.local_agent import public_socket
from gua.app.serving import DEFAULT, between, kubelet_of, serving
from gua.cli.daemon import parse_interval_ms
from gua.cli.options import (
    AgentSocketOption,
    AllocationFolderOption,
    AllocationOption,
    CompatibleOption,
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
    value,
)
from gua.core.errors import UsageError
from gua.state.directory import home_path, prepare_home


def command(
    *,
    prometheus: Annotated[
        str | None, value("HOST:PORT", "GUA_PROMETHEUS", "Where to serve; 127.0.0.1:9835 if not given.")
    ] = None,
    interval: Annotated[
        str | None, value("DURATION", "GUA_INTERVAL", "Time between ticks, 1s to 10m; 5s if not given.")
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
    served = serving(
        prometheus or DEFAULT, os.environ, is_compatible=compatible, of="--prometheus", names=prometheus_name or ()
    )
    if served is None:
        msg = f"--prometheus {prometheus!r} turns off all that gua exporter does: give an address, or none"
        raise UsageError(msg)
    text, of = between(interval, os.environ, default="5s")
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
    require_procfs(procfs)
    os.umask(0o077)
    home = prepare_home(home_path(state_dir, os.environ))
    become_agent(
        AgentSettings(
            interval_ms=interval_ms,
            procfs=procfs.absolute(),
            ignored=tuple(ignore_process or ()),
            destinations=(),
            places=Places(
                home=home,
                pid_file=home.pid_file,
                log_file=None,
                public_socket=public_socket(socket, os.environ),
            ),
            serving=served,
            kubelet=asked,
            allocation=promises,
        ),
        Ready(),
    )
