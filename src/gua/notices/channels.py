"""Channels: fill a URL template with a notice's parts, add secrets, and send one message, by apprise or to terminals.

Only this module imports apprise, and only to send. Apprise reports the SMTP server's reply and the HTTP status, not
what a webhook answers with status 200: requests, by which it sends, passes that to a hook.
"""

import functools
import gc
import json
import logging
import os
import re
import socket
import stat
import threading
import warnings
from collections.abc import Iterator, Mapping, MutableMapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any, Final
from urllib.parse import parse_qsl, quote, unquote

from gua.core.errors import GuaError, UnavailableError, UsageError
from gua.core.plaintext import quoted, safe
from gua.notices import terminals
from gua.notices.addresses import NotApplicableError, check_address, check_owner
from gua.notices.bounded import bounded
from gua.notices.held import Notice, NoticeResult
from gua.notices.messages import Message

PLACEHOLDERS: Final = ("owner", "address", "host", "rule", "job", "pod", "namespace")
SEND_SECONDS: Final = 30.0
CONNECT_SECONDS: Final = 5.0
_MAIL: Final = frozenset({"mailto", "mailtos"})
_HTML: Final = _MAIL | {"azure", "brevo", "mailgun", "o365", "postmark", "resend", "sendgrid", "ses", "smtp2go"}
_LITERAL: Final = frozenset({"form", "forms", "json", "jsons", "xml", "xmls"})
# Schemas whose URL has the name of the server where others have a token.
_WITH_HOST: Final = (
    _MAIL | _LITERAL | {"apprise", "apprises", "gotify", "gotifys", "mmost", "mmosts", "rocket", "rockets"}
)
# What chat services read as links, mentions and markup becomes look-alikes.
_MARKUP: Final = str.maketrans("<>&@[]*`|~#", "\u2039\u203a\uff06\uff20\uff3b\uff3d\u2217'\u00a6\u223c\uff03")
_BRACES: Final = re.compile(r"\$\{([^{}]*)\}|\{([^{}]*)\}")
_SECRET: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*|file:/.+", re.ASCII)
_URL: Final = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://([^/?#]*)(.*)", re.ASCII)
_HOST: Final = re.compile(r"(?:.*@)?([A-Za-z0-9._-]+(?::[0-9]+)?)", re.ASCII)
_PART: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._@+-]*", re.ASCII)
_PART_OF_HOST: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]*", re.ASCII)
_REFUSAL: Final = re.compile(r"\(\d{3}, ")
_RECIPIENTS: Final = re.compile(r"(?<=[?&])(?:to|cc|bcc)=[^&]*", re.IGNORECASE)
_REVEALING: Final = re.compile(r"\S+://\S*|\S+@\S+")
_MOST_SECRET: Final = 4096


@dataclass(frozen=True, kw_only=True, slots=True)
class Channel:
    """A channel of one notice: a URL in which only secrets are left to put in, and the owner for ``write://``."""

    url: str = field(repr=False)
    owner: str | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class SendResult:
    """SENT, ACCEPTED, or FAILED (refused, unless it ``may_have_arrived``), and why, without secrets and addresses."""

    result: NoticeResult
    detail: str = ""
    may_have_arrived: bool = False


def check_template(template: str) -> frozenset[str]:
    """Return the placeholders in a channel's URL template.

    Raises UsageError, which does not show the template: it is no URL, has another placeholder, or a wrong secret.
    """
    if not template.isprintable():
        raise UsageError("has a line break or a character that cannot be shown: remove it")
    found = list(_BRACES.finditer(template))
    names = frozenset(each[2] for each in found if each[2] is not None)
    if not names <= {*PLACEHOLDERS} or re.search(r"[{}]", _BRACES.sub("", template)):
        known = ", ".join(f"{{{name}}}" for name in PLACEHOLDERS)
        raise UsageError(f"has other braces than {known}: write one of these, or %7B and %7D for braces")
    if not all(_SECRET.fullmatch(each[1]) for each in found if each[1] is not None):
        raise UsageError("has a secret that is neither a variable nor a file: write ${NAME} or ${file:/path}")
    if not _URL.match(template) and not template.startswith("${"):
        raise UsageError("is no URL: write it as in mailto://smtp.example.org?from=gua@example.org&to={address}")
    if _schema(template) == "write" and template != "write://":
        raise UsageError("has more than write://, which writes to the owner's terminals on this host")
    return names


