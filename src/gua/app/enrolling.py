"""``gua enroll``: read the token, prove that the endpoint accepts a tick, and store or forget the enrollment."""

import ipaddress
import os
import re
import stat
import sys
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, replace
from getpass import getpass
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from gua.app.destinations import ENDPOINT, agent_destinations
from gua.app.host import Host, open_host
from gua.app.output import print_line, safe
from gua.app.settings import AgentSettings, AllocationSettings
from gua.app.single_tick import sample_once, summary
from gua.core.errors import GuaError, UnavailableError, UsageError
from gua.core.moments import format_duration
from gua.core.ports import Mark, SpooledTick
from gua.core.tick import AgentReading, Origin, Tick
from gua.otlp.encode import encode
from gua.otlp.endpoint import Settings, configured_endpoint, read_settings
from gua.spool.queue import Spool
from gua.spool.waiting import read_destinations
from gua.state.compression import compress, decompress
from gua.state.directory import Home
from gua.state.enrollment import Enrollment, enrollment_file, forget_enrollment, read_enrollment, store_enrollment
from gua.state.host_lock import HostLock
from gua.state.socket_address import Peer

_LONGEST_AUTHORITIES: Final = 2**20
_NOT_KEPT: Final = ("HEADERS", "TIMEOUT", "COMPRESSION", "CLIENT_CERTIFICATE", "CLIENT_KEY")


def what_is_sent(origin: Origin, settings: Settings, interval_ms: int) -> Iterator[str]:
    """Yield one line for each kind of data that the agent will send, and where."""
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
    """Return the token's endpoint. Raises UsageError for none, or a remote one without TLS unless ``insecure``."""
    if not endpoint:
        raise UsageError("no endpoint is given: gua enroll --endpoint URL, as in https://collector.example:4318")
    settings = read_settings(endpoint, os.environ)
    if settings.secure:
        return settings if certificate is None else replace(settings, certificate=certificate)
    if certificate is not None:
        raise UsageError("--certificate is for https, and this endpoint is without TLS: correct one of both")
    if not insecure and not is_loopback(settings.url):
        raise UsageError(
            f"{settings.shown} is another machine, and without TLS everybody on the way reads the token: "
            "give an https URL, or say --insecure"
        )
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
    """Send a tick to the offered endpoint, and store the enrollment once it is accepted.

    Without an agent it is a new reading after the last tick. With an agent it is that agent's newest spooled tick. If
    no card is readable or the agent's spool is empty, it is a tick without cards. Raises UnavailableError.
    """
    try:
        before = read_enrollment(home.path)
    except GuaError:  # an invalid enrollment is about to be replaced
        before = None
    lock = HostLock.of(os.environ)
    running = lock.holder()
    try:
        off = AllocationSettings(sources=())
        agent = AgentSettings(interval_ms=interval_ms, procfs=procfs, home=home, allocation=off)
        if running is None:
            lock.acquire()  # until the tick is spooled, and the next one continues from it
            proven = _read(agent)
        else:
            proven = _newest_of_agent(agent, running)
        _send(offered, proven)
        stored = store_enrollment(home.path, offered, authorities)
        usual = [one.name for one in agent_destinations(os.environ.get("GUA_STORE"), None, home.path)]
        # The spool's other destinations stay: their pending ticks must not be lost.
        names = sorted({*(read_destinations(home.spool) or usual), ENDPOINT})
        with Spool(home.spool, destinations=names) as spool:
            if proven.mark is not None:  # other destinations lack it, and the next tick continues from it
                spool.append(proven.ts_ms, proven.raw, proven.mark)
    finally:
        lock.release()
    print_line(safe(f"accepted: {proven.what}"))
    print_line(safe(f"enrolled: endpoint and token are in {enrollment_file(home.path)}, for this user alone"))
    effect = "next: gua daemon delivers there"
    if running is not None and before is not None and before.endpoint == stored.endpoint:
        effect = f"the agent ({running}) shows the new token with its next request"
    elif running is not None:
        how = "gua stop and gua daemon or systemctl restart gua; until then ticks wait"
        effect = f"next: restart the agent ({running}), {how}"
    print_line(safe(effect))
    for note in _notes(settings):
        print_line(safe(note), to_stderr=True)


