"""Client of Prometheus' HTTP API, for Prometheus, Thanos, Mimir and VictoriaMetrics.

Documented at https://prometheus.io/docs/prometheus/latest/querying/api/.
"""

from __future__ import annotations

import json
import re
import ssl
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlencode, urlsplit, urlunsplit

import urllib3
from urllib3.util.ssl_ import create_urllib3_context

from gua.core.errors import DataError, TransientError, UnavailableError, UsageError
from gua.core.plaintext import safe

MOST_AT_ONCE: Final = 2
"""Queries that one import runs at the same time: the server also evaluates alerts and serves dashboards."""
_MOST_BYTES: Final = 128 * 2**20
_LONGEST_REASON: Final = 300
_HEADER: Final = re.compile(r"([!#$%&'*+.^_`|~0-9A-Za-z-]+)\s*[:=]\s*(.*)", re.DOTALL)
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
    timeout_seconds: float = 130.0

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
    ) -> Access:
        """Return the access for options. Raises UsageError for a URL or header that cannot be used."""
        parts = urlsplit(url if "://" in url else f"http://{url}")
        if parts.scheme not in {"http", "https"} or not parts.hostname:
            raise UsageError(f"{url!r} is no URL of a Prometheus: give it as in http://prometheus.example:9090")
        if parts.username is not None or parts.password is not None:
            msg = "the URL has a user name, which others can read in process lists: use --user and --password-file"
            raise UsageError(msg)
        every: dict[str, str] = {}
        for header in headers:
            matched = _HEADER.fullmatch(header)
            if matched is None or not matched[2].isprintable():
                raise UsageError(
                    f"--header {header.partition(':')[0]!r} is no header: write it as in X-Scope-OrgID:team"
                )
            every[matched[1]] = matched[2]
        if token is not None:
            every["Authorization"] = f"Bearer {token}"
        elif user is not None:
            try:
                every |= urllib3.make_headers(basic_auth=f"{user}:{password or ''}")
            except UnicodeEncodeError:
                raise UsageError("--user or its password has characters outside Latin-1") from None
        path = parts.path.rstrip("/").removesuffix("/api/v1/query").removesuffix("/api/v1").removesuffix("/graph")
        clean = urlunsplit((parts.scheme, parts.netloc, path, "", ""))
        return cls(
            url=clean,
            headers=every,
            ca_file=ca_file,
            client_certificate=client_certificate,
            client_key=client_key,
        )


@dataclass(slots=True)
class Traffic:
    """Queries sent, answered bytes and the largest answer [bytes], and the summed time of waiting for answers [s]."""

    queries: int = 0
    bytes: int = 0
    largest: int = 0
    seconds: float = 0.0


