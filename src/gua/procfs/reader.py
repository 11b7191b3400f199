"""Reader of processes, the boot and this process's namespaces in procfs; proc(5) documents the formats.

It does not read command lines (see :mod:`gua.procfs.command_line`) or environments. The root is a parameter: containers
mount the host's /proc elsewhere, tests use saved trees.
"""

import contextlib
import json
import os
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, NamedTuple

# include/linux/proc_ns.h: PROC_PID_INIT_INO, the same on every Linux host.
INITIAL_PID_NAMESPACE: Final = "pid:[4026531836]"
_START_FIELD: Final = 22
_FIRST_FIELD_AFTER_COMM: Final = 3
_ALL_USERS: Final = 4_294_967_295
_DEAD: Final = frozenset("ZXx")
_STAT_BYTES: Final = 4_096
_CHUNK_BYTES: Final = 16_384
# /proc/stat has a field for every interrupt and may have 100 kB; no other file read here is larger.
_MOST_BYTES: Final = 4 * 2**20


class Stat(NamedTuple):
    """Fields of ``/proc/<pid>/stat``: name, start in clock ticks since boot, state letter, parent's pid (0: none)."""

    comm: str
    start_ticks: int
    state: str = "S"
    parent: int = 0

    @property
    def is_dead(self) -> bool:
        """Whether the process has ended and waits to be reaped: its cgroup may be gone already."""
        return self.state in _DEAD


def parse_stat(text: str) -> Stat | None:
    """Return the fields of ``/proc/<pid>/stat``, ``None`` if the text is truncated or invalid.

    The name is in parentheses and may contain spaces and parentheses itself: it ends at the last one.
    """
    opened, closed = text.find("("), text.rfind(")")
    if opened < 0 or closed < opened:
        return None
    last = _START_FIELD - _FIRST_FIELD_AFTER_COMM
    fields = text[closed + 2 :].split(" ", last + 1)
    try:
        return Stat(text[opened + 1 : closed], int(fields[last]), fields[0], int(fields[1]))
    except (IndexError, ValueError):
        return None


def parse_uid(text: str) -> int | None:
    """Return the real user id in ``/proc/<pid>/status``: the user who started it, also for a set-uid program."""
    for line in text.splitlines():
        name, _, values = line.partition(":")
        if name == "Uid":
            fields = values.split()
            return int(fields[0]) if fields and fields[0].isdecimal() else None
    return None


def parse_boot_time_ms(text: str) -> int | None:
    """Return the boot time in ``/proc/stat`` as Unix time in ms (whole seconds); ``None`` if it is missing."""
    for line in text.splitlines():
        name, _, value = line.partition(" ")
        if name == "btime" and value.strip().isdecimal():
            return int(value) * 1000
    return None


@dataclass(frozen=True, slots=True)
class UserIds:
    """Mapping of user ids from this process's user namespace to its parent namespace (user_namespaces(7)).

    ``ranges`` are (first inside, first outside, count). ``overflow`` stands for all users without a mapping.
    """

    ranges: tuple[tuple[int, int, int], ...] = ((0, 0, _ALL_USERS),)
    overflow: int = 65_534

    @property
    def are_the_hosts(self) -> bool:
        """Whether ids equal the host's, as in the initial user namespace."""
        return self.ranges == ((0, 0, _ALL_USERS),)

    def outside(self, uid: int) -> int | None:
        """Return the id in the parent namespace, ``None`` if it is unknown."""
        if self.are_the_hosts:
            return uid
        if uid == self.overflow:
            return None
        return next((first + uid - inside for inside, first, many in self.ranges if 0 <= uid - inside < many), None)


def parse_root_mount(text: str) -> tuple[str, str] | None:
    """Return the mount at ``/`` in a ``mountinfo`` as (device, directory on it), ``None`` if it is missing.

    Mount ids differ between mount namespaces, device and directory do not: a service with ``PrivateTmp=yes`` has the
    host's, a container has its own.
    """
    fields = _mount(text, "/")
    return None if fields is None else (fields[2], fields[3])


