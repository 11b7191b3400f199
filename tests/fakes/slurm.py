"""A Slurm that answers its commands as the real one does, from jobs that a test sets."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime

from gua.allocation.slurm_poll import CommandError


@dataclass
class SlurmJob:
    """A job; times are Unix ms; Slurm reports whole seconds."""

    id: int
    gres: str
    since_ms: int
    state: str = "RUNNING"
    until_ms: int | None = None
    user: str = "alice"
    uid: int = 1000
    name: str = "train"
    node: str = "node7"
    part: str = ""  # as 1_0, a task of an array, or 3+1, a part of a heterogeneous job


@dataclass
class FakeSlurm:
    """``squeue`` and ``scontrol`` of Slurm 22.05 on one node; ``asked`` are the commands as they came."""

    jobs: list[SlurmJob] = field(default_factory=list)
    used: str = "gpu:h100:0(IDX:N/A)"
    node: str = "node7"
    gres: str = "gpu:h100:4"
    slurmd_started: str = "2026-11-28T07:00:00"
    failure: str | None = None
    asked: list[str] = field(default_factory=list)

    def ask(self, command: Sequence[str]) -> str:
        self.asked.append(" ".join(command))
        if self.failure is not None:
            raise CommandError(self.failure)
        match command:
            case ["squeue", "-h", "-t", "all", "-w", self.node, "-o", "%A|%i|%U|%T|%S|%e|%u"]:
                return "".join(map(_line, self.jobs))
            case ["squeue", *_]:
                msg = f"squeue: Invalid node name {command[5]}"
                raise CommandError(msg)
            case ["scontrol", "show", "node", "-d", "-o", node]:
                return self._node(node)
            case ["scontrol", "show", "slurmd"]:
                return f"Active Steps             = NONE\nHostname                 = {self.node}\nSlurmd PID = 1\n"
            case ["scontrol", "show", "job", "-d", "-o", number]:
                return "\n".join(map(_detail, [job for job in self.jobs if _is_shown(job, number)]))
        raise AssertionError(command)

    def _node(self, node: str) -> str:
        if node != self.node:
            msg = f"scontrol: Node {node} not found"
            raise CommandError(msg)
        return (
            f"NodeName={node} Arch=x86_64 CoresPerSocket=1  CPUAlloc=2 CPUTot=12 CPULoad=N/A AvailableFeatures=(null) "
            f"Gres={self.gres} GresDrain=N/A GresUsed={self.used} NodeAddr=127.0.0.1 NodeHostName=host7 "
            f"BootTime=2026-11-27T12:04:08 SlurmdStartTime={self.slurmd_started} LastBusyTime=2026-11-28T07:00:00 \n"
        )


def _is_shown(job: SlurmJob, number: str) -> bool:
    """Return whether scontrol shows a job by that: by the id of an array, which one of its tasks has, all of them."""
    return number in {str(job.id), job.part} or job.part.replace("+", "_").partition("_")[0] == number


def _line(job: SlurmJob) -> str:
    fields = [job.id, job.part or job.id, job.uid, job.state, _time(job.since_ms), _time(job.until_ms), job.user]
    return "|".join(map(str, fields)) + "\n"


def _detail(job: SlurmJob) -> str:
    detail = "" if job.state == "PENDING" else f"Nodes={job.node} CPU_IDs=0 Mem=0 GRES={job.gres} "
    return (
        f"JobId={job.id} JobName={job.name} UserId={job.user}({job.uid}) GroupId={job.user}({job.uid}) MCS_label=N/A "
        f"Priority=4294901759 Nice=0 Account=(null) QOS=(null) JobState={job.state} Reason=None NodeList={job.node} "
        f"JOB_GRES={job.gres.partition('(')[0]}   {detail}MinCPUsNode=1 Features=(null) Command=(null) WorkDir=/tmp \n"
    )


def _time(moment_ms: int | None) -> str:
    return "N/A" if moment_ms is None else datetime.fromtimestamp(moment_ms // 1000, UTC).strftime("%Y-%m-%dT%H:%M:%S")
