"""Identity of processes: :class:`gua.core.ports.ProcessFacts`.

A process is read in full once; afterwards only its identity is checked.
"""

from __future__ import annotations

import pwd
import re
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import KW_ONLY, dataclass
from functools import lru_cache, partial
from itertools import takewhile
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from gua.core.ports import RawProcess
from gua.core.tick import ProcessReading
from gua.core.words import ProcessType
from gua.core.workloads import NO_WORK, Work
from gua.procfs.reader import ProcFs, Stat

Lookup = Callable[[int], str | None]

PATIENCE_SECONDS: Final = 0.2
_NAME_SECONDS: Final = 3_600.0
_NO_NAME_SECONDS: Final = 300.0
# A name stays valid while the directory is unreachable, because name services then report that a user does not exist.
_CACHED_SECONDS: Final = 86_400.0
_MOST_NAMES: Final = 1_024
_MOST_WAITING: Final = 256


def start_thread(work: Callable[[], None], name: str) -> bool:
    """Start a background thread; return whether that was possible: a host may have run out of processes."""
    try:
        threading.Thread(target=work, name=name, daemon=True).start()
    except RuntimeError:
        return False
    return True


def passwd_name(uid: int) -> str | None:
    """Return the user's name from this system's name service, ``None`` without one. May block for minutes."""
    try:
        return pwd.getpwuid(uid).pw_name
    except (KeyError, OverflowError):
        return None


def passwd_file_name(path: Path, uid: int) -> str | None:
    """Return the name of the first user with this id in a passwd file (passwd(5)).

    ``None`` without one, or if the file cannot be read. It is read each time because it may be large and may change.
    """
    with suppress(OSError), path.open(encoding="utf-8", errors="replace") as file:
        for line in file:
            fields = line.split(":", 3)
            if len(fields) > 3 and fields[2] == str(uid) and fields[0]:
                return fields[0]
    return None


@dataclass(frozen=True, slots=True)
class _Answer:
    name: str | None
    received_at: float
    expires_at: float


@dataclass(eq=False)
class Owners:
    """Cache of at most 1,024 user names: a name for an hour, a missing one for five minutes.

    ``look_up`` may block; it runs in a thread of its own, one lookup at a time. The first lookup of an id waits up to
    ``patience_seconds``, unless another one is running. Until it returns the name is unknown. ``local`` must not block
    and is called first. A user id without a name, as in most containers, is its own name ("1234"). Reports
    distinguish owners by name alone.
    """

    look_up: Lookup = passwd_name
    _: KW_ONLY
    local: Lookup = lambda _uid: None
    patience_seconds: float = PATIENCE_SECONDS
    monotonic: Callable[[], float] = time.monotonic

    def __post_init__(self) -> None:
        self._answers: dict[int, _Answer] = {}
        self._changed = threading.Condition()
        self._waiting: deque[int] = deque()
        self._working = False

    def name(self, uid: int | None) -> str | None:
        """Return the name of a user id; ``None`` if the id is unknown or its name is still being looked up."""
        if uid is None:
            return None
        answer = self._answers.get(uid)
        if answer is None or self.monotonic() >= answer.expires_at:
            answer = self._query(uid, answer)
            if answer is None:
                return None
        return answer.name or str(uid)

    def _query(self, uid: int, before: _Answer | None) -> _Answer | None:
        name = self.local(uid)
        with self._changed:
            if name:
                self._remember(uid, name)
                return self._answers[uid]
            if self._answers.get(uid) is not before:
                return self._answers.get(uid)  # another thread stored it meanwhile
            free = not self._working
            if uid not in self._waiting and len(self._waiting) < _MOST_WAITING:
                self._waiting.append(uid)
            if free:
                self._working = start_thread(self._work, "gua-owners")
            if free and self._working:
                # Returns at once with an older result, which is used until the new one arrives.
                self._changed.wait_for(lambda: uid in self._answers, self.patience_seconds)
            return self._answers.get(uid)

    def _work(self) -> None:
        """Look up the waiting ids, then end, so that an idle agent has no such thread."""
        while True:
            with self._changed:
                if not self._waiting:
                    self._working = False
                    return
                uid = self._waiting[0]
            try:
                name = self.look_up(uid)
            except Exception:  # noqa: BLE001 - any error of a name service means that the name is unknown
                name = None
            with self._changed:
                self._waiting.popleft()
                self._remember(uid, name)
                self._changed.notify_all()

    def _remember(self, uid: int, name: str | None) -> None:
        now = self.monotonic()
        before = self._answers.pop(uid, None)
        if name:
            self._answers[uid] = _Answer(name, now, now + _NAME_SECONDS)
        elif before is not None and before.name and now - before.received_at < _CACHED_SECONDS:
            self._answers[uid] = _Answer(before.name, before.received_at, now + _NO_NAME_SECONDS)
        else:
            self._answers[uid] = _Answer(None, now, now + _NO_NAME_SECONDS)
        if len(self._answers) > _MOST_NAMES:
            del self._answers[next(iter(self._answers))]


