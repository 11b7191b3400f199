"""``gua enroll``: this host joins a fleet, shows with which endpoint, or leaves it."""

from __future__ import annotations

import ipaddress
import json
import os
import time
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Annotated, Final
from urllib.parse import urlsplit

import typer

from gua.app import probe
from gua.app.destinations import ENDPOINT, Destination, agent_destinations
from gua.app.host import agent_origin, open_host
from gua.app.output import safe
from gua.app.token import read_token
from gua.cli.daemon import parse_interval_ms
from gua.cli.options import AgentStateOption, HistoryOption, ProcfsOption, StoreOption, flag, path_value, value
from gua.core.durations import format_duration, to_rfc3339
from gua.core.errors import GuaError, UsageError
from gua.core.tick import Origin
from gua.otlp.endpoint import Settings, configured_endpoint, read_settings
from gua.spool.database import destinations_of
from gua.spool.queue import Spool
from gua.state.directory import Home, home_path, prepare_home
from gua.state.enrollment import Enrollment, enrollment_file, forget_enrollment, keep_enrollment, read_enrollment
from gua.state.host_lock import HostLock, LockHolder

SCHEMA: Final = "gua.enrollment/1"
_LONGEST_AUTHORITIES: Final = 2**20
_NOT_KEPT: Final = ("HEADERS", "TIMEOUT", "COMPRESSION", "CLIENT_CERTIFICATE", "CLIENT_KEY")