def _notes(settings: Settings) -> Iterator[str]:
    ways = ("OTEL_EXPORTER_OTLP_", "OTEL_EXPORTER_OTLP_METRICS_")
    own = [name for name in _NOT_KEPT if any(os.environ.get(way + name, "").strip() for way in ways)]
    if own:
        names = ", ".join(ways[0] + name for name in own)
        yield f"note: {names} counted here and is not kept: set it for the agent too"
    other = configured_endpoint(os.environ)
    if other and read_settings(other, os.environ).url != settings.url:
        yield "note: an agent in this environment would send to its OTEL_EXPORTER_OTLP_ENDPOINT instead: unset it"
    if not settings.secure and not is_loopback(settings.url):
        yield "note: without TLS everybody on the way can read the token and what is sent"


def leave(home: Path) -> None:
    """Forget endpoint and token, and print what remains to be done."""
    if not forget_enrollment(home):
        print_line("this host is not enrolled: nothing to remove")
        return
    print_line("removed: endpoint and token are forgotten; have the token revoked where it was made")
    path = Home(home).spool
    if ENDPOINT in read_destinations(path):
        with Spool(path, destinations=None) as spool:
            waiting = spool.depth(ENDPOINT)
        if waiting:
            lacking = "1 tick was" if waiting == 1 else f"{waiting} ticks were"
            print_line(f"{lacking} not delivered; what the local store lacks of that is still in the spool")
    holder = HostLock.of(os.environ).holder()
    if holder is not None:
        print_line(f"the agent ({holder}) sends nothing more; restart it to have it deliver to the local store alone")


def is_loopback(url: str) -> bool:
    """Return whether the URL's host is this machine: ``localhost`` or a loopback address."""
    host = (urlsplit(url).hostname or "").rstrip(".")
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def read_authorities(path: Path) -> bytes:
    """Return the content of a certificate file. Raises UsageError if it is unreadable or larger than 1 MiB."""
    try:
        with path.open("rb") as file:
            content = file.read(_LONGEST_AUTHORITIES + 1)
    except OSError as error:
        msg = f"cannot read the certificate {path} ({error.strerror}): check the path and its permissions"
        raise UsageError(msg) from None
    if len(content) > _LONGEST_AUTHORITIES:
        raise UsageError(f"{path} is larger than 1 MiB: name a file with the authority's certificate in PEM format")
    return content


@dataclass(frozen=True, kw_only=True, slots=True)
class Proof:
    """The accepted tick, encoded. ``what`` describes it; ``mark`` is its mark if the spool lacks it."""

    what: str
    ts_ms: int
    raw: bytes
    mark: Mark | None = None


def _read(agent: AgentSettings) -> Proof:
    host = open_host(agent)
    try:
        mark = None
        if agent.home.spool.exists():
            with Spool(agent.home.spool, destinations=None) as spool:
                mark = spool.mark()
        tick, mark = sample_once(host, mark)
    except UnavailableError as error:
        return _without_cards(host, str(error))
    finally:
        host.cards.close()
    return Proof(what=summary(tick), ts_ms=tick.ts_ms, raw=encode(tick), mark=mark)


def _newest_of_agent(agent: AgentSettings, holder: Peer) -> Proof:
    for name in sorted(read_destinations(agent.home.spool)):
        with Spool(agent.home.spool, destinations=None) as spool:
            oldest = spool.peek(name, 1)
            newest = spool.peek(name, 1, after=oldest[0].id + spool.depth(name) - 2) or oldest if oldest else []
        if newest:
            what = f"the newest tick of the agent that runs ({holder})"
            return Proof(what=what, ts_ms=newest[0].ts_ms, raw=decompress(newest[0].blob))
    return _without_cards(open_host(agent), f"an agent runs ({holder}), and none of its ticks is here")


