"""What a notice is about: a process, job, pod, allocation or card that holds GPUs without using them."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final


class HeldState(StrEnum):
    """How GPUs are held without use: the ``state`` of a policy's rule.

    IDLE_HELD: an idle process on a card. EMPTY: an allocation without a process of its owner on the card. NO_PROCESS:
    an idle-held card whose memory no listed process accounts for.
    """

    IDLE_HELD = "idle-held"
    EMPTY = "empty"
    NO_PROCESS = "no-process"


class HolderKind(StrEnum):
    """What holds the GPUs, by which a notice is sent at most once per step."""

    PROCESS = "process"
    JOB = "job"
    POD = "pod"
    ALLOCATION = "allocation"
    CARD = "card"


@dataclass(frozen=True, kw_only=True, slots=True)
class HeldCard:
    """A card that is held; ``memory_bytes`` is what the holder has of it, ``None`` if unknown or not its own."""

    host: str
    gpu: str
    index: int | None = None
    name: str | None = None
    memory_bytes: int | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Held:
    """A holder that is idle, or empty, at its cards' newest ticks.

    ``key`` identifies it within its kind: host, pid and start of a process; source and id of a job, pod or allocation;
    host and UUID of a card. ``idle_ms`` is the time for which it is known to have been idle without a break,
    ``since_ms`` (Unix ms) when that began: the shortest and the latest of its processes and cards. ``last_ms`` is the
    oldest of their newest ticks. ``workload`` is the kind of work, as ``service`` or ``notebook``. ``pod`` is
    NAMESPACE/NAME, or the pod's uid where the name is unknown.
    """

    state: HeldState
    kind: HolderKind
    key: str
    cards: tuple[HeldCard, ...]
    owner: str | None
    since_ms: int
    idle_ms: int
    last_ms: int
    program: str | None = None
    workload: str | None = None
    pid: int | None = None
    job: str | None = None
    job_name: str | None = None
    pod: str | None = None
    namespace: str | None = None
    container_id: str | None = None
    host_labels: Mapping[str, str] = field(default_factory=dict)

    @property
    def host(self) -> str:
        """Return the host of its first card."""
        return self.cards[0].host

    @property
    def hosts(self) -> tuple[str, ...]:
        """Return its hosts in order, each once."""
        return tuple(sorted({card.host for card in self.cards}))

    @property
    def memory_bytes(self) -> int | None:
        """Return its device memory on all cards; ``None`` if that of any is unknown."""
        sizes = [card.memory_bytes for card in self.cards]
        return None if None in sizes else sum(size for size in sizes if size is not None)


class NoticeResult(StrEnum):
    """What became of a notice on one channel, as stored.

    STARTED: it may have been sent; without a later result it is unknown whether it was, and it is not sent again.
    SENT: the mail server, terminal or service took it. ACCEPTED: a webhook answered 200, but not that it delivers it.
    FAILED: the channel reported an error, so it may not have arrived; it is sent again only with ``--retry-failed``.
    LIMITED: left out, as the owner had as many notices on that day as the policy allows. A channel that cannot be
    reached at all has no row: it is tried at the next run.
    """

    STARTED = "started"
    SENT = "sent"
    ACCEPTED = "accepted"
    FAILED = "failed"
    LIMITED = "limited"


SUCCESSES: Final = frozenset((NoticeResult.SENT, NoticeResult.ACCEPTED))


@dataclass(frozen=True, kw_only=True, slots=True)
class Notice:
    """A notice that is due: the rule's name, its step and reminder (both from 1), the holder, and its channels.

    ``to`` are channels of the step: their number in it (from 1), and the template of their address.
    """

    rule: str
    step: int
    reminder: int
    held: Held
    to: tuple[tuple[int, str], ...]
