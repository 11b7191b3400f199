"""Every form of /proc/<pid>/cgroup that is known, from tests/fixtures/proc/cgroup/cases.json, each with its source."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from gua.identity.process import container_id, pod_uid, slurm_job_id, systemd_unit

CASES: list[dict[str, str | None]] = json.loads(
    (Path(__file__).parents[2] / "fixtures" / "proc" / "cgroup" / "cases.json").read_text()
)


@pytest.mark.parametrize("case", CASES, ids=[(case["name"] or "").replace(" ", "-") for case in CASES])
def test_a_cgroup_yields_container_pod_job_and_unit(case: dict[str, str | None]) -> None:
    text = case["cgroup"] or ""
    assert container_id(text) == case["container"]
    assert pod_uid(text) == case["pod"]
    assert slurm_job_id(text) == case["job"]
    assert systemd_unit(text) == case["unit"]


def test_every_form_says_where_it_was_seen() -> None:
    assert all(case["source"] for case in CASES)
    assert len({case["name"] for case in CASES}) == len(CASES)
