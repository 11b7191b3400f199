"""/proc and namespaces: whether the holders of cards can be told."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from gua.app.doctor.finding import Finding, failed, ok, warning
from gua.core.untrusted import object_in
from gua.procfs.reader import ProcFs

_HOST_PIDS = "start the container with the host's (docker --pid host, kubernetes hostPID)"


def check_processes(host: ProcFs) -> list[Finding]:
    """Look at the procfs, what it hides, and the namespaces that this process runs in."""
    if not host.is_there():
        return [
            failed(
                "proc",
                "processes",
                f"{host.root}/stat cannot be read",
                "mount the host's /proc there, or name the place with --procfs",
            )
        ]
    return [_proc(host), _pid_namespace(host), _user_namespace(host), _names(host)]


def check_models(status: Mapping[str, Any] | None) -> list[Finding]:
    """Say that the agent reads arguments of processes, where it does; ``status`` is what it says of itself."""
    if object_in((status or {}).get("agent")).get("detects_models") is not True:
        return []
    detail = "the agent reads arguments of processes on cards and keeps the model's name (--detect-models)"
    return [ok("models", "models", detail)]


def _proc(host: ProcFs) -> Finding:
    hidden = host.hidepid()
    if hidden is None:
        return ok("proc", "processes", f"{host.root} shows the processes of all users")
    detail = f"{host.root} is mounted with hidepid={hidden}"
    if os.geteuid() == 0:
        return ok("proc", "processes", f"{detail}, which does not concern root")
    return warning(
        "proc",
        "processes",
        f"{detail}: other users' processes have no owner and no name here",
        "run the agent as root, or in the group of the mount's gid= option",
    )


def _pid_namespace(host: ProcFs) -> Finding:
    if host.in_initial_pid_namespace():
        return ok("pid_namespace", "PID namespace", "the host's own")
    return warning(
        "pid_namespace",
        "PID namespace",
        "not the host's, or not known: who holds a card stays unknown, and so does much of what is idle",
        _HOST_PIDS,
    )


def _user_namespace(host: ProcFs) -> Finding:
    if host.user_ids.are_the_hosts:
        return ok("user_namespace", "user namespace", "the host's own")
    return warning(
        "user_namespace",
        "user namespace",
        "user ids are mapped: users without a place in the map are not known",
        "run the agent without PrivateUsers= or a rootless container",
    )


def _names(host: ProcFs) -> Finding:
    if host.shares_host_root():
        return ok("user_names", "user names", "from this host's name service")
    if os.access(host.host_passwd, os.R_OK):
        return ok("user_names", "user names", f"from {host.host_passwd}, as this is another root file system")
    return warning(
        "user_names",
        "user names",
        "owners are shown by number: this is not surely the host's root file system, "
        f"and {host.host_passwd} cannot be read",
        "run the agent on the host, or its container as root with CAP_SYS_PTRACE",
    )