def _mount(text: str, path: str) -> list[str] | None:
    """Return the fields of the last ``mountinfo`` line for a path: the topmost mount; ``None`` without one."""
    lines = [line.split(" ") for line in text.splitlines()]
    return next((fields for fields in reversed(lines) if len(fields) > 5 and fields[4] == path), None)


@dataclass(frozen=True, kw_only=True, slots=True)
class ProcessRecord:
    """One process in /proc; ``uid`` is the host's, ``cgroup`` the text of its cgroup file."""

    pid: int
    comm: str
    start_ticks: int
    uid: int | None
    cgroup: str | None


def read_once(path: str, most_bytes: int) -> bytes | None:
    """Return the bytes of a single read(2) of a file, ``None`` if it cannot be read."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        return os.read(descriptor, most_bytes)
    except OSError:
        return None
    finally:
        os.close(descriptor)


class ProcFs:
    """Reader of a procfs tree. Never raises: what cannot be read is ``None``."""

    def __init__(self, root: Path = Path("/proc")) -> None:
        self.root = root
        self._prefix = f"{root}/"
        self.ticks_per_second = os.sysconf("SC_CLK_TCK")
        # Read once, because this process never changes its user namespace.
        uid_map = self._text("self/uid_map") or ""
        overflow = self._text("sys/kernel/overflowuid") or ""
        # Kernels without user namespaces have neither file; ids are the host's then.
        ranges = []
        for line in uid_map.splitlines():
            fields = line.split()
            if len(fields) == 3 and all(field.isdecimal() for field in fields):
                ranges.append((int(fields[0]), int(fields[1]), int(fields[2])))
        user_ids = UserIds(tuple(ranges)) if ranges else UserIds()
        self.user_ids: UserIds = replace(user_ids, overflow=int(overflow)) if overflow.strip().isdecimal() else user_ids

    def stat(self, pid: int) -> Stat | None:
        """Return a process's name, start and state from one file, cheap enough for every tick."""
        # One line of at most a few hundred bytes, which the kernel returns in a single read.
        content = read_once(f"{self._prefix}{pid}/stat", _STAT_BYTES)
        return None if content is None else parse_stat(content.decode("utf-8", "replace"))

    def process(self, pid: int) -> ProcessRecord | None:
        """Return a process, ``None`` if it has ended, is hidden, or its pid was reused during the read."""
        stat = self.stat(pid)
        if stat is None:
            return None
        status = self._text(f"{pid}/status")
        cgroup = self._text(f"{pid}/cgroup")
        again = self.stat(pid)
        if again is not None and again.start_ticks != stat.start_ticks:
            return None
        uid = None if status is None else parse_uid(status)
        return ProcessRecord(
            pid=pid,
            comm=stat.comm,
            start_ticks=stat.start_ticks,
            uid=None if uid is None else self.user_ids.outside(uid),
            cgroup=cgroup,
        )

    def boot_id(self) -> str | None:
        """Return the random id of this boot, ``None`` if it cannot be read."""
        text = self._text("sys/kernel/random/boot_id")
        return (text or "").strip() or None

    def boot_time_ms(self) -> int | None:
        """Return the current boot time as Unix time in ms; it changes when the clock is set."""
        return parse_boot_time_ms(self._text("stat") or "")

    def in_initial_pid_namespace(self) -> bool:
        """Return whether this process certainly runs in the host's own PID namespace.

        ``self`` is this process even in a procfs of an outer namespace, and ``ns/pid`` is the namespace that it runs
        in. So a container with the host's /proc but its own PID namespace is detected, which matters because the
        driver's lists depend on it. Older drivers list host pids
        (https://github.com/NVIDIA/nvidia-docker/issues/1483). Newer ones translate pids to the caller's namespace and
        omit processes outside of it (``os_find_ns_pid`` in NVIDIA's open kernel modules). A list does not show which
        of the two it is, so it is not used. A procfs in which this process has no pid has no ``self``: the
        result is then false too.
        """
        try:
            return str((self.root / "self/ns/pid").readlink()) == INITIAL_PID_NAMESPACE
        except OSError:
            return False

    def shares_host_root(self) -> bool:
        """Return whether this process certainly has the root file system of the host's first process.

        Only then are its users (/etc/passwd, the name service) the host's. Device and directory of the root mounts are
        compared, because both files are world-readable and hardened services share them with the host.
        """
        mine = parse_root_mount(self._text("self/mountinfo") or "")
        return mine is not None and mine == parse_root_mount(self._text("1/mountinfo") or "")

    @property
    def host_passwd(self) -> Path:
        """Path of the host's passwd file as seen from a container; opening it requires CAP_SYS_PTRACE."""
        return self.root / "1/root/etc/passwd"

    def hidepid(self) -> str | None:
        """Return the procfs's ``hidepid`` mode for other users' processes, ``None`` if it hides none."""
        fields = _mount(self._text("self/mountinfo") or "", "/proc") or [""]
        hidden = dict(option.partition("=")[::2] for option in fields[-1].split(",")).get("hidepid")
        return None if hidden in {None, "0", "off"} else hidden

    def is_there(self) -> bool:
        """Return whether the root has a readable procfs."""
        return self._text("stat") is not None

    def _text(self, path: str) -> str | None:
        try:
            with open(self._prefix + path, "rb", buffering=0) as file:  # noqa: PTH123 - in half the time of Path.open
                content = file.read(_CHUNK_BYTES)
                while len(content) < _MOST_BYTES and (more := file.read(_CHUNK_BYTES)):
                    content += more
        except OSError:
            return None
        # Names are bytes to the kernel. Invalid UTF-8 is replaced and must not stop the tick.
        return content.decode("utf-8", "replace")