def parts(notice: Notice, address: str | None) -> dict[str, str | None]:
    """Return the values of the placeholders for a notice; ``address`` is its owner's, ``None`` if unknown."""
    held = notice.held
    values = {"owner": held.owner, "address": address, "host": held.host, "rule": notice.rule}
    return values | {"job": held.job, "pod": held.pod, "namespace": held.namespace}


def fill(template: str, values: Mapping[str, str | None]) -> Channel:
    """Return the channel with the values put in, percent-encoded.

    Raises NotApplicableError if a value is unknown or has separators: services split what they have decoded, and
    ``a%2Croot@example.org`` is two recipients. Raises UsageError for a wrong template.
    """
    names = check_template(template)
    owner = check_owner(values.get("owner")) if "owner" in names or _schema(template) == "write" else None
    url = _URL.match(template)
    for name in sorted(names):
        value = values.get(name)
        if not value:
            raise NotApplicableError(f"its {name} is unknown")
        if name == "address":
            check_address(value)
        elif not _PART.fullmatch(value.replace("/", "", name == "pod")) or ".." in value:
            raise NotApplicableError(
                f"{name} {quoted(value)} cannot be in a URL: it has other characters than . _ @ + -"
            )
        if url and f"{{{name}}}" in url[2] and not _PART_OF_HOST.fullmatch(value):
            raise NotApplicableError(f"{name} {quoted(value)} cannot be in the name of a server")

    def filled(found: re.Match[str]) -> str:
        return found[0] if found[1] else quote(values[found[2]] or "", safe="")

    return Channel(url=_BRACES.sub(filled, template), owner=owner)


def shown(url: str) -> str:
    """Return what of a URL or template may be shown and stored: its schema, and its server where it names one."""
    found = _URL.match(url)
    if not found:
        return "(secret)"
    host = _HOST.fullmatch(found[2]) if _schema(url) in _WITH_HOST else None
    return f"{_schema(url)}://{host[1] if host else ''}"


def _schema(url: str) -> str:
    found = _URL.match(url)
    return found[1].lower() if found else ""


def put_secrets(url: str, environ: Mapping[str, str]) -> str:
    """Return the URL with each ``${NAME}`` and ``${file:/path}`` replaced as it is, so percent-encoded where needed.

    Raises UsageError if a variable is not set or a file is not fit, and UnavailableError if a file cannot be read.
    """

    def secret(found: re.Match[str]) -> str:
        name = found[1]
        if name is not None and name.startswith("file:"):
            return _read_secret(Path(name.removeprefix("file:")))
        if name is not None and not environ.get(name):
            raise UsageError(f"the secret ${{{name}}} of a channel is not set: set this variable where gua runs")
        return found[0] if name is None else environ[name]

    return _BRACES.sub(secret, url)


def _read_secret(path: Path) -> str:
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        with os.fdopen(descriptor, "rb") as file:
            status = os.fstat(descriptor)
            content = file.read(_MOST_SECRET + 1) if stat.S_ISREG(status.st_mode) else b""
    except OSError as error:
        raise UnavailableError(f"{path} cannot be read: {error.strerror}: check the path of this secret") from None
    if status.st_mode & 0o077 or status.st_uid not in {0, os.geteuid()}:
        raise UsageError(f"{path}: others may read this secret: chmod 600, owned by root or the user who runs gua")
    secret = content.decode("utf-8", "replace").removesuffix("\n")
    if not secret or not secret.isprintable() or "\ufffd" in secret or len(content) > _MOST_SECRET:
        raise UsageError(f"{path}: a secret must be one line of UTF-8 text, of 1 to {_MOST_SECRET} bytes")
    return secret


