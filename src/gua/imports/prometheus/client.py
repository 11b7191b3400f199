"""Client of Prometheus' HTTP API, for Prometheus, Thanos, Mimir and VictoriaMetrics.

Documented at https://prometheus.io/docs/prometheus/latest/querying/api/.
"""

import re
import socket
import ssl
import threading
import time
import weakref
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from http.client import HTTPConnection
from pathlib import Path
from typing import Any, Final, Self
from urllib.parse import urlencode, urlsplit, urlunsplit

import urllib3
from urllib3.util.ssl_ import create_urllib3_context

from gua.core.errors import DataError, TransientError, UnavailableError, UsageError
from gua.core.plaintext import safe
from gua.core.untrusted import parsed_json

MOST_AT_ONCE: Final = 2
"""Queries that one import runs at the same time: the server also evaluates alerts and serves dashboards."""
_MOST_BYTES: Final = 128 * 2**20
_LONGEST_REASON: Final = 300
_LONGEST_URL: Final = 200
# Proxies refuse longer addresses; from there on parameters are the body of a POST, which every such server takes.
_LONGEST_GET: Final = 4_000
_FIRST_ANSWER_SECONDS: Final = 30.0
_ANSWER_SECONDS: Final = 130.0
_HEADER: Final = re.compile(r"([!#$%&'*+.^_`|~0-9A-Za-z-]+)\s*:\s*(.*)", re.DOTALL)
_DIGITS: Final = re.compile(r"[0-9]{1,9}")
_BUSY: Final = (429, 502, 503)
_PAUSES_SECONDS: Final = (1.0, 2.0, 4.0, 8.0, 16.0)
_LONGEST_PAUSE_SECONDS: Final = 60.0
# Status 503 is also a query that timed out, and 422 is every other failure of an evaluation.
_TOO_MUCH: Final = re.compile(
    r"too many|timed out|timeout|limit|exceed|maximum resolution|too large|maxUniqueTimeseries|maxSamples",
    re.IGNORECASE,
)
# Thanos: whole answers of raw samples. VictoriaMetrics: no cached answers. Others ignore these parameters.
_PARAMETERS: Final = {"partial_response": "false", "max_source_resolution": "0s", "nocache": "1"}


