"""The image can be built for both architectures: what is in it comes as a wheel for each, and nothing is compiled."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[3]
LOCK: dict[str, Any] = tomllib.loads((ROOT / "uv.lock").read_text("utf-8"))
PACKAGES: dict[str, dict[str, Any]] = {each["name"]: each for each in LOCK["package"]}
DOCKERFILE = (ROOT / "deploy/docker/Dockerfile").read_text("utf-8")


def needed(name: str = "gua-otel") -> Iterator[str]:
    """Yield the names of all packages that the image holds, besides our own."""
    seen = {name}
    waiting = [name]
    while waiting:
        for dependency in PACKAGES[waiting.pop()].get("dependencies", ()):
            if "win32" in dependency.get("marker", "") or dependency["name"] in seen:
                continue
            seen.add(dependency["name"])
            waiting.append(dependency["name"])
            yield dependency["name"]


@pytest.mark.parametrize("machine", ["x86_64", "aarch64"])
def test_every_package_of_the_image_has_a_wheel_for_it(machine: str) -> None:
    minor = re.findall(r"^FROM python:3\.(\d+)\.", DOCKERFILE, re.MULTILINE)[0]
    # cp312-cp312 or cp3N-abi3 of an older version, for the C library of Debian; or no code for a machine at all.
    fits = re.compile(rf"-(cp3{minor}-cp3{minor}|cp3\d+-abi3|py3-none)-manylinux\w*_{machine}.*\.whl$|-none-any\.whl$")
    names = sorted(needed())
    assert {"grpcio", "nvidia-ml-py", "typer"} <= set(names)
    without = [
        name for name in names if not any(fits.search(wheel["url"]) for wheel in PACKAGES[name].get("wheels", ()))
    ]
    assert without == []
