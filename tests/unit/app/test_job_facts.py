"""Groups of owners by this host, and partition, QOS and account of jobs by squeue."""

from __future__ import annotations

import grp
import os
import pwd
from collections.abc import Sequence
from pathlib import Path

import pytest

from gua.allocation.slurm_poll import CommandError
from gua.app.job_facts import HostFacts, parse_squeue
from gua.notices.matching import Facts


class Squeue:
    def __init__(self, output: str | None) -> None:
        self.output = output
        self.commands: list[Sequence[str]] = []

    def __call__(self, command: Sequence[str]) -> str:
        self.commands.append(command)
        if self.output is None:
            raise CommandError("squeue gives no answer within 10 s")
        return self.output


def test_squeue_runs_once_and_only_for_a_job() -> None:
    squeue = Squeue("4711|gpu|normal|lab\n4712|cpu||(null)\n")
    facts: Facts = HostFacts(squeue)
    facts.groups("root")
    assert squeue.commands == []
    assert [facts.of_job("4711", key) for key in ("partitions", "qos", "accounts")] == ["gpu", "normal", "lab"]
    assert [facts.of_job("4712", key) for key in ("partitions", "qos", "accounts")] == ["cpu", None, None]
    assert facts.of_job("4713", "qos") is None
    assert squeue.commands == [("squeue", "--noheader", "--all", "--format=%A|%P|%q|%a")]


def test_a_squeue_that_fails_makes_jobs_unknown_and_runs_once() -> None:
    squeue = Squeue(None)
    facts = HostFacts(squeue)
    assert facts.trouble is None
    assert facts.of_job("4711", "qos") is facts.of_job("4712", "qos") is None
    assert facts.trouble == "squeue gives no answer within 10 s"
    assert len(squeue.commands) == 1


def test_the_squeue_of_the_host_is_called(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    script = tmp_path / "squeue"
    script.write_text('#!/bin/sh\n[ "$3" = "--format=%A|%P|%q|%a" ] && echo "7|gpu|normal|lab"\n')
    script.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    assert HostFacts().of_job("7", "partitions") == "gpu"


def test_a_host_without_squeue_does_not_know_jobs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    facts = HostFacts()
    assert facts.of_job("7", "partitions") is None
    assert facts.trouble == "squeue cannot be started (No such file or directory)"


def test_forged_and_wrong_lines_make_no_job_known() -> None:
    output = "1|gpu|normal|a|b c\n2|gpu|normal|x\n2|cpu|vip|x\n2|gpu|normal|x\n3|gpu|\nx|gpu|normal|a\n4|a b|q|a\n"
    assert parse_squeue(output) == {
        "1": {"partitions": "gpu", "qos": "normal", "accounts": "a|b c"},
        "2": {},
    }
    assert parse_squeue("") == {}


def test_a_users_groups_are_those_of_the_host() -> None:
    user = pwd.getpwuid(os.getuid())
    groups = HostFacts(Squeue("")).groups(user.pw_name)
    assert groups is not None
    assert grp.getgrgid(user.pw_gid).gr_name in groups


@pytest.mark.parametrize("owner", ["no such user", "0", "", "a\0b", "a\udcff", "\ud800", "x" * 100_000])
def test_the_groups_of_an_unknown_user_are_unknown(owner: str) -> None:
    assert HostFacts(Squeue("")).groups(owner) is None


def test_a_group_without_a_name_makes_groups_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    user = pwd.getpwuid(os.getuid()).pw_name
    monkeypatch.setattr(os, "getgrouplist", lambda _name, gid: [gid, 4_000_000_000])
    assert HostFacts(Squeue("")).groups(user) is None
