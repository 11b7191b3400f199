"""The manifests of deploy/kubernetes, built by kustomize, against Kubernetes' schemas and their documentation."""

from __future__ import annotations

import itertools
import json
import subprocess
from pathlib import Path

import pytest
import yaml

from fakes.kubelet import pod as told_pod
from fakes.kubelet import pod_list
from gua.allocation.pod_resources import SOCKET
from gua.cli.main import main
from gua.identity.pod_names import parse_kubelet
from servers import kubernetes, promtool
from servers.container import UID
from servers.kubernetes import COMPONENTS, FOLDER, SETS, VERSIONS, Manifest
from servers.tools import ROOT, checkers

pytestmark = pytest.mark.usefixtures("_kubernetes_tools")
PRIVILEGED = {"overlays/gke", "overlays/bare", "overlays/bare-lib64"}
SCRAPE_SECONDS = 30  # as the monitors have it, and deploy/prometheus/scrape.yaml
EVALUATION_SECONDS = 60  # Prometheus' default, the operator's is 30
ON_SET = pytest.mark.parametrize("name", SETS)


def built(name: str) -> tuple[Manifest, ...]:
    return kubernetes.built(FOLDER / name)


@ON_SET
def test_the_schemas_of_three_versions_find_no_fault(name: str) -> None:
    assert kubernetes.faults(built(name), VERSIONS) == []


def test_the_schemas_would_find_a_fault() -> None:
    wrong = yaml.safe_load(yaml.safe_dump([*built("overlays/nvidia-runtime")]))
    pod = kubernetes.only(wrong, "DaemonSet")["spec"]["template"]["spec"]
    pod["hostPid"] = pod.pop("hostPID")
    assert len(kubernetes.faults(wrong, VERSIONS)) == len(VERSIONS)


@pytest.mark.parametrize(
    "components",
    [
        ("otlp", "pod-monitor", "host-network", "prometheus-rules"),
        ("otlp", "service-monitor", "owner-names", "pod-names"),
        ("pod-names", "pod-resources"),
        ("pod-resources", "owner-names", "pod-names"),
    ],
)
def test_components_go_together(components: tuple[str, ...], tmp_path: Path) -> None:
    made = kubernetes.with_components(tmp_path, *components)
    assert kubernetes.faults(made, VERSIONS) == []
    images = {
        container["image"]
        for pod in kubernetes.pods(made)
        for container in (*pod["containers"], *pod.get("initContainers", ()))
    }
    assert images == {"own.example/gua:7"}, "an image that is set is set everywhere"


def test_every_component_is_in_an_overlay_or_tried_with_one() -> None:
    used = {
        Path(component).name
        for file in FOLDER.glob("overlays/*/kustomization.yaml")
        for component in yaml.safe_load(file.read_text()).get("components", ())
    }
    tried = {"otlp", "pod-monitor", "service-monitor", "host-network", "prometheus-rules"}
    tried |= {"owner-names", "pod-names", "pod-resources"}
    assert set(COMPONENTS) == used | tried


@ON_SET
def test_containers_can_do_no_more_than_they_must(name: str) -> None:
    for pod in kubernetes.pods(built(name)):
        assert pod["automountServiceAccountToken"] is False
        assert pod["securityContext"]["runAsNonRoot"] is True
        assert pod["securityContext"]["runAsUser"] == UID
        assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
        assert "hostNetwork" not in pod
        for container in (*pod.get("initContainers", ()), *pod["containers"]):
            if container["name"] == "training":
                continue
            security = container["securityContext"]
            assert security["readOnlyRootFilesystem"] is True
            assert container["resources"]["limits"]["memory"]
            if name in PRIVILEGED and container["name"] == "agent":
                assert security == {"privileged": True, "readOnlyRootFilesystem": True}
                continue
            assert security["allowPrivilegeEscalation"] is False
            added = ["CHOWN"] if container["name"] == "own-state" else None
            assert (security["capabilities"]["drop"], security["capabilities"].get("add")) == (["ALL"], added)
            assert security.get("runAsUser", UID) == (0 if added else UID)


