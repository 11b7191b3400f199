from __future__ import annotations

import pytest

from gpu_usage_audit.identity.container import container_id
from gpu_usage_audit.identity.pod import pod_uid
from gpu_usage_audit.identity.slurm import slurm_job_id
from gpu_usage_audit.identity.systemd import systemd_unit

A = "3f1c" * 16
B = "a0b9" * 16
POD = "0a1b2c3d-4e5f-6071-8293-a4b5c6d7e8f9"
POD_ = POD.replace("-", "_")
STATIC_POD = "0123456789abcdef0123456789abcdef"

# cgroup text -> container, pod, Slurm job, systemd unit
CASES = {
    "docker, version 2, systemd": (f"0::/system.slice/docker-{A}.scope\n", A, None, None, None),
    "docker, version 2, cgroupfs": (f"0::/docker/{A}\n", A, None, None, None),
    "docker, version 1": (
        f"12:devices:/docker/{A}\n5:cpu,cpuacct:/docker/{A}\n1:name=systemd:/docker/{A}\n0::/system.slice/containerd.service\n",
        A,
        None,
        None,
        "containerd.service",
    ),
    "containerd in kubernetes, version 2, systemd": (
        f"0::/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod{POD_}.slice/cri-containerd-{A}.scope\n",
        A,
        POD,
        None,
        None,
    ),
    "a guaranteed pod stands directly below kubepods": (
        f"0::/kubepods.slice/kubepods-pod{POD_}.slice/cri-containerd-{A}.scope\n",
        A,
        POD,
        None,
        None,
    ),
    "containerd in kubernetes, version 1, cgroupfs": (
        f"11:memory:/kubepods/besteffort/pod{POD}/{A}\n1:name=systemd:/kubepods/besteffort/pod{POD}/{A}\n",
        A,
        POD,
        None,
        None,
    ),
    "containerd with colons in the path": (
        f"1:name=systemd:/system.slice/containerd.service/kubepods-besteffort-pod{POD_}.slice:cri-containerd:{A}\n",
        A,
        POD,
        None,
        "containerd.service",
    ),
    "a static pod": (f"0::/kubepods/burstable/pod{STATIC_POD}/{A}\n", A, STATIC_POD, None, None),
    "cri-o": (
        f"0::/kubepods.slice/kubepods-besteffort.slice/kubepods-besteffort-pod{POD_}.slice/crio-{A}.scope\n",
        A,
        POD,
        None,
        None,
    ),
    "cri-o with a cgroup of the container's own": (
        f"0::/kubepods.slice/kubepods-pod{POD_}.slice/crio-{A}.scope/container\n",
        A,
        POD,
        None,
        None,
    ),
    "the monitor beside a container": (
        f"0::/machine.slice/crio-conmon-{A}.scope\n",
        None,
        None,
        None,
        f"crio-conmon-{A}.scope",
    ),
    "podman, root": (f"0::/machine.slice/libpod-{A}.scope/container\n", A, None, None, None),
    "podman, rootless": (
        f"0::/user.slice/user-1000.slice/user@1000.service/user.slice/libpod-{A}.scope/container\n",
        A,
        None,
        None,
        "user@1000.service",
    ),
    "podman, version 1": (f"9:pids:/libpod_parent/libpod-{A}\n", A, None, None, None),
    "a container in a container": (f"0::/docker/{A}/kubelet/kubepods/pod{POD}/{B}\n", B, POD, None, None),
    "seen from another cgroup namespace": (
        f"0::/../../kubepods-pod{POD_}.slice/cri-containerd-{A}.scope\n",
        A,
        POD,
        None,
        None,
    ),
    "slurm, version 1": (
        "8:memory:/slurm/uid_1000/job_4711/step_0/task_0\n1:name=systemd:/system.slice/slurmd.service\n",
        None,
        None,
        "4711",
        "slurmd.service",
    ),
    "slurm, version 1, several slurmd": ("8:memory:/slurm_gpu01/uid_1000/job_7/step_batch\n", None, None, "7", None),
    "slurm, version 2": (
        "0::/system.slice/slurmstepd.scope/job_4711/step_0/user/task_0\n",
        None,
        None,
        "4711",
        "slurmstepd.scope",
    ),
    "slurm, version 2, several slurmd": (
        "0::/system.slice/gpu01_slurmstepd.scope/job_12/step_extern/user/task_special\n",
        None,
        None,
        "12",
        "gpu01_slurmstepd.scope",
    ),
    "somebody else's job": ("0::/user.slice/job_12\n", None, None, None, None),
    "a service": ("0::/system.slice/ollama.service\n", None, None, None, "ollama.service"),
    "a login": ("0::/user.slice/user-1000.slice/session-3.scope\n", None, None, None, "session-3.scope"),
    "a user's own service": (
        "0::/user.slice/user-1000.slice/user@1000.service/app.slice/jupyter.service\n",
        None,
        None,
        None,
        "jupyter.service",
    ),
    "a cgroup removed under the process": (
        "0::/system.slice/ollama.service (deleted)\n",
        None,
        None,
        None,
        "ollama.service",
    ),
    "the root": ("0::/\n", None, None, None, None),
    "nothing": ("", None, None, None, None),
    "garbage": ("\x00\n:::\n1\nabc:def\n" + "x" * 5000, None, None, None, None),
    "almost an id": (f"0::/docker/{A[:-1]}\n1:cpu:/docker/{A}0\n2:cpu:/x{A}\n", None, None, None, None),
}


@pytest.mark.parametrize(
    ("text", "container", "pod", "job", "unit"), list(CASES.values()), ids=[name.replace(" ", "-") for name in CASES]
)
def test_a_cgroup_tells_container_pod_job_and_unit(
    text: str, container: str | None, pod: str | None, job: str | None, unit: str | None
) -> None:
    assert container_id(text) == container
    assert pod_uid(text) == pod
    assert slurm_job_id(text) == job
    assert systemd_unit(text) == unit
