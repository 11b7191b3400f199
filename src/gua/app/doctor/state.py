"""Checks of the system, its clock and /proc; the state directory, its disk and spool; the agent and its unit."""

import ctypes
import os
import platform
import shutil
import sqlite3
from collections.abc import Mapping
from contextlib import closing
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import Any, Final

from gua.app.doctor.finding import CheckState, Finding, error_finding, failed, ok, ok_if, skipped, warning
from gua.app.first_steps import import_command, older_history
from gua.core.errors import GuaError, UnavailableError
from gua.core.plaintext import safe
from gua.core.untrusted import count_in, number_in, object_in, objects_in, text_in
from gua.core.words import Mig
from gua.procfs.reader import ProcFs
from gua.report.kit.figures import percent, span
from gua.report.sections.card_streaks import STUCK_MS
from gua.spool.schema import APPLICATION_ID, VERSION, DamagedError, pragma, remedies
from gua.spool.stats import stats
from gua.state.directory import Home, examine_home
from gua.state.host_lock import HostLock
from gua.state.pid_file import last_failure, running

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


def kernel_synchronized() -> bool | None:
    """Return whether the kernel's clock is synchronized (adjtimex, read only), ``None`` if unknown."""
    if ctypes.sizeof(ctypes.c_long) != 8:
        return None
    timex = ctypes.create_string_buffer(_TIMEX_BYTES)  # modes = 0: read only
    try:
        if ctypes.CDLL(None).adjtimex(timex) < 0:
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


def check_utilization(status: Mapping[str, Any] | None) -> list[Finding]:
    """Return a warning for each card with stuck utilization; ``status`` is the agent's status object."""
    findings = []
    for card in objects_in((status or {}).get("cards")):
        seconds, used = number_in(card.get("without_process_seconds")), number_in(card.get("utilization"))
        if seconds is None or seconds * 1000 <= STUCK_MS:
            continue
        index, is_instance = count_in(card.get("index")), card.get("mig") == Mig.INSTANCE
        named = safe(text_in(card.get("uuid")) or "?", 64) if index is None or is_instance else f"GPU {index}"
        level = "" if used is None else f", {percent(used)} % now"
        text = f"{named} has been active for {span(seconds * 1000)} without a process and without held memory{level}"
        what = "all that uses its GPU, also in other instances" if is_instance else "what uses it"
        remedy = (
            f"the GPU may need a reset: end {what}, then nvidia-smi --gpu-reset -i {'N' if index is None else index}, "
            "or restart the host; or each command that opens it wakes it, as persistence mode is off: nvidia-smi -pm "
            "1, or nvidia-persistenced"
        )
        findings.append(warning("utilization", text, remedy))
    return findings


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


_MIB: Final = 2**20
_SCARCE_BYTES: Final = 1024 * _MIB
_NEEDED_BYTES: Final = 64 * _MIB
# A full integrity check of a larger spool would take longer than all other checks.
_CHECKED_BYTES: Final = 64 * _MIB
_UNIT: Final = "gua.service"
UNIT_FOLDERS: Final = ("/etc/systemd/system", "/run/systemd/system", "/usr/lib/systemd/system", "/lib/systemd/system")


def check_state(home: Path) -> list[Finding]:
    """Return findings on the state directory, its disk, the spool and a history of gpu-usage-audit 1.x."""
    findings = [_directory(home), _disk(home), check_spool(Home(home).spool)]
    if (path := older_history()) is not None:
        how = f"{import_command(path)} brings it over, and again changes nothing"
        findings.append(ok("history", f"of gpu-usage-audit 1.x, {path}; {how}"))
    return findings


def _directory(home: Path) -> Finding:
    fault = examine_home(home)
    if fault is not None:
        return error_finding("state_directory", fault)
    if not home.exists():
        return ok("state_directory", f"{home} is not there yet: gua daemon makes it")
    mode = home.stat().st_mode & 0o777
    return ok("state_directory", f"{home}, mode {mode:04o}")


def _disk(home: Path) -> Finding:
    there = next((place for place in (home, *home.parents) if place.exists()), None)
    if there is None:
        return skipped("disk_space", f"no part of {home} is there")
    free = shutil.disk_usage(there).free
    detail = f"{free / 2**30:.1f} GiB free under {there}"
    if free < _NEEDED_BYTES:
        return failed("disk_space", detail, "free some, or name another disk with --state-dir")
    if free < _SCARCE_BYTES:
        return warning("disk_space", detail, "free some: an outage of a day fills 30 MB and more")
    return ok("disk_space", detail)