def _without_cards(host: Host, why: str) -> Proof:
    now_ms = host.clock.wall_ms()
    tick = Tick(
        ts_ms=now_ms,
        origin=host.origin,
        cards=(),
        agent=AgentReading(started_ms=now_ms, tick_duration_seconds=0.0),  # one point: an empty request proves little
    )
    return Proof(what=f"1 tick of {host.origin.host} without cards ({why})", ts_ms=now_ms, raw=encode(tick))


def _send(offered: Enrollment, proven: Proof) -> None:
    """Send one tick to the offered endpoint; raise UnavailableError unless it accepts all of it."""
    from gua.otlp.send import open_endpoint  # noqa: PLC0415 - loads an exporter

    tick = SpooledTick(id=0, ts_ms=proven.ts_ms, raw_length=len(proven.raw), blob=compress(proven.raw))
    with closing(
        open_endpoint(offered.endpoint, environ=os.environ, enrollment=offered, patience_seconds=0)
    ) as endpoint:
        try:
            refused = endpoint.land([tick])
        except UnavailableError as error:
            raise UnavailableError(f"{error} (this host was not enrolled)") from None
        if refused or endpoint.rejected_points:
            why = f" ({endpoint.rejected_reason})" if endpoint.rejected_reason else ""
            msg = f"{endpoint.shown} does not accept a tick{why}: check that it takes OTLP metrics"
            raise UnavailableError(f"{msg} (this host was not enrolled)")


LONGEST: Final = 4096
# One word of visible ASCII, as an HTTP header can carry; RFC 6750, 2.1, allows less.
_TOKEN: Final = re.compile(r"[\x21-\x7e]+")


def read_token(path: Path | None) -> str:
    """Return the token in the file at ``path``, ``-`` for stdin; without a path prompt for it on the terminal.

    One trailing newline is removed. Raises UsageError for an invalid token, UnavailableError for a file that is
    unreadable or accessible to others. No message contains any part of the token.
    """
    if path is None:
        if not sys.stdin.isatty():
            raise UsageError("no terminal is there to enter the token: give --token-file FILE (- for stdin)")
        try:
            return parse_token(getpass("Token (not shown): "), "what was typed")
        except EOFError:
            raise UsageError("no token was typed: try again, or give --token-file FILE") from None
    if str(path) == "-":
        return parse_token(_text(sys.stdin.buffer.read(LONGEST + 3), "stdin"), "stdin")
    return parse_token(_text(_content(path), str(path)), str(path))


def parse_token(text: str, where: str) -> str:
    """Return the token in ``text``. Raises UsageError that names its source ``where``, and never the token."""
    token = text.removesuffix("\n").removesuffix("\r")
    if not token:
        fault = "is empty"
    elif len(token) > LONGEST:
        fault = f"is longer than {LONGEST} characters"
    elif token.lower().startswith("bearer "):
        fault = "begins with the word Bearer, which is no part of the token"
    elif not _TOKEN.fullmatch(token):
        fault = "holds spaces, line breaks, control characters or letters beyond ASCII"
    else:
        return token
    raise UsageError(f"{where} {fault}: give the token alone, on one line")


def _content(path: Path) -> bytes:
    try:
        # O_NONBLOCK: a pipe without a writer must not block.
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY)
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or error
        msg = f"cannot read the token file {path} ({why}): check the path and its permissions"
        raise UnavailableError(msg) from None
    try:
        status = os.fstat(descriptor)
        mode = stat.S_IMODE(status.st_mode)
        if not stat.S_ISREG(status.st_mode):
            raise UsageError(f"the token file {path} is not a regular file: give one, or - to read stdin")
        if mode & 0o077:
            msg = f"others can read or write the token file {path} (mode {mode:04o}): chmod 600 {path}, and try again"
            raise UnavailableError(msg)
        return os.read(descriptor, LONGEST + 3)
    except OSError as error:
        raise UnavailableError(f"cannot read the token file {path} ({error.strerror}): check its disk") from None
    finally:
        os.close(descriptor)


def _text(content: bytes, where: str) -> str:
    try:
        return content.decode("ascii")
    except UnicodeDecodeError:
        raise UsageError(f"{where} holds letters beyond ASCII: give the token alone, on one line") from None
