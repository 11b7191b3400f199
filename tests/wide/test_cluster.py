"""deploy/ in a real one-node Kubernetes: overlays, components, chart, gateway, probes, an update, a drain, a token.

The image is built from the Dockerfile by buildah and started as the manifests say. Stand-ins: the simulated driver, the
NVIDIA runtime, the Collector's image (the build of builder.yaml under its name) and ClickHouse (on the node, outside of
Kubernetes). No plugin here enforces a NetworkPolicy. Run with `make test TESTS=wide`; `.ci/run` leaves it out.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from driver.scenario import MIB, Card, Process, Scenario, replace_text, uuid
from servers.clickhouse import PASSWORDS, ClickHouseServer
from servers.cluster import NODE, OUTSIDE, WORLD, Cluster, image, missing, overlay, program_image
from servers.gua import Gua
from servers.process import poll
from servers.tools import ROOT, collector_binary

pytestmark = [pytest.mark.wide, pytest.mark.xdist_group("cluster")]
IMAGE = "registry.example/gua:0.1.0"
COLLECTOR = "docker.io/otel/opentelemetry-collector-contrib:0.161.0"
CARDS = [uuid(1), uuid(2), uuid(3)]
AGENT = "app.kubernetes.io/name=gua"
TEAM = "team-a"
# Of both the overlays and the chart: a tick each 2 s, and a stand-in for /dev/nvidia*.
SETTINGS = {"GUA_INTERVAL": "2s", "GUA_SIMULATED_DRIVER": f"{WORLD}/driver.scenario"}
# Of the agent's own state, and of what the tests look at, nothing takes longer on a slow machine than this.
LONG = 150.0
DRIVER_OF_THE_NODE = {"gke", "bare", "bare-lib64"}


def say(text: str) -> None:
    print(f"\n{text}", end="", flush=True)  # noqa: T201 - what was run and measured


def patch(operations: Sequence[object], kind: str = "DaemonSet|Deployment", name: str = "gua") -> dict[str, object]:
    """Return a patch of an object of kustomize's."""
    return {"target": {"kind": kind, "name": name}, "patch": json.dumps(operations)}


