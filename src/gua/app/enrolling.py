"""How this host joins a fleet, and leaves it."""

from __future__ import annotations

import ipaddress
import os
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from gua.app import probe
from gua.app.destinations import ENDPOINT, agent_destinations
from gua.app.host import open_host
from gua.app.output import safe, say
from gua.core.durations import format_duration
from gua.core.errors import GuaError, UsageError
from gua.core.tick import Origin
from gua.otlp.endpoint import Settings, configured_endpoint, read_settings
from gua.spool.queue import Spool
from gua.spool.waiting import destinations_of
from gua.state.directory import Home
from gua.state.enrollment import Enrollment, enrollment_file, forget_enrollment, keep_enrollment, read_enrollment
from gua.state.host_lock import HostLock, LockHolder

_LONGEST_AUTHORITIES: Final = 2**20
_NOT_KEPT: Final = ("HEADERS", "TIMEOUT", "COMPRESSION", "CLIENT_CERTIFICATE", "CLIENT_KEY")


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


def receiver(endpoint: str | None, certificate: Path | None, *, insecure: bool) -> Settings:
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


def join(
    offered: Enrollment,
    authorities: bytes | None,
    settings: Settings,
    home: Home,
    *,
    interval_ms: int,
    procfs: Path,
) -> None:
    """Send a tick to the endpoint offered, and keep the enrollment once it was accepted. Raises UnavailableError."""
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
    say(safe(f"accepted: {proven.what}"))
    say(safe(f"enrolled: endpoint and token are in {enrollment_file(home.path)}, for this user alone"))
    say(safe(_effect(running, same=before is not None and before.endpoint == kept.endpoint)))
    for note in _notes(settings):
        say(safe(note), to_stderr=True)


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


def leave(home: Path) -> None:
    """Forget endpoint and token, and say what that leaves undone."""
    if not forget_enrollment(home):
        say("this host is not enrolled: nothing to remove")
        return
    say("removed: endpoint and token are forgotten; have the token revoked where it was made")
    path = Home(home).spool
    if ENDPOINT in destinations_of(path):
        with Spool(path, destinations=None) as spool:
            waiting = spool.depth(ENDPOINT)
        if waiting:
            lacking = "1 tick was" if waiting == 1 else f"{waiting} ticks were"
            say(f"{lacking} not delivered; what the local store lacks of that is still in the spool")
    holder = HostLock.of(os.environ).holder()
    if holder is not None:
        say(f"the agent ({holder}) sends nothing more; restart it to have it deliver to the local store alone")


def is_loopback(url: str) -> bool:
    """Return whether the URL's host is this machine: ``localhost`` or a loopback address."""
    host = (urlsplit(url).hostname or "").rstrip(".")
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def read_authorities(path: Path) -> bytes:
    """Return the certificates of a file. Raises UsageError where it cannot be read, or is no such file by its size."""
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
