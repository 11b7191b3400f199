"""The prolog and epilog that are shipped: what they write, and that they never fail."""

from __future__ import annotations

import json
import os
import re
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

from gua.allocation.files import AllocationFolder, FilesReader
from gua.allocation.slurm_conf import GresConf
from gua.core.allocation import Allocation, CardKey

HOOKS = Path(__file__).resolve().parents[3] / "deploy" / "slurm"
CARDS = (
    *(CardKey(f"GPU-{number}", number, number) for number in range(4)),
    CardKey("MIG-aa/1/0", 3, 3, None, "GPU-3", 1),
)
JOB = {"SLURM_JOB_ID": "42", "SLURM_JOB_UID": "1000", "SLURM_JOB_USER": "alice", "SLURM_JOB_GPUS": "0,2"}


class Hooks:
    """Both hooks on a folder of their own, run as Slurm runs them."""

    def __init__(self, path: Path) -> None:
        self.folder = path / "allocations"
        self.reader = FilesReader(AllocationFolder(self.folder), conf=GresConf(path))

    def run(self, hook: str, shell: str | None = None, **job: str) -> None:
        done = subprocess.run(
            [*([shell] if shell else []), str(HOOKS / hook)],
            env={"GUA_ALLOCATION_FOLDER": str(self.folder), **JOB, **job},
            capture_output=True,
            check=False,
            timeout=120,
        )
        assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")

    def told(self, name: str = "slurm-42.json") -> dict[str, Any]:
        told: dict[str, Any] = json.loads((self.folder / name).read_text())
        return told

    def names(self) -> list[str]:
        return sorted(file.name for file in self.folder.iterdir()) if self.folder.exists() else []

    def look(self) -> tuple[Allocation, ...]:
        now_ms = time.time_ns() // 1_000_000
        look = self.reader.look(now_ms - 60_000, now_ms, CARDS)
        assert look.reason is None
        return look.allocations


def test_jobs_that_begin_at_the_same_moment_all_have_their_file(tmp_path: Path) -> None:
    for turn in range(5):
        folder = tmp_path / str(turn) / "allocations"
        folder.parent.mkdir()
        environ = {**JOB, "GUA_ALLOCATION_FOLDER": str(folder)}
        started = [subprocess.Popen([HOOKS / "prolog"], env={**environ, "SLURM_JOB_ID": str(job)}) for job in range(8)]
        assert {one.wait(timeout=120) for one in started} == {0}
        assert {file.name for file in folder.iterdir()} == {f"slurm-{job}.json" for job in range(8)}


@pytest.fixture
def hooks(tmp_path: Path) -> Hooks:
    return Hooks(tmp_path)


@pytest.mark.parametrize("shell", [None, "bash", "dash"])
def test_a_job_is_reported_from_its_prolog_to_its_epilog(hooks: Hooks, shell: str | None) -> None:
    before_ms = time.time_ns() // 1_000_000
    hooks.run("prolog", shell, SLURMD_NODENAME="node7", CUDA_VISIBLE_DEVICES="0,2")
    cards = [{"gres": 0}, {"gres": 2}]
    told = hooks.told()
    assert told == {
        "source": "slurm",
        "id": "42",
        "uid": 1000,
        "owner": "alice",
        "node": "node7",
        "cards": cards,
        "since": told["since"],
    }
    assert before_ms <= told["since"] * 1000 <= before_ms + 60_000
    hooks.run("epilog", shell)
    assert hooks.names() == ["slurm-42.ended.json"]
    ended = hooks.told("slurm-42.ended.json")
    assert ended == {**told, "until": ended["until"]}
    assert ended["until"] >= told["since"]
    assert (hooks.folder.stat().st_mode & 0o777, (hooks.folder / hooks.names()[0]).stat().st_mode & 0o777) == (
        0o755,
        0o644,
    )


def test_the_reader_believes_what_they_write(hooks: Hooks, tmp_path: Path) -> None:
    whole = [card for card in CARDS if card.parent is None]
    hooks.run("prolog")
    now_ms = time.time_ns() // 1_000_000
    look = FilesReader(AllocationFolder(hooks.folder), conf=GresConf(tmp_path)).look(now_ms - 60_000, now_ms, whole)
    [allocation] = look.allocations
    assert (allocation.cards, allocation.uid, allocation.slurm_job_id) == ({"GPU-0", "GPU-2"}, 1000, "42")