class Lab:
    """The cluster, a pod that holds a card of it, and the agents that are applied."""

    def __init__(self, cluster: Cluster, folder: Path) -> None:
        self.cluster = cluster
        self.folder = folder
        self._applied = 0
        self.pids: dict[str, int] = {}

    def write(self, *, unloaded: bool = False) -> None:
        """Have the driver report the cards: each pod's process is on one."""
        held = [*self.pids.values(), *[None] * len(CARDS)]
        cards = [
            Card(name, memory_reserved=500 * MIB, processes=[] if pid is None else [Process(pid, memory=4096 * MIB)])
            for name, pid in zip(CARDS, held, strict=False)
        ]
        gone = "unload 9\n" if unloaded else ""
        replace_text(self.cluster.scenario, gone + Scenario(cards).text())
        self.cluster.scenario.chmod(0o644)

    def run(self, name: str, *, cards: int) -> None:
        """Run a pod that was allocated cards and holds one."""
        self.pids[name] = self.cluster.run_pod(name, TEAM, cards=cards, seconds=LONG)
        self.write()

    def apply(
        self, resource: str, components: Sequence[str] = (), *, patches: Sequence[object] = (), **more: object
    ) -> Path:
        """Apply shipped manifests with this test's settings, and return the folder that says so."""
        self._applied += 1
        folder = overlay(self.folder / f"applied-{self._applied}", resource, components, patches=list(patches), **more)
        self.cluster.must("apply", f"--kustomize={folder}")
        return folder

    def agents(
        self,
        overlaid: str,
        components: Sequence[str] = (),
        *,
        patches: Sequence[object] = (),
        insecure: bool = True,
    ) -> Any:  # noqa: ANN401 - what the API says
        """Apply an overlay of the agent, wait until it is ready and return its pod."""
        literals = [f"{name}={value}" for name, value in SETTINGS.items()]
        if insecure and "pod-names" in components:
            literals.append("GUA_KUBELET_INSECURE=1")
        generator = {"name": "gua-agent", "namespace": "gua", "behavior": "merge", "literals": literals}
        # The simulated driver's cards; the NVIDIA runtime brings them by itself.
        world = {"name": "world", "hostPath": {"path": str(self.cluster.world), "type": "Directory"}}
        mount = {"name": "world", "mountPath": WORLD, "readOnly": True}
        way = "/spec/template/spec"
        with_world = [
            {"op": "add", "path": f"{way}/containers/0/volumeMounts/-", "value": mount},
            {"op": "add", "path": f"{way}/volumes/-", "value": world},
        ]
        every = [patch(with_world), *patches] if overlaid in DRIVER_OF_THE_NODE else patches
        self.apply(f"overlays/{overlaid}", components, patches=every, configMapGenerator=[generator])
        return self.ready()

    def ready(self) -> Any:  # noqa: ANN401 - what the API says
        """Return the agent's only pod once it is ready."""

        def pods() -> list[Any]:
            found = self.cluster.pods(AGENT)
            conditions = [each for pod in found for each in pod["status"].get("conditions", [])]
            status_now = [each["status"] for each in conditions if each["type"] == "Ready"]
            return found if len(found) == 1 and status_now == ["True"] else []

        try:
            return poll(pods, "the agent to be ready", seconds=LONG)[0]
        except AssertionError:
            what = self.cluster.run("describe", "pods", "--namespace=gua").stdout[-3000:]
            logs = self.cluster.run("logs", "--namespace=gua", f"--selector={AGENT}", "--all-containers").stdout
            message = f"not ready: {what}\n{logs}"
            raise AssertionError(message) from None

    def page(self, pod: Any) -> str:  # noqa: ANN401 - what the API says
        """Return the page of a pod's agent, requested from the node by the pod's address; empty without an answer."""
        ask = "import sys, urllib.request; print(urllib.request.urlopen(sys.argv[1], timeout=10).read().decode())"
        where = pod["status"]["podIP"]
        return self.cluster.tried(sys.executable, "-c", ask, f"http://{where}:9835/metrics").stdout

    def exec(self, pod: Any, *command: str, container: str = "agent") -> str:  # noqa: ANN401 - what the API says
        where = (f"--namespace={pod['metadata']['namespace']}", pod["metadata"]["name"], f"--container={container}")
        done = self.cluster.run("exec", *where, "--", *command)
        return done.stdout + done.stderr

    def status(self, pod: Any) -> Any:  # noqa: ANN401 - what the API says
        return json.loads(self.exec(pod, "gua", "status", "--json"))

    def clear(self) -> None:
        """Take the agents away; the state on the node stays."""
        kinds = "daemonsets,deployments,statefulsets,configmaps,secrets,services"
        self.cluster.must("delete", kinds, "--all", "--namespace=gua", "--ignore-not-found")
        poll(lambda: not self.cluster.get("pods", "--namespace=gua")["items"], "agents to end", seconds=LONG)


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    if reason := missing():
        pytest.skip(f"left out: {reason}")
    folder = tmp_path_factory.mktemp("lab")
    begun = time.monotonic()
    ours = image(IMAGE, ROOT / "deploy" / "docker" / "Dockerfile", ROOT, folder / "gua.tar")
    (folder / "collector").mkdir()
    images = [ours, program_image(COLLECTOR, collector_binary(), folder / "collector")]
    say(f"images: {time.monotonic() - begun:.0f} s")
    begun = time.monotonic()
    with Cluster(images, CARDS) as cluster:
        version = json.loads(cluster.must("version", "--output=json"))["serverVersion"]["gitVersion"]
        runtime = cluster.inside("containerd", "--version").strip()
        say(f"cluster: {time.monotonic() - begun:.0f} s; Kubernetes {version}, {runtime}")
        made = Lab(cluster, folder)
        made.write()
        cluster.must("create", "namespace", TEAM)
        made.run("holder", cards=1)
        yield made