class Client:
    """Sends queries; callable from several threads. ``traffic`` counts, ``warnings`` are what the server warned of."""

    def __init__(self, access: Access, *, sleep: Callable[[float], object] = time.sleep) -> None:
        """Prepare connections; opens none. Raises UnavailableError for certificates that cannot be read."""
        self.url = access.url
        self.traffic = Traffic()
        self.warnings: set[str] = set()
        self._access = access
        self._sleep = sleep
        self._lock = threading.Lock()
        self._slots = threading.BoundedSemaphore(MOST_AT_ONCE)
        options: dict[str, Any] = {"maxsize": MOST_AT_ONCE, "retries": False}
        if access.url.startswith("https:"):
            options["ssl_context"] = _tls(access)
        self._pool = urllib3.PoolManager(**options)

    def close(self) -> None:
        """Close the connections."""
        self._pool.clear()

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
        if not isinstance(data, list):
            raise self._unlike("a list of series")
        return [one for one in data if isinstance(one, dict)]

    def metric_names(self, start_ms: int, end_ms: int) -> list[str]:
        """Return the names of all metrics with samples between two times [Unix ms]."""
        data = self._get("label/__name__/values", {"start": _seconds(start_ms), "end": _seconds(end_ms)})
        if not isinstance(data, list):
            raise self._unlike("a list of metric names")
        return [str(name) for name in data]

    def _get(self, path: str, parameters: Mapping[str, str] | Sequence[tuple[str, str]]) -> Any:  # noqa: ANN401 - JSON
        pairs = [*(parameters.items() if isinstance(parameters, Mapping) else parameters), *_PARAMETERS.items()]
        url = f"{self.url}/api/v1/{path}?{urlencode(pairs)}"
        for pause in (*_PAUSES_SECONDS, None):
            status, headers, body = self._exchange(url)
            if status in _BUSY and not (status != _BUSY[0] and _TOO_MUCH.search(_reason(body))):
                if pause is None:
                    raise TransientError(f"{self.url} answered {status} {len(_PAUSES_SECONDS) + 1} times: it is busy")
                self._sleep(_retry_after(headers) or pause)
                continue
            if status == 0:
                if pause is None or pause > _PAUSES_SECONDS[2]:
                    raise TransientError(f"{self.url}: {body.decode()}")
                self._sleep(pause)
                continue
            return self._data(status, str(headers.get("content-type", "")), body)
        raise AssertionError

    def _exchange(self, url: str) -> tuple[int, Mapping[str, str], bytes]:
        """Return status, headers and body; status 0 and the reason for a connection that failed in between.

        Raises TooMuchError for an answer that is too long or late, UnavailableError for a certificate or address.
        """
        access = self._access
        headers = {**access.headers, "Accept": "application/json", "Accept-Encoding": "gzip", "User-Agent": "gua"}
        with self._slots:
            begin = time.monotonic()
            try:
                answer = self._pool.request(
                    "GET",
                    url,
                    headers=headers,
                    redirect=False,
                    preload_content=False,
                    timeout=urllib3.Timeout(connect=10, read=access.timeout_seconds),
                )
                body = answer.read(_MOST_BYTES + 1, decode_content=True)
                answer.release_conn() if len(body) <= _MOST_BYTES else answer.close()
            except urllib3.exceptions.SSLError as error:
                why = safe(str(error.args[0] if error.args else error), _LONGEST_REASON)
                raise UnavailableError(f"{self.url}: TLS failed ({why}): see --ca-file and --client-cert") from None
            except urllib3.exceptions.ReadTimeoutError:
                raise TooMuchError(f"no answer within {access.timeout_seconds:g} s") from None
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

    def _data(self, status: int, content_type: str, body: bytes) -> Any:  # noqa: ANN401 - JSON
        """Return the data of an answer. Raises as the status and the body say."""
        if 300 <= status < 400:
            raise UnavailableError(f"{self.url} redirects, as login pages do: give the URL of Prometheus itself")
        if status in {401, 403}:
            msg = f"{self.url} answered {status}: give credentials that may query (--token-file, or --user)"
            raise UnavailableError(msg)
        try:
            answer = json.loads(body)
        except ValueError:
            answer = None
        if not isinstance(answer, dict) or "status" not in answer:
            raise self._no_api(status, content_type, body)
        if answer.get("status") == "success" and "data" in answer:
            warnings = answer.get("warnings") or ()
            self.warnings.update(safe(str(one), _LONGEST_REASON) for one in warnings)
            return answer["data"]
        why = safe(str(answer.get("error") or "no reason given"), _LONGEST_REASON)
        if status in {413, 414, 422, 500, 503, 504} and _TOO_MUCH.search(why):
            raise TooMuchError(why)
        if status == 404:
            raise self._no_api(status, content_type, body)
        raise UnavailableError(f"{self.url} refused a query ({status}): {why}")

    def _no_api(self, status: int, content_type: str, body: bytes) -> Exception:
        """Return the error for an answer that Prometheus' API does not give."""
        if status == 504 or (status == 413 and body):
            return TooMuchError(f"a proxy answered {status}")
        if status >= 500:
            return TransientError(f"{self.url} answered {status}: see its log, and that of proxies before it")
        begin = body[:4096].lower()
        kind = next((name for name in ("Grafana", "Alertmanager") if name.lower().encode() in begin), None)
        if kind is None and ("html" in content_type or b"<html" in begin):
            kind = "a web page"
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
            context.load_cert_chain(access.client_certificate, access.client_key)
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
    try:
        return min(max(float(headers.get("retry-after", "")), 0.1), _LONGEST_PAUSE_SECONDS)
    except ValueError:
        return None


def _series(data: object, url: str) -> list[dict[str, Any]]:
    """Return the result of a query. Raises DataError for data that no version of Prometheus sends."""
    result = data.get("result") if isinstance(data, dict) else None
    if not isinstance(result, list) or not all(
        isinstance(one, dict) and isinstance(one.get("metric"), dict) for one in result
    ):
        raise DataError(f"{url} answered a query without series: is it Prometheus?")
    return result
