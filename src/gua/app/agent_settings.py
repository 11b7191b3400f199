"""What the command line said, as the agent's process gets it."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from gua.app.allocations import AllocationSettings
from gua.app.destinations import Destination
from gua.core.errors import UnavailableError
from gua.exporter.address import Address, Serving
from gua.identity.kubelet import Kubelet
from gua.procfs.reader import ProcFs
from gua.state.directory import Home


@dataclass(frozen=True, kw_only=True, slots=True)
class Places:
    """Where the agent keeps and shows itself. ``log_file`` is None for stderr, ``public_socket`` for none."""

    home: Home
    pid_file: Path
    log_file: Path | None
    public_socket: Path | None


@dataclass(frozen=True, kw_only=True, slots=True)
class AgentSettings:
    """Everything that ``gua daemon`` hands on; ``ignored`` are process names besides the usual ones.

    Without destinations ticks are only served. Reservations that were not used for ``idle_release_ms`` end.
    ``detect_models``: arguments of processes are looked at for the model that they serve. ``activity``: performance
    counters of cards are read.
    """

    interval_ms: int
    procfs: Path
    ignored: tuple[str, ...]
    destinations: tuple[Destination, ...]
    places: Places
    serving: Serving | None = None
    kubelet: Kubelet | None = None
    allocation: AllocationSettings = field(default_factory=AllocationSettings)
    idle_release_ms: int | None = None
    detect_models: bool = False
    activity: bool = False

    def to_json(self) -> str:
        """Return the settings as text for :meth:`from_json`."""
        return json.dumps(asdict(self), default=str)

    @classmethod
    def from_json(cls, text: str) -> AgentSettings:
        """Return the settings that :meth:`to_json` wrote."""
        found: dict[str, Any] = json.loads(text)
        places, serving, kubelet = found["places"], found["serving"], found["kubelet"]
        return cls(
            interval_ms=found["interval_ms"],
            procfs=Path(found["procfs"]),
            ignored=tuple(found["ignored"]),
            destinations=tuple(Destination(**one) for one in found["destinations"]),
            places=Places(
                home=Home(Path(places["home"]["path"])),
                pid_file=Path(places["pid_file"]),
                log_file=_path(places["log_file"]),
                public_socket=_path(places["public_socket"]),
            ),
            serving=serving
            and Serving(
                address=Address(**serving["address"]), constant=serving["constant"], names=tuple(serving["names"])
            ),
            kubelet=kubelet and Kubelet(**kubelet),
            allocation=AllocationSettings.from_json(found["allocation"]),
            idle_release_ms=found["idle_release_ms"],
            detect_models=found["detect_models"],
            activity=found["activity"],
        )


def require_procfs(procfs: Path) -> None:
    """Raise UnavailableError unless a /proc is there."""
    if not ProcFs(procfs).is_there():
        msg = f"cannot read {procfs}/stat: mount the host's /proc there, or name the place with --procfs"
        raise UnavailableError(msg)


def _path(text: str | None) -> Path | None:
    return None if text is None else Path(text)
