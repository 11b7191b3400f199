"""Background polling of Slurm's commands for the jobs and GPUs of this node.

Users choose job names, comments and paths, which may contain line ends and text that looks like fields. Job ids, users
and times therefore come from ``squeue`` in a format without such text. ``scontrol`` is called for the GPUs of one job
at a time, so that a user's text can corrupt only the output for that job.
"""

import contextlib
import os
import platform
import random
import re
import selectors
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Final

from gua.allocation.slurm_conf import GresOrder, matches
from gua.core.errors import GuaError
from gua.core.moments import to_ms
from gua.core.plaintext import storable
from gua.core.workloads import NO_WORK, Work, declared_in

SECONDS: Final = 3.0
MOST_BYTES: Final = 8 * 2**20
_MOST_COMPLAINT: Final = 4096
_PATH: Final = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
# Slurm's commands get only PATH and the location of their configuration: other variables, such as SLURM_CLUSTERS and
# SQUEUE_FORMAT, would change what they load and print.
_PREFIX: Final = re.compile(r"^(?:[a-z_]+: )?(?:error|fatal): ")


class CommandError(GuaError):
    """The command could not be started, failed, timed out, or wrote too much."""


def run_command(
    command: Sequence[str],
    *,
    seconds: float = SECONDS,
    most_bytes: int = MOST_BYTES,
    user: int | None = None,
    with_errors: bool = False,
) -> str:
    """Return the command's standard output. Raises CommandError if it fails, takes too long or writes too much.

    It runs in UTC, without the agent's environment, in its own process group, which is killed at the end; as ``user``
    and group of that id, if any. ``with_errors`` adds the standard error to the output.
    """
    name = os.path.basename(command[0])  # noqa: PTH119 - a word for messages, not a path
    environ = {key: os.environ[key] for key in ("PATH", "SLURM_CONF", "SLURM_CONF_SERVER") if key in os.environ}
    environ = {"PATH": _PATH, **environ, "LC_ALL": "C", "TZ": "UTC", "SLURM_TIME_FORMAT": "standard"}
    try:
        child = subprocess.Popen(  # noqa: S603 - the site's own command, as a list
            list(command),
            env=environ,
            cwd="/",
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT if with_errors else subprocess.PIPE,
            start_new_session=True,
            user=user,
            group=user,
            extra_groups=None if user is None else (),
        )
    except OSError as error:
        raise CommandError(f"{name} cannot be started ({error.strerror})") from None
    try:
        output, complaint = _collect(child, name, seconds, most_bytes)
    finally:
        if child.poll() is None:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(child.pid, signal.SIGKILL)
            child.wait()
        for stream in (child.stdout, child.stderr):
            if stream is not None:
                stream.close()
    if child.returncode:
        last_line = (
            (output[-_MOST_COMPLAINT:] if with_errors else complaint)
            .decode(errors="replace")
            .strip()
            .rpartition("\n")[2]
        )
        raise CommandError(f"{name}: {_PREFIX.sub('', last_line) or f'ended with code {child.returncode}'}")
    return output.decode(errors="replace")


def _collect(child: subprocess.Popen[bytes], name: str, seconds: float, most_bytes: int) -> tuple[bytes, bytes]:
    """Return the child's standard output and error, after it has closed both and ended. Raises CommandError."""
    deadline = time.monotonic() + seconds
    late = CommandError(f"{name} gives no answer within {seconds:g} s")
    received: dict[int, bytearray] = {}
    with selectors.DefaultSelector() as selector:
        for stream in (child.stdout, child.stderr):
            if stream is not None:
                selector.register(stream, selectors.EVENT_READ)
                received[stream.fileno()] = bytearray()
        output, complaint, *_ = *received.values(), bytearray()
        while selector.get_map():
            left = deadline - time.monotonic()
            for key, _ in selector.select(left) if left > 0 else ():
                chunk = os.read(key.fd, 65_536)
                received[key.fd] += chunk
                if not chunk:
                    selector.unregister(key.fileobj)
            del complaint[_MOST_COMPLAINT:]
            if len(output) > most_bytes:
                raise CommandError(f"{name} writes more than {most_bytes >> 20} MiB")
            if left <= 0:
                raise late
    try:
        child.wait(timeout=max(0.0, deadline - time.monotonic()))
    except subprocess.TimeoutExpired:
        raise late from None
    return bytes(output), bytes(complaint)


