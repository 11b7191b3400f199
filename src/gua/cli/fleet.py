"""``gua enroll`` and ``gua sync-once``: join or leave a fleet, or deliver one tick to it."""

import json
import os
import time
from pathlib import Path
from typing import Annotated, Final

import typer

from gua.app.destinations import ENDPOINT, Destination, agent_destinations
from gua.app.enrolling import join, leave, read_authorities, read_token, receiver, what_is_sent
from gua.app.host import agent_origin, open_host
from gua.app.output import safe
from gua.app.settings import AgentSettings, require_procfs
from gua.app.single_tick import sync_alone, sync_beside
from gua.cli.daemon import AllocationOptions, IgnoreProcessOption, parse_interval_ms
from gua.cli.options import (
    AgentStateOption,
    EndpointOption,
    ProcfsOption,
    StateDirOption,
    StoreOption,
    flag,
    path_value,
    value,
    with_groups,
)
from gua.core.errors import UnavailableError, UsageError
from gua.core.moments import to_rfc3339
from gua.otlp.endpoint import read_settings
from gua.state.directory import home_path, prepare_home
from gua.state.enrollment import Enrollment, read_enrollment
from gua.state.host_lock import HostLock

SCHEMA: Final = "gua.enrollment/1"
HistoryOption = Annotated[
    bool,
    flag(
        "--with-history",
        "GUA_WITH_HISTORY",
        "Also send what the local store holds of this host from before; again changes nothing.",
    ),
]


def enroll(
    *,
    endpoint: Annotated[
        str | None, value("URL", "GUA_ENDPOINT", "The fleet's OTLP endpoint, over HTTP or gRPC.")
    ] = None,
    token_file: Annotated[
        Path | None,
        path_value(
            "FILE",
            "GUA_ENROLL_TOKEN_FILE",
            "File with the token that may write there, mode 0600; - for stdin. Prompted for if not given.",
        ),
    ] = None,
    certificate: Annotated[
        Path | None,
        path_value(
            "FILE",
            "GUA_ENROLL_CERTIFICATE",
            "Authorities of the endpoint's certificate, in PEM; a copy is kept with the token.",
        ),
    ] = None,
    insecure: Annotated[
        bool, flag("--insecure", "GUA_ENROLL_INSECURE", "Send the token to another machine without TLS.")
    ] = False,
    with_history: HistoryOption = False,
    show: Annotated[bool, flag("--show", "GUA_ENROLL_SHOW", "Show with which endpoint this host is enrolled.")] = False,
    remove: Annotated[
        bool, flag("--remove", "GUA_ENROLL_REMOVE", "Leave the fleet: forget endpoint and token.")
    ] = False,
    as_json: Annotated[
        bool, flag("--json", "GUA_JSON", 'With --show: one JSON object, schema "gua.enrollment/1".')
    ] = False,
    interval: Annotated[str, value("DURATION", "GUA_INTERVAL", "The agent's time between ticks.")] = "30s",
    store: StoreOption = None,
    procfs: ProcfsOption = Path("/proc"),
    state_dir: AgentStateOption = None,
) -> None:
    """Join a fleet: the agent of this host delivers to an endpoint, with a token that may only write there.

    Says what will be sent, sends one tick, and keeps endpoint and token (in the agent's state directory, mode 0600)
    once that tick was accepted. The local store stays. The agent takes it at its next start.

    Example:
        gua enroll --endpoint https://collector.example:4318 --token-file token
        gua enroll --show
        gua enroll --remove
    """
    if show and remove:
        raise UsageError("--show and --remove exclude each other: give one of them")
    home = home_path(state_dir, os.environ)
    if show:
        _show(home, as_json=as_json)
    elif remove:
        leave(home)
    else:
        interval_ms = parse_interval_ms(interval)
        os.umask(0o077)
        settings = receiver(endpoint, certificate, insecure=insecure)
        for line in what_is_sent(agent_origin(interval_ms=interval_ms, home=home), settings, interval_ms):
            typer.echo(line)
        authorities = None if settings.certificate is None else read_authorities(settings.certificate)
        offered = Enrollment(
            endpoint=str(endpoint),
            protocol=settings.protocol,
            token=read_token(token_file),
            since_ms=time.time_ns() // 1_000_000,
            certificate=None if settings.certificate is None else str(settings.certificate.absolute()),
        )
        join(offered, authorities, settings, prepare_home(home), interval_ms=interval_ms, procfs=procfs)
        if with_history:
            from gua.app.backfill import send_history  # noqa: PLC0415 - loads the engine

            fleet = Destination(name=ENDPOINT, where=settings.shown, endpoint=offered.endpoint, enrolled=True)
            send_history(store, home, fleet, interval_ms=interval_ms)


@with_groups
def sync_once(
    *,
    interval: Annotated[
        str, value("DURATION", "GUA_INTERVAL", "Time between calls, as of a timer; 1s to 10m.")
    ] = "30s",
    store: StoreOption = None,
    endpoint: EndpointOption = None,
    with_history: HistoryOption = False,
    allocations: AllocationOptions,
    procfs: ProcfsOption = Path("/proc"),
    ignore_process: IgnoreProcessOption = None,
    state_dir: StateDirOption = None,
) -> None:
    """Take one tick, keep it here, then deliver what waits for the endpoint that this host is enrolled with.

    Whatever happens on the way, what was not delivered stays. Beside a running agent no tick is taken, as its own
    cover this moment; what waits is delivered.

    Example:
        gua sync-once
        gua sync-once --with-history
    """
    interval_ms = parse_interval_ms(interval)
    allocation = allocations.settings()
    home = home_path(state_dir, os.environ)
    destinations = agent_destinations(store, endpoint, home)
    fleet = next((destination for destination in destinations if destination.endpoint), None)
    if fleet is None:
        raise UnavailableError("no destination is set: gua enroll --endpoint URL, or name it with --endpoint")
    require_procfs(procfs)
    os.umask(0o077)
    prepared = prepare_home(home)
    lock = HostLock.of(os.environ)
    holder = lock.holder()
    if holder is not None:
        sync_beside(holder, fleet, prepared)
    else:
        with lock.held():
            settings = AgentSettings(
                interval_ms=interval_ms,
                procfs=procfs,
                home=prepared,
                ignored=tuple(ignore_process or ()),
                allocation=allocation,
            )
            sync_alone(open_host(settings), destinations, prepared)
    if with_history:
        from gua.app.backfill import send_history  # noqa: PLC0415 - only for --with-history

        send_history(store, home, fleet, interval_ms=interval_ms)


def _show(home: Path, *, as_json: bool) -> None:
    enrollment = read_enrollment(home)
    shown = None if enrollment is None else read_settings(enrollment.endpoint, os.environ, enrollment).shown
    if as_json:
        fields = {
            "schema": SCHEMA,
            "enrolled": enrollment is not None,
            "endpoint": shown,
            "protocol": None if enrollment is None else enrollment.protocol,
            "certificate": None if enrollment is None else enrollment.certificate,
            "since": None if enrollment is None else to_rfc3339(enrollment.since_ms),
        }
        typer.echo(json.dumps(fields, indent=2))
    elif enrollment is None:
        typer.echo("this host is not enrolled: gua enroll --endpoint URL")
    else:
        typer.echo(safe(f"enrolled since {to_rfc3339(enrollment.since_ms)} with {shown} ({enrollment.protocol})"))
        if enrollment.certificate:
            typer.echo(safe(f"authorities: {enrollment.certificate}"))
