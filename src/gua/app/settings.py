"""Settings from options and environment variables, in the form in which the agent's process receives them."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, is_dataclass, replace
from pathlib import Path
from types import NoneType, UnionType
from typing import TYPE_CHECKING, Any, Final, get_args, get_origin, get_type_hints

from gua.app.destinations import Destination
from gua.core.errors import UnavailableError, UsageError
from gua.core.moments import parse_duration_ms
from gua.exporter.address import CONSTANT, DEFAULT_PORT, Address, Serving, parse_address, parse_port
from gua.identity.pod_names import Kubelet
from gua.procfs.reader import ProcFs
from gua.state.directory import Home

if TYPE_CHECKING:
    from gua.allocation.kubernetes import Place, PodList
    from gua.allocation.sources import Opener, Sources
    from gua.core.allocation import CardKey

AUTO: Final = "auto"
OFF: Final = "off"
SOURCES: Final = ("files", "slurm", "kubernetes")
LEAST_POLL_SECONDS: Final = 30.0
PATIENCE_SECONDS: Final = 3.0
_PAUSE_SECONDS: Final = 0.1
DEFAULT: Final = "on"
"""The value of ``--prometheus`` without an address."""
_ON: Final = frozenset({DEFAULT, "true", "yes", "1"})
_NOT_SERVED: Final = frozenset({"", "off", "false", "no", "0"})


@dataclass(frozen=True, kw_only=True, slots=True)
class AllocationSettings:
    """Which allocation sources are read, and where; ``None`` leaves the place to the source's own search.

    Empty ``sources`` turn allocation off. ``slurm_poll_seconds`` is the interval of Slurm queries [s], 0 for none.
    """

    sources: tuple[str, ...] = (AUTO,)
    folder: Path | None = None
    slurm_node: str | None = None
    slurm_poll_seconds: float | None = None
    slurm_job_mapping: Path | None = None
    pod_resources: Path | None = None


def chosen_sources(names: Sequence[str] | None) -> tuple[str, ...]:
    """Return the allocation sources that options name: auto by default, empty for off. Raises UsageError."""
    chosen = tuple(dict.fromkeys(name.strip().lower() for name in names or (AUTO,)))
    unknown = [name for name in chosen if name not in {*SOURCES, AUTO, OFF}]
    if unknown:
        raise UsageError(f"--allocation {unknown[0]!r} is no source: take {', '.join(SOURCES)}, {AUTO} or {OFF}")
    if OFF in chosen and len(chosen) > 1:
        raise UsageError(f"--allocation {OFF} turns all sources off: leave the others out, or leave {OFF} out")
    return () if OFF in chosen else chosen


def poll_seconds(text: str | None) -> float | None:
    """Return the interval of Slurm queries [s]: 0 for never, ``None`` if not set. Raises UsageError."""
    if text is None:
        return None
    if text.strip().lower() in {OFF, "0"}:
        return 0.0
    try:
        seconds = parse_duration_ms(text) / 1000
    except UsageError as error:
        raise UsageError(f"--slurm-poll: {error}") from None
    if seconds < LEAST_POLL_SECONDS:
        msg = f"--slurm-poll {text!r} is shorter than {LEAST_POLL_SECONDS:g}s: give a longer interval, or {OFF}"
        raise UsageError(msg)
    return seconds


def source_openers(settings: AllocationSettings, pods: PodList | None = None) -> list[Opener]:
    """Return an opener for each allocation source; ``pods`` is the list of this node's pods, if it is read."""
    from gua.allocation import kubernetes, pod_resources, slurm  # noqa: PLC0415 - only where allocation is on
    from gua.allocation.files import AllocationFolder  # noqa: PLC0415 - as above

    polling = slurm.SlurmSettings(node=settings.slurm_node, job_mapping=settings.slurm_job_mapping)
    if settings.slurm_poll_seconds is not None:
        polling = replace(polling, poll_seconds=settings.slurm_poll_seconds)
    folder = AllocationFolder() if settings.folder is None else AllocationFolder(settings.folder)
    socket = pod_resources.SOCKET if settings.pod_resources is None else settings.pod_resources
    pods_opener = kubernetes.kubernetes_opener(pods, socket, own_pod=own_pod(os.environ))
    return [*slurm.openers(folder, polling), pods_opener]


def own_pod(environ: Mapping[str, str]) -> Place | None:
    """Return this pod's namespace and name from ``POD_NAMESPACE`` and ``POD_NAME``, ``None`` unless both are set."""
    place = environ.get("POD_NAMESPACE", ""), environ.get("POD_NAME", "")
    return place if all(place) else None


