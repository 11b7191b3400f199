"""Which sources of allocations the agent looks at: what options say, and the sources themselves."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from gua.core.durations import parse_duration_ms
from gua.core.errors import UsageError

if TYPE_CHECKING:
    from gua.allocation.kubelet import Place, PodList
    from gua.allocation.sources import Opener, Sources
    from gua.core.allocation import CardKey

AUTO: Final = "auto"
OFF: Final = "off"
SOURCES: Final = ("files", "slurm", "kubernetes")
LEAST_POLL_SECONDS: Final = 30.0
PATIENCE_SECONDS: Final = 3.0
_PAUSE_SECONDS: Final = 0.1


@dataclass(frozen=True, kw_only=True, slots=True)
class AllocationSettings:
    """What is looked at, and where it is; ``None`` is where a source looks by itself.

    Without ``sources`` allocation is not looked at. ``slurm_poll_seconds`` is 0 for never.
    """

    sources: tuple[str, ...] = (AUTO,)
    folder: Path | None = None
    slurm_node: str | None = None
    slurm_poll_seconds: float | None = None
    slurm_job_mapping: Path | None = None
    pod_resources: Path | None = None

    @classmethod
    def of_options(
        cls,
        *,
        sources: Sequence[str] | None,
        folder: Path | None,
        slurm_node: str | None,
        slurm_poll: str | None,
        slurm_job_mapping: Path | None,
        pod_resources: Path | None,
    ) -> AllocationSettings:
        """Return what the options of a command say; paths hold wherever the agent goes. Raises UsageError."""
        return cls(
            sources=chosen_sources(sources),
            folder=folder and folder.absolute(),
            slurm_node=slurm_node or None,
            slurm_poll_seconds=poll_seconds(slurm_poll),
            slurm_job_mapping=slurm_job_mapping and slurm_job_mapping.absolute(),
            pod_resources=pod_resources and pod_resources.absolute(),
        )

    @classmethod
    def from_json(cls, found: Mapping[str, Any]) -> AllocationSettings:
        """Return the settings of an object that holds them as text and numbers."""
        paths = {
            name: None if found[name] is None else Path(found[name])
            for name in ("folder", "slurm_job_mapping", "pod_resources")
        }
        return cls(**{**found, **paths, "sources": tuple(found["sources"])})


def chosen_sources(names: Sequence[str] | None) -> tuple[str, ...]:
    """Return the sources that options name: auto where they name none, nothing for off. Raises UsageError."""
    chosen = tuple(dict.fromkeys(name.strip().lower() for name in names or (AUTO,)))
    unknown = [name for name in chosen if name not in {*SOURCES, AUTO, OFF}]
    if unknown:
        msg = f"--allocation {unknown[0]!r} is no source: take {', '.join(SOURCES)}, {AUTO} or {OFF}"
        raise UsageError(msg)
    if OFF in chosen and len(chosen) > 1:
        msg = f"--allocation {OFF} says that nothing is looked at: leave the others out, or it"
        raise UsageError(msg)
    return () if OFF in chosen else chosen


def poll_seconds(text: str | None) -> float | None:
    """Return how often Slurm is asked [s], 0 for never, ``None`` where nobody says. Raises UsageError."""
    if text is None:
        return None
    if text.strip().lower() in {OFF, "0"}:
        return 0.0
    try:
        seconds = parse_duration_ms(text) / 1000
    except UsageError as error:
        msg = f"--slurm-poll: {error}"
        raise UsageError(msg) from None
    if seconds < LEAST_POLL_SECONDS:
        msg = f"--slurm-poll {text!r} asks Slurm more often than every {LEAST_POLL_SECONDS:g}s: give more, or {OFF}"
        raise UsageError(msg)
    return seconds


def openers_of(settings: AllocationSettings, pods: PodList | None = None) -> list[Opener]:
    """Return how each source is found and opened; ``pods`` is the list of this node's pods, if it is read."""
    from gua.allocation import kubernetes, pod_resources, slurm  # noqa: PLC0415 - only for those who look
    from gua.allocation.files import AllocationFolder  # noqa: PLC0415 - as above

    asked = slurm.SlurmSettings(node=settings.slurm_node, job_mapping=settings.slurm_job_mapping)
    if settings.slurm_poll_seconds is not None:
        asked = replace(asked, poll_seconds=settings.slurm_poll_seconds)
    folder = AllocationFolder() if settings.folder is None else AllocationFolder(settings.folder)
    socket = pod_resources.SOCKET if settings.pod_resources is None else settings.pod_resources
    of_pods = kubernetes.kubernetes_opener(pods, socket, own_pod=own_pod(os.environ))
    return [*slurm.openers(folder, asked), of_pods]


def own_pod(environ: Mapping[str, str]) -> Place | None:
    """Return namespace and name of the pod that this is, by the manifests' variables; ``None`` where they are not."""
    place = environ.get("POD_NAMESPACE", ""), environ.get("POD_NAME", "")
    return place if all(place) else None


def open_allocations(settings: AllocationSettings, pods: PodList | None = None) -> Sources | None:
    """Return the sources that are to be looked at, ``None`` where there are none. Raises GuaError."""
    if not settings.sources:
        return None
    from gua.allocation.sources import open_sources  # noqa: PLC0415 - only for those who look

    return open_sources(settings.sources, openers_of(settings, pods))


def settle(sources: Sources, cards: Sequence[CardKey] = (), *, patience_seconds: float = PATIENCE_SECONDS) -> None:
    """Wait until the sources that are asked in the background have answered, for a single look at them."""
    deadline = time.monotonic() + patience_seconds
    now_ms = time.time_ns() // 1_000_000
    while any(source.reason is not None for source in sources.look(now_ms, now_ms, cards).sources):
        if time.monotonic() >= deadline:
            return
        time.sleep(_PAUSE_SECONDS)