SQUEUE_FORMAT: Final = "%A|%i|%U|%T|%S|%e|%u"
_MOST_PLACES: Final = 1024
_JOB: Final = re.compile(
    r"([0-9]{1,10})\|([0-9]{1,10}(?:[_+][^|\s]*)?)\|([0-9]{1,10})\|([A-Z_]{1,40})\|([^|\s]*)\|([^|\s]*)\|(.*)"
)
# Id of a running array task, or of a component of a heterogeneous job.
_PART: Final = re.compile(r"[0-9]{1,10}[_+][0-9]{1,10}")
# All other states count as running: an unknown state must not free a card.
_ENDED: Final = re.compile(
    "BOOT_FAIL|CANCELLED|COMPLETED|DEADLINE|FAILED|LAUNCH_FAILED|NODE_FAIL|OUT_OF_MEMORY|PENDING|PREEMPTED|REQUEUED|"
    "REQUEUE_FED|REQUEUE_HOLD|RESV_DEL_HOLD|REVOKED|SPECIAL_EXIT|TIMEOUT"
)
_DETAIL: Final = re.compile(r"\bNodes=(\S+) CPU_IDs=\S* Mem=\S*(?: GRES=(\S*))?")
# Shards have the type (null) after the controller restarted.
_GRES: Final = re.compile(r"(?:^|,)(gpu|shard|mps)(?::(?:\(null\)|[^(,]*?))??(?::([0-9]{1,9}))?(?:\(([^)]*)\))?(?=,|$)")
_ANY_GRES: Final = re.compile(r"(?:^|,)(?:gpu|shard|mps)\b")
_USED: Final = re.compile(r" GresUsed=(\S*)")
_NODE: Final = re.compile(r"NodeName=(\S+) ")
_HOSTNAME: Final = re.compile(r" NodeHostName=(\S+)")
_SLURMD: Final = re.compile(r"^Hostname\s*= (\S+)$", re.MULTILINE)
_NAME: Final = re.compile(r" JobName=(.*?) UserId=", re.DOTALL)
_MOST_NAME: Final = 128
_COMMENT: Final = re.compile(r"\s(?:Admin)?Comment=(.*?)(?=\s[A-Z]\w*=|$)", re.DOTALL)


@dataclass(frozen=True, kw_only=True, slots=True)
class Gres:
    """GPUs by gres index: ``places``, with ``shared`` as those allocated in parts; ``kind`` is gpu, shard or mps.

    ``is_clear`` is whether all indices are known; ``unplaced`` is the least number of used GPUs without a known index.
    """

    places: frozenset[int] = frozenset()
    shared: frozenset[int] = frozenset()
    kind: str | None = None
    is_clear: bool = True
    unplaced: int = 0


NO_GRES: Final = Gres()


@dataclass(frozen=True, kw_only=True, slots=True)
class SlurmJob:
    """A job of a node by squeue. Times are Unix ms; ``until_ms`` is ``None`` while it runs.

    ``shown_by`` is the id with which scontrol shows only this job. The plain id of an array's last task, or of a
    heterogeneous job's first component, shows all of them. ``name``, ``gres`` and ``workload`` come from scontrol.
    """

    id: str
    shown_by: str
    uid: int
    user: str | None
    since_ms: int
    until_ms: int | None
    name: str | None = None
    gres: Gres = NO_GRES
    workload: Work = NO_WORK

    @property
    def key(self) -> tuple[str, int]:
        """Id and start (Unix ms): they distinguish a requeued job from its earlier execution."""
        return self.id, self.since_ms