class TooMuchError(Exception):
    """The server cannot evaluate the query within its limits: the same for less time may succeed."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Access:
    """Address and credentials of a Prometheus. ``url`` has no credentials and no slash at its end."""

    url: str
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    ca_file: Path | None = None
    client_certificate: Path | None = None
    client_key: Path | None = None

    @classmethod
    def of(  # noqa: PLR0913 - keyword-only; one for each option
        cls,
        url: str,
        *,
        token: str | None = None,
        user: str | None = None,
        password: str | None = None,
        headers: Sequence[str] = (),
        ca_file: Path | None = None,
        client_certificate: Path | None = None,
        client_key: Path | None = None,
    ) -> Self:
        """Return the access for options. Raises UsageError for a URL or header that cannot be used."""
        clean = _clean(url)
        every: dict[str, str] = {}
        for place, header in enumerate(headers, start=1):
            matched = _HEADER.fullmatch(header)
            if matched is None:  # without its text, which may be a secret
                raise UsageError(f"--header number {place} is no header: write it as in X-Scope-OrgID:team")
            every[matched[1]] = _header_value(matched[2], f"--header {matched[1]}")
        if token is not None:
            every["Authorization"] = f"Bearer {_header_value(token, 'the token')}"
        elif user is not None:
            try:
                basic = urllib3.make_headers(basic_auth=f"{user}:{password or ''}")["authorization"]
                every["Authorization"] = basic
            except UnicodeEncodeError:
                raise UsageError("--user or its password has characters outside Latin-1") from None
        return cls(
            url=clean,
            headers=every,
            ca_file=ca_file,
            client_certificate=client_certificate,
            client_key=client_key,
        )


def _clean(url: str) -> str:
    """Return the URL with a scheme, without paths of the API, a query and a slash at its end. Raises UsageError."""
    try:
        parts = urlsplit(url if "://" in url else f"http://{url}")
        is_usable = parts.scheme in {"http", "https"} and bool(parts.hostname) and parts.port != 0
    except ValueError:
        is_usable = False
    if "@" in url.partition("://")[2 if "://" in url else 0].partition("/")[0]:
        msg = "the URL has a user name, which others can read in process lists: use --user and --password-file"
        raise UsageError(msg)
    if not is_usable or not url.isascii() or not url.isprintable() or " " in url:
        shown = safe(url.partition("?")[0], _LONGEST_URL)
        raise UsageError(f"{shown!r} is no URL of a Prometheus: give it as in http://prometheus.example:9090")
    path = parts.path.rstrip("/").removesuffix("/api/v1/query").removesuffix("/api/v1").removesuffix("/graph")
    return urlunsplit((parts.scheme, parts.netloc, path, "", ""))


def _header_value(text: str, name: str) -> str:
    """Return a value of a header. Raises UsageError, without the value, for one that HTTP cannot send."""
    if not text or not text.isprintable() or not text.isascii():
        raise UsageError(f"{name} has no value, or characters that no header can have: write it in printable ASCII")
    return text


@dataclass(slots=True)
class Traffic:
    """Queries sent, answered bytes and the largest answer [bytes], and the summed time of waiting for answers [s]."""

    queries: int = 0
    bytes: int = 0
    largest: int = 0
    seconds: float = 0.0


class Client:
    """Sends queries; callable from several threads. ``traffic`` counts, ``warnings`` are what the server warned of."""

    def __init__(self, access: Access, *, sleep: Callable[[float], object] | None = None) -> None:
        """Prepare connections; opens none. Raises UnavailableError for certificates that cannot be read."""
        self.url = access.url
        self._closed = threading.Event()
        self.traffic = Traffic()
        self.warnings: set[str] = set()
        self._access = access
        self._sleep = sleep or self._closed.wait
        self._lock = threading.Lock()
        self._slots = threading.BoundedSemaphore(MOST_AT_ONCE)
        options: dict[str, Any] = {"maxsize": MOST_AT_ONCE, "retries": False}
        if access.url.startswith("https:"):
            options["ssl_context"] = _tls(access)
        self._pool = urllib3.PoolManager(**options)
        self._connections: weakref.WeakSet[HTTPConnection] = weakref.WeakSet()
        pool = self._pool.connection_from_url(access.url)
        make = pool.ConnectionCls

        def remembered(*arguments: Any, **named: Any) -> Any:  # noqa: ANN401 - as urllib3 calls it
            made = make(*arguments, **named)
            self._connections.add(made)  # type: ignore[arg-type] # HTTPConnection or HTTPSConnection
            return made

        pool.ConnectionCls = remembered  # type: ignore[assignment] # urllib3 only calls it

    def close(self) -> None:
        """Close the connections, also those that wait for an answer in other threads."""
        self._closed.set()
        for one in list(self._connections):
            # Its thread may close it at the same time.
            with suppress(OSError, AttributeError):
                one.sock.shutdown(socket.SHUT_RDWR)
        self._pool.clear()

    def check(self) -> None:
        """Send the smallest query. Raises UnavailableError, DataError where no Prometheus answers it soon."""
        try:
            data = self._get("query", {"query": "vector(1)"}, timeout_seconds=_FIRST_ANSWER_SECONDS)
        except TooMuchError as error:
            msg = f"{self.url} does not answer the smallest query ({error}): check the URL and the server's load"
            raise UnavailableError(msg) from None
        _series(data, self.url)

    def query(self, expression: str, at_ms: int) -> list[dict[str, Any]]:
        """Return the series of an instant query at a time [Unix ms]; of a range selector with all raw samples."""
        data = self._get("query", {"query": expression, "time": _seconds(at_ms)})
        return _series(data, self.url)

    def query_range(self, expression: str, start_ms: int, end_ms: int, step_ms: int) -> list[dict[str, Any]]:
        """Return the series of a range query, evaluated from the start to the end, both included [Unix ms]."""
        bounds = {"start": _seconds(start_ms), "end": _seconds(end_ms), "step": _seconds(step_ms)}
        return _series(self._get("query_range", {"query": expression, **bounds}), self.url)

    def series(self, selectors: Sequence[str], start_ms: int, end_ms: int) -> list[dict[str, str]]:
        """Return the labels of all series of the selectors with samples between two times [Unix ms]."""
        bounds = [("start", _seconds(start_ms)), ("end", _seconds(end_ms))]
        data = self._get("series", [*(("match[]", one) for one in selectors), *bounds])
        if not isinstance(data, list) or not all(map(_is_labels, data)):
            raise self._unlike("a list of series")
        return data

    def metric_names(self, start_ms: int, end_ms: int) -> list[str]:
        """Return the names of all metrics with samples between two times [Unix ms]."""
        data = self._get("label/__name__/values", {"start": _seconds(start_ms), "end": _seconds(end_ms)})
        if not isinstance(data, list) or not all(isinstance(name, str) for name in data):
            raise self._unlike("a list of metric names")
        return data

    def _get(  # the data as JSON has it
        self,
        path: str,
        parameters: Mapping[str, str] | Sequence[tuple[str, str]],
        *,
        timeout_seconds: float = _ANSWER_SECONDS,
    ) -> Any:  # noqa: ANN401 - JSON
        pairs = [*(parameters.items() if isinstance(parameters, Mapping) else parameters), *_PARAMETERS.items()]
        form = urlencode(pairs, errors="replace")
        for pause in (*_PAUSES_SECONDS, None):
            status, headers, body = self._exchange(f"{self.url}/api/v1/{path}", form, timeout_seconds)
            if self._closed.is_set():
                raise UnavailableError(f"{self.url} was closed")
            if status in _BUSY and not (status != _BUSY[0] and _TOO_MUCH.search(_reason(body))):
                if pause is None:
                    raise TransientError(
                        f"{self.url} answered {status} {len(_PAUSES_SECONDS) + 1} times: it is busy, try later"
                    )
                self._sleep(_retry_after(headers) or pause)
                continue
            if status == 0:
                if pause is None or pause > _PAUSES_SECONDS[2]:
                    raise TransientError(f"{self.url}: {body.decode()}: see its log, and that of proxies before it")
                self._sleep(pause)
                continue
            return self._data(status, headers, body)
        raise AssertionError

    def _exchange(self, url: str, form: str, timeout_seconds: float) -> tuple[int, Mapping[str, str], bytes]:
        """Return status, headers and body; status 0 and the reason for a connection that failed in between.

        Raises TooMuchError for an answer that is too long or late, UnavailableError for a certificate or address.
        """
        headers = {**self._access.headers, "Accept": "application/json", "User-Agent": "gua"}
        is_long = len(form) > _LONGEST_GET
        if is_long:
            headers["Content-Type"] = "application/x-www-form-urlencoded"
        with self._slots:
            begin = time.monotonic()
            try:
                answer = self._pool.request(
                    "POST" if is_long else "GET",
                    url if is_long else f"{url}?{form}",
                    body=form if is_long else None,
                    headers=headers,
                    redirect=False,
                    preload_content=False,
                    timeout=urllib3.Timeout(connect=10, read=timeout_seconds),
                )
                body = answer.read(_MOST_BYTES + 1, decode_content=True)
                answer.release_conn() if len(body) <= _MOST_BYTES else answer.close()
            except urllib3.exceptions.SSLError as error:
                why = safe(str(error.args[0] if error.args else error), _LONGEST_REASON)
                raise UnavailableError(f"{self.url}: TLS failed ({why}): see --ca-file and --client-cert") from None
            except urllib3.exceptions.ReadTimeoutError:
                raise TooMuchError(f"no answer within {timeout_seconds:g} s") from None
            except (urllib3.exceptions.HTTPError, OSError) as error:
                return 0, {}, self._broken(error).encode()
            finally:
                with self._lock:
                    self.traffic.queries += 1
                    self.traffic.seconds += time.monotonic() - begin
        with self._lock:
            self.traffic.bytes += len(body)
            self.traffic.largest = max(self.traffic.largest, len(body))
        if len(body) > _MOST_BYTES:
            raise TooMuchError(f"an answer of more than {_MOST_BYTES >> 20} MiB")
        return answer.status, answer.headers, body

    def _broken(self, error: BaseException) -> str:
        """Return why a connection failed; raise UnavailableError if no second try can help."""
        if isinstance(error, urllib3.exceptions.NewConnectionError | urllib3.exceptions.ConnectTimeoutError):
            why = safe(str(error).rpartition(": ")[2], _LONGEST_REASON)
            raise UnavailableError(f"cannot reach {self.url} ({why}): check that it runs, and the URL") from None
        return f"the connection ended within an answer ({safe(type(error).__name__, _LONGEST_REASON)})"

    def _data(self, status: int, headers: Mapping[str, str], body: bytes) -> Any:  # noqa: ANN401 - JSON
        """Return the data of an answer. Raises as the status and the body say."""
        if 300 <= status < 400:
            to = safe(str(headers.get("location", "")).partition("?")[0], _LONGEST_URL)
            where = f" to {to}" if to and "@" not in to else ""
            raise UnavailableError(f"{self.url} redirects{where}, as login pages do: give the URL of Prometheus itself")
        if status in {401, 403} and b'"messageId"' in body[:4096]:
            msg = (
                f"{self.url} is Grafana ({status}): give the URL of Prometheus, or with --token-file that of Grafana's "
                "data source (https://GRAFANA/api/datasources/proxy/uid/UID)"
            )
            raise UnavailableError(msg)
        if status in {401, 403}:
            msg = f"{self.url} answered {status}: give credentials that may query (--token-file, or --user)"
            raise UnavailableError(msg)
        answer = parsed_json(body)
        if not isinstance(answer, dict) or "status" not in answer:
            raise self._no_api(status, headers, body)
        if answer.get("status") == "success":
            if "data" not in answer:
                raise self._unlike("data")
            warnings = answer.get("warnings")
            self.warnings.update(
                safe(str(one), _LONGEST_REASON) for one in (warnings if isinstance(warnings, list) else ())
            )
            return answer["data"]
        why = safe(str(answer.get("error") or "no reason given"), _LONGEST_REASON)
        if status in {400, 413, 414, 422, 500, 503, 504} and _TOO_MUCH.search(why):
            raise TooMuchError(why)
        if status == 404:
            raise self._no_api(status, headers, body)
        raise UnavailableError(f"{self.url} refused a query ({status}): {why}")

    def _no_api(self, status: int, headers: Mapping[str, str], body: bytes) -> Exception:
        """Return the error for an answer that Prometheus' API does not give."""
        if status in {413, 504}:
            return TooMuchError(f"a proxy answered {status}")
        if status >= 500:
            return TransientError(f"{self.url} answered {status}: see its log, and that of proxies before it")
        begin = body[:4096].lower()
        if status == 200 and begin.startswith(b'{"status":"success"'):
            return TransientError(f"{self.url} ended an answer in the middle: try again, or see proxies before it")
        kind = next((name for name in ("Grafana", "Alertmanager") if name.lower().encode() in begin), None)
        if kind is None and ("html" in str(headers.get("content-type", "")) or b"<html" in begin):
            kind = "a web page"
        if b"http request to an https server" in begin or b"http request was sent to https port" in begin:
            return UnavailableError(f"{self.url} speaks TLS: give the URL with https://, and --ca-file if it needs one")
        is_it = f"{kind or 'something else'}, not Prometheus' API"
        hint = "Mimir and some proxies have a path before /api/v1, as in https://mimir.example/prometheus"
        return UnavailableError(f"{self.url} ({status}) is {is_it}: give the URL of Prometheus; {hint}")

    def _unlike(self, expected: str) -> DataError:
        return DataError(f"{self.url} did not answer with {expected}: is it Prometheus?")