@pytest.fixture(autouse=True)
def _cleared(lab: Lab) -> Iterator[None]:
    yield
    lab.clear()


def names_of_pods(page: str) -> set[str]:
    """Return the pods of the processes; the agent's own is in target_info alone."""
    lines = [line for line in page.splitlines() if not line.startswith("target_info")]
    return set(re.findall(r'k8s_pod_name="([^"]*)"', "\n".join(lines)))


def test_the_chart_as_it_is_installed_updated_and_taken_away(lab: Lab) -> None:
    """An update loses no tick that was made, and no idle time: state is on the node."""
    lab.cluster.must("apply", f"--filename={ROOT}/deploy/kubernetes/base/namespace.yaml")
    # The chart takes no variable that no agent has: the NVIDIA runtime's stand-in says where its cards are.
    values = {"settings": {"GUA_PROMETHEUS": "0.0.0.0:9835"}, "interval": SETTINGS["GUA_INTERVAL"]}
    file = lab.folder / "values.json"
    file.write_text(json.dumps(values))
    chart = (str(ROOT / "deploy" / "helm" / "gua"), "--namespace", "gua", "--values", str(file))
    lab.cluster.helm("install", "gua", *chart)
    pod = lab.ready()
    poll(lambda: "gua_process_idle_duration_seconds" in lab.page(pod), "a process on the page", seconds=LONG)
    time.sleep(10)
    idle = idle_seconds(lab.page(pod))
    begun = time.monotonic()
    lab.cluster.helm("upgrade", "gua", *chart, "--set-string", "settings.GUA_IGNORE_PROCESS=nobody-s")
    poll(lambda: name_of(lab.ready()) != name_of(pod), "another pod", seconds=LONG)
    after = lab.ready()
    took = time.monotonic() - begun
    poll(lambda: idle_seconds(lab.page(after)), "a process on the page", seconds=LONG)
    assert idle_seconds(lab.page(after)) > idle
    say(f"helm upgrade: idle {idle:.0f} s before, {idle_seconds(lab.page(after)):.0f} s after; {took:.0f} s")
    lab.cluster.helm("uninstall", "gua", "--namespace", "gua")


def name_of(pod: Any) -> str:  # noqa: ANN401 - what the API says
    return str(pod["metadata"]["name"])


def idle_seconds(page: str) -> float:
    found = re.findall(r"^gua_process_idle_duration_seconds\{[^}]*\} (\S+)$", page, re.MULTILINE)
    return max(map(float, found), default=0.0)


@pytest.mark.parametrize("name", ["nvidia-runtime", "eks", "gke", "bare", "bare-lib64", "deployment"])
def test_each_overlay_is_ready_with_its_rights_and_names_the_holder(lab: Lab, name: str) -> None:
    # Stands in for a node with NVIDIA's runtime as its default.
    runtime = {"op": "add", "path": "/spec/template/spec/runtimeClassName", "value": "nvidia"}
    pod = lab.agents(name, patches=[patch([runtime])] if name == "eks" else [])
    poll(lambda: f'process_pid="{lab.pids["holder"]}"' in lab.page(pod), "the holder", seconds=LONG)
    page = lab.page(pod)
    assert len(set(re.findall(r'hw_id="(GPU-[^"]*)"', page))) == len(CARDS), page[:2000]
    uid = lab.cluster.get("pod", "holder", f"--namespace={TEAM}")["metadata"]["uid"]
    assert f'k8s_pod_uid="{uid}"' in page
    assert not names_of_pods(page), "nobody is asked for names"
    process = dict(
        line.split(":\t", 1)
        for line in Path(f"/proc/{lab.cluster.pid(pod, 'agent')}/status").read_text().splitlines()
        if ":\t" in line
    )
    assert process["Uid"].split() == ["10001"] * 4
    assert {int(process[each], 16) for each in ("CapEff", "CapPrm", "CapAmb")} == {0}
    assert "Read-only file system" in lab.exec(pod, "python3", "-c", "open('/etc/made', 'w')")
    privileged = name in DRIVER_OF_THE_NODE
    assert (process["Seccomp"] == "0") is privileged
    used = memory(lab, pod)
    limit = 256 * MIB
    say(f"{name}: ready, {used / MIB:.0f} MiB of {limit / MIB:.0f}, {'privileged' if privileged else 'not privileged'}")
    assert used < limit / 2


