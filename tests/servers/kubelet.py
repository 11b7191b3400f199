"""A real kubelet on this machine, with containerd, runc and a device plugin that offers cards that do not exist.

No cluster and no image from anywhere: the kubelet runs pods from files in a folder, their image is one static program.
The folder of device plugins is /var/lib/kubelet/device-plugins for any kubelet, so there is one at a time.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import re
import shutil
import subprocess
import tarfile
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, Self

from gua.identity.pod_names import Kubelet, KubeletError, PodNames, fetch_pods
from servers.process import ServerProcess, free_ports, poll
from servers.tools import ROOT, built

PLUGINS = Path("/var/lib/kubelet/device-plugins")
IMAGE = "docker.io/local/worker:1"
SOURCES = ROOT / "tests" / "tools"
NEEDED = ("containerd", "ctr", "runc", "gcc", "go")
# Does nothing until it gets a signal to end, and then ends well.
WORKER = """
#include <signal.h>
#include <unistd.h>
static void end(int number) { (void)number; _exit(0); }
int main(void) { signal(SIGTERM, end); for (;;) pause(); }
"""


def missing() -> str | None:
    """Return why no kubelet can run here, ``None`` if one can."""
    if os.geteuid() != 0:
        return "only root can run a kubelet"
    absent = [name for name in NEEDED if shutil.which(name) is None]
    if absent:
        return f"{', '.join(absent)} not on PATH: apt-get install --no-install-recommends containerd runc gcc, and Go"
    return f"{PLUGINS} is another kubelet's" if (PLUGINS / "kubelet.sock").exists() else None


def kubelet_program() -> Path:
    """Return the kubelet; compiles it once (12 minutes of CPU)."""
    return kubernetes_program("kubelet")


def kubernetes_program(name: str) -> Path:
    """Return a program of Kubernetes that knows its version; all of one kind compile once (16 minutes of CPU)."""
    folder = SOURCES / "kubelet"
    version = re.search(r"k8s\.io/kubernetes (v\S+)", (folder / "go.mod").read_text())
    assert version is not None
    # As its own makefile does. Without it clients and charts that query the version get no answer.
    linked = (f"k8s.io/component-base/version.gitVersion={version[1]}",)
    return built(folder, name, f"k8s.io/kubernetes/cmd/{name}", linked=linked)


class Node:
    """A node with the cards that it is given by UUID; use it as a context."""

    def __init__(self, cards: Sequence[str]) -> None:
        # Addresses of sockets have at most 107 bytes.
        self.folder = Path(tempfile.mkdtemp(prefix="gua-node."))
        self._port = free_ports(1)[0]
        self._pods = self.folder / "pods"
        self._account = self.folder / "account"
        self.socket = self.folder / "root" / "pod-resources" / "kubelet.sock"
        self.logs = self.folder / "logs"
        for each in (self._pods, self._account, self.folder / "cni"):
            each.mkdir()
        (self._account / "token").write_text("any")
        configuration = self.folder / "containerd.toml"
        configuration.write_text(_containerd(self.folder))
        self._containerd = self._server("containerd", "containerd", "--config", str(configuration))
        settings = self.folder / "kubelet.json"
        settings.write_text(json.dumps(_kubelet(self.folder, self._pods, self._port)))
        self.kubelet = self._server(
            "kubelet",
            str(kubelet_program()),
            *("--config", str(settings), "--root-dir", str(self.folder / "root")),
            *("--cert-dir", str(self.folder / "pki"), "--hostname-override", "node-1", "--v", "1"),
        )
        plugin = built(SOURCES / "device_plugin", "device-plugin")
        self._plugin = self._server("plugin", str(plugin), str(PLUGINS), ",".join(cards))

    def _server(self, name: str, *command: str) -> ServerProcess:
        return ServerProcess(name, command, os.environ, self.folder)

    def __enter__(self) -> Self:
        try:
            self._containerd.start(lambda: not self._ctr("version").returncode)
            image = self.folder / "image.tar"
            image.write_bytes(_image(self.folder))
            imported = self._ctr("images", "import", str(image))
            assert not imported.returncode, imported.stderr
            self.start_kubelet()
            self._plugin.start(lambda: True)
            poll(lambda: "registered" in self._plugin.tail(), "the kubelet to know the plugin", seconds=60)
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        for file in self._pods.iterdir():
            file.unlink()
        if not self.kubelet.ended_by_itself:
            with suppress(AssertionError, KubeletError):
                poll(lambda: not self.listed(), "the kubelet to end its pods", seconds=30)
        for server in (self.kubelet, self._plugin):
            server.stop()
        for task in self._tasks():
            self._ctr("tasks", "kill", "--signal", "SIGKILL", task)
        with suppress(AssertionError):
            poll(lambda: not any(self._tasks().values()), "containers to end")
        self._containerd.stop()
        for mount in Path("/proc/mounts").read_text().splitlines()[::-1]:
            if mount.split()[1].startswith(str(self.folder)):
                subprocess.run(["umount", "-l", mount.split()[1]], check=False)
        for file in PLUGINS.iterdir():
            file.unlink()
        for link in Path("/var/log/containers").glob("*"):
            if str(self.folder) in str(link.readlink()):
                link.unlink()
        shutil.rmtree(self.folder, ignore_errors=True)

    def start_kubelet(self) -> None:
        """Start it, or start it again; returns when it answers."""
        self.kubelet.start(lambda: self.socket.exists() and self._answers())

    def _answers(self) -> bool:
        try:
            self.body()
        except KubeletError:
            return False
        return True

    def body(self) -> bytes:
        """Return its list of pods. Raises KubeletError."""
        return fetch_pods(self.address, self._account)

    @property
    def address(self) -> Kubelet:
        return Kubelet(host="127.0.0.1", port=self._port, insecure=True)

    def names(self) -> PodNames:
        """Return names of pods as an agent of this node has them."""
        return PodNames(self.address, fetch=partial(fetch_pods, account=self._account))

    def listed(self) -> dict[str, Any]:
        """Return pods by name, as the list has them."""
        return {pod["metadata"]["name"].removesuffix("-node-1"): pod for pod in json.loads(self.body())["items"] or []}

    def run(self, name: str, cards: int, *, namespace: str = "lab", wait: bool = True) -> None:
        """Run a pod with so many cards; returns when its container runs."""
        container: dict[str, Any] = {"name": "main", "image": IMAGE, "imagePullPolicy": "Never"}
        if cards:
            container["resources"] = {"limits": {"nvidia.com/gpu": cards}}
        pod = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": name, "namespace": namespace},
            "spec": {
                "hostNetwork": True,
                "restartPolicy": "Never",
                "terminationGracePeriodSeconds": 2,
                "containers": [container],
            },
        }
        scratch = self.folder / f"{name}.json"
        scratch.write_text(json.dumps(pod))
        scratch.rename(self._pods / f"{name}.json")
        if wait:
            poll(lambda: self.pid(name), f"{name} to run; {self.folder}", seconds=60)

    def delete(self, name: str) -> None:
        """Delete a pod; returns when the list has it no more."""
        (self._pods / f"{name}.json").unlink()
        poll(lambda: name not in self.listed(), f"{name} to be gone", seconds=60)

    def pid(self, name: str) -> int | None:
        """Return the pid of a pod's container, ``None`` while there is none."""
        pod = self.listed().get(name, {})
        ids = [each.get("containerID", "") for each in pod.get("status", {}).get("containerStatuses", [])]
        return self._tasks().get(ids[0].rpartition("/")[2]) if ids else None

    def _tasks(self) -> dict[str, int]:
        lines = self._ctr("tasks", "ls").stdout.splitlines()[1:]
        return {words[0]: int(words[1]) for words in map(str.split, lines) if words[-1] == "RUNNING"}

    def _ctr(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        command = ["ctr", "--address", str(self.folder / "containerd.sock"), "--namespace", "k8s.io", *arguments]
        return subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)