def owners_of(host: ProcFs) -> Owners:
    """Return the resolver of the host's user names, which never uses names that only this container knows.

    With the host's root file system that is /etc/passwd, which never blocks, then the name service. Otherwise it is the
    host's passwd file alone, if readable; users missing there stay numbers.
    """
    if host.shares_host_root():
        return Owners(passwd_name, local=partial(passwd_file_name, Path("/etc/passwd")))
    return Owners(partial(passwd_file_name, host.host_passwd))


_UNIFIED = ""
_DELEGATED: Final = re.compile(r"user@[0-9]+\.service", re.ASCII)
# docker-<id>.scope, cri-containerd-<id>.scope, crio-<id>.scope, libpod-<id>.scope, libpod-payload-<id>, <id>,
# and containerd's kubepods-….slice:cri-containerd:<id>
_CONTAINER: Final = re.compile(r"(?:(?P<prefix>.*)[-:])?(?P<id>[0-9a-f]{64})(?:\.scope)?")
_LXC_PAYLOAD: Final = "lxc.payload."
_LXC_PARENTS: Final = frozenset({"lxc", "lxc.payload"})
# pod<uid> (cgroupfs) or kubepods-burstable-pod<uid, with _ for ->.slice (systemd). A static pod's uid is an MD5 hash.
_POD: Final = re.compile(
    r"(?:.*-)?pod(?P<uid>[0-9a-f]{8}(?:[-_][0-9a-f]{4}){3}[-_][0-9a-f]{12}|[0-9a-f]{32})(?:\.slice)?(?::.*)?"
)
_JOB: Final = re.compile(r"job_(?P<id>[0-9]+)", re.ASCII)
_SLURM: Final = re.compile(r"slurm|slurm_.*|.*slurmstepd\.scope", re.DOTALL)


def container_id(text: str) -> str | None:
    """Return the id of the innermost container, ``None`` outside of one.

    If hierarchies differ, the one with the most nested containers counts: in a container with an engine of its own,
    some know only the outer one. A container's monitor process (conmon) is not in the container.
    """
    chains = [list(_containers(segments)) for segments in _paths(text)]
    deepest = max(chains, key=len, default=[])
    return deepest[-1] if deepest else None


def _parse_container(segment: str) -> str | None:
    """Return the container that a cgroup is named after, ``None`` if it is not a container's."""
    match = _CONTAINER.fullmatch(segment)
    if match is None or (match["prefix"] or "").endswith("conmon"):
        return None
    return match["id"]


def _containers(segments: list[str]) -> Iterator[str]:
    for position, segment in enumerate(segments):
        container = _parse_container(segment)
        if container is not None:
            yield container
        elif segment.startswith(_LXC_PAYLOAD):
            yield segment.removeprefix(_LXC_PAYLOAD)
        elif position == 1 and segments[0] in _LXC_PARENTS:
            yield segment


def pod_uid(text: str) -> str | None:
    """Return the pod's uid as Kubernetes formats it, ``None`` outside of a pod."""
    for segments in _managed_paths(text):
        for segment in reversed(segments):
            match = _POD.fullmatch(segment)
            if match is not None:
                return match["uid"].replace("_", "-")
    return None


def slurm_job_id(text: str) -> str | None:
    """Return the job's id, ``None`` outside of a job.

    Version 1: ``/slurm/uid_1000/job_42/step_0``, or ``/slurm_<node>/…`` with several slurmd on a host;
    version 2: ``/system.slice/[<node>_]slurmstepd.scope/job_42/…``.
    """
    for segments in _managed_paths(text):
        for position, segment in enumerate(segments):
            match = _JOB.fullmatch(segment)
            if match is not None and any(map(_SLURM.fullmatch, segments[:position])):
                return match["id"]
    return None