def memory(lab: Lab, pod: Any) -> int:  # noqa: ANN401 - what the API says
    """Return what `kubectl top` shows of the agent: its working set, by its control group [bytes]."""
    groups = dict(
        line.split(":", 2)[1:]
        for line in Path(f"/proc/{lab.cluster.pid(pod, 'agent')}/cgroup").read_text().splitlines()
    )
    ways = {"memory": ("/sys/fs/cgroup/memory", "usage_in_bytes"), "": ("/sys/fs/cgroup", "current")}
    kind = "memory" if "memory" in groups else ""
    folder = Path(f"{ways[kind][0]}{groups[kind]}")
    rest = dict(line.split() for line in (folder / "memory.stat").read_text().splitlines())
    unused = int(rest.get("total_inactive_file", rest["inactive_file"]))
    return int((folder / f"memory.{ways[kind][1]}").read_text()) - unused


def test_the_sidecar_shows_the_cards_without_names(lab: Lab) -> None:
    lab.apply("overlays/sidecar")
    try:

        def pods() -> list[Any]:
            found = lab.cluster.pods("app.kubernetes.io/name=training", "default")
            return [pod for pod in found if pod["status"]["phase"] == "Running"]

        pod = poll(pods, "the workload", seconds=LONG)[0]
        poll(lambda: "gua_gpu_info" in lab.page(pod), "its page", seconds=LONG)
        assert 'gua_gpu_process_list="pid_namespace"' in lab.page(pod)
        assert "process_owner=" not in lab.page(pod)
    finally:
        lab.cluster.must("delete", "deployment", "training")


def test_components_that_go_together_say_who_was_allocated_what(lab: Lab) -> None:
    pod = lab.agents("nvidia-runtime", ["pod-names", "pod-resources", "host-network"])
    poll(lambda: "holder" in names_of_pods(lab.page(pod)), "the name of the pod", seconds=LONG)
    page = lab.page(pod)
    assert f'k8s_namespace_name="{TEAM}"' in page
    status_now = lab.status(pod)
    (source,) = status_now["allocation_sources"]
    assert (source["source"], source["ok"]) == ("kubernetes", True), source
    allocated = [each for each in status_now["cards"] if each.get("allocations")]
    assert len(allocated) == 1, status_now["cards"]
    assert '"holder"' in json.dumps(allocated[0]["allocations"]), allocated


def test_owner_names_are_those_of_the_node(lab: Lab) -> None:
    if not os.access("/proc/1/root/etc/passwd", os.R_OK):
        pytest.skip("this machine lets nobody look into its process 1, not even root")
    pod = lab.agents("nvidia-runtime", ["owner-names"])
    poll(lambda: 'process_owner="root"' in lab.page(pod), "root's name", seconds=LONG)


def test_probes_fail_without_a_driver_and_heal(lab: Lab) -> None:
    quick = [
        {"op": "add", "path": f"/spec/template/spec/containers/0/{probe}/{key}", "value": value}
        for probe in ("readinessProbe", "livenessProbe")
        for key, value in (("periodSeconds", 2), ("failureThreshold", 5))
    ]
    pod = lab.agents("bare", patches=[patch(quick)])
    lab.write(unloaded=True)
    try:
        count = "--output=jsonpath={.status.containerStatuses[0].restartCount}"
        again = ("get", "pod", name_of(pod), "--namespace=gua", count)
        poll(lambda: int(lab.cluster.must(*again)) >= 1, "the liveness probe to end it", seconds=LONG)
        assert not [each for each in lab.cluster.pods(AGENT) if is_ready(each)], "it may not be ready without a driver"
    finally:
        lab.write()
    assert name_of(lab.ready()) == name_of(pod)
    say(f"without a driver restarted {lab.cluster.must(*again)} times, ready again with it")


