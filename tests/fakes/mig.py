"""Device files and procfs entries of MIG instances, as the driver numbers them."""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

from gua.core.tick import Tick
from gua.core.words import AllocationStatus

PER_COMPUTE = 8
PER_GPU = 15

Ids = tuple[int, int, int]
"""Minor number of the GPU, id of the GPU instance, id of the compute instance."""


def gpu_instance_number(gpu: int, gpu_instance: int) -> int:
    """Return the number of a GPU instance's device file; 1 and 2 are those for configuring and monitoring."""
    return 3 + (gpu * PER_GPU + gpu_instance) * (PER_COMPUTE + 1)


def files(ids: Ids, folder: str = "/dev") -> str:
    """Return the device files of an instance as gres.conf lists them."""
    gpu, gpu_instance, compute_instance = ids
    first = gpu_instance_number(gpu, gpu_instance)
    capabilities = [f"{folder}/nvidia-caps/nvidia-cap{number}" for number in (first, first + 1 + compute_instance)]
    return ",".join([f"{folder}/nvidia{gpu}", *capabilities])


def write_capabilities(procfs: Path, instances: Iterable[Ids]) -> None:
    """Write the files below /proc/driver/nvidia/capabilities for these instances and no others."""
    folder = procfs / "driver" / "nvidia" / "capabilities"
    shutil.rmtree(folder, ignore_errors=True)
    for gpu, gpu_instance, compute_instance in instances:
        first = gpu_instance_number(gpu, gpu_instance)
        of_gpu = folder / f"gpu{gpu}" / "mig" / f"gi{gpu_instance}"
        of_compute = of_gpu / f"ci{compute_instance}"
        of_compute.mkdir(parents=True)
        for path, number in (of_gpu, first), (of_compute, first + 1 + compute_instance):
            text = f"DeviceFileMinor: {number}\nDeviceFileMode: 292\nDeviceFileModify: 1\n"
            (path / "access").write_text(text)


def polling_often(procfs: Path, seconds: float) -> str:
    """Return a sitecustomize.py with which an agent polls Slurm this often and reads MIG devices below ``procfs``."""
    return f"""\
from pathlib import Path
from gua.allocation import mig_devices, slurm, slurm_poll
class Often(slurm_poll.SlurmPoll):
    def __init__(self, **settings):
        super().__init__(**{{**settings, "period_seconds": {seconds}}})
slurm.SlurmPoll = Often
mig_devices.CAPABILITIES = Path({str(procfs)!r}) / mig_devices.CAPABILITIES
"""


class Span(NamedTuple):
    """A job's time on a card: Unix ms from Slurm's start to its end."""

    job: str
    uuid: str
    since_ms: int
    until_ms: int


def assert_allocated(ticks: Sequence[Tick], spans: Sequence[Span], uuids: set[str], *, slack_ms: int) -> int:
    """Check each card of each tick against the jobs' times, computed here once more; return the compared card ticks.

    No tick has a job on another card than its own. Away from starts and ends, a card is allocated to exactly its jobs
    for the whole tick, and unallocated without one. ``slack_ms`` is how late polling may notice a start or an end.
    """
    compared = 0
    for tick in ticks:
        for card in (card for card in tick.cards if card.uuid in uuids):
            begun_ms = tick.ts_ms - card.duration_ms
            own = [span for span in spans if span.uuid == card.uuid]
            assert {each.id for each in card.allocations} <= {span.job for span in own}, (tick.ts_ms, card)
            edges = [edge for span in own for edge in (span.since_ms, span.until_ms)]
            if any(edge - slack_ms < tick.ts_ms and begun_ms < edge + slack_ms for edge in edges):
                continue
            jobs = {span.job for span in own if span.since_ms <= begun_ms and tick.ts_ms <= span.until_ms}
            times = {each.id: each.gpu_time_ms for each in card.allocations}
            expected = dict.fromkeys(jobs, card.gpu_time_ms)
            status = AllocationStatus.ALLOCATED if jobs else AllocationStatus.UNALLOCATED
            assert (card.allocation, times) == (status, expected), (tick.ts_ms, card.uuid, spans)
            assert card.unallocated_gpu_time_ms == (0 if jobs else card.gpu_time_ms)
            compared += 1
    return compared