def _tls(access: Access) -> ssl.SSLContext:
    context = create_urllib3_context()
    try:
        if access.ca_file is None:
            context.load_default_certs()
        else:
            context.load_verify_locations(cafile=access.ca_file)
        if access.client_certificate is not None:
            # With a password, as OpenSSL would ask for one on the terminal: encrypted keys are refused.
            context.load_cert_chain(access.client_certificate, access.client_key, password="")
    except (OSError, ssl.SSLError) as error:
        files = ", ".join(str(path) for path in (access.ca_file, access.client_certificate, access.client_key) if path)
        raise UnavailableError(f"cannot read the certificates in {files} ({error.strerror or error})") from None
    return context


def _seconds(unix_ms: int) -> str:
    return f"{unix_ms // 1000}.{unix_ms % 1000:03d}"


def _reason(body: bytes) -> str:
    return body[:2000].decode(errors="replace")


def _retry_after(headers: Mapping[str, str]) -> float | None:
    """Return the pause [s] that the server requests, at most a minute; ``None`` without one in seconds."""
    text = headers.get("retry-after", "")
    return min(max(float(text), 0.1), _LONGEST_PAUSE_SECONDS) if _DIGITS.fullmatch(text) else None


def _series(data: object, url: str) -> list[dict[str, Any]]:
    """Return the result of a query. Raises DataError for data that no version of Prometheus sends."""
    result = data.get("result") if isinstance(data, dict) else None
    if not isinstance(result, list) or not all(
        isinstance(one, dict) and _is_labels(one.get("metric")) for one in result
    ):
        raise DataError(f"{url} answered a query without series: is it Prometheus?")
    return result


def _is_labels(labels: object) -> bool:
    return isinstance(labels, dict) and all(isinstance(value, str) for value in labels.values())
