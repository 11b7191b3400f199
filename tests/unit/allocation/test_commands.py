"""Commands as children: what hangs, floods or fails ends in time, with one line that says so."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from gua.allocation.slurm_poll import CommandError, SlurmPoll, run_command
from servers.process import poll

QUICK, PATIENT = 1.0, 60.0


def script(folder: Path, text: str, name: str = "scontrol") -> Path:
    file = folder / name
    file.write_text(f"#!/bin/sh\n{text}\n")
    file.chmod(0o755)
    return file


def failure(folder: Path, text: str, seconds: float = PATIENT) -> str:
    with pytest.raises(CommandError) as caught:
        run_command([str(script(folder, text)), "show"], seconds=seconds, most_bytes=1 << 20)
    return str(caught.value)


def test_what_a_command_writes_is_returned(tmp_path: Path) -> None:
    assert run_command([str(script(tmp_path, 'echo "$1 $#"; echo no >&2')), "show", "a b"]) == "show 2\n"


def test_its_environment_is_not_the_agents(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LD_PRELOAD", "/nowhere.so")
    monkeypatch.setenv("SQUEUE_FORMAT", "%i")
    monkeypatch.setenv("SLURM_CONF", "/etc/other/slurm.conf")
    answer = run_command([str(script(tmp_path, "env"))])
    names = {line.partition("=")[0] for line in answer.splitlines()} - {"PWD", "SHLVL", "_", "OLDPWD"}
    assert names == {"PATH", "LC_ALL", "TZ", "SLURM_CONF", "SLURM_TIME_FORMAT"}
    assert "TZ=UTC" in answer.splitlines()


def test_a_command_that_hangs_is_killed_with_all_that_it_started(tmp_path: Path) -> None:
    began = time.monotonic()
    pid_file = tmp_path / "pid"
    words = failure(tmp_path, f"sleep 60 & echo $! > {pid_file}; wait", QUICK)
    assert words == "scontrol gives no answer within 1 s"
    assert time.monotonic() - began < 30
    pid = int(pid_file.read_text())
    poll(lambda: has_ended(pid), "its child to be gone", seconds=30)


def has_ended(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2].startswith("Z")
    except OSError:
        return True


def test_a_command_that_closes_its_output_and_stays_is_killed(tmp_path: Path) -> None:
    assert failure(tmp_path, "exec >&- 2>&-; sleep 60", QUICK) == "scontrol gives no answer within 1 s"


def test_a_command_that_leaves_a_child_with_its_output_is_not_waited_for(tmp_path: Path) -> None:
    assert failure(tmp_path, "sleep 60 & exit 0", QUICK) == "scontrol gives no answer within 1 s"


def test_a_flood_is_cut(tmp_path: Path) -> None:
    assert failure(tmp_path, "yes") == "scontrol writes more than 1 MiB"


def test_a_flood_of_complaints_is_cut(tmp_path: Path) -> None:
    assert failure(tmp_path, "yes >&2", QUICK) == "scontrol gives no answer within 1 s"


def test_a_failure_has_the_last_line_that_the_command_printed(tmp_path: Path) -> None:
    assert failure(tmp_path, "echo first >&2; echo 'scontrol: error: gone' >&2; exit 1") == "scontrol: gone"
    assert failure(tmp_path, "exit 7") == "scontrol: ended with code 7"


def test_a_command_that_is_missing_or_no_program_is_named(tmp_path: Path) -> None:
    with pytest.raises(CommandError, match="nosuch cannot be started"):
        run_command([str(tmp_path / "nosuch")])
    (tmp_path / "text").write_text("not a program")
    with pytest.raises(CommandError, match="text cannot be started"):
        run_command([str(tmp_path / "text")])


def test_a_poll_by_real_children_reads_a_scripted_slurm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    script(
        tmp_path,
        """case "$*" in
"show slurmd") echo "Hostname                 = node7" ;;
"show node -d -o node7") echo "NodeName=node7 Arch=x86_64 GresUsed=gpu:h100:2(IDX:0-1) NodeAddr=x" ;;
"show job -d -o 12") echo "JobId=12 JobName=a UserId=al(7)   Nodes=node7 CPU_IDs=0 Mem=0 GRES=gpu:h100:2(IDX:0-1) X=" ;;
*) echo "scontrol: error: $*" >&2; exit 1 ;;
esac""",
    )
    script(tmp_path, 'echo "12|12|7|RUNNING|2026-11-22T15:13:58|N/A|al"', "squeue")
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    answer = SlurmPoll().poll()
    assert (answer.reason, answer.node, answer.unexplained) == (None, "node7", frozenset())
    assert [(job.id, job.user, sorted(job.gres.places)) for job in answer.jobs.values()] == [("12", "al", [0, 1])]
    script(tmp_path, "echo slurm_load_jobs error: Unable to contact slurm controller >&2; exit 1", "squeue")
    assert SlurmPoll().poll().reason == "squeue: slurm_load_jobs error: Unable to contact slurm controller"