def systemd_unit(text: str) -> str | None:
    """Return the innermost systemd service or scope, ``None`` without one.

    In a user's own systemd instance that is the user's service, not the enclosing ``user@1000.service``. A scope that
    only wraps a container is skipped, because it would repeat the container's id.
    """
    # On a version 1 host systemd manages the named hierarchy: in the unified one beside it, processes of a container
    # stay in the service that started them. A version 2 host has only the unified one.
    by_controllers = dict(_lines(text))
    for segment in reversed(by_controllers.get("name=systemd", by_controllers.get(_UNIFIED, []))):
        if segment.endswith((".service", ".scope")) and _parse_container(segment) is None:
            return segment
    return None


def _paths(text: str) -> list[list[str]]:
    """Return the path of each hierarchy as its segments; a process in a hierarchy's root is left out.

    A line is ``hierarchy:controllers:path``, and the path may contain colons.
    """
    return [segments for _, segments in _lines(text) if segments]


def _managed_paths(text: str) -> list[list[str]]:
    """Return the paths up to the part that the host manages.

    Below ``user@1000.service`` systemd delegates the tree to the user, who may choose any names (user@.service(5)).
    """
    return [list(takewhile(lambda segment: not _DELEGATED.fullmatch(segment), segments)) for segments in _paths(text)]


def _lines(text: str) -> Iterator[tuple[str, list[str]]]:
    for line in text.splitlines():
        hierarchy, _, rest = line.partition(":")
        controllers, colon, path = rest.partition(":")
        if not colon or (hierarchy != "0" and controllers == _UNIFIED):
            continue
        segments = path.removesuffix(" (deleted)").split("/")
        yield controllers, [segment for segment in segments if segment not in {"", "..", "."}]


if TYPE_CHECKING:
    from gua.identity.pod_names import PodNames
    from gua.identity.served_models import ServedModels

# Ticks are at least a second apart (the shortest interval); the lookups of one tick come within milliseconds.
_ONE_TICK_SECONDS: Final = 0.5
# A process may change its user (setuid) or be moved to another cgroup.
_REFRESH_SECONDS: Final = 300.0
_RETRY_SECONDS: Final = 10.0
DEFAULT_IGNORED: Final = (
    "Xorg",
    "Xwayland",
    "gnome-shell",
    "kwin_x11",
    "kwin_wayland",
    "nvidia-cuda-mps-server",
    "nv-hostengine",
    "dcgm-exporter",
)
# TASK_COMM_LEN without the final zero: the kernel stores no more of a name.
_COMM_BYTES: Final = 15


@dataclass(kw_only=True, slots=True)
class CachedProcess:
    """Cached identity of one process; ``refresh_at`` is when everything but its name is read again."""

    comm: str
    start_ticks: int
    uid: int | None
    workload: dict[str, Any]
    refresh_at: float
    gone: bool = False


@lru_cache(maxsize=256)
def parse_cgroup(cgroup: str) -> dict[str, Any]:
    """Return the workload of a cgroup text as fields of a reading. Cached, because many processes share a text."""
    return {
        "container_id": container_id(cgroup),
        "pod_uid": pod_uid(cgroup),
        "slurm_job_id": slurm_job_id(cgroup),
        "systemd_unit": systemd_unit(cgroup),
    }