@ON_SET
def test_an_agent_knows_where_it_is_and_keeps_its_state_in_a_folder_of_its_own(name: str) -> None:
    for agent in kubernetes.agents(built(name)):
        variables = kubernetes.environment(agent)
        assert (variables["NODE_NAME"], variables["POD_NAME"], variables["POD_NAMESPACE"]) == (
            "{spec.nodeName}",
            "{metadata.name}",
            "{metadata.namespace}",
        )
        (state,) = [each["mountPath"] for each in agent["volumeMounts"] if each["name"].endswith("state")]
        assert variables["GUA_HOME"] == f"{state}/state"
        assert {agent[probe]["httpGet"]["path"] for probe in ("livenessProbe", "startupProbe")} == {
            "/healthz",
            "/readyz",
        }


@ON_SET
def test_a_lost_card_alerts_before_the_liveness_probe_ends_the_agent(name: str) -> None:
    (rule,) = [each for each in promtool.rules() if each.get("alert") == "GuaGpuFailed"]
    grace = int(rule["for"].removesuffix("m")) * 60
    for agent in kubernetes.agents(built(name)):
        probe = agent["livenessProbe"]
        least = (probe["failureThreshold"] - 1) * probe["periodSeconds"]
        assert SCRAPE_SECONDS + EVALUATION_SECONDS + grace <= least


