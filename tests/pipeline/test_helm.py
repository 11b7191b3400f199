"""The Helm chart makes what kustomize makes of deploy/kubernetes: each driver an overlay, each switch a component."""

from __future__ import annotations

import copy
import itertools
import json
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from gua.cli.main import main
from servers import helm, kubernetes
from servers.helm import CHART, refusal, rendered
from servers.kubernetes import COMPONENTS, FOLDER, SETS, VERSIONS, Manifest
from servers.tools import ROOT

pytestmark = pytest.mark.usefixtures("_kubernetes_tools", "_helm")

VALUES = yaml.safe_load((CHART / "values.yaml").read_text("utf-8"))
SCHEMA = json.loads((CHART / "values.schema.json").read_text("utf-8"))
DRIVERS = SCHEMA["properties"]["driver"]["enum"]
PRIVILEGED = {"gke", "bare", "bare-lib64"}
# The values that stand for a component.
SWITCHES: Mapping[str, Mapping[str, Any]] = {
    "otlp": {"otlp": {"enabled": True}},
    "host-network": {"hostNetwork": True},
    "owner-names": {"ownerNames": True},
    "pod-names": {"podNames": True},
    "pod-resources": {"podResources": True},
    "pod-monitor": {"podMonitor": True},
    "service-monitor": {"serviceMonitor": True},
    "prometheus-rules": {"prometheusRules": True},
}
OWN_IMAGE = {"image": {"repository": "own.example/gua", "tag": "7"}}
# Lists that Kubernetes reads by a key, in whatever order.
KEYED = {"env": "name", "volumes": "name", "volumeMounts": "mountPath"}
ON_DRIVER = pytest.mark.parametrize("driver", DRIVERS)


def by_name(manifests: tuple[Manifest, ...]) -> dict[tuple[str, str], Any]:
    """Return the resources by kind and name, without what differs by intent, which is held to be there first.

    kustomize makes the namespace, and names the ConfigMap after its content so that a change restarts the pods. Helm's
    namespace must be there before the chart, and the pods are annotated with a hash of the ConfigMap.
    """
    resources = copy.deepcopy([each for each in manifests if each["kind"] != "Namespace"])
    settings = kubernetes.only(resources, "ConfigMap")
    template = kubernetes.only(resources, "DaemonSet")["spec"]["template"]
    (agent,) = template["spec"]["containers"]
    assert agent["envFrom"][0]["configMapRef"]["name"] == settings["metadata"]["name"]
    by_content = len(resources) < len(manifests)
    if by_content:
        for named in (settings["metadata"], agent["envFrom"][0]["configMapRef"]):
            named["name"] = named["name"].rpartition("-")[0]
    else:
        assert len(template["metadata"]["annotations"].pop("checksum/config")) == 64
    for part in (template["spec"], *template["spec"]["containers"]):
        for field, key in KEYED.items():
            part.get(field, []).sort(key=lambda each, key=key: each[key])
    found = {(each["kind"], each["metadata"]["name"]): each for each in resources}
    assert len(found) == len(resources)
    return found


def settings(made: tuple[Manifest, ...]) -> dict[str, str]:
    data: dict[str, str] = kubernetes.only(made, "ConfigMap")["data"]
    return data


def pod(made: tuple[Manifest, ...]) -> Any:  # noqa: ANN401 - a resource
    return copy.deepcopy(kubernetes.only(made, "DaemonSet")["spec"]["template"]["spec"])


@ON_DRIVER
def test_a_driver_makes_what_its_overlay_makes(driver: str) -> None:
    assert by_name(rendered({"driver": driver})) == by_name(kubernetes.built(FOLDER / "overlays" / driver))


@pytest.mark.parametrize(
    ("driver", "component"),
    [pair for pair in itertools.product(DRIVERS, SWITCHES) if pair[0] not in PRIVILEGED or pair[1] != "owner-names"],
)
def test_a_switch_makes_what_its_component_makes(driver: str, component: str, tmp_path: Path) -> None:
    values = {"driver": driver, **OWN_IMAGE, **SWITCHES[component]}
    made = kubernetes.with_components(tmp_path, component, base=f"overlays/{driver}")
    assert by_name(rendered(values)) == by_name(made)
    assert by_name(rendered(values)) != by_name(rendered({"driver": driver, **OWN_IMAGE}))


@pytest.mark.parametrize(
    ("driver", "components"),
    [("nvidia-runtime", ("nvidia-runtime",)), ("eks", ("nvidia-environment",)), ("gke", ("host-driver",))],
)
def test_state_in_the_pod_is_the_overlay_without_its_component(
    driver: str, components: tuple[str, ...], tmp_path: Path
) -> None:
    made = kubernetes.with_components(tmp_path, *components, base="base")
    assert by_name(rendered({"driver": driver, "stateOnNode": False, **OWN_IMAGE})) == by_name(made)