def test_mig_instances_are_identified_by_their_uuids(hooks: Hooks) -> None:
    hooks.run("prolog", SLURM_JOB_GPUS="0", CUDA_VISIBLE_DEVICES="MIG-aa/1/0")
    assert [each.cards for each in hooks.look()] == [{"MIG-aa/1/0"}]


@pytest.mark.parametrize("user", ["DOM\\bob", 'a"b', "\\\\\"'$(reboot)`*", "ünï", " ", "a" * 300])
def test_any_name_of_a_user_is_json(hooks: Hooks, user: str) -> None:
    hooks.run("prolog", SLURM_JOB_USER=user)
    assert hooks.told()["owner"] == user


@pytest.mark.parametrize(
    ("job", "expected"),
    [
        ({"SLURM_JOB_USER": "a\nb"}, "owner"),
        ({"SLURM_JOB_UID": "x"}, "uid"),
        ({"SLURMD_NODENAME": "a\tb"}, "node"),
    ],
)
def test_what_is_no_name_or_number_is_left_out(hooks: Hooks, job: dict[str, str], expected: str) -> None:
    hooks.run("prolog", **job)
    assert expected not in hooks.told()


@pytest.mark.parametrize(
    "job",
    [
        {"SLURM_JOB_GPUS": ""},
        {"SLURM_JOB_GPUS": "*"},
        {"SLURM_JOB_ID": ""},
        {"SLURM_JOB_ID": "../42"},
        {"SLURM_JOB_GPUS": "$(reboot)"},
    ],
)
def test_a_job_without_a_gpu_or_a_number_leaves_no_file(hooks: Hooks, job: dict[str, str]) -> None:
    hooks.run("prolog", **job)
    hooks.run("epilog", **job)
    assert hooks.names() == []


def test_nothing_goes_wrong_where_nothing_can_be_written(hooks: Hooks) -> None:
    hooks.folder.write_text("no folder")
    hooks.run("prolog")
    hooks.run("epilog")
    hooks.folder.unlink()
    hooks.folder.symlink_to(hooks.folder.parent)
    hooks.run("prolog")
    assert [file.name for file in hooks.folder.parent.iterdir()] == ["allocations"]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may give a folder away")
def test_a_folder_of_somebody_else_is_not_written(hooks: Hooks) -> None:
    hooks.folder.mkdir()
    os.chown(hooks.folder, 4242, 4242)
    hooks.run("prolog")
    assert hooks.names() == []


def test_an_epilog_without_its_prolog_or_with_a_torn_file_writes_nothing(hooks: Hooks) -> None:
    hooks.run("epilog")
    assert hooks.names() == []
    hooks.run("prolog", SLURM_JOB_ID="1")
    (hooks.folder / "slurm-42.json").write_text('{"source": "sl')
    hooks.run("epilog")
    assert hooks.names() == ["slurm-1.json", "slurm-42.json"]


def test_the_shell_of_the_documents_for_another_scheduler_works(hooks: Hooks) -> None:
    page = (HOOKS.parents[1] / "docs" / "allocation.md").read_text()
    [recipe] = re.findall(r"```sh\n(dir=.*?)```", page, re.DOTALL)
    recipe = recipe.replace("/run/gua-allocations", str(hooks.folder))

    def run(step: str) -> Allocation:
        before = f"set -e; umask 022; SCHEDULER=lab JOB=7 JOB_UID=1000 CARDS=0,2\n{recipe}\n"
        subprocess.run(["sh", "-c", before + step], check=True)
        [allocation] = hooks.look()
        return allocation

    begun = run("start")
    assert (begun.key, begun.uid, begun.cards, begun.until_ms) == (("lab", "7"), 1000, {"GPU-0", "GPU-2"}, None)
    ended = run("end").until_ms
    assert ended is not None
    assert ended >= begun.since_ms


def test_files_that_ended_an_hour_ago_are_removed(hooks: Hooks) -> None:
    for job in ("1", "2"):
        hooks.run("prolog", SLURM_JOB_ID=job)
        hooks.run("epilog", SLURM_JOB_ID=job)
    old = time.time() - 2 * 3600
    os.utime(hooks.folder / "slurm-1.ended.json", (old, old))
    hooks.run("prolog", SLURM_JOB_ID="3")
    os.utime(hooks.folder / "slurm-3.json", (old, old))
    hooks.run("prolog")
    hooks.run("epilog")
    assert hooks.names() == ["slurm-2.ended.json", "slurm-3.json", "slurm-42.ended.json"]