@pytest.mark.parametrize("name", [name for name in SETS if name != "gateway"])
def test_the_settings_and_options_of_an_agents_manifest_exist_in_its_help(
    name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    made = built(name)
    (agent,) = kubernetes.agents(made)
    assert main([agent["args"][0], "--help"]) == 0
    shown = capsys.readouterr().out
    settings = {*kubernetes.environment(agent), *(key for each in made for key in each.get("data", ()))}
    for setting in sorted(each for each in settings if each.startswith("GUA_") and each != "GUA_HOST_NAME"):
        assert setting in shown
    for option in agent["args"][1:]:
        assert f"{option} " in shown


@pytest.mark.parametrize("name", [name for name in SETS if name != "gateway"])
def test_agents_use_the_hosts_pid_namespace_except_in_the_sidecar(name: str) -> None:
    (pod,) = kubernetes.pods(built(name))
    assert pod.get("hostPID", False) is (name != "overlays/sidecar")
    assert len([*kubernetes.agents(built(name))]) == 1


def test_privileged_is_only_where_the_nodes_driver_is_mounted() -> None:
    found = {
        name
        for name, pod in itertools.chain.from_iterable(
            zip(itertools.repeat(n), kubernetes.pods(built(n))) for n in SETS
        )
        for container in pod["containers"]
        if container.get("securityContext", {}).get("privileged")
    }
    assert found == PRIVILEGED
    for name in PRIVILEGED:
        (agent,) = kubernetes.agents(built(name))
        (mounted,) = [each for each in agent["volumeMounts"] if each["name"] == "driver"]
        assert mounted["readOnly"] is True
        assert mounted["mountPath"].startswith("/usr/local/nvidia")
        assert kubernetes.environment(agent)["LD_LIBRARY_PATH"].startswith("/usr/local/nvidia")


def test_only_the_runtime_class_differs_between_eks_and_the_usual_one() -> None:
    usual, eks = (kubernetes.only(built(f"overlays/{name}"), "DaemonSet") for name in ("nvidia-runtime", "eks"))
    pod = dict(usual["spec"]["template"]["spec"])
    assert pod.pop("runtimeClassName") == "nvidia"
    assert pod == eks["spec"]["template"]["spec"]
    (agent,) = kubernetes.agents(built("overlays/eks"))
    variables = kubernetes.environment(agent)
    assert (variables["NVIDIA_VISIBLE_DEVICES"], variables["NVIDIA_DRIVER_CAPABILITIES"]) == ("all", "utility")


@ON_SET
def test_selectors_find_what_they_are_for(name: str) -> None:
    made = built(name)
    labels = [each["spec"]["template"]["metadata"]["labels"] for each in made if "template" in each.get("spec", {})]
    assert labels
    for each in made:
        spec = each.get("spec", {})
        match each["kind"]:
            case "DaemonSet" | "Deployment" | "StatefulSet":
                assert spec["selector"]["matchLabels"].items() <= spec["template"]["metadata"]["labels"].items()
            case "Service":
                assert any(spec["selector"].items() <= found.items() for found in labels)
            case "NetworkPolicy":
                assert any(spec["podSelector"]["matchLabels"].items() <= found.items() for found in labels)
                assert set(spec["policyTypes"]) == {"Ingress", "Egress"}


def test_monitors_find_the_agents_port(tmp_path: Path) -> None:
    for component, kind, ports in (
        ("pod-monitor", "PodMonitor", "podMetricsEndpoints"),
        ("service-monitor", "ServiceMonitor", "endpoints"),
    ):
        made = kubernetes.with_components(tmp_path / component, component)
        monitor = kubernetes.only(made, kind)
        target = kubernetes.only(made, "DaemonSet" if kind == "PodMonitor" else "Service")
        found = target["spec"]["template"]["metadata"] if kind == "PodMonitor" else target["metadata"]
        assert monitor["metadata"]["namespace"] == target["metadata"]["namespace"]
        assert monitor["spec"]["selector"]["matchLabels"].items() <= found["labels"].items()
        (endpoint,) = monitor["spec"][ports]
        (agent,) = kubernetes.agents(made)
        assert endpoint["port"] in {port["name"] for port in agent["ports"]}
        assert endpoint["honorLabels"] is True
        # The agent's own pod must not be taken for that of a process.
        node, dropped = endpoint["relabelings"]
        assert (node["sourceLabels"], node["targetLabel"]) == (["__meta_kubernetes_pod_node_name"], "instance")
        assert dropped["action"] == "labeldrop"
        assert {"pod", "namespace", "container"} <= set(dropped["regex"].split("|"))


@pytest.mark.parametrize("component", ["owner-names", "pod-resources"])
def test_an_agent_that_is_root_has_state_of_its_own_in_the_folder_that_it_is_given(
    component: str, tmp_path: Path
) -> None:
    made = kubernetes.with_components(tmp_path, component)
    (usual,) = kubernetes.agents(built("overlays/nvidia-runtime"))
    (agent,) = kubernetes.agents(made)
    assert agent["securityContext"]["runAsUser"] == 0
    (state,) = [each["mountPath"] for each in agent["volumeMounts"] if each["name"] == "state"]
    homes = [kubernetes.environment(each)["GUA_HOME"] for each in (usual, agent)]
    assert [Path(home).parent for home in homes] == [Path(state)] * 2
    assert len({*homes}) == 2, "neither may take what belongs to the other"
    (given,) = [each["initContainers"][0]["command"] for each in kubernetes.pods(made)]
    assert given == ["chown", "0:0", state]


def test_only_names_of_pods_need_a_token_and_it_reads_lists_of_pods_alone(tmp_path: Path) -> None:
    made = kubernetes.with_components(tmp_path, "pod-names")
    (pod,) = kubernetes.pods(made)
    assert pod["automountServiceAccountToken"] is True
    (rule,) = kubernetes.only(made, "ClusterRole")["rules"]
    assert rule == {"apiGroups": [""], "resources": ["nodes/pods"], "verbs": ["get"]}
    account = kubernetes.only(made, "ServiceAccount")["metadata"]
    (subject,) = kubernetes.only(made, "ClusterRoleBinding")["subjects"]
    assert (subject["name"], subject["namespace"]) == (account["name"], account["namespace"])
    assert pod["serviceAccountName"] == account["name"]
    (agent,) = kubernetes.agents(made)
    names = [each["name"] for each in agent["env"]]
    assert names.index("NODE_IP") < names.index("GUA_KUBELET"), "Kubernetes knows what stands before"
    assert kubernetes.environment(agent)["NODE_IP"] == "{status.hostIP}"
    url = kubernetes.environment(agent)["GUA_KUBELET"]
    for node in ("10.0.0.7", "fd00::7"):
        assert parse_kubelet(url.replace("$(NODE_IP)", node)).host == node
    assert {"ports": [{"port": 10250}]} in kubernetes.only(made, "NetworkPolicy")["spec"]["egress"]


# The sidecar's agent looks at its own pod's cards.
@pytest.mark.parametrize("overlay", sorted({*SETS} - {"gateway", "overlays/sidecar"}))
def test_pod_resources_add_one_host_folder_and_no_kubernetes_right(overlay: str, tmp_path: Path) -> None:
    usual, made = built(overlay), kubernetes.with_components(tmp_path, "pod-resources", base=overlay)
    kinds = [sorted(each["kind"] for each in manifests) for manifests in (usual, made)]
    assert kinds[0] == kinds[1], "no role, no binding"
    (before,), (pod,) = (kubernetes.pods(manifests) for manifests in (usual, made))
    assert pod["automountServiceAccountToken"] is False
    (agent,) = kubernetes.agents(made)
    (mount,) = [each for each in agent["volumeMounts"] if each["name"] == "pod-resources"]
    (volume,) = [each for each in pod["volumes"] if each["name"] == "pod-resources"]
    assert mount == {"name": "pod-resources", "mountPath": str(SOCKET.parent), "readOnly": True}
    assert volume == {"name": "pod-resources", "hostPath": {"path": str(SOCKET.parent), "type": "Directory"}}
    was, security = (each["containers"][0]["securityContext"] for each in (before, pod))
    assert security == {**was, "runAsNonRoot": False, "runAsUser": 0, "runAsGroup": 0}, "root, and nothing else"
    assert kubernetes.environment(agent)["GUA_ALLOCATION"] == "kubernetes"


def test_the_lists_of_pods_that_names_are_tested_with_have_no_fault() -> None:
    recorded = json.loads((ROOT / "tests/fixtures/kubelet/pods.json").read_text("utf-8"))
    for answer in (recorded, json.loads(pod_list(told_pod()))):
        assert kubernetes.faults([answer], VERSIONS) == []


def test_the_operators_rules_are_the_shipped_ones(tmp_path: Path) -> None:
    made = kubernetes.only(kubernetes.with_components(tmp_path, "prometheus-rules"), "PrometheusRule")
    assert made["spec"] == yaml.safe_load((ROOT / "deploy/prometheus/rules/gua.yaml").read_text("utf-8"))


def test_agents_may_send_to_the_gateway_and_it_takes_only_theirs(tmp_path: Path) -> None:
    made = kubernetes.with_components(tmp_path, "otlp")
    (agent,) = kubernetes.agents(made)
    assert agent["args"] == ["daemon", "--foreground"]
    settings = kubernetes.only(made, "ConfigMap")["data"]
    gateway = built("gateway")
    service = kubernetes.only(gateway, "Service")
    ports = {port["port"] for port in service["spec"]["ports"]}
    assert settings["GUA_ENDPOINT"] == f"http://{service['metadata']['name']}:4318"
    policy = kubernetes.only(made, "NetworkPolicy")["spec"]
    assert ports == {port["port"] for port in policy["egress"][0]["ports"]}
    senders = kubernetes.only(gateway, "NetworkPolicy")["spec"]["ingress"][0]["from"]
    labels = kubernetes.only(made, "DaemonSet")["spec"]["template"]["metadata"]["labels"]
    assert all(sender["podSelector"]["matchLabels"].items() <= labels.items() for sender in senders)


def test_dns_is_allowed_to_any_address_where_endpoints_are_configured(tmp_path: Path) -> None:
    # No `to`: NodeLocal DNSCache and clouds' resolvers are addresses of the node, which no selector of pods finds.
    dns = {"ports": [{"port": port, "protocol": protocol} for port in (53, 5353) for protocol in ("UDP", "TCP")]}
    for made in (kubernetes.with_components(tmp_path, "otlp"), built("gateway")):
        assert dns in kubernetes.only(made, "NetworkPolicy")["spec"]["egress"]
    assert kubernetes.only(built("overlays/nvidia-runtime"), "NetworkPolicy")["spec"]["egress"] == []


def test_the_gateways_settings_are_ones_that_its_config_reads() -> None:
    (container,) = next(kubernetes.pods(built("gateway")))["containers"]
    maps = {each["metadata"]["name"].rpartition("-")[0]: each["data"] for each in built("gateway") if "data" in each}
    config = (ROOT / "otel-collector/config.yaml").read_text("utf-8")
    assert maps["gua-collector"] == {"config.yaml": config}
    for variable in {each["name"] for each in container["env"]} | set(maps["gua-gateway"]):
        assert f"${{env:{variable}" in config, variable
    tag = container["image"].rpartition(":")[2]
    assert f"receiver/otlpreceiver v{tag}" in (ROOT / "otel-collector/builder.yaml").read_text("utf-8")


def test_the_linter_finds_no_fault_in_the_dockerfile() -> None:
    done = subprocess.run(
        [str(checkers().with_name("hadolint")), str(ROOT / "deploy/docker/Dockerfile")],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