def parse_jobs(answer: str, at_ms: int) -> list[SlurmJob]:
    """Return the jobs in the output of ``squeue -h -o`` with :data:`SQUEUE_FORMAT`; unknown times become ``at_ms``.

    Raises ValueError for any other output.
    """
    jobs: list[SlurmJob] = []
    for line in answer.splitlines():
        match = _JOB.fullmatch(line)
        if match is None:
            raise ValueError("the output of squeue has an unknown format")
        number, part, uid, state, start, end, user = match.groups()
        jobs.append(
            SlurmJob(
                id=number,
                shown_by=part if _PART.fullmatch(part) else number,
                uid=int(uid),
                user=storable(user) or None,
                since_ms=_moment(start) or at_ms,
                until_ms=min(_moment(end) or at_ms, at_ms) if _ENDED.fullmatch(state) else None,
            )
        )
    return jobs


def parse_job_gres(answer: str, node: str) -> Gres:
    """Return a job's GPUs on a node from ``scontrol show job -d``; not clear if the node occurs more than once."""
    details = [match[2] or "" for match in _DETAIL.finditer(answer) if matches(match[1], node)]
    if len(details) > 1:
        return Gres(is_clear=False)
    return _gres(details[0]) if details else NO_GRES


def parse_job_name(answer: str) -> str | None:
    """Return the job's name from ``scontrol show job -o``, at most 128 characters; ``None`` if missing."""
    match = _NAME.search(answer)
    return None if match is None else storable(match[1], _MOST_NAME)


def parse_job_workload(answer: str) -> Work:
    """Return the workload that the job's name or comments declare, from ``scontrol show job -o``."""
    return declared_in(" ".join([parse_job_name(answer) or "", *_COMMENT.findall(answer)]))


def parse_node_gres(answer: str, node: str) -> Gres:
    """Return the used GPUs of a node from ``scontrol show node -d -o``. Raises ValueError for any other output."""
    match = _NODE.match(answer)
    used = _USED.search(answer)
    if match is None or match[1] != node or used is None:
        raise ValueError("the output of scontrol has an unknown format")
    return _gres(used[1])


def parse_node_name(answer: str, host: str) -> str | None:
    """Return the node on this host in ``scontrol show node -o``, ``None`` unless exactly one matches."""
    nodes: list[str] = []
    for line in answer.splitlines():
        name, hostname = _NODE.match(line), _HOSTNAME.search(line)
        if name is not None and hostname is not None and hostname[1].partition(".")[0] == host.partition(".")[0]:
            nodes.append(name[1])
    return nodes[0] if len(nodes) == 1 else None


def _gres(text: str) -> Gres:
    places: set[int] = set()
    shared: set[int] = set()
    kinds: set[str] = set()
    entries = _GRES.findall(text)
    unplaced = max(0, len(_ANY_GRES.findall(text)) - len(entries))  # in an unknown format
    is_clear = unplaced == 0
    for kind, count, inside in entries:
        of_entry = _places(inside)
        if of_entry is None:
            # gpu:2 and gpu(CNT:2) have no indices. A number of shards does not imply a number of GPUs.
            is_clear = is_clear and count == "0"
            number = count or inside.removeprefix("CNT:")
            least = int(number) if number.isdecimal() else 1
            unplaced += least if kind == "gpu" else min(least, 1)
            continue
        if of_entry:
            kinds.add(kind)
        places |= of_entry
        if kind != "gpu":
            shared |= of_entry
    kind = "gpu" if "gpu" in kinds else min(kinds, default=None)
    return Gres(places=frozenset(places), shared=frozenset(shared), kind=kind, is_clear=is_clear, unplaced=unplaced)


def _places(inside: str) -> set[int] | None:
    """Return the gres indices in ``IDX:0-2,4``, or in used parts per GPU such as ``2/4,0/4``; ``None`` if unknown."""
    if inside in {"IDX:N/A", "IDX:"}:
        return set()
    if inside.startswith("IDX:"):
        places: set[int] = set()
        for part in inside.removeprefix("IDX:").split(","):
            first, _, last = part.partition("-")
            last = last or first
            if not (first.isdigit() and last.isdigit()) or int(last) >= _MOST_PLACES:
                return None
            places |= set(range(int(first), int(last) + 1))
        return places
    parts = inside.split(",")
    if len(parts) > _MOST_PLACES or not all(re.fullmatch(r"(?:[0-9]+|-)/[0-9]+", part) for part in parts):
        return None
    return {place for place, part in enumerate(parts) if part.partition("/")[0] not in {"0", "-"}}