def _containerd(folder: Path) -> str:
    return f"""version = 2
root = "{folder}/containerd"
state = "{folder}/containerd-state"
[grpc]
  address = "{folder}/containerd.sock"
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "{IMAGE}"
  restrict_oom_score_adj = true
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "{folder}/cni"
    conf_dir = "{folder}/cni"
"""


def _kubelet(folder: Path, pods: Path, port: int) -> dict[str, Any]:
    return {
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "staticPodPath": str(pods),
        "podLogsDir": str(folder / "logs"),
        "fileCheckFrequency": "1s",
        "cgroupDriver": "cgroupfs",
        "failCgroupV1": False,
        "failSwapOn": False,
        "enforceNodeAllocatable": [],
        "containerRuntimeEndpoint": f"unix://{folder}/containerd.sock",
        "authentication": {"anonymous": {"enabled": True}, "webhook": {"enabled": False}},
        "authorization": {"mode": "AlwaysAllow"},
        "address": "127.0.0.1",
        "port": port,
        "healthzPort": 0,
        "localStorageCapacityIsolation": False,
        "makeIPTablesUtilChains": False,
        "evictionHard": {"memory.available": "1Mi", "nodefs.available": "1%", "imagefs.available": "1%"},
    }


def _image(folder: Path) -> bytes:
    """Return an image of one static program, as ``docker save`` writes it."""
    (folder / "worker.c").write_text(WORKER)
    subprocess.run(["gcc", "-static", "-Os", "-o", str(folder / "worker"), str(folder / "worker.c")], check=True)
    layer = _tar({"worker": (folder / "worker").read_bytes()})
    digest = hashlib.sha256(layer).hexdigest()
    image = {
        "architecture": "arm64" if os.uname().machine == "aarch64" else "amd64",
        "os": "linux",
        "config": {"Entrypoint": ["/worker"]},
        "rootfs": {"type": "layers", "diff_ids": [f"sha256:{digest}"]},
    }
    manifest = [{"Config": "config.json", "RepoTags": [IMAGE], "Layers": ["layer.tar"]}]
    return _tar(
        {"layer.tar": layer, "config.json": json.dumps(image).encode(), "manifest.json": json.dumps(manifest).encode()}
    )


def _tar(files: dict[str, bytes]) -> bytes:
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w") as tar:
        for name, content in files.items():
            entry = tarfile.TarInfo(name)
            entry.size, entry.mode = len(content), 0o755
            tar.addfile(entry, io.BytesIO(content))
    return made.getvalue()
