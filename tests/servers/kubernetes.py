"""The manifests of deploy/kubernetes: as kustomize puts them together, and what Kubernetes' schemas say of them."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import yaml
from jsonschema import Draft202012Validator

from servers.tools import ROOT, checkers, kustomize

FOLDER = ROOT / "deploy" / "kubernetes"
VERSIONS = ["1.30", "1.34", "1.37"]  # the oldest that is supported, one between, the newest
OPERATOR = ROOT / "tests" / "fixtures" / "prometheus-operator"
SETS = ["gateway", *(f"overlays/{file.parent.name}" for file in sorted(FOLDER.glob("overlays/*/kustomization.yaml")))]
COMPONENTS = sorted(file.parent.name for file in FOLDER.glob("components/*/kustomization.yaml"))
OF_THE_OPERATOR = {
    "PodMonitor": "podmonitors.json",
    "ServiceMonitor": "servicemonitors.json",
    "PrometheusRule": "prometheusrules.json",
}
OWN_IMAGE = {"newName": "own.example/gua", "newTag": "7"}
_VALIDATE = """
import json, sys, kubernetes_validate as k
for each in json.load(sys.stdin):
    for version in sys.argv[1:]:
        try:
            k.validate(each, version, strict=True)
        except (k.ValidationError, k.SchemaNotFoundError) as fault:
            path = getattr(fault, "absolute_path", ())
            print(version, each["kind"], each["metadata"]["name"], "/".join(map(str, path)), fault.message[:300])
"""

Manifest = Mapping[str, Any]


@cache
def built(folder: Path) -> tuple[Manifest, ...]:
    """Return the resources of a folder; fails with kustomize's message where it would refuse it."""
    done = subprocess.run([*kustomize(), str(folder)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "deprecated" not in done.stderr, done.stderr
    return tuple(yaml.safe_load_all(done.stdout))


def with_components(
    folder: Path, *components: str, base: str = "overlays/nvidia-runtime", image: Mapping[str, str] = OWN_IMAGE
) -> tuple[Manifest, ...]:
    """Return the resources of an overlay with further components, as a site's own kustomization adds them."""
    folder.mkdir(parents=True, exist_ok=True)
    says = {
        "apiVersion": "kustomize.config.k8s.io/v1beta1",
        "kind": "Kustomization",
        "resources": [_from(folder, FOLDER / base)],
        "components": [_from(folder, FOLDER / "components" / name) for name in components],
        "images": [{"name": "registry.example/gua", **image}],
    }
    (folder / "kustomization.yaml").write_text(yaml.safe_dump(says))
    return built(folder)


def faults(manifests: Sequence[Manifest], versions: Sequence[str]) -> list[str]:
    """Return what the schemas of these versions of Kubernetes, and those of the operator, find wrong; a line each."""
    native = [each for each in manifests if each["kind"] not in OF_THE_OPERATOR]
    done = subprocess.run(
        [str(checkers()), "-c", _VALIDATE, *versions],
        input=json.dumps(native),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines() + [
        f"{each['kind']} {fault.json_path} {fault.message}"
        for each in manifests
        if each["kind"] in OF_THE_OPERATOR
        for fault in Draft202012Validator(_closed(_operator_schema(each["kind"]))).iter_errors(each)
    ]


def only(manifests: Sequence[Manifest], kind: str) -> Manifest:
    """Return the one resource of a kind."""
    (found,) = [each for each in manifests if each["kind"] == kind]
    return found


def pods(manifests: Sequence[Manifest]) -> Iterator[Manifest]:
    """Yield the specs of all pods."""
    for each in manifests:
        if "template" in each.get("spec", {}):
            yield each["spec"]["template"]["spec"]


def agents(manifests: Sequence[Manifest]) -> Iterator[Manifest]:
    """Yield the containers that run the agent."""
    for pod in pods(manifests):
        for container in (*pod.get("initContainers", ()), *pod["containers"]):
            if container.get("args", [""])[0] in {"exporter", "daemon"}:
                yield container


def environment(container: Manifest) -> dict[str, Any]:
    """Return the container's own variables, those from fields as ``{field}``."""
    return {
        each["name"]: each.get("value") or "{" + each["valueFrom"]["fieldRef"]["fieldPath"] + "}"
        for each in container["env"]
        if "value" in each or "fieldRef" in each["valueFrom"]
    }


def _from(folder: Path, target: Path) -> str:
    return os.path.relpath(target.resolve(), folder.resolve())


def _operator_schema(kind: str) -> dict[str, Any]:
    loaded: dict[str, Any] = json.loads((OPERATOR / OF_THE_OPERATOR[kind]).read_text("utf-8"))
    loaded["properties"]["metadata"] = {}
    return loaded


def _closed(schema: Any) -> Any:  # noqa: ANN401 - a JSON value
    """Return the schema with no other keys than those it names: a cluster would drop them without a word."""
    if isinstance(schema, list):
        return [_closed(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    closed = {key: _closed(value) for key, value in schema.items()}
    if isinstance(schema.get("properties"), dict) and schema.get("type") == "object":
        closed.setdefault("additionalProperties", False)
    return closed
