"""An agent's endpoint, opened with the token of this host's enrollment where it has one."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from gua.app.destinations import Destination
from gua.core.errors import TransientError, UnavailableError
from gua.core.ports import SpooledTick
from gua.state.enrollment import Enrollment, Stamp, read_enrollment, stamp

if TYPE_CHECKING:
    from gua.otlp.send import OtlpEndpoint


class EnrolledEndpoint:
    """The endpoint of the enrollment: a new token counts from the next request on, a removed one is sent nothing."""

    def __init__(self, endpoint: OtlpEndpoint, destination: Destination, home: Path, opened: Stamp) -> None:
        self._endpoint = endpoint
        self._destination = destination
        self._home = home
        self._opened = opened

    @property
    def rejected_points(self) -> int:
        """Points that the endpoint left out of requests that it otherwise took."""
        return self._endpoint.rejected_points

    def land(self, batch: Sequence[SpooledTick]) -> Sequence[SpooledTick]:
        """Deliver the batch. Raises UnavailableError if the enrollment is not the one that it was opened with."""
        if stamp(self._home) != self._opened:
            _enrollment(self._destination, self._home)
            msg = "the enrollment of this host changed: the endpoint is opened anew"
            raise TransientError(msg)
        return self._endpoint.land(batch)

    def close(self) -> None:
        """Let go of the connection."""
        self._endpoint.close()


def open_agent_endpoint(
    destination: Destination, home: Path, *, patience_seconds: float
) -> OtlpEndpoint | EnrolledEndpoint:
    """Return the endpoint that is a destination of the agent with its state in ``home``; nothing is sent yet.

    Raises UsageError and UnavailableError; also if the enrollment it was named by is gone, or another's.
    """
    from gua.otlp.send import open_endpoint  # noqa: PLC0415 - an exporter, only for those who send

    if not destination.enrolled:
        return open_endpoint(destination.endpoint, environ=os.environ, patience_seconds=patience_seconds)
    found = stamp(home)
    enrollment = _enrollment(destination, home)
    opened = open_endpoint(
        enrollment.endpoint, environ=os.environ, enrollment=enrollment, patience_seconds=patience_seconds
    )
    return EnrolledEndpoint(opened, destination, home, found)


def _enrollment(destination: Destination, home: Path) -> Enrollment:
    """Return the enrollment that the destination is of. Raises UnavailableError if it is gone, or another's."""
    enrollment = read_enrollment(home)
    if enrollment is None or enrollment.endpoint != destination.endpoint:
        how = "is no longer enrolled" if enrollment is None else "was enrolled with another endpoint"
        msg = f"this host {how}, nothing is sent to {destination.where}: restart the agent to go on without it"
        raise UnavailableError(msg)
    return enrollment
