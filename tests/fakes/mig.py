"""Device files and procfs entries of MIG instances, as the driver numbers them."""

from __future__ import annotations

import shutil
from collections.abc import Iterable
from pathlib import Path

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