def _moment(text: str) -> int | None:
    """Return Unix ms for a UTC time, ``None`` for Unknown and N/A. Raises ValueError for any other format."""
    if text in {"", "N/A", "Unknown", "NONE", "None"}:
        return None
    if re.fullmatch(r"[0-9]{9,11}", text):
        return int(text) * 1000
    try:
        return to_ms(datetime.strptime(f"{text}+0000", "%Y-%m-%dT%H:%M:%S%z"))
    except ValueError:
        raise ValueError("the times of squeue have an unknown format") from None


PERIOD_SECONDS: Final = 60.0
_JITTER: Final = 0.1
_MOST_QUERIES: Final = 64
_MOST_SECONDS: Final = 15.0
_CLOSE_SECONDS: Final = 0.5


@dataclass(frozen=True, kw_only=True, slots=True)
class PollAnswer:
    """Result of a poll that began at ``at_ms`` (Unix ms), or the ``reason`` why it failed.

    ``jobs`` are all jobs of the node, including those without a GPU and recently ended ones. ``unexplained`` are the
    gres indices of used GPUs without a job; ``unplaced`` is the number of further ones with unknown index. ``unclear``
    are ids of jobs whose GPUs are unknown. ``listed`` is the order of GPUs by ``slurmd -G``, if it was queried.
    """

    at_ms: int
    node: str | None = None
    jobs: dict[str, SlurmJob] = field(default_factory=dict)
    unexplained: frozenset[int] = frozenset()
    unplaced: int = 0
    unclear: tuple[str, ...] = ()
    listed: GresOrder | None = None
    reason: str | None = None