@pytest.mark.parametrize("monitor", ["pod-monitor", "service-monitor"])
def test_switches_go_together_as_components_do(monitor: str, tmp_path: Path) -> None:
    together = ("otlp", "host-network", "owner-names", "pod-names", "pod-resources", monitor, "prometheus-rules")
    values = {**OWN_IMAGE, **{key: value for name in together for key, value in SWITCHES[name].items()}}
    assert by_name(rendered(values)) == by_name(kubernetes.with_components(tmp_path, *together))
    names = [each["name"] for each in pod(rendered(values))["containers"][0]["env"]]
    assert names.index("NODE_IP") < names.index("GUA_KUBELET"), "Kubernetes knows what stands before"


def test_every_overlay_has_a_driver_and_every_component_of_the_chart_a_switch() -> None:
    overlays = {name.removeprefix("overlays/") for name in SETS if name.startswith("overlays/")}
    assert set(DRIVERS) == overlays - {"deployment", "sidecar"}
    assert set(SWITCHES) == set(COMPONENTS) - {"state-on-node", "nvidia-runtime", "nvidia-environment", "host-driver"}


def test_an_image_digest_replaces_the_tag(tmp_path: Path) -> None:
    digest = "sha256:" + "7" * 64
    made = kubernetes.with_components(tmp_path, image={"newName": "own.example/gua", "digest": digest})
    assert by_name(rendered({"image": {"repository": "own.example/gua", "digest": digest}})) == by_name(made)


def test_the_rules_are_the_shipped_ones_to_the_byte() -> None:
    shipped = (ROOT / "deploy/prometheus/rules/gua.yaml").read_bytes()
    kept = CHART / "files" / "prometheus-rules.yaml"
    assert kept.read_bytes() == shipped, f"copy deploy/prometheus/rules/gua.yaml to {kept.relative_to(ROOT)}"


def test_settings_become_the_agents_variables_and_restart_it() -> None:
    usual = rendered()
    own = rendered(
        {
            "interval": "10s",
            "compatibleNames": False,
            "settings": {"GUA_PROMETHEUS": "[::]:9835", "GUA_IGNORE_PROCESS": "nvidia-cuda-mps-server my-monitor"},
        }
    )
    assert settings(own) == {
        "GUA_INTERVAL": "10s",
        "GUA_COMPATIBLE": "0",
        "GUA_PROMETHEUS": "[::]:9835",
        "GUA_IGNORE_PROCESS": "nvidia-cuda-mps-server my-monitor",
    }
    before, after = (kubernetes.only(made, "DaemonSet")["spec"]["template"]["metadata"] for made in (usual, own))
    assert before["annotations"]["checksum/config"] != after["annotations"]["checksum/config"]


def test_every_setting_that_the_schema_lets_in_is_one_of_the_agents(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["exporter", "--help"]) == 0
    shown = capsys.readouterr().out
    documented = (ROOT / "docs/operations.md").read_text("utf-8")
    let_in = SCHEMA["properties"]["settings"]["properties"]
    for name in ("GUA_INTERVAL", "GUA_COMPATIBLE", *let_in):
        assert name in (shown if name.startswith("GUA_") else documented), name


def test_nodes_tolerations_and_resources_are_added_to_what_is_there() -> None:
    usual, own = (
        pod(rendered(values))
        for values in (
            {},
            {
                "nodeSelector": {"pool": "training"},
                "tolerations": [{"key": "reserved", "operator": "Exists", "effect": "NoExecute"}],
                "resources": {"limits": {"memory": "1Gi"}},
            },
        )
    )
    assert own.pop("nodeSelector") == {"pool": "training"}
    assert own["tolerations"].pop() == {"key": "reserved", "operator": "Exists", "effect": "NoExecute"}
    limits = own["containers"][0]["resources"]["limits"]
    assert limits == {"memory": "1Gi"}
    limits["memory"] = "256Mi"
    assert own == usual


def test_collector_secret_and_scraper_namespace_are_rendered_from_the_values() -> None:
    otlp = {"enabled": True, "endpoint": "https://collector.example", "ports": [443], "headersSecret": "token"}
    made = rendered({"otlp": otlp, "scrapeNamespace": "prometheus"})
    assert settings(made)["GUA_ENDPOINT"] == "https://collector.example"
    assert pod(made)["containers"][0]["envFrom"][1] == {"secretRef": {"name": "token", "optional": True}}
    policy = kubernetes.only(made, "NetworkPolicy")["spec"]
    assert policy["egress"][0] == {"ports": [{"port": 443}]}
    (peer,) = policy["ingress"][0]["from"]
    assert peer == {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "prometheus"}}}


