"""Checks of the system, its clock, /proc and namespaces, on which the holders of cards depend."""

from __future__ import annotations

import ctypes
import os
import platform
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from importlib import metadata
from typing import Any, Final

from gua.app.doctor.finding import Finding, failed, ok, ok_if, warning
from gua.core.untrusted import object_in
from gua.procfs.reader import ProcFs

# adjtimex(2): struct timex of a 64-bit system; ``status`` follows five longs, and the call fills 208 bytes.
_TIMEX_BYTES: Final = 208
_STATUS_OFFSET: Final = 40
_STA_UNSYNC: Final = 0x40
_FIRST_SANE_YEAR: Final = 2024
_LAST_SANE_YEAR: Final = 2100


def check_system() -> list[Finding]:
    """Return findings on the operating system and the installed versions."""
    try:
        distribution = platform.freedesktop_os_release().get("PRETTY_NAME", "Linux")
    except OSError:
        distribution = os.uname().sysname
    system = f"{distribution}, kernel {platform.release()}, {platform.machine()}"
    if platform.system() != "Linux":
        return [failed("system", system, "run the agent on Linux; gua report works anywhere")]
    versions = f"gua {metadata.version('gua-otel')}, Python {platform.python_version()}"
    return [ok("system", system), ok("versions", versions)]


def check_clock(now_s: float, boot_id: str | None, synchronized: bool | None) -> list[Finding]:
    """Return findings on the wall clock (Unix time in s), its synchronization, and the boot id."""
    now = datetime.fromtimestamp(now_s, UTC)
    shown = f"{now:%Y-%m-%dT%H:%M:%SZ}"
    if not _FIRST_SANE_YEAR <= now.year < _LAST_SANE_YEAR:
        findings = [failed("clock", f"it says {shown}", "set the clock, then let NTP keep it (timedatectl)")]
    else:
        alone = f"{shown}, not synchronized: ticks of several hosts do not fit together, and a step costs ticks"
        kept = shown + (", synchronized" if synchronized else ", NTP not known")
        remedy = "let NTP keep it (timedatectl set-ntp true, or chrony)"
        findings = [ok_if(synchronized is not False, "clock", kept, alone, remedy)]
    if boot_id is None:
        detail = "not readable: after a restart of the agent no tick continues the one before"
        findings.append(warning("boot", detail, "make <procfs>/sys/kernel/random/boot_id readable"))
    return findings


def kernel_synchronized(adjtimex: Callable[[ctypes.Array[ctypes.c_char]], int] | None = None) -> bool | None:
    """Return whether the kernel's clock is synchronized (adjtimex, read only), ``None`` if unknown."""
    if ctypes.sizeof(ctypes.c_long) != 8:
        return None
    timex = ctypes.create_string_buffer(_TIMEX_BYTES)  # modes = 0: read only
    try:
        if adjtimex is None:
            adjtimex = ctypes.CDLL(None).adjtimex
        if adjtimex(timex) < 0:
            return None
    except (OSError, AttributeError):
        return None
    status = int.from_bytes(timex.raw[_STATUS_OFFSET : _STATUS_OFFSET + 4], "little")
    return not status & _STA_UNSYNC


_HOST_PIDS = "start the container with the host's (docker --pid host, kubernetes hostPID)"


def check_processes(host: ProcFs) -> list[Finding]:
    """Return findings on procfs, hidden processes, and the namespaces of this process."""
    if not host.is_there():
        return [
            failed(
                "proc",
                f"{host.root}/stat cannot be read",
                "mount the host's /proc there, or name the place with --procfs",
            )
        ]
    own = "the host's own"
    no_pids = "not the host's, or not known: who holds a card stays unknown, and so does much of what is idle"
    mapped = "user ids are mapped: users without a place in the map are not known"
    no_map = "run the agent without PrivateUsers= or a rootless container"
    return [
        _proc(host),
        ok_if(host.in_initial_pid_namespace(), "pid_namespace", own, no_pids, _HOST_PIDS),
        ok_if(host.user_ids.are_the_hosts, "user_namespace", own, mapped, no_map),
        _names(host),
    ]


def check_models(status: Mapping[str, Any] | None) -> list[Finding]:
    """Return a finding if the agent reads process arguments; ``status`` is its status object."""
    if object_in((status or {}).get("agent")).get("detects_models") is not True:
        return []
    detail = "the agent reads arguments of processes on cards and keeps the model's name (--detect-models)"
    return [ok("models", detail)]


def _proc(host: ProcFs) -> Finding:
    hidden = host.hidepid()
    if hidden is None:
        return ok("proc", f"{host.root} shows the processes of all users")
    mounted = f"{host.root} is mounted with hidepid={hidden}"
    hides = f"{mounted}: other users' processes have no owner and no name here"
    remedy = "run the agent as root, or in the group of the mount's gid= option"
    return ok_if(os.geteuid() == 0, "proc", f"{mounted}, which does not concern root", hides, remedy)


def _names(host: ProcFs) -> Finding:
    if host.shares_host_root():
        return ok("user_names", "from this host's name service")
    of_file = f"from {host.host_passwd}, as this is another root file system"
    numbers = (
        "owners are shown by number: this is not surely the host's root file system, "
        f"and {host.host_passwd} cannot be read"
    )
    remedy = "run the agent on the host, or its container as root with CAP_SYS_PTRACE"
    return ok_if(os.access(host.host_passwd, os.R_OK), "user_names", of_file, numbers, remedy)