def open_allocations(settings: AllocationSettings, pods: PodList | None = None) -> Sources | None:
    """Return the configured allocation sources opened, ``None`` if allocation is off. Raises GuaError."""
    if not settings.sources:
        return None
    from gua.allocation.sources import open_sources  # noqa: PLC0415 - only where allocation is on

    return open_sources(settings.sources, source_openers(settings, pods))


def settle(sources: Sources, cards: Sequence[CardKey] = (), *, patience_seconds: float = PATIENCE_SECONDS) -> None:
    """Wait until sources that query in the background have a first result, at most ``patience_seconds``."""
    deadline = time.monotonic() + patience_seconds
    now_ms = time.time_ns() // 1_000_000
    while any(source.reason is not None for source in sources.look(now_ms, now_ms, cards).sources):
        if time.monotonic() >= deadline:
            return
        time.sleep(_PAUSE_SECONDS)


@dataclass(frozen=True, kw_only=True, slots=True)
class AgentSettings:
    """All settings that ``gua daemon`` passes on; ``ignored`` are ignored process names besides the default ones.

    Without destinations ticks are only exported. ``pid_file`` is ``None`` for the home's, ``log_file`` for stderr,
    ``public_socket`` for no public socket. A reservation that was unused for ``idle_release_ms`` ends.
    ``detect_models`` reads process arguments to detect served models. ``activity`` reads performance counters.
    """

    interval_ms: int
    procfs: Path
    home: Home
    ignored: tuple[str, ...] = ()
    destinations: tuple[Destination, ...] = ()
    pid_file: Path | None = None
    log_file: Path | None = None
    public_socket: Path | None = None
    serving: Serving | None = None
    kubelet: Kubelet | None = None
    allocation: AllocationSettings = field(default_factory=AllocationSettings)
    idle_release_ms: int | None = None
    detect_models: bool = False
    activity: bool = False

    def to_json(self) -> str:
        """Return the settings as JSON for :meth:`from_json`."""
        return json.dumps(asdict(self), default=str)

    @classmethod
    def from_json(cls, text: str) -> AgentSettings:
        """Return the settings that :meth:`to_json` wrote."""
        settings: AgentSettings = _from_json(cls, json.loads(text))
        return settings


def _from_json(kind: Any, value: Any) -> Any:  # noqa: ANN401 - any field of the settings
    """Return a JSON value as its field's type: a dataclass, a tuple, a path, or the value itself."""
    if value is None:
        return None
    if is_dataclass(kind):
        kinds = get_type_hints(kind)
        return kind(**{name: _from_json(kinds[name], one) for name, one in value.items()})  # type: ignore[operator]
    if isinstance(kind, UnionType):
        return _from_json(next(one for one in get_args(kind) if one is not NoneType), value)
    if get_origin(kind) is tuple:
        return tuple(_from_json(get_args(kind)[0], one) for one in value)
    return Path(value) if kind is Path else value


def require_procfs(procfs: Path) -> None:
    """Raise UnavailableError unless ``procfs`` is a readable proc file system."""
    if not ProcFs(procfs).is_there():
        msg = f"cannot read {procfs}/stat: mount the host's /proc there, or name the place with --procfs"
        raise UnavailableError(msg)


def serving(
    text: str | None, environ: Mapping[str, str], *, is_compatible: bool, names: Sequence[str] = ()
) -> Serving | None:
    """Return the address and labels of the metrics endpoint, ``None`` if it is off.

    ``text`` is an address, or an on/off word, with which HTTP_PORT may set the port. ``names`` are accepted host names
    besides the address's own. Raises UsageError for an invalid address or port.
    """
    text = (text or "").strip().lower()
    if text in _NOT_SERVED:
        return None
    port = parse_port(environ["HTTP_PORT"], "HTTP_PORT") if environ.get("HTTP_PORT") else DEFAULT_PORT
    address = Address(port=port) if text in _ON else parse_address(text, port=port, of="--prometheus")
    constant = {label: environ[name] for name, label in CONSTANT.items() if environ.get(name)}
    return Serving(address=address, constant=constant if is_compatible else None, names=tuple(names))


def between(text: str | None, environ: Mapping[str, str], *, default: str) -> tuple[str, str]:
    """Return the interval text and its origin: the option (or GUA_INTERVAL), else POLL_INTERVAL, else the default."""
    if text is not None:
        return text, "--interval"
    polled = environ.get("POLL_INTERVAL")
    return (polled, "POLL_INTERVAL") if polled else (default, "--interval")