def is_ready(pod: Any) -> bool:  # noqa: ANN401 - what the API says
    return any(each["type"] == "Ready" and each["status"] == "True" for each in pod["status"]["conditions"])


def test_a_drained_node_keeps_its_agent(lab: Lab) -> None:
    pod = lab.agents("bare")
    lab.run("drained", cards=1)
    lab.cluster.must(
        "drain", NODE, "--ignore-daemonsets", "--force", "--delete-emptydir-data", f"--timeout={LONG:.0f}s"
    )
    try:
        assert not lab.cluster.get("pods", f"--namespace={TEAM}")["items"]
        assert name_of(lab.ready()) == name_of(pod), "a DaemonSet's pod stays"
        lab.pids.clear()
        lab.write()
        poll(lambda: "process_pid=" not in lab.page(pod), "the cards to be free", seconds=LONG)
        # What the page says of an update of the driver: without the label the agent goes, too.
        lab.cluster.must("label", "node", NODE, "nvidia.com/gpu.present-")
        poll(lambda: not lab.cluster.pods(AGENT), "the agent to go", seconds=LONG)
        lab.cluster.must("label", "node", NODE, "nvidia.com/gpu.present=true")
    finally:
        lab.cluster.must("uncordon", NODE)
    lab.ready()
    lab.run("holder", cards=1)


def test_a_kubelet_certificate_of_its_own_is_refused_and_one_of_the_cluster_believed(lab: Lab) -> None:
    """What a user must do, as docs/kubernetes.md has it: serverTLSBootstrap, and approve the request."""
    pod = lab.agents("bare", ["pod-names"], insecure=False)
    poll(lambda: "certificate" in lab.exec(pod, "gua", "status"), "the refusal", seconds=LONG)
    page = lab.page(pod)
    assert not names_of_pods(page)
    assert 'k8s_pod_uid="' in page, "ids go on"
    lab.cluster.kubelet_settings["serverTLSBootstrap"] = True
    lab.cluster.kubelet.stop()
    lab.cluster.start_kubelet()
    requests = ("get", "certificatesigningrequests", "--output=jsonpath={.items[*].metadata.name}")
    names = poll(lambda: lab.cluster.must(*requests).split(), "the kubelet to ask for a certificate", seconds=LONG)
    lab.cluster.must("certificate", "approve", *names)
    poll(lambda: "holder" in names_of_pods(lab.page(pod)), "names of pods", seconds=LONG)
    say(f"kubelet's certificate: refused; {len(names)} request approved: names without GUA_KUBELET_INSECURE")


def test_a_token_that_no_longer_holds_costs_names_alone(lab: Lab) -> None:
    pod = lab.agents("bare", ["pod-names"])
    poll(lambda: "holder" in names_of_pods(lab.page(pod)), "names of pods", seconds=LONG)
    # Tokens of a deleted account are refused, like expired ones.
    lab.cluster.must("delete", "serviceaccount", "gua", "--namespace=gua")
    lab.run("later", cards=0)
    poll(lambda: re.search(r"401|Unauthorized|refused", lab.exec(pod, "gua", "status")), "the refusal", seconds=LONG)
    page = lab.page(pod)
    assert "later" not in names_of_pods(page)
    assert f'process_pid="{lab.pids["later"]}"' in page, "its ticks go on, with ids"
    assert "holder" in names_of_pods(page), "names that are known stay"
    lab.cluster.must("delete", "pod", "later", f"--namespace={TEAM}")
    del lab.pids["later"]
    lab.write()
    # A new account, and agents that have its token.
    lab.agents("bare", ["pod-names"])
    lab.cluster.must("rollout", "restart", "daemonset/gua", "--namespace=gua")
    poll(lambda: name_of(lab.ready()) != name_of(pod), "another pod", seconds=LONG)
    again = lab.ready()
    poll(lambda: "holder" in names_of_pods(lab.page(again)), "names of pods", seconds=LONG)


