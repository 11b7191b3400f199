"""The Slurm job a process belongs to, from its cgroup."""

from __future__ import annotations

import re
from typing import Final

from gua.identity.cgroup import managed_paths

_JOB: Final = re.compile(r"job_(?P<id>[0-9]+)", re.ASCII)


def slurm_job_id(text: str) -> str | None:
    """Return the job's id, ``None`` outside of a job.

    Version 1: ``/slurm/uid_1000/job_42/step_0``, or ``/slurm_<node>/…`` with several slurmd on a host;
    version 2: ``/system.slice/[<node>_]slurmstepd.scope/job_42/…``.
    """
    for segments in managed_paths(text):
        for position, segment in enumerate(segments):
            found = _JOB.fullmatch(segment)
            if found is not None and any(_of_slurm(above) for above in segments[:position]):
                return found["id"]
    return None


def _of_slurm(segment: str) -> bool:
    return segment == "slurm" or segment.startswith("slurm_") or segment.endswith("slurmstepd.scope")