def reachable(
    channel: Channel,
    *,
    seconds: float = CONNECT_SECONDS,
    environ: Mapping[str, str] = os.environ,
    checked: MutableMapping[tuple[str, int], str] | None = None,
) -> str | None:
    """Return why nothing can be sent to a channel now, ``None`` if its server accepts a connection or is not known.

    ``write://`` needs a terminal, the others a URL that apprise takes. Services with fixed servers are not checked, nor
    HTTP by a proxy. ``checked`` has results by server: a run checks each once. Raises UsageError without apprise.
    """
    try:
        url = put_secrets(channel.url, environ)
    except GuaError as error:
        return str(error)
    if _schema(url) == "write":
        lines, reason = terminals.terminals(channel.owner or "")
        return None if lines else reason
    log = _log.begin()
    if _schema(url) in _MAIL:
        url = _RECIPIENTS.sub("", url)
    service = _server_service(url) or _service(url)
    if service is None:
        return f"apprise cannot use the URL: {_without_secrets(log, url)}"
    server = _server(service, url)
    if server is None:
        return None
    checked = {} if checked is None else checked
    if server not in checked:
        problem = bounded(lambda: _connection_problem(server, seconds), seconds + 0.5)
        checked[server] = f"no answer within {seconds:g} s" if problem is None else problem
    host = f"{safe(server[0], 80)}:{server[1]}"
    return f"{host} cannot be reached: {checked[server]}" if checked[server] else None


def _connection_problem(server: tuple[str, int], seconds: float) -> str:
    try:
        socket.create_connection(server, timeout=seconds).close()
    except (OSError, ValueError) as error:
        return getattr(error, "strerror", None) or str(error)
    return ""


def _server(service: Any, url: str) -> tuple[str, int] | None:  # noqa: ANN401 - an optional dependency's
    """Return host and port that a service connects to, ``None`` where they are its own or a proxy's."""
    found = _URL.match(url)
    if not found or not (_schema(url) in _WITH_HOST or re.search(r":[0-9]+$", found[2])):
        return None
    from urllib.request import getproxies, proxy_bypass  # noqa: PLC0415 - takes 15 ms, and few runs send anything

    host = getattr(service, "smtp_host", None) or service.host
    scheme = "https" if service.secure else "http"
    if _schema(url) not in _MAIL and scheme in getproxies() and not proxy_bypass(host):
        return None
    return host, service.port or (443 if service.secure else 80)


def send(
    channel: Channel, message: Message, *, seconds: float = SEND_SECONDS, environ: Mapping[str, str] = os.environ
) -> SendResult:
    """Send a message to a channel once, within ``seconds``; of several threads one sends at a time.

    Apprise limits only each step of a message, so it runs in a thread that is left to itself when the time is over.
    Raises UsageError without apprise; every other failure is a result.
    """
    try:
        url = put_secrets(channel.url, environ)
    except GuaError as error:
        return _failed(str(error))
    if _schema(url) == "write":
        title = "" if message.text.startswith(message.subject) else f"{message.subject}\n\n"
        count, problem = terminals.write(channel.owner or "", title + message.text, seconds)
        return SendResult(result=NoticeResult.SENT, detail=safe(problem, 200)) if count else _failed(problem)
    log = _log.begin()
    # Mail has its own timeouts; other services wait 4 s for an answer by default.
    has_limits = _schema(url) in _MAIL or "rto=" in url
    limits = "" if has_limits else f"{'&' if '?' in url else '?'}cto={CONNECT_SECONDS:g}&rto={seconds:g}"
    service = _service(url + limits)
    if service is None:
        return _failed(f"apprise cannot use the URL: {_without_secrets(log, url)}")
    with _authorities(needed=_schema(url) != "mailto" or service.secure):
        result = bounded(lambda: _deliver(service, url, message, log), seconds)
    return result or _failed(f"no answer within {seconds:g} s", may_have_arrived=True)


