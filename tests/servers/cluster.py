"""A real one-node Kubernetes on this machine: etcd, API server with RBAC, controllers, scheduler, kubelet, containerd.

It lives in a network and mount namespace of its own, so that its addresses, /var/lib/kubelet, /home and the node's
driver are its own. Pods have a bridge network, which enforces no NetworkPolicy; there is no kube-proxy, no DNS.
Stand-ins: the NVIDIA runtime is a containerd runtime that mounts the simulated driver's library, as the toolkit does.
"""

from __future__ import annotations

import json
import os
import re
import secrets
import shutil
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Self

from driver.build import NAME, build
from servers.kubelet import kubernetes_program
from servers.process import ServerProcess, poll
from servers.tools import ROOT, built, helm, kustomize

PROGRAMS = ("kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubelet")
NEEDED = ("etcd", "containerd", "ctr", "runc", "openssl", "unshare", "nsenter", "ip", "gcc", "go", "buildah")
PLUGINS = Path("/usr/lib/cni")
NODE = "gpu-node-1"  # as overlays/deployment names it
ADDRESS = "10.244.8.1"
PODS = "10.244.9.0/24"
# The machine's own address on a line to the node: what runs outside of the cluster listens there.
OUTSIDE = "10.244.7.1"
API = f"https://{ADDRESS}:6443"
PAUSE = "docker.io/local/pause:1"
WORKER = "docker.io/local/worker:1"
TRAINING = "registry.example/training:1.0.0"  # as overlays/sidecar names it
WORLD = "/driver"
LIBRARY = f"/usr/lib/x86_64-linux-gnu/{NAME}"
_STATIC = """
#include <signal.h>
#include <unistd.h>
static void end(int number) { (void)number; _exit(0); }
int main(void) { signal(SIGTERM, end); for (;;) pause(); }
"""


def missing() -> str | None:
    """Return why no cluster can run here, ``None`` if one can."""
    if os.geteuid() != 0:
        return "only root can run a cluster"
    absent = [name for name in NEEDED if shutil.which(name) is None]
    packages = "etcd-server containerd runc containernetworking-plugins buildah gcc iproute2 openssl"
    if absent or not (PLUGINS / "bridge").exists():
        return f"{', '.join(absent) or PLUGINS} not there: apt-get install --no-install-recommends {packages}, and Go"
    return None


def programs() -> dict[str, str]:
    """Return the programs of the cluster by name; compiles them once (16 minutes of CPU)."""
    return {name: str(kubernetes_program(name)) for name in PROGRAMS}


def image(tag: str, dockerfile: Path, context: Path, archive: Path) -> Path:
    """Return an image built by buildah, as an archive. GUA_BUILD_OPTIONS as for Docker's build."""
    options = os.environ.get("GUA_BUILD_OPTIONS", "").split()
    _must(
        [
            "buildah",
            "bud",
            "--quiet",
            "--isolation",
            "chroot",
            *options,
            "--tag",
            tag,
            "--file",
            str(dockerfile),
            str(context),
        ]
    )
    _must(["buildah", "push", "--quiet", tag, f"docker-archive:{archive}:{tag}"])
    return archive