def test_everything_is_in_the_releases_namespace_whatever_the_release_is_called() -> None:
    values = {key: value for name in SWITCHES if name != "service-monitor" for key, value in SWITCHES[name].items()}
    here = rendered(values)
    there = rendered(values, release="other", namespace="elsewhere")
    moved = json.loads(json.dumps(here).replace('"namespace": "gua"', '"namespace": "elsewhere"'))
    assert [*there] == moved
    assert {each["metadata"].get("namespace") for each in there} == {"elsewhere", None}


@pytest.mark.parametrize("version", VERSIONS)
def test_the_schemas_of_three_versions_find_no_fault(version: str) -> None:
    more = {"nodeSelector": {"pool": "training"}, "tolerations": [{"key": "reserved", "operator": "Exists"}]}
    shared = {key: value for name in SWITCHES for key, value in SWITCHES[name].items() if "Monitor" not in key} | more
    made = [
        each
        for driver in DRIVERS
        for values in ({"podMonitor": True}, {"serviceMonitor": True, "stateOnNode": False})
        for each in rendered(
            {**shared, "driver": driver, "ownerNames": driver not in PRIVILEGED, **values}, version=version
        )
    ]
    assert kubernetes.faults(made, [version]) == []


def test_only_versions_that_are_tried_and_later_ones_are_let_in() -> None:
    assert rendered(version=VERSIONS[0]) == rendered()
    assert "incompatible with Kubernetes v1.29" in refusal(version="1.29")


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({"drivr": "eks"}, "drivr"),
        ({"driver": "nvidia"}, "driver"),
        ({"image": {"version": "7"}}, "version"),
        ({"image": {"digest": "7" * 64}}, "image/digest"),
        ({"interval": "30"}, "interval"),
        ({"settings": {"GUA_INTERVALL": "10s"}}, "GUA_INTERVALL"),
        ({"settings": {"GUA_PROMETHEUS": "0.0.0.0:9999"}}, "GUA_PROMETHEUS"),
        ({"podNames": "yes"}, "podNames"),
        ({"otlp": {"endpiont": "http://collector.example:4318"}}, "endpiont"),
        ({"otlp": {"ports": ["4317"]}}, "otlp/ports/0"),
        ({"tolerations": [{"effect": "NoSchedul"}]}, "tolerations/0/effect"),
        ({"resources": {"limit": {"memory": "1Gi"}}}, "limit"),
    ],
    ids=str,
)
def test_a_typing_error_in_the_values_is_refused_and_named(values: Mapping[str, Any], said: str) -> None:
    assert said in refusal(values)


@pytest.mark.parametrize("driver", sorted(PRIVILEGED))
def test_names_of_owners_are_refused_where_they_would_take_the_cards_away(driver: str, tmp_path: Path) -> None:
    said = refusal({"driver": driver, "ownerNames": True})
    assert f"ownerNames takes away the privileges that driver {driver} needs" in said
    made = kubernetes.with_components(tmp_path, "owner-names", base=f"overlays/{driver}")
    assert "privileged" not in pod(made)["containers"][0]["securityContext"], "the component takes them away"


def test_two_monitors_are_refused() -> None:
    assert "scrape every agent twice" in refusal({"podMonitor": True, "serviceMonitor": True})


def test_the_schema_knows_every_value_and_no_other() -> None:
    def names(values: Mapping[str, Any], schema: Mapping[str, Any]) -> None:
        known = set(schema["properties"]) - {"global"}
        assert known == set(values) or (values is VALUES["settings"] and known > set(values))
        assert schema["additionalProperties"] is False
        for name, value in values.items():
            if "properties" in schema["properties"][name]:
                names(value, schema["properties"][name])

    names(VALUES, SCHEMA)


def test_the_chart_can_be_part_of_another(tmp_path: Path) -> None:
    (tmp_path / "charts").mkdir()
    (tmp_path / "charts" / "gua").symlink_to(CHART)
    (tmp_path / "Chart.yaml").write_text("{apiVersion: v2, name: site, version: 1.0.0}\n")
    code, out, said = helm.run("template", "site", str(tmp_path), "--namespace", "gua", "--set", "gua.driver=eks")
    assert code == 0, said
    assert by_name(tuple(yaml.safe_load_all(out))) == by_name(rendered({"driver": "eks"}))


def test_helms_linter_finds_no_fault() -> None:
    code, out, said = helm.run("lint", "--strict", "--namespace", "gua", str(CHART))
    assert (code, said) == (0, ""), out
    assert "1 chart(s) linted, 0 chart(s) failed" in out


def test_the_chart_is_of_the_projects_version() -> None:
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text("utf-8"))
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["version"]
    assert (chart["version"], chart["appVersion"]) == (project, project)
    assert chart["kubeVersion"] == f">={VERSIONS[0]}.0-0", "without -0 a cluster's v1.30.5-gke.1014001 is refused"