def _failed(detail: str, *, may_have_arrived: bool = False) -> SendResult:
    return SendResult(result=NoticeResult.FAILED, detail=safe(detail, 200), may_have_arrived=may_have_arrived)


def _deliver(service: Any, url: str, message: Message, log: list[str]) -> SendResult:  # noqa: ANN401 - see _server
    """Send by apprise; raise nothing."""
    _log.begin(log)
    apprise = _apprise()
    schema = _schema(url)
    is_html = schema in _HTML and message.html is not None and "format=text" not in url.lower()
    subject, body = message.subject, (message.html if is_html else message.text) or ""
    if schema not in _HTML | _LITERAL:
        subject, body = (text.translate(_MARKUP).replace("://", ": //") for text in (subject, body))
        subject = "" if body.startswith(subject) else subject
    form = apprise.NotifyFormat.HTML if is_html else apprise.NotifyFormat.TEXT
    try:
        result = apprise.Apprise(service, asset=_asset()).notify(body=body, title=subject, body_format=form)
        # An object that is never False itself; with optional=yes in the URL it is true for a failure, too.
        is_sent = bool(result) and all(any(attempts) for attempts in result)
    except Exception as error:  # noqa: BLE001 - of 150 services, which may raise anything
        return _failed(f"apprise failed with {type(error).__name__}", may_have_arrived=True)
    answers = [line.removeprefix(_Log.ANSWER).partition(" ") for line in log if line.startswith(_Log.ANSWER)]
    verdicts = [_verdict(text) for status, _, text in answers if status.startswith("2")]
    if is_sent and False in verdicts:
        log.append(f"answered with status 200: {next(text for *_, text in answers if _verdict(text) is False)}")
    detail = _without_secrets(log, url)
    if is_sent and False not in verdicts:
        is_known = schema in _MAIL or (bool(verdicts) and all(verdicts))
        return SendResult(result=NoticeResult.SENT if is_known else NoticeResult.ACCEPTED, detail=detail)
    # A connection that broke, or a gateway's 504, says nothing; a mail server's refusal has a number. Of several
    # recipients one may have it.
    is_open = any(line.startswith(_Log.CAUSE) and not _REFUSAL.search(line) for line in log)
    is_open |= any(line.startswith(_Log.MAILED) for line in log) or any(each is not False for each in verdicts)
    is_open |= any(status.startswith("5") for status, *_ in answers)
    return _failed(detail or "no reason is known", may_have_arrived=is_open)


def _verdict(answer: str) -> bool | None:
    """Return whether an answer (text of Slack, Mattermost, Teams, or JSON) confirms, denies, or neither (``None``)."""
    try:
        value = json.loads(answer)
    except (ValueError, RecursionError):
        value = None
    if not isinstance(value, dict):
        return False if answer.startswith("Webhook message delivery failed") else answer.lower() in {"1", "ok"} or None
    words = {str(value.get(key)).lower() for key in ("ok", "success", "status")}
    has_error = any(value.get(key) for key in ("error", "errors", "errcode"))
    if has_error or words & {"false", "error", "fail", "failed", "failure"}:
        return False
    return bool(words & {"true", "ok", "success"}) or None


def _without_secrets(log: list[str], url: str) -> str:
    """Return the last warning and the error behind it, without what is in the URL besides its server."""
    warned = [line for line in log if not line.startswith((_Log.CAUSE, _Log.ANSWER, _Log.MAILED))]
    causes = [f"({line.removeprefix(_Log.CAUSE).strip()})" for line in log if line.startswith(_Log.CAUSE)]
    text = " ".join([*warned[-1:], *causes[-1:]])
    authority, _, rest = url.partition("://")[2].partition("/")
    server = shown(url).partition("://")[2].partition(":")[0]
    pieces = re.split(r"[:@/?&]", f"{authority.partition('?')[0]}/{rest.partition('?')[0]}")
    pieces += [value for _, value in parse_qsl(url.partition("?")[2])]
    secrets = {each for piece in pieces for each in (piece, unquote(piece)) if len(each) > 2 and each != server}
    for secret in sorted(secrets, key=len, reverse=True):
        text = text.replace(secret, "…")
    return safe(_REVEALING.sub("…", text), 200)


