"""The Helm chart of deploy/helm, as Helm puts it together."""

from __future__ import annotations

import json
import subprocess
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from servers.kubernetes import VERSIONS, Manifest
from servers.tools import ROOT, helm

CHART = ROOT / "deploy" / "helm" / "gua"


def rendered(
    values: Any = None,  # noqa: ANN401 - the content of a file of values
    *,
    chart: Path = CHART,
    release: str = "gua",
    namespace: str = "gua",
    version: str = VERSIONS[-1],
) -> tuple[Manifest, ...]:
    """Return the chart's resources for these values; fails with Helm's message where it would refuse them."""
    code, out, errors = _template(json.dumps(values or {}), chart, release, namespace, version)
    assert (code, errors) == (0, ""), errors
    return tuple(each for each in yaml.safe_load_all(out) if each is not None)


def refusal(values: Any = None, *, version: str = VERSIONS[-1]) -> str:  # noqa: ANN401 - the content of a file of values
    """Return what Helm says of values that it must refuse."""
    code, out, errors = _template(json.dumps(values or {}), CHART, "gua", "gua", version)
    assert (code, out) == (1, ""), out
    return errors


def run(*arguments: str, stdin: str = "") -> tuple[int, str, str]:
    """Run Helm; return its exit status, output and messages."""
    done = subprocess.run([str(helm()), *arguments], input=stdin, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout, done.stderr


@cache
def _template(values: str, chart: Path, release: str, namespace: str, version: str) -> tuple[int, str, str]:
    options = ("--namespace", namespace, "--kube-version", version, "--values", "-")
    return run("template", release, str(chart), *options, stdin=values)