def _must(command: Sequence[str], *, cwd: Path | None = None, given: str | None = None) -> str:
    done = subprocess.run(command, cwd=cwd, input=given, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{' '.join(command)} failed:\n{done.stdout[-3000:]}{done.stderr[-3000:]}"
    return done.stdout


class Cluster:
    """A cluster with one node with cards, by UUID, as the scenario at ``scenario`` has them; use it as a context.

    ``images`` are archives that the node has.
    """

    def __init__(self, images: Sequence[Path], cards: Sequence[str]) -> None:
        self._cards = cards
        self.folder = Path(tempfile.mkdtemp(prefix="gua-cluster."))
        self._images = images
        self._kubectl = kustomize()[0]
        self._config = self.folder / "kubeconfig"
        self._stopping: list[ServerProcess] = []
        self.world = self.folder / "world"
        self.world.mkdir()
        self.scenario = self.world / "driver.scenario"
        self.kubelet_settings: dict[str, Any] = _kubelet(self.folder)

    def __enter__(self) -> Self:
        try:
            self._start()
        except BaseException:
            self.__exit__()
            raise
        return self

    def _start(self) -> None:
        made = programs()
        namespaces = ["unshare", "--mount", "--net", "--propagation", "private"]
        self._own = subprocess.Popen(
            [*namespaces, "sh", "-euc", _NAMESPACE, "sh", str(self.folder), str(build() / NAME)],
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self._own.stdout is not None
        assert self._own.stdout.readline() == "ready\n"
        line, far = f"gua{self._own.pid}", OUTSIDE.removesuffix("1") + "2"
        _must(["ip", "link", "add", line, "type", "veth", "peer", "name", "outside0", "netns", str(self._own.pid)])
        self.inside("sh", "-euc", f"ip addr add {far}/24 dev outside0; ip link set outside0 up")
        _must(
            ["sh", "-euc", f"ip addr add {OUTSIDE}/24 dev {line}; ip link set {line} up; ip route add {PODS} via {far}"]
        )
        self._secrets()
        archives = [*(_program_image(self.folder, tag) for tag in (PAUSE, WORKER, TRAINING)), *self._images]
        containerd = self._server("containerd", "containerd", "--config", str(self.folder / "containerd.toml"))
        self._runtime_files()
        containerd.start(lambda: not self._ctr("version").returncode)
        local = "http://127.0.0.1:2379"
        etcd = ("--data-dir", "etcd", "--listen-client-urls", local, "--advertise-client-urls", local)
        self._server("etcd", "etcd", *etcd).start(lambda: True)
        for archive in archives:
            imported = self._ctr("images", "import", str(archive))
            assert not imported.returncode, imported.stderr
        self.api = self._server("apiserver", made["kube-apiserver"], *_api_server(local))
        self.api.start(lambda: not self.run("get", "--raw", "/readyz").returncode)
        key = f"--service-account-private-key-file={self.folder}/sa.key"
        signing = ("--cluster-signing-cert-file=ca.crt", "--cluster-signing-key-file=ca.key", "--root-ca-file=ca.crt")
        common = (f"--kubeconfig={self._config}", "--leader-elect=false")
        self._server("controllers", made["kube-controller-manager"], *common, key, *signing).start(lambda: True)
        self._server("scheduler", made["kube-scheduler"], *common).start(lambda: True)
        self.kubelet = self._server(
            "kubelet",
            made["kubelet"],
            *("--config", "kubelet.json", "--kubeconfig", "kubelet.kubeconfig", "--hostname-override", NODE),
            *("--node-ip", ADDRESS, "--node-labels", "nvidia.com/gpu.present=true", "--v", "1"),
        )
        self.start_kubelet()
        poll(lambda: " Ready" in self.must("get", "nodes"), "the node to be ready", seconds=240)
        plugin = str(built(ROOT / "tests" / "tools" / "device_plugin", "device-plugin"))
        folder = "/var/lib/kubelet/device-plugins"
        self._server("plugin", plugin, folder, ",".join(self._cards)).start(lambda: True)
        poll(self._offers_cards, "the node to offer its cards", seconds=120)
        self.must("apply", "--filename=-", given=json.dumps(_RUNTIME_CLASS))

    def _offers_cards(self) -> bool:
        offered: str = self.get("node", NODE)["status"]["allocatable"].get("nvidia.com/gpu", "0")
        return int(offered) == len(self._cards)

    def start_kubelet(self) -> None:
        """Start it with its settings as they are now."""
        (self.folder / "kubelet.json").write_text(json.dumps(self.kubelet_settings))
        self.kubelet.start(lambda: True)

    def _server(self, name: str, *command: str) -> ServerProcess:
        made = ServerProcess(name, [*self._inside(), *command], os.environ, self.folder)
        self._stopping.append(made)
        return made

    def _inside(self) -> list[str]:
        return ["nsenter", "--target", str(self._own.pid), "--mount", "--net", "env", "-C", str(self.folder)]

    def inside(self, *command: str, given: str | None = None) -> str:
        """Run a command on the node, and insist on success."""
        return _must([*self._inside(), *command], given=given)

    def tried(self, *command: str) -> subprocess.CompletedProcess[str]:
        """Run a command on the node and return what happened."""
        return subprocess.run([*self._inside(), *command], capture_output=True, text=True, check=False)

    def run(self, *words: str, given: str | None = None, seconds: float = 300) -> subprocess.CompletedProcess[str]:
        """Run kubectl and return what happened."""
        return subprocess.run(
            [*self._inside(), self._kubectl, f"--kubeconfig={self._config}", *words],
            input=given,
            capture_output=True,
            text=True,
            check=False,
            timeout=seconds,
        )

    def must(self, *words: str, given: str | None = None, seconds: float = 300) -> str:
        """Run kubectl, insist on success and return its output."""
        done = self.run(*words, given=given, seconds=seconds)
        assert done.returncode == 0, f"kubectl {' '.join(words)}: {done.stdout[-2000:]}{done.stderr[-2000:]}"
        return done.stdout

    def helm(self, *words: str) -> str:
        """Run Helm, and insist on success."""
        return self.inside(str(helm()), "--kubeconfig", str(self._config), *words)

    def get(self, *words: str) -> Any:  # noqa: ANN401 - what the API says
        """Return an object as the API has it."""
        return json.loads(self.must("get", *words, "--output=json"))

    def pods(self, selector: str, namespace: str = "gua") -> list[Any]:
        """Return the pods that a selector finds and that are not being deleted."""
        found = self.get("pods", f"--namespace={namespace}", f"--selector={selector}")["items"]
        return [pod for pod in found if "deletionTimestamp" not in pod["metadata"]]

    def run_pod(self, name: str, namespace: str, *, cards: int, seconds: float) -> int:
        """Run a pod that is allocated cards, and return the pid of its process once it runs."""
        limits = {"nvidia.com/gpu": cards} if cards else {}
        container = {"name": "main", "image": WORKER, "imagePullPolicy": "Never", "resources": {"limits": limits}}
        pod = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": name, "namespace": namespace},
            "spec": {"containers": [container], "terminationGracePeriodSeconds": 1},
        }
        self.must("apply", "--filename=-", given=json.dumps(pod))
        self.must("wait", "--for=condition=Ready", f"--namespace={namespace}", f"pod/{name}", f"--timeout={seconds}s")
        return self.pid(self.get("pod", name, f"--namespace={namespace}"))

    def pid(self, pod: Any, container: str = "main") -> int:  # noqa: ANN401 - what the API says
        """Return the pid of a pod's container on the node."""
        statuses = [*pod["status"].get("containerStatuses", []), *pod["status"].get("initContainerStatuses", [])]
        (name,) = (each["containerID"].rpartition("/")[2] for each in statuses if each["name"] == container)
        for line in self.ctr("tasks", "ls").splitlines():
            if line.startswith(name):
                return int(line.split()[1])
        message = f"{name} does not run"
        raise AssertionError(message)

    def ctr(self, *arguments: str) -> str:
        """Run ctr, and insist on success."""
        done = self._ctr(*arguments)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def _ctr(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        command = ["ctr", "--address", str(self.folder / "containerd.sock"), "--namespace", "k8s.io", *arguments]
        return subprocess.run(
            [*self._inside(), *command], capture_output=True, text=True, check=False, timeout=300, cwd=self.folder
        )

    def _secrets(self) -> None:
        """Make keys, certificates and tokens: one authority for all."""
        folder = self.folder

        def sign(name: str, subject: str, *more: str) -> None:
            _must(["openssl", "genrsa", "-out", f"{name}.key", "2048"], cwd=folder)
            _must(
                ["openssl", "req", "-new", "-key", f"{name}.key", "-subj", subject, "-out", f"{name}.csr"], cwd=folder
            )
            authority = ("-CA", "ca.crt", "-CAkey", "ca.key", "-CAcreateserial", "-days", "2")
            _must(
                ["openssl", "x509", "-req", "-in", f"{name}.csr", *authority, "-out", f"{name}.crt", *more], cwd=folder
            )

        _must(["openssl", "genrsa", "-out", "ca.key", "2048"], cwd=folder)
        self_signed = ("-x509", "-new", "-key", "ca.key", "-days", "2", "-subj", "/CN=ca", "-out", "ca.crt")
        _must(["openssl", "req", *self_signed], cwd=folder)
        (folder / "san").write_text(f"subjectAltName=IP:{ADDRESS},IP:127.0.0.1\n")
        sign("api", "/CN=api", "-extfile", "san")
        sign("client", "/O=system:masters/CN=api-to-kubelet")
        _must(["openssl", "genrsa", "-out", "sa.key", "2048"], cwd=folder)
        _must(["openssl", "rsa", "-in", "sa.key", "-pubout", "-out", "sa.pub"], cwd=folder)
        lines: list[str] = []
        users = {
            "kubeconfig": ("admin", "system:masters"),
            "kubelet.kubeconfig": (f"system:node:{NODE}", "system:nodes"),
        }
        for name, (user, group) in users.items():
            token = secrets.token_hex(16)
            lines.append(f'{token},{user},{len(lines)},"{group}"\n')
            config = {
                "apiVersion": "v1",
                "kind": "Config",
                "clusters": [{"name": "c", "cluster": {"server": API, "certificate-authority": f"{folder}/ca.crt"}}],
                "users": [{"name": "u", "user": {"token": token}}],
                "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
                "current-context": "x",
            }
            (folder / name).write_text(json.dumps(config))
        (folder / "tokens.csv").write_text("".join(lines))

    def _runtime_files(self) -> None:
        """Write containerd's configuration, with a second runtime that brings the driver's library."""
        spec = json.loads(_must(["ctr", "oci", "spec"]))
        library = {"destination": LIBRARY, "type": "bind", "source": LIBRARY, "options": ["rbind", "ro"]}
        world = {"destination": WORLD, "type": "bind", "source": str(self.world), "options": ["rbind", "ro"]}
        spec["mounts"] += [library, world]
        spec["process"].setdefault("env", []).append(f"GUA_SIMULATED_DRIVER={WORLD}/{self.scenario.name}")
        (self.folder / "nvidia.json").write_text(json.dumps(spec))
        (self.folder / "containerd.toml").write_text(_containerd(self.folder))
        (self.folder / "cni").mkdir()
        (self.folder / "cni" / "10-bridge.conflist").write_text(json.dumps(_NETWORK))

    def __exit__(self, *_: object) -> None:
        if hasattr(self, "kubelet"):
            with suppress(AssertionError, subprocess.TimeoutExpired):
                for kind in ("daemonsets,deployments,statefulsets", "pods"):
                    self.run("delete", kind, "--all", "--all-namespaces", "--wait=false", "--grace-period=1")
                poll(lambda: not self._tasks(), "pods to end", seconds=60)
        for server in self._stopping[:0:-1]:
            server.stop()
        for task in self._tasks():
            self._ctr("tasks", "kill", "--signal", "SIGKILL", task)
        with suppress(AssertionError):
            poll(lambda: not self._tasks(), "containers to end")
        for server in self._stopping[:1]:
            server.stop()
        if hasattr(self, "_own"):
            self._own.kill()
            self._own.wait()
            del self._own
        for mount in Path("/proc/mounts").read_text().splitlines()[::-1]:
            if mount.split()[1].startswith(str(self.folder)):
                subprocess.run(["umount", "-l", mount.split()[1]], check=False)
        shutil.rmtree(self.folder, ignore_errors=True)

    def _tasks(self) -> list[str]:
        if not hasattr(self, "_own"):
            return []
        lines = self._ctr("tasks", "ls").stdout.splitlines()[1:]
        return [line.split()[0] for line in lines if line.split()[-1] == "RUNNING"]


# Given the folder and the driver's library. What the node has of its own is in memory or in the folder.
_NAMESPACE = f"""
ip link set lo up
ip link add node0 type bridge
ip addr add {ADDRESS}/24 dev node0
ip link set node0 up
ip route add default dev node0
mkdir -p "$1/kubelet" /var/lib/kubelet /var/lib/gua-agent
mount --bind "$1/kubelet" /var/lib/kubelet
mount -t tmpfs tmpfs /var/log
mount -t tmpfs tmpfs /var/lib/gua-agent
mount -t tmpfs tmpfs /home
mkdir -p /home/kubernetes/bin/nvidia/lib64
cp "$2" /home/kubernetes/bin/nvidia/lib64/
mkdir "$1/usr"
mount -t tmpfs tmpfs "$1/usr"
for each in lib/x86_64-linux-gnu lib64; do
    mkdir -p "$1/usr/$each/upper" "$1/usr/$each/work"
    cp "$2" "$1/usr/$each/upper/"
    mount -t overlay -o "lowerdir=/usr/$each,upperdir=$1/usr/$each/upper,workdir=$1/usr/$each/work" overlay "/usr/$each"
done
echo ready
exec sleep infinity
"""
_RUNTIME_CLASS = {
    "apiVersion": "node.k8s.io/v1",
    "kind": "RuntimeClass",
    "metadata": {"name": "nvidia"},
    "handler": "nvidia",
}
_NETWORK = {
    "cniVersion": "1.0.0",
    "name": "pods",
    "plugins": [
        {
            "type": "bridge",
            "bridge": "pods0",
            "isGateway": True,
            "ipMasq": False,
            "ipam": {"type": "host-local", "subnet": PODS, "routes": [{"dst": "0.0.0.0/0"}]},
        },
        {"type": "loopback"},
    ],
}


def _api_server(etcd: str) -> list[str]:
    return [
        f"--etcd-servers={etcd}",
        "--secure-port=6443",
        f"--advertise-address={ADDRESS}",
        "--service-cluster-ip-range=10.96.0.0/24",
        "--token-auth-file=tokens.csv",
        "--authorization-mode=Node,RBAC",
        "--service-account-key-file=sa.pub",
        "--service-account-signing-key-file=sa.key",
        "--service-account-issuer=https://kubernetes.default.svc",
        "--tls-cert-file=api.crt",
        "--tls-private-key-file=api.key",
        "--kubelet-client-certificate=client.crt",
        "--kubelet-client-key=client.key",
        "--kubelet-preferred-address-types=InternalIP",
        "--allow-privileged=true",
        "--anonymous-auth=false",
    ]


def _containerd(folder: Path) -> str:
    return f"""version = 2
root = "{folder}/containerd"
state = "{folder}/containerd-state"
[grpc]
  address = "{folder}/containerd.sock"
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "{PAUSE}"
  restrict_oom_score_adj = true
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "{PLUGINS}"
    conf_dir = "{folder}/cni"
  [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
    runtime_type = "io.containerd.runc.v2"
  [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.nvidia]
    runtime_type = "io.containerd.runc.v2"
    base_runtime_spec = "{folder}/nvidia.json"
"""


def _kubelet(folder: Path) -> dict[str, Any]:
    return {
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "cgroupDriver": "cgroupfs",
        "failCgroupV1": False,
        "failSwapOn": False,
        "enforceNodeAllocatable": [],
        "containerRuntimeEndpoint": f"unix://{folder}/containerd.sock",
        "authentication": {
            "anonymous": {"enabled": False},
            "webhook": {"enabled": True, "cacheTTL": "2s"},
            "x509": {"clientCAFile": f"{folder}/ca.crt"},
        },
        "authorization": {"mode": "Webhook", "webhook": {"cacheAuthorizedTTL": "2s", "cacheUnauthorizedTTL": "2s"}},
        "address": ADDRESS,
        "localStorageCapacityIsolation": False,
        "makeIPTablesUtilChains": False,
        "evictionHard": {"memory.available": "1Mi", "nodefs.available": "1%", "imagefs.available": "1%"},
    }


def _program_image(folder: Path, tag: str) -> Path:
    """Return an image of one static program that does nothing until it gets a signal to end."""
    here = folder / re.sub(r"\W", "_", tag)
    here.mkdir()
    (here / "main.c").write_text(_STATIC)
    _must(["gcc", "-static", "-Os", "-o", str(here / "main"), str(here / "main.c")])
    return program_image(tag, here / "main", here)


def program_image(tag: str, program: Path, folder: Path) -> Path:
    """Return an image of nothing but one program that needs nothing else."""
    if not (folder / program.name).exists():
        shutil.copy(program, folder)
    (folder / "Dockerfile").write_text(f'FROM scratch\nCOPY {program.name} /main\nENTRYPOINT ["/main"]\n')
    return image(tag, folder / "Dockerfile", folder, folder / "image.tar")


def overlay(folder: Path, resource: str, components: Sequence[str] = (), **more: object) -> Path:
    """Write a kustomization of shipped manifests in a folder, with what else is to be in it, and return the folder."""
    folder.mkdir(parents=True, exist_ok=True)
    shipped = os.path.relpath(ROOT / "deploy" / "kubernetes", folder.resolve())
    content: Mapping[str, object] = {
        "apiVersion": "kustomize.config.k8s.io/v1beta1",
        "kind": "Kustomization",
        "resources": [f"{shipped}/{resource}"],
        "components": [f"{shipped}/components/{name}" for name in components],
        **more,
    }
    (folder / "kustomization.yaml").write_text(json.dumps(content))
    return folder