def test_ticks_reach_clickhouse_through_the_gateway_and_an_update_loses_none(lab: Lab, tmp_path: Path) -> None:
    server = ClickHouseServer(tmp_path / "clickhouse")
    server.configure(f"<listen_host>{OUTSIDE}</listen_host>")
    server.start()
    try:
        Gua(tmp_path / "owner").must("schema", "apply", "--store", server.dsn())
        lab.cluster.must("apply", f"--filename={ROOT}/deploy/kubernetes/base/namespace.yaml")
        password = f"--from-literal=password={PASSWORDS['gua_writer']}"
        lab.cluster.must("create", "secret", "generic", "gua-clickhouse", password, "--namespace=gua")
        queue = tmp_path / "queue"
        queue.mkdir()
        shutil.chown(queue, 10001, 10001)
        lab.cluster.must("apply", "--filename=-", given=json.dumps(volume(queue)))
        literals = [f"CLICKHOUSE_ENDPOINT=tcp://{OUTSIDE}:{server.tcp_port}"]
        to_server = {"name": "gua-gateway", "namespace": "gua", "behavior": "merge", "literals": literals}
        lab.apply("gateway", configMapGenerator=[to_server])
        lab.cluster.must("rollout", "status", "statefulset/gua-gateway", "--namespace=gua", f"--timeout={LONG:.0f}s")
        gateway = lab.cluster.get("pod", "gua-gateway-0", "--namespace=gua")["status"]["podIP"]
        # Stands in for DNS and kube-proxy, which are not in this cluster.
        aliases = [{"ip": gateway, "hostnames": ["gua-gateway"]}]
        alias = {"op": "add", "path": "/spec/template/spec/hostAliases", "value": aliases}
        pod = lab.agents("bare", ["otlp"], patches=[patch([alias])])
        landed = "SELECT uniqExact(ts), toUnixTimestamp(max(ts)) FROM gua.card_ticks"
        poll(lambda: int(server.query(landed).split("\t")[0]) >= 5, "five ticks", seconds=LONG)
        idle = idle_seconds(lab.page(pod))
        made = lab.status(pod)["ticks"]["made"]
        lab.cluster.must("rollout", "restart", "daemonset/gua", "--namespace=gua")
        poll(lambda: name_of(lab.ready()) != name_of(pod), "another pod", seconds=LONG)
        again = lab.ready()
        poll(lambda: int(lab.status(again)["ticks"]["made"]) >= 5, "five ticks more", seconds=LONG)
        enough = made + 5
        poll(lambda: int(server.query(landed).split("\t")[0]) >= enough, f"{enough} ticks", seconds=LONG)
        assert idle_seconds(lab.page(again)) > idle
        spans = "SELECT count(), max(n) FROM (SELECT gpu, ts, count() AS n FROM gua.card_ticks FINAL GROUP BY gpu, ts)"
        assert server.query(spans).split("\t")[1] == "1"
        overlapping = """
            SELECT countIf(before > ts - toIntervalMillisecond(duration_ms))
            FROM
            (
                SELECT ts, duration_ms, lagInFrame(ts) OVER (PARTITION BY gpu ORDER BY ts) AS before
                FROM gua.card_ticks FINAL
            )
        """
        assert server.query(overlapping) == "0"
        say(f"update: {made} ticks made before and at least 5 after are in ClickHouse, once each, none overlaps")
    finally:
        server.stop()


def volume(folder: Path) -> dict[str, Any]:
    """Return a volume in a folder of the node, for the gateway's claim."""
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": "queue"},
        "spec": {
            "capacity": {"storage": "10Gi"},
            "accessModes": ["ReadWriteOnce"],
            "hostPath": {"path": str(folder), "type": "Directory"},
        },
    }