@dataclass(eq=False, kw_only=True)
class SlurmPoll:
    """Polls ``squeue`` and ``scontrol`` every ``period_seconds`` (±10 %) in its own thread.

    The newest answer, also a failure, is valid until the next. ``node`` is this node's name in Slurm; if ``None``,
    slurmd is queried for it, then the controller. ``listing`` returns :attr:`PollAnswer.listed` for the node and the
    controller's text of it.
    """

    node: str | None = None
    period_seconds: float = PERIOD_SECONDS
    run: Callable[[Sequence[str]], str] = run_command
    listing: Callable[[str, str], GresOrder | None] = lambda _node, _shown: None
    wall_ms: Callable[[], int] = lambda: time.time_ns() // 1_000_000

    def __post_init__(self) -> None:
        self._node = self.node
        self._known: dict[tuple[str, int], SlurmJob] = {}
        self._answer: PollAnswer | None = None
        self._answered_at = time.monotonic()
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None

    def answer(self) -> PollAnswer:
        """Return the newest answer, as a failure if it is too old; never waits. The first call starts the thread."""
        if self._thread is None and not self._stop.is_set():
            thread = threading.Thread(target=self._work, name="gua-slurm", daemon=True)
            try:
                thread.start()
                self._thread = thread
            except RuntimeError:  # process limit reached: the next tick tries again
                pass
        answer = self._answer
        if answer is None:
            return PollAnswer(at_ms=0, node=self._node, reason="no answer yet")
        age = time.monotonic() - self._answered_at
        if answer.reason is None and age > 2 * self.period_seconds + _MOST_SECONDS:
            return PollAnswer(at_ms=0, node=self._node, reason=f"the last answer is {age:.0f} s old")
        return answer

    def close(self) -> None:
        """Stop polling; waits at most 0.5 s for the thread."""
        self._stop.set()
        if self._thread is not None:
            self._thread.join(_CLOSE_SECONDS)

    def poll(self) -> PollAnswer:
        """Poll once and return the answer or the failure. Never raises."""
        at_ms = self.wall_ms()
        try:
            return self._poll(at_ms)
        except (CommandError, ValueError) as error:
            self._node = self.node
            return PollAnswer(at_ms=at_ms, reason=str(error))
        except Exception as error:  # noqa: BLE001 - an error here must not stop the sampling of cards
            return PollAnswer(at_ms=at_ms, reason=f"unexpected {type(error).__name__}")

    def _work(self) -> None:
        random_part = random.SystemRandom()
        while not self._stop.is_set():
            self._answer = self.poll()
            self._answered_at = time.monotonic()
            self._stop.wait(self.period_seconds * (1 + random_part.uniform(-_JITTER, _JITTER)))

    def _poll(self, at_ms: int) -> PollAnswer:
        node = self._node = self._node or self._find_node()
        shown = self._show_node(node)
        used = parse_node_gres(shown, node)
        listed = parse_jobs(self.run(["squeue", "-h", "-t", "all", "-w", node, "-o", SQUEUE_FORMAT]), at_ms)
        keys = {job.key for job in listed}
        self._known = {key: known for key, known in self._known.items() if key in keys}
        live = [job for job in listed if job.until_ms is None]
        unclear = self._query_gpus(live, used, node)
        unexplained = self._unexplained(live, used)
        if unexplained or self._unplaced(live, used):
            # A job may have ended between the two queries. If the first answer lacked indices, the second decides.
            was_placed = not self._unplaced(live, used)
            used = parse_node_gres(self._show_node(node), node)
            now = self._unexplained(live, used)
            unexplained = unexplained & now if was_placed else now
        jobs = [replace(self._known.get(job.key, job), until_ms=job.until_ms) for job in listed]
        # A requeued job is listed beside its earlier execution, under one id: the running one takes precedence.
        jobs.sort(key=lambda job: (job.until_ms is None, job.since_ms))
        return PollAnswer(
            at_ms=at_ms,
            node=node,
            jobs={job.id: job for job in jobs},
            unexplained=frozenset(unexplained),
            unplaced=self._unplaced(live, used),
            unclear=unclear,
            listed=self.listing(node, shown),
        )

    def _show_node(self, node: str) -> str:
        return self.run(["scontrol", "show", "node", "-d", "-o", node])

    def _find_node(self) -> str:
        with suppress(CommandError):
            if match := _SLURMD.search(self.run(["scontrol", "show", "slurmd"])):
                return match[1]
        node = parse_node_name(self.run(["scontrol", "show", "node", "-o"]), platform.node())
        if node is None:
            raise CommandError("this host is no node of Slurm's: set its node name")
        return node

    def _query_gpus(self, live: Sequence[SlurmJob], used: Gres, node: str) -> tuple[str, ...]:
        """Query the GPUs of running jobs not queried before, while used GPUs lack a job; return ids of unclear jobs.

        At most 64 queries in 15 s.
        """
        deadline = time.monotonic() + _MOST_SECONDS
        unclear: list[str] = []
        queries = 0
        for job in live:
            if job.key not in self._known:
                if used.is_clear and not used.shared and not self._unexplained(live, used):
                    continue
                if queries < _MOST_QUERIES and time.monotonic() <= deadline:
                    queries += 1
                    with suppress(CommandError):  # the job may have ended
                        answer = self.run(["scontrol", "show", "job", "-d", "-o", job.shown_by])
                        self._known[job.key] = replace(
                            job,
                            gres=parse_job_gres(answer, node),
                            name=parse_job_name(answer),
                            workload=parse_job_workload(answer),
                        )
            if job.key not in self._known or not self._known[job.key].gres.is_clear:
                unclear.append(job.id)
        return tuple(unclear)

    def _unexplained(self, live: Sequence[SlurmJob], used: Gres) -> set[int]:
        return set(used.places).difference(*(each.places for each in self._known_gres(live)))

    def _unplaced(self, live: Sequence[SlurmJob], used: Gres) -> int:
        """Return the number of used GPUs without a known index that no known job explains."""
        placed = frozenset[int]().union(*(each.places for each in self._known_gres(live)))
        return max(0, used.unplaced - len(placed - used.places))

    def _known_gres(self, live: Sequence[SlurmJob]) -> list[Gres]:
        return [self._known[job.key].gres for job in live if job.key in self._known]
