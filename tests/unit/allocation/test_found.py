"""What ``auto`` finds of files and of Slurm."""

from __future__ import annotations

from pathlib import Path

import pytest

from gua.allocation.files import AllocationFolder
from gua.allocation.slurm import SlurmSettings, openers
from gua.allocation.sources import detect_sources, open_sources


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", str(folder))
    monkeypatch.setenv("SLURM_CONF", str(tmp_path / "slurm.conf"))
    monkeypatch.setattr("platform.node", lambda: "node7.cluster.example")
    (tmp_path / "proc" / "17").mkdir(parents=True)
    (tmp_path / "proc" / "17" / "comm").write_text("slurmctld\n")
    return folder


def install(folder: Path, *names: str) -> None:
    for name in names:
        (folder / name).write_text("#!/bin/sh\nexit 1\n")
        (folder / name).chmod(0o755)


def found(tmp_path: Path) -> list[tuple[str, str]]:
    settings = SlurmSettings(gpustat=tmp_path / "gpustat", job_mapping=tmp_path / "mapping", procfs=tmp_path / "proc")
    return detect_sources(openers(AllocationFolder(tmp_path / "allocations"), settings))


def test_a_host_without_any_has_none(programs: Path, tmp_path: Path) -> None:
    install(programs, "slurmd", "scontrol", "squeue")
    assert found(tmp_path) == []


def test_a_node_is_a_host_with_slurmd_the_commands_and_a_configuration(programs: Path, tmp_path: Path) -> None:
    (tmp_path / "slurm.conf").touch()
    install(programs, "scontrol", "squeue")
    assert found(tmp_path) == []
    install(programs, "slurmd")
    assert found(tmp_path) == [("slurm", "slurmd, scontrol and squeue")]


@pytest.mark.parametrize(
    ("nodes", "is_found"),
    [
        ("NodeName=node[1-8] CPUs=64 Gres=gpu:4", True),
        ("NodeName=gpu7 NodeHostName=node7 # named otherwise", True),
        ("NodeName=node[1-6],node8 CPUs=64", False),
        ("NodeName=DEFAULT CPUs=64\nNodeName=gpu[1-8] \\\n NodeHostName=host[1-8]", False),
        ("Include nodes.conf", True),
    ],
)
def test_a_host_that_the_configuration_does_not_list_is_no_node(
    programs: Path, tmp_path: Path, nodes: str, *, is_found: bool
) -> None:
    install(programs, "scontrol", "squeue", "slurmd")
    (tmp_path / "slurm.conf").write_text(f"ClusterName=lab\n#NodeName=node7\n{nodes}\n")
    assert bool(found(tmp_path)) is is_found


def test_a_host_on_which_slurmd_runs_is_a_node_wherever_slurmd_lies(programs: Path, tmp_path: Path) -> None:
    install(programs, "scontrol", "squeue")
    (tmp_path / "slurm.conf").write_text("NodeName=other\n")
    assert found(tmp_path) == []
    (tmp_path / "proc" / "17" / "comm").write_text("slurmd\n")
    assert found(tmp_path) == [("slurm", "slurmd runs, scontrol and squeue")]


def test_folders_are_found(programs: Path, tmp_path: Path) -> None:
    assert programs.is_dir()
    for name in ("allocations", "gpustat", "mapping"):
        (tmp_path / name).mkdir(mode=0o755)
    assert found(tmp_path) == [
        ("files", f"the folder {tmp_path}/allocations"),
        ("slurm", f"{tmp_path}/gpustat, {tmp_path}/mapping"),
    ]


def test_slurm_that_is_named_and_has_nothing_fails_as_a_source(programs: Path, tmp_path: Path) -> None:
    assert programs.is_dir()
    settings = SlurmSettings(gpustat=tmp_path / "gpustat")
    sources = open_sources(["slurm"], openers(AllocationFolder(tmp_path / "allocations"), settings))
    assert sources is not None
    [health] = sources.look(0, 1, ()).sources
    assert health.reason is not None
    assert health.reason.endswith("/allocations: No such file or directory")