def command(
    *,
    endpoint: Annotated[
        str | None, value("URL", "GUA_ENDPOINT", "The fleet's OTLP endpoint, over HTTP or gRPC.")
    ] = None,
    token_file: Annotated[
        Path | None,
        path_value(
            "FILE",
            "GUA_ENROLL_TOKEN_FILE",
            "File with the token that may write there, mode 0600; - for stdin. Asked for if not given.",
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
        msg = "--show and --remove are two things: give one of them"
        raise UsageError(msg)
    home = home_path(state_dir, os.environ)
    if show:
        _show(home, as_json=as_json)
    elif remove:
        _remove(home)
    else:
        interval_ms = parse_interval_ms(interval)
        os.umask(0o077)
        settings = _receiver(endpoint, certificate, insecure=insecure)
        for line in what_is_sent(agent_origin(interval_ms=interval_ms, home=home), settings, interval_ms):
            typer.echo(line)
        authorities = None if settings.certificate is None else _authorities(settings.certificate)
        offered = Enrollment(
            endpoint=str(endpoint),
            protocol=settings.protocol,
            token=read_token(token_file),
            since_ms=time.time_ns() // 1_000_000,
            certificate=None if settings.certificate is None else str(settings.certificate.absolute()),
        )
        _enroll(offered, authorities, settings, prepare_home(home), interval_ms=interval_ms, procfs=procfs)
        if with_history:
            from gua.app.backfill import send_history  # noqa: PLC0415 - needs the engine

            fleet = Destination(name=ENDPOINT, where=settings.shown, endpoint=offered.endpoint, enrolled=True)
            send_history(store, home, fleet, interval_ms=interval_ms)


def what_is_sent(origin: Origin, settings: Settings, interval_ms: int) -> Iterator[str]:
    """Return what the agent will send and where, a line each."""
    named = "".join(f", {key}={value}" for key, value in origin.attributes)
    how = f"{settings.protocol}, {'TLS' if settings.secure else 'without TLS'}"
    yield f"the agent will send to {safe(settings.shown)} ({how}), every {format_duration(interval_ms)}:"
    yield f"  host       its name ({safe(origin.host)}), its machine id{safe(named)}"
    yield "  cards      UUID, index, name, driver, PCI address, memory, utilization, power, temperature, energy, errors"
    yield "  processes  those on the cards: pid, start, user, process name, GPU memory, utilization,"
    yield "             and the ids of container, pod, Slurm job and systemd unit in their cgroup"
    yield "  agent      version, interval, duration of its ticks, what waits, errors of the driver"
    yield "never command lines, environments or files"


def _receiver(endpoint: str | None, certificate: Path | None, *, insecure: bool) -> Settings:
    """Return where the token will be sent. Raises UsageError where it must not be."""
    if not endpoint:
        msg = "say where to: gua enroll --endpoint URL, as in https://collector.example:4318"
        raise UsageError(msg)
    settings = read_settings(endpoint, os.environ)
    if settings.secure:
        return settings if certificate is None else replace(settings, certificate=certificate)
    if certificate is not None:
        msg = "--certificate is for https, and this endpoint is without TLS: correct one of both"
        raise UsageError(msg)
    if not insecure and not is_loopback(settings.url):
        msg = (
            f"{settings.shown} is another machine, and without TLS everybody on the way reads the token: "
            "give an https URL, or say --insecure"
        )
        raise UsageError(msg)
    return replace(settings, certificate=None)


def _enroll(
    offered: Enrollment,
    authorities: bytes | None,
    settings: Settings,
    home: Home,
    *,
    interval_ms: int,
    procfs: Path,
) -> None:
    before = _readable(home.path)
    lock = HostLock.of(os.environ)
    running = lock.holder()
    try:
        proven = probe.prove(
            partial(open_host, procfs, interval_ms=interval_ms, home=home, ignored=()), offered, home, lock
        )
        kept = keep_enrollment(home.path, offered, authorities)
        usual = [one.name for one in agent_destinations(os.environ.get("GUA_STORE"), None, home.path)]
        with Spool(home.spool, destinations=probe.registered(home, usual)) as spool:
            probe.keep(proven, spool)
    finally:
        lock.release()
    typer.echo(safe(f"accepted: {proven.what}"))
    typer.echo(safe(f"enrolled: endpoint and token are in {enrollment_file(home.path)}, for this user alone"))
    typer.echo(safe(_effect(running, same=before is not None and before.endpoint == kept.endpoint)))
    for note in _notes(settings):
        typer.echo(safe(note), err=True)


def _effect(running: LockHolder | None, *, same: bool) -> str:
    if running is None:
        return "next: gua daemon delivers there"
    if same:
        return f"the agent ({running}) shows the new token with its next request"
    return (
        f"next: restart the agent ({running}), gua stop and gua daemon or systemctl restart gua; until then ticks wait"
    )


def _notes(settings: Settings) -> Iterator[str]:
    own = [name for name in _NOT_KEPT if _set(name)]
    if own:
        names = ", ".join(f"OTEL_EXPORTER_OTLP_{name}" for name in own)
        yield f"note: {names} counted here and is not kept: set it for the agent too"
    other = configured_endpoint(os.environ)
    if other and read_settings(other, os.environ).url != settings.url:
        yield "note: an agent in this environment would send to its OTEL_EXPORTER_OTLP_ENDPOINT instead: unset it"
    if not settings.secure and not is_loopback(settings.url):
        yield "note: without TLS everybody on the way can read the token and what is sent"


def _show(home: Path, *, as_json: bool) -> None:
    found = read_enrollment(home)
    shown = None if found is None else read_settings(found.endpoint, os.environ, found).shown
    if as_json:
        typer.echo(
            json.dumps(
                {
                    "schema": SCHEMA,
                    "enrolled": found is not None,
                    "endpoint": shown,
                    "protocol": None if found is None else found.protocol,
                    "certificate": None if found is None else found.certificate,
                    "since": None if found is None else to_rfc3339(found.since_ms),
                },
                indent=2,
            )
        )
    elif found is None:
        typer.echo("this host is not enrolled: gua enroll --endpoint URL")
    else:
        typer.echo(safe(f"enrolled since {to_rfc3339(found.since_ms)} with {shown} ({found.protocol})"))
        if found.certificate:
            typer.echo(safe(f"authorities: {found.certificate}"))


def _remove(home: Path) -> None:
    if not forget_enrollment(home):
        typer.echo("this host is not enrolled: nothing to remove")
        return
    typer.echo("removed: endpoint and token are forgotten; have the token revoked where it was made")
    path = Home(home).spool
    if ENDPOINT in destinations_of(path):
        with Spool(path, destinations=None) as spool:
            waiting = spool.depth(ENDPOINT)
        if waiting:
            lacking = "1 tick was" if waiting == 1 else f"{waiting} ticks were"
            typer.echo(f"{lacking} not delivered; what the local store lacks of that is still in the spool")
    holder = HostLock.of(os.environ).holder()
    if holder is not None:
        typer.echo(f"the agent ({holder}) sends nothing more; restart it to have it deliver to the local store alone")


def is_loopback(url: str) -> bool:
    """Return whether the URL's host is this machine: ``localhost`` or a loopback address."""
    host = (urlsplit(url).hostname or "").rstrip(".")
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _authorities(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            content = file.read(_LONGEST_AUTHORITIES + 1)
    except OSError as error:
        msg = f"cannot read the certificate {path} ({error.strerror}): check the path and its permissions"
        raise UsageError(msg) from None
    if len(content) > _LONGEST_AUTHORITIES:
        msg = f"{path} is larger than 1 MiB: name a file with the authority's certificate in PEM format"
        raise UsageError(msg)
    return content


def _readable(home: Path) -> Enrollment | None:
    """Return the enrollment so far; one that cannot be believed is about to be replaced."""
    try:
        return read_enrollment(home)
    except GuaError:
        return None


def _set(name: str) -> bool:
    return any(os.environ.get(f"OTEL_EXPORTER_OTLP_{form}{name}", "").strip() for form in ("", "METRICS_"))