class _Log(logging.Handler):
    """Collects apprise's warnings, errors that it logs for debugging only, and answers, for each thread that began."""

    CAUSE = "Socket Exception:"
    ANSWER = "Answer:"
    MAILED = "Sent Email"

    def __init__(self) -> None:
        super().__init__(logging.DEBUG)
        self._local = threading.local()

    def begin(self, lines: list[str] | None = None) -> list[str]:
        """Return a list, a new one by default, to which the lines of this thread are appended from now on."""
        self._local.lines = lines = [] if lines is None else lines
        return lines

    def emit(self, record: logging.LogRecord) -> None:
        """Append a record of a thread that began."""
        if record.levelno >= logging.WARNING or str(record.msg).startswith((self.CAUSE, self.MAILED)):
            getattr(self._local, "lines", []).append(record.getMessage())

    def answered(self, response: Any, **_options: object) -> None:  # noqa: ANN401 - of an optional dependency
        """Append what a service answers."""
        text = response.content[:_MOST_SECRET].decode("utf-8", "replace").strip()
        getattr(self._local, "lines", []).append(f"{self.ANSWER}{response.status_code} {text}")


@contextmanager
def _authorities(*, needed: bool) -> Iterator[None]:
    """Have OpenSSL read no authorities for mail without TLS: apprise reads them for each mail, which takes 45 ms.

    OpenSSL takes their file from the environment, so one message is sent at a time.
    """
    with _turn:
        before = os.environ.get("SSL_CERT_FILE")
        if not needed:
            os.environ["SSL_CERT_FILE"] = os.devnull
        try:
            yield
        finally:
            if not needed:
                del os.environ["SSL_CERT_FILE"]
                os.environ |= {} if before is None else {"SSL_CERT_FILE": before}


_log: Final = _Log()
_turn: Final = threading.Lock()


@functools.cache
def _apprise() -> ModuleType:
    try:
        import apprise  # noqa: PLC0415 - an optional dependency that takes 0.3 s
        import requests  # noqa: PLC0415 - it comes with apprise
    except ImportError:
        msg = "apprise, which sends notices, is not installed: run pip install 'apprise>=2.3,<3' where gua is"
        raise UsageError(msg) from None
    gc.enable()  # thousands of messages leave cycles; commands that are short collect none
    logger = logging.getLogger("apprise")
    logger.handlers[:] = [_log]
    # Each call of apprise makes a session, which has these hooks.
    setattr(requests.sessions, "default_hooks", lambda: {"response": [_log.answered]})  # noqa: B010 - not exported
    logger.propagate = False
    logger.setLevel(logging.DEBUG)
    warnings.filterwarnings("ignore", module="urllib3")  # of the site's own verify=no
    return apprise


@functools.cache
def _asset() -> Any:  # noqa: ANN401 - a class of an optional dependency
    """Return apprise's settings: no redirects, no threads of its own, no pictures from elsewhere."""
    names = {"app_id": "gua", "app_desc": "GPU usage audit", "app_url": "", "image_url_mask": "", "image_url_logo": ""}
    return _apprise().AppriseAsset(**names, language="en", http_redirects=False, async_mode=False, service_timeout=0)


def _service(url: str) -> Any:  # noqa: ANN401 - see _asset
    """Return apprise's service of a URL, ``None`` if it has none; connects to nothing."""
    return _apprise().Apprise.instantiate(url, asset=_asset())


# To find its server only: thousands of mails go to one server, and making a service takes 2 ms.
_server_service: Final = functools.lru_cache(maxsize=16)(_service)
