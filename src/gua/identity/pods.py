"""What pods and containers are called, as a Protocol: ids come from the kernel, names from elsewhere or not at all."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Protocol


@dataclass(frozen=True, kw_only=True, slots=True)
class Names:
    """What a pod and a container of it are called; ``None`` is unknown."""

    pod: str | None = None
    namespace: str | None = None
    container: str | None = None


NO_NAMES: Final = Names()


class Pods(Protocol):
    """Where names of pods are looked up."""

    def names(self, pod_uid: str | None, container_id: str | None) -> Names:
        """Return what is known at once; never waits, never raises."""
        ...


class NoNames:
    """Knows no names: ids alone."""

    def names(self, pod_uid: str | None, container_id: str | None) -> Names:  # noqa: ARG002 - nobody is known
        """Return no names."""
        return NO_NAMES