class ProcessCache:
    """Lookup of processes by pid; those of this tick and the previous one are cached.

    Each tick reads one file of a cached process, which reveals a reused pid and a new name. The rest is read at the
    first lookup, after an ``exec`` (a new name), and every five minutes, at times spread over the processes.
    """

    def __init__(self, table: ProcFs | None, *, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._table = table
        self._monotonic = monotonic
        self._tick_began = -_ONE_TICK_SECONDS
        self._now: dict[int, CachedProcess] = {}
        self._before: dict[int, CachedProcess] = {}

    def look(self, pid: int) -> CachedProcess | None:
        """Return the process, ``None`` if it is unknown.

        A process that ended since the driver listed it has its cached identity for one more tick.
        """
        now = self._monotonic()
        if now - self._tick_began >= _ONE_TICK_SECONDS:
            self._tick_began, self._before, self._now = now, self._now, {}
        cached = self._now.get(pid)
        if cached is None:
            cached = self._look_again(pid, now)
            if cached is not None:
                self._now[pid] = cached
        return cached

    def _look_again(self, pid: int, now: float) -> CachedProcess | None:
        before = self._before.get(pid)
        stat = None if self._table is None else self._table.stat(pid)
        if self._table is None or stat is None:
            if before is None or before.gone:
                return None
            before.gone = True
            return before
        if before is None or before.start_ticks != stat.start_ticks:
            before = None
        else:
            before.gone = False
        if before is not None and (stat.is_dead or (stat.comm == before.comm and now < before.refresh_at)):
            return before
        return self._read(self._table, pid, stat, before, now)

    @staticmethod
    def _read(table: ProcFs, pid: int, stat: Stat, before: CachedProcess | None, now: float) -> CachedProcess:
        record = table.process(pid)
        if record is not None and record.start_ticks != stat.start_ticks:
            record = None  # the pid was reused: the driver listed the earlier process
        uid, cgroup = (None, None) if record is None else (record.uid, record.cgroup)
        workload = parse_cgroup(cgroup or "")
        refresh_seconds = _REFRESH_SECONDS
        if uid is None or cgroup is None:
            refresh_seconds = _RETRY_SECONDS
        elif before is None:  # the first refresh is spread by pid over the second half of the period
            refresh_seconds *= 0.5 + pid * 7 % 64 / 128
        if before is not None:
            uid = before.uid if uid is None else uid
            workload = before.workload if cgroup is None else workload
        return CachedProcess(
            comm=stat.comm if record is None else record.comm,
            start_ticks=stat.start_ticks,
            uid=uid,
            workload=workload,
            refresh_at=now + refresh_seconds,
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class Names:
    """Names of a pod and its container, and the declared purpose of the pod; ``None`` is unknown."""

    pod: str | None = None
    namespace: str | None = None
    container: str | None = None
    workload: Work = NO_WORK


NO_NAMES: Final = Names()


@dataclass(eq=False)
class ProcessIdentity:
    """Identification of processes by a process table, a name service and the boot time.

    ``table`` is ``None`` in a PID namespace in which the driver's pids do not match.

    ``boot_time_ms`` (Unix time) must be the same for the whole boot: process starts are relative to it, so that they do
    not change when the clock is set. With ``None``, starts stay unknown.
    ``ignored`` are names of processes that do not count as users of a card. ``pods`` must not block. ``models`` detects
    the served model of counted processes by their arguments, only if the administrator enabled that.
    """

    table: ProcFs | None
    owners: Owners
    _: KW_ONLY
    boot_time_ms: int | None
    ignored: Iterable[str] = DEFAULT_IGNORED
    monotonic: Callable[[], float] = time.monotonic
    pods: PodNames | None = None
    models: ServedModels | None = None

    def __post_init__(self) -> None:
        self._cache = ProcessCache(self.table, monotonic=self.monotonic)
        self._ticks_per_second = 1 if self.table is None else self.table.ticks_per_second
        # As the kernel truncates names.
        self._ignored = frozenset(name.encode()[:_COMM_BYTES].decode(errors="replace") for name in self.ignored)

    def identify(self, process: RawProcess) -> ProcessReading:
        """Return the process with its known identity; one that ended or is hidden still has a reading."""
        kind = process_type(process.lists)
        cached = self._cache.look(process.pid)
        if cached is None:
            return ProcessReading(
                pid=process.pid, type=kind, memory_bytes=process.memory_bytes, utilization=process.utilization
            )
        workload = cached.workload
        names = NO_NAMES if self.pods is None else self.pods.names(workload["pod_uid"], workload["container_id"])
        is_ignored = cached.comm in self._ignored
        work = names.workload
        if self.models is not None and not is_ignored:
            detected = self.models.work(process.pid, cached.start_ticks, cached.comm, cached.uid)
            work = Work(work.kind or detected.kind, work.model or detected.model)
        return ProcessReading(
            pid=process.pid,
            type=ProcessType.IGNORED if is_ignored else kind,
            created_ms=None
            if self.boot_time_ms is None
            else self.boot_time_ms + cached.start_ticks * 1000 // self._ticks_per_second,
            owner=self.owners.name(cached.uid),
            uid=cached.uid,
            comm=cached.comm,
            memory_bytes=process.memory_bytes,
            utilization=process.utilization,
            pod_name=names.pod,
            pod_namespace=names.namespace,
            container_name=names.container,
            workload_kind=work.kind,
            workload_model=work.model,
            **workload,
        )


def process_type(lists: frozenset[str]) -> ProcessType:
    """Return the one type of a process that may be on several lists: MPS before compute before graphics."""
    if "mps" in lists:
        return ProcessType.MPS
    return ProcessType.GRAPHICS if "graphics" in lists and "compute" not in lists else ProcessType.COMPUTE