_LONGEST_BYTES: Final = 1024


def machine_id(path: Path = Path("/etc/machine-id")) -> str | None:
    """Return the id of this operating system installation (machine-id(5)), ``None`` without one."""
    try:
        return path.read_text(encoding="ascii").strip() or None
    except (OSError, UnicodeDecodeError):
        return None


def stored_boot_time_ms(procfs: ProcFs, path: Path) -> int | None:
    """Return this boot's time [Unix ms] from the file ``path``; the first call of a boot writes the file.

    Without a boot id, or if the file cannot be written, return the current value.
    """
    boot_id = procfs.boot_id()
    if boot_id is None:
        return procfs.boot_time_ms()
    stored_ms = _stored_ms(path, boot_id)
    if stored_ms is not None:
        return stored_ms
    boot_time_ms = procfs.boot_time_ms()
    if boot_time_ms is not None:
        # Without the file, processes lose their identity across agent starts after a clock step. Ticks go on.
        with contextlib.suppress(OSError):
            temporary = path.with_name(f"{path.name}.{os.getpid()}")
            try:
                descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
                with os.fdopen(descriptor, "w", encoding="utf-8") as file:
                    json.dump({"boot_id": boot_id, "boot_time_ms": boot_time_ms}, file)
                temporary.replace(path)
            finally:
                temporary.unlink(missing_ok=True)
    return boot_time_ms


def _stored_ms(path: Path, boot_id: str) -> int | None:
    try:
        # Does not follow a link and does not wait for the writer of a pipe.
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        with os.fdopen(descriptor, "rb") as file:
            content = json.loads(file.read(_LONGEST_BYTES) or b"")
    except (OSError, ValueError, RecursionError):
        return None
    if not isinstance(content, dict) or content.get("boot_id") != boot_id:
        return None
    boot_time_ms = content.get("boot_time_ms")
    return boot_time_ms if type(boot_time_ms) is int else None


class SystemClock:
    """Wall clock, CLOCK_MONOTONIC (which stops in suspend) and the kernel's boot id."""

    def __init__(self, procfs: ProcFs) -> None:
        # The boot id cannot change during the lifetime of a process.
        self._boot_id = procfs.boot_id()

    def wall_ms(self) -> int:
        """Return the wall clock as Unix time in ms."""
        return time.time_ns() // 1_000_000

    def monotonic_ms(self) -> int:
        """Return CLOCK_MONOTONIC in ms."""
        return time.clock_gettime_ns(time.CLOCK_MONOTONIC) // 1_000_000

    def boot_id(self) -> str | None:
        """Return the id of this boot, ``None`` if /proc does not have it."""
        return self._boot_id