def check_spool(path: Path) -> Finding:
    """Return a finding on the spool, read without changing it or any file beside it."""
    try:
        size = path.stat().st_size
    except FileNotFoundError:
        return skipped("spool", f"{path} is not there yet")
    except OSError as error:
        return skipped("spool", f"{path} cannot be looked at ({error.strerror})")
    if not os.access(path, os.R_OK):
        return skipped("spool", f"{path} may not be read by this user: it is its owner's")
    # The WAL is read only if both its files exist, as SQLite would create them.
    logged = all(path.with_name(path.name + suffix).exists() for suffix in ("-wal", "-shm"))
    address = f"{path.absolute().as_uri()}?mode=ro{'' if logged else '&immutable=1'}"
    try:
        with closing(sqlite3.connect(address, uri=True, timeout=1)) as connection:
            return _spooled(path, connection, size)
    except (sqlite3.Error, DamagedError) as error:
        if not remedies(error):
            return warning("spool", f"{path} cannot be read now ({error})", "run gua doctor again in a moment")
        return warning("spool", f"{path} is damaged", "start the agent: it sets the file aside and begins a new one")


def _spooled(path: Path, connection: sqlite3.Connection, size: int) -> Finding:
    if not size:
        return ok("spool", f"{path} is empty")
    if pragma(connection, "application_id") != APPLICATION_ID:
        return failed("spool", f"{path} is no spool of gua", "move it away, or name another place with --state-dir")
    if (version := pragma(connection, "user_version")) != VERSION:
        remedy = "deliver what waits in it with the gua that wrote it, or move the file away"
        return failed("spool", f"{path} is of version {version}, this gua reads {VERSION}", remedy)
    if size <= _CHECKED_BYTES and connection.execute("PRAGMA quick_check(1)").fetchone()[0] != "ok":
        raise DamagedError
    spooled = stats(connection, size)
    waiting = ", ".join(f"{ticks} for {where}" for where, ticks in sorted(spooled.waiting.items())) or "none"
    detail = f"{spooled.bytes / _MIB:.1f} MiB, waiting: {waiting}"
    lost = [
        f"{count} {what}"
        for what, count in (
            ("refused for good", sum(spooled.refused.values())),
            ("dropped, as the spool was full", spooled.dropped),
            ("lost with a damaged file", "an unknown number" if spooled.lost is None else spooled.lost),
        )
        if count
    ]
    if lost:
        return warning(
            "spool", f"{detail}; ticks {', '.join(lost)}", "see gua status and the agent's log for the reason"
        )
    return ok("spool", detail)


def check_agent(pid_file: Path, log: Path, environ: Mapping[str, str]) -> Finding:
    """Return whether this state directory's agent or another of this host runs, or why the last start failed."""
    installed = metadata.version("gua-otel")
    try:
        agent = running(pid_file, ProcFs())
        holder = HostLock.of(environ).holder()
    except UnavailableError as error:
        return error_finding("agent", error, state=CheckState.SKIPPED)
    except GuaError as error:
        return error_finding("agent", error)
    if agent is None:
        if holder is not None:
            return ok("agent", f"one with another state directory samples this host ({holder})")
        failure = last_failure(log)
        last = "" if failure is None else f"; the last start failed ({failure})"
        return ok("agent", f"none runs{last}; gua daemon starts it")
    if agent.version != installed:
        return warning(
            "agent",
            f"pid {agent.pid} is version {agent.version}, installed is {installed}",
            "gua stop && gua daemon, or systemctl restart gua",
        )
    return ok("agent", f"pid {agent.pid} runs")


def check_unit(root: Path, *, user: Path | None) -> Finding:
    """Return whether a systemd unit starts the agent; ``root`` is / except in tests."""
    if not (root / "run/systemd/system").is_dir():
        return skipped("systemd_unit", "systemd does not run here")
    folders = [root / folder.lstrip("/") for folder in UNIT_FOLDERS]
    if user is not None:
        folders.append(user / ".config/systemd/user")
    for folder in folders:
        if (folder / _UNIT).exists():
            return ok("systemd_unit", str(folder / _UNIT))
    return skipped("systemd_unit", "none: nothing starts the agent after a boot (see deploy/systemd)")
