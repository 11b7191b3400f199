"""``gua doctor``: read-only checks of everything that gua needs on this host."""

import os
import shutil
import sys
import time
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Annotated

from gua.app.doctor.checks import checks, run_checks
from gua.app.doctor.finding import CheckState, Finding, render_json, render_text
from gua.app.doctor.prometheus import check_prometheus
from gua.app.settings import AllocationSettings
from gua.cli.options import (
    AgentStateOption,
    AllocationFolderOption,
    EndpointOption,
    PidFileOption,
    PodResourcesOption,
    ProcfsOption,
    SlurmJobMappingOption,
    StoreOption,
    flag,
    value,
    with_groups,
)
from gua.cli.prometheus import AccessOptions
from gua.core.errors import UnavailableError
from gua.state.directory import home_path


@with_groups
def command(
    *,
    store: StoreOption = None,
    endpoint: EndpointOption = None,
    state_dir: AgentStateOption = None,
    procfs: ProcfsOption = Path("/proc"),
    pid_file: PidFileOption = None,
    allocation_folder: AllocationFolderOption = None,
    slurm_job_mapping: SlurmJobMappingOption = None,
    pod_resources: PodResourcesOption = None,
    prometheus: Annotated[
        str | None,
        value("URL", "GUA_PROMETHEUS_URL", "Check only a Prometheus: what gua audit can and cannot read there."),
    ] = None,
    access: AccessOptions,
    as_json: Annotated[bool, flag("--json", "GUA_JSON", 'One JSON object, schema "gua.doctor/1".')] = False,
) -> int:
    """Check everything that gua needs here, and say what to do.

    Reads only: nothing is made, changed or sent but one empty request to an endpoint. Works without a GPU and
    without the embedded engine.

    Exit codes: 0 nothing failed, though there may be warnings; 3 something that the agent needs failed.

    Example:
        gua doctor
        gua doctor --endpoint https://collector.example:4318
        gua doctor --prometheus http://prometheus.example:9090
        gua doctor --json
    """
    home = home_path(state_dir, os.environ)
    allocations = AllocationSettings(
        folder=allocation_folder, slurm_job_mapping=slurm_job_mapping, pod_resources=pod_resources
    )
    if prometheus is not None:
        with closing(access.client(prometheus)) as client:
            return _print([*check_prometheus(client, time.time_ns() // 1_000_000)], as_json=as_json)
    every = checks(store=store, endpoint=endpoint, home=home, procfs=procfs, pid_file=pid_file, allocations=allocations)
    return _print(list(run_checks(every)), as_json=as_json)


def _print(findings: Sequence[Finding], *, as_json: bool) -> int:
    """Print the findings, and return the exit code."""
    width = min(max(shutil.get_terminal_size((100, 24)).columns, 40), 120)
    sys.stdout.write(render_json(findings) if as_json else render_text(findings, width))
    return UnavailableError.exit_code if any(one.state is CheckState.FAILED for one in findings) else 0
