"""Groups of owners by this host, and partition, QOS and account of jobs by squeue."""

from __future__ import annotations

import grp
import os
import pwd
from collections.abc import Sequence
from pathlib import Path

import pytest

from gua.allocation import slurm_poll
from gua.allocation.slurm_poll import CommandError
from gua.app.job_facts import HostFacts, parse_squeue
from gua.notices.matching import Facts


class Squeue:
    def __init__(self, monkeypatch: pytest.MonkeyPatch, outputs: dict[str, str]) -> None:
        monkeypatch.setattr(slurm_poll, "run_command", self.run)
        self.outputs = outputs
        self.formats: list[str] = []

    def run(self, command: Sequence[str], *, seconds: float) -> str:
        assert seconds == 10
        *words, shown = command
        assert words == ["squeue", "--noheader", "--all"]
        self.formats.append(shown)
        if shown not in self.outputs:
            raise CommandError("squeue gives no answer within 10 s")
        return self.outputs[shown]


def test_squeue_runs_once_for_what_is_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    outputs = {"--format=%A|%P": "4711|gpu\n4712|cpu\n", "--format=%A|%q": "4711|normal\n4712|(null)\n"}
    squeue = Squeue(monkeypatch, outputs)
    facts: Facts = HostFacts()
    facts.groups("root")
    assert squeue.formats == []
    assert [facts.of_job(job, "partitions") for job in ("4711", "4712", "4713")] == ["gpu", "cpu", None]
    assert squeue.formats == ["--format=%A|%P"]
    assert [facts.of_job(job, "qos") for job in ("4711", "4712", "4713")] == ["normal", None, None]
    assert squeue.formats == ["--format=%A|%P", "--format=%A|%q"]


def test_a_squeue_that_fails_makes_jobs_unknown_and_does_not_run_again(monkeypatch: pytest.MonkeyPatch) -> None:
    squeue = Squeue(monkeypatch, {"--format=%A|%P": "4711|gpu\n"})
    facts = HostFacts()
    assert facts.trouble is None
    assert facts.of_job("4711", "qos") is facts.of_job("4711", "qos") is facts.of_job("4711", "partitions") is None
    assert facts.trouble == "squeue gives no answer within 10 s"
    assert squeue.formats == ["--format=%A|%q"]


def test_the_squeue_of_the_host_is_called(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    script = tmp_path / "squeue"
    script.write_text('#!/bin/sh\n[ "$3" = "--format=%A|%a" ] && echo "7|lab"\n')
    script.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    assert HostFacts().of_job("7", "accounts") == "lab"


def test_a_host_without_squeue_does_not_know_jobs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    facts = HostFacts()
    assert facts.of_job("7", "partitions") is None
    assert facts.trouble == "squeue cannot be started (No such file or directory)"


def test_forged_and_wrong_lines_make_no_job_known() -> None:
    # sbatch -A $'lab\n1|vip' where Slurm does not check accounts
    assert parse_squeue("1|x|y\n2|lab\n1|vip\n3|lab\n1|vip\n") == {"1": None, "2": "lab", "3": "lab"}
    assert parse_squeue("1|vip\n2|lab\n2|lab\n1|x\n1|vip\nx|lab\n4\n") == {"1": None, "2": "lab"}
    assert parse_squeue("") == {}


def test_a_users_groups_are_those_of_the_host() -> None:
    user = pwd.getpwuid(os.getuid())
    groups = HostFacts().groups(user.pw_name)
    assert groups is not None
    assert grp.getgrgid(user.pw_gid).gr_name in groups


@pytest.mark.parametrize("owner", ["no such user", "0", "", "a\0b", "a\udcff", "\ud800", "x" * 100_000])
def test_the_groups_of_an_unknown_user_are_unknown(owner: str) -> None:
    assert HostFacts().groups(owner) is None


def test_a_group_without_a_name_makes_groups_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    user = pwd.getpwuid(os.getuid()).pw_name
    monkeypatch.setattr(os, "getgrouplist", lambda _name, gid: [gid, 4_000_000_000])
    assert HostFacts().groups(user) is None
