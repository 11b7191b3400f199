"""The destinations of ticks by options, environment and enrollment, and the agent's endpoint with its token."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from gua.app.opening import store_address, store_destination
from gua.core.errors import TransientError, UnavailableError
from gua.core.ports import SpooledTick
from gua.otlp.endpoint import configured_endpoint, read_settings
from gua.state.enrollment import Enrollment, Stamp, read_enrollment, stamp
from gua.store.dsn import EmbeddedDsn, parse_dsn
from gua.store.engine import install_command, is_installed

if TYPE_CHECKING:
    from gua.otlp.send import OtlpEndpoint

ENDPOINT: Final = "endpoint"


@dataclass(frozen=True, kw_only=True, slots=True)
class Destination:
    """A destination of the agent's ticks: its ``name`` in the spool, ``where`` for people, and one address.

    ``enrolled`` is whether requests carry the token of this host's enrollment. The token is never stored here, as this
    object passes through the environment.
    """

    name: str
    where: str
    store: str | None = None
    endpoint: str | None = None
    enrolled: bool = False


def agent_destinations(store: str | None, endpoint: str | None, home: Path) -> list[Destination]:
    """Return the agent's destinations: the endpoint, the store, or both if both come from the same kind of setting.

    Without either, OTEL_EXPORTER_OTLP_* may name an endpoint. Without an endpoint or a ``store`` option, an enrolled
    host uses its enrollment's endpoint beside the default store. Raises UsageError for an invalid address,
    UnavailableError if the embedded engine is missing.
    """
    store_alone = bool(store) and not endpoint and store != os.environ.get("GUA_STORE")
    store, endpoint = more_explicit(store, endpoint)
    if not store and not endpoint:
        endpoint = configured_endpoint(os.environ)
    enrollment = read_enrollment(home)
    joined = not endpoint and not store_alone and enrollment is not None
    destinations = []
    if enrollment is not None and joined:
        destinations.append(_endpoint(enrollment.endpoint, enrollment))
    elif endpoint:
        destinations.append(_endpoint(endpoint, enrollment))
    if store or not endpoint:
        parsed = parse_dsn(store_address(store, home), password=os.environ.get("GUA_STORE_PASSWORD"))
        if isinstance(parsed, EmbeddedDsn) and not is_installed():
            if joined:
                return destinations
            msg = "no destination: the embedded engine is not installed"
            send = "or send them to an OTLP endpoint: gua daemon --endpoint URL"
            raise UnavailableError(msg, hints=(f"add it: {install_command()}", send))
        address = store_address(store, home)
        destinations.append(Destination(name=store_destination(parsed, home), where=str(parsed), store=address))
    return destinations


def _endpoint(url: str, enrollment: Enrollment | None) -> Destination:
    """Return the endpoint's destination; it is enrolled only if its URL is the enrollment's."""
    if enrollment is not None:
        enrolled = read_settings(enrollment.endpoint, os.environ, enrollment)
        if url == enrollment.endpoint or read_settings(url, os.environ).url == enrolled.url:
            return Destination(name=ENDPOINT, where=enrolled.shown, endpoint=enrollment.endpoint, enrolled=True)
    return Destination(name=ENDPOINT, where=read_settings(url, os.environ).shown, endpoint=url)


def more_explicit(store: str | None, endpoint: str | None) -> tuple[str | None, str | None]:
    """Return both, or only the one set by an option if an environment variable set the other."""
    if store and endpoint:
        store_by_environment = store == os.environ.get("GUA_STORE")
        endpoint_by_environment = endpoint == os.environ.get("GUA_ENDPOINT")
        if store_by_environment != endpoint_by_environment:
            return (None, endpoint) if store_by_environment else (store, None)
    return store, endpoint


class EnrolledEndpoint:
    """The enrollment's endpoint; a changed or removed enrollment takes effect at the next request."""

    def __init__(self, endpoint: OtlpEndpoint, destination: Destination, home: Path, opened: Stamp) -> None:
        self._endpoint = endpoint
        self._destination = destination
        self._home = home
        self._opened = opened

    def land(self, batch: Sequence[SpooledTick]) -> Sequence[SpooledTick]:
        """Deliver the batch; return the refused ticks. Raises UnavailableError if the enrollment changed."""
        if stamp(self._home) != self._opened:
            _enrollment(self._destination, self._home)
            raise TransientError("the enrollment of this host changed: the endpoint is opened anew")
        return self._endpoint.land(batch)

    def close(self) -> None:
        """Close the connection."""
        self._endpoint.close()


def open_agent_endpoint(
    destination: Destination, home: Path, *, patience_seconds: float
) -> OtlpEndpoint | EnrolledEndpoint:
    """Open the endpoint of a destination of the agent with state directory ``home``; nothing is sent yet.

    Raises UsageError for an invalid address. Raises UnavailableError if the destination's enrollment is gone or
    replaced.
    """
    from gua.otlp.send import open_endpoint  # noqa: PLC0415 - loads an exporter

    if not destination.enrolled:
        return open_endpoint(destination.endpoint, environ=os.environ, patience_seconds=patience_seconds)
    before = stamp(home)
    enrollment = _enrollment(destination, home)
    opened = open_endpoint(
        enrollment.endpoint, environ=os.environ, enrollment=enrollment, patience_seconds=patience_seconds
    )
    return EnrolledEndpoint(opened, destination, home, before)


def _enrollment(destination: Destination, home: Path) -> Enrollment:
    """Return the destination's enrollment. Raises UnavailableError if it is gone or names another endpoint."""
    enrollment = read_enrollment(home)
    if enrollment is None or enrollment.endpoint != destination.endpoint:
        how = "is no longer enrolled" if enrollment is None else "was enrolled with another endpoint"
        msg = f"this host {how}, nothing is sent to {destination.where}: restart the agent to go on without it"
        raise UnavailableError(msg)
    return enrollment
