"""A real Slurm of one node (Debian's slurmctld, slurmd and slurm-client) as processes of the test run.

Without munge, accounting, cgroups and cards: the node's cards are links to /dev/null. Jobs
are real processes of real users, so it takes root.
"""

from __future__ import annotations

import contextlib
import os
import platform
import shutil
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path

from servers.process import ServerProcess, free_ports, poll
from servers.tools import MissingToolError

PROGRAMS = ("slurmctld", "slurmd", "sbatch", "scancel", "squeue", "scontrol", "sinfo")
NODE = "gpunode7"  # not the host's own name
SHARDS = 4  # of each card
CONF = """\
ClusterName=test{port}
SlurmctldHost={host}(127.0.0.1)
SlurmUser=root
AuthType=auth/none
CredType=cred/none
SlurmctldPort={port}
SlurmdPort={node_port}
SlurmctldPidFile={folder}/run/slurmctld.pid
SlurmdPidFile={folder}/run/slurmd.pid
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool
SlurmctldLogFile={folder}/log/slurmctld
SlurmdLogFile={folder}/log/slurmd
SlurmdParameters=config_overrides
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
MpiDefault=none
ReturnToService=2
SchedulerParameters=sched_interval=1,bf_interval=1
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
KillWait=2
GresTypes=gpu,shard
PrologFlags=Alloc
{hooks}
NodeName={node} NodeHostname={host} NodeAddr=127.0.0.1 CPUs=16 Gres=gpu:h100:{cards},shard:{shards} State=UNKNOWN
PartitionName=all Nodes={node} Default=YES MaxTime=INFINITE State=UP
"""


class Slurm:
    """A controller and one node with cards; ``folder`` must be a place that every user may enter.

    ``hooks`` are paths of a Prolog and an Epilog by these names. Raises MissingToolError.
    """

    def __init__(self, folder: Path, *, cards: int, hooks: Mapping[str, Path]) -> None:
        missing = [program for program in PROGRAMS if shutil.which(program) is None]
        if missing:
            msg = f"{missing[0]} is not on PATH (on Debian: apt-get install slurmctld slurmd slurm-client)"
            raise MissingToolError(msg)
        if os.geteuid() != 0:
            msg = "Slurm starts the jobs of several users here, which only root can"
            raise MissingToolError(msg)
        self.folder = folder
        for name in ("state", "spool", "log", "run", "dev", "etc"):
            (folder / name).mkdir(mode=0o755)
        for card in range(cards):
            (folder / "dev" / f"nvidia{card}").symlink_to("/dev/null")  # Slurm insists on a device
        port, node_port = free_ports(2)
        written = "\n".join(f"{name}={path}" for name, path in hooks.items())
        (folder / "etc" / "slurm.conf").write_text(
            CONF.format(
                host=platform.node().partition(".")[0],
                node=NODE,
                port=port,
                node_port=node_port,
                folder=folder,
                hooks=written,
                cards=cards,
                shards=cards * SHARDS,
            )
        )
        (folder / "etc" / "gres.conf").write_text(
            f"AutoDetect=off\nNodeName={NODE} Name=gpu Type=h100 File={folder}/dev/nvidia[0-{cards - 1}]\n"
            f"NodeName={NODE} Name=shard Count={cards * SHARDS}\n"
        )
        (folder / "etc" / "cgroup.conf").touch()
        self.environment = {"PATH": os.environ["PATH"], "SLURM_CONF": str(folder / "etc" / "slurm.conf")}
        self.controller = ServerProcess("controller", ["slurmctld", "-D"], self.environment, folder / "log")
        self.node = ServerProcess("node", ["slurmd", "-D", "-N", NODE], self.environment, folder / "log")

    def start(self) -> None:
        """Start both, and return once the node takes jobs."""
        self.controller.start(self._answers)
        self.node.start(lambda: True)
        poll(lambda: self._run("sinfo", "-h", "-o", "%T").strip() == "idle", f"an idle node:\n{self._logs()}")

    def start_controller(self) -> None:
        """Start the controller again, and return once it answers."""
        self.controller.start(self._answers)

    def stop(self) -> None:
        """End all jobs, wait for them, and end both servers."""
        with contextlib.suppress(AssertionError):  # a controller that is away cannot end them
            self.end_jobs()
        self.node.stop()
        self.controller.stop()

    def crash(self) -> None:
        """Kill the controller, once all that it knows now is on its disk: what is not yet it would forget."""
        begun = time.time()
        saved = self.folder / "state" / "job_state"
        for job in self._run("squeue", "-h", "-o", "%A").split():
            self._run("scontrol", "update", f"JobId={job}", "Comment=saved")  # a change is saved within 5 s
        poll(lambda: saved.exists() and saved.stat().st_mtime > begun, f"the state to be saved:\n{self._logs()}")
        self.controller.kill()

    def end_jobs(self) -> None:
        """End all jobs, and wait for them."""
        for job in self._run("squeue", "-h", "-o", "%A").split():
            self.cancel(job)
        poll(lambda: not self._run("squeue", "-h"), "all jobs to end")

    def submit(self, user: str, gres: str, script: str, *more: str) -> str:
        """Submit a job of this user, and return its id."""
        done = subprocess.run(
            ["sbatch", "--parsable", f"--gres={gres}", "-n1", "-o", "/dev/null", "-D", "/", *more],
            input=f"#!/bin/sh\n{script}\n",
            env=self.environment,
            cwd="/",
            user=user,
            group=user,
            extra_groups=(),
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    def cancel(self, job: str) -> None:
        """End a job as scancel does."""
        self._run("scancel", job)

    def state(self, job: str) -> str:
        """Return a job's state."""
        return self._run("squeue", "-h", "-t", "all", "-j", job, "-o", "%T").strip()

    def show(self, *words: str) -> str:
        """Return what scontrol shows in one line."""
        return self._run("scontrol", "show", "-o", *words)

    def _answers(self) -> bool:
        return "UP" in self._run("scontrol", "ping")

    def _run(self, *command: str) -> str:
        done = subprocess.run(
            command, env=self.environment, cwd="/", capture_output=True, text=True, timeout=60, check=False
        )
        return done.stdout

    def _logs(self) -> str:
        return "\n".join(path.read_text(errors="replace")[-1500:] for path in sorted((self.folder / "log").iterdir()))
