"""Endpoint settings: URL and the OTEL_EXPORTER_OTLP_* variables.

Specified in opentelemetry.io/docs/specs/otel/protocol/exporter; OTEL_EXPORTER_OTLP_METRICS_* take precedence.
"""

import re
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from pathlib import Path
from typing import Final, Literal
from urllib.parse import SplitResult, parse_qsl, quote, urlsplit, urlunsplit

from google.protobuf.message import DecodeError
from google.rpc.status_pb2 import Status
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceResponse

from gua.core.errors import UnavailableError, UsageError
from gua.core.plaintext import safe
from gua.otlp.resource import parse_pairs
from gua.state.enrollment import Enrollment

_MAX_REASON: Final = 200
_MAX_CHARACTERS: Final = 4 * _MAX_REASON


@dataclass(frozen=True, slots=True)
class Acceptance:
    """An accepted request, except ``rejected_points`` of its points; ``reason`` is the endpoint's message."""

    rejected_points: int = 0
    reason: str = ""


def parse_acceptance(body: bytes) -> Acceptance:
    """Return the partial success of an ExportMetricsServiceResponse; an empty Acceptance for any other body."""
    try:
        partial = ExportMetricsServiceResponse.FromString(body).partial_success
    except DecodeError:
        return Acceptance()
    return Acceptance(max(partial.rejected_data_points, 0), _line(partial.error_message))


def parse_reason(body: bytes, *, without: Callable[[str], str] = str) -> str:
    """Return the message of a ``google.rpc.Status``, or a short plain text; empty for anything else, such as HTML.

    ``without`` removes secrets from the whole message before it is cut to 200 characters.
    """
    try:
        return _line(without(Status.FromString(body).message))
    except DecodeError:
        return "" if b"<" in body else _line(without(body.decode(errors="replace")))


def parse_retry_after(value: str | None) -> float | None:
    """Return the seconds of a Retry-After header: a number or a date (RFC 9110, 10.2.3). ``None`` if unusable."""
    if not value:
        return None
    if value.isascii() and value.isdigit():
        return float(value)
    try:
        return max(parsedate_to_datetime(value).timestamp() - time.time(), 0.0)
    except (ValueError, OverflowError):
        return None


def _line(message: str) -> str:
    """Return the message as one line that is safe to print on a terminal."""
    return safe(message[:_MAX_CHARACTERS], _MAX_REASON)


Protocol = Literal["http/protobuf", "grpc"]
Compression = Literal["gzip", "deflate", "none"]

_TIMEOUT_SECONDS: Final = 10.0
_LONGEST_TIMEOUT_MS: Final = 3_600_000
_SHORTEST_SECRET: Final = 4
_COMPRESSIONS: Final[dict[Protocol, tuple[Compression, ...]]] = {
    "http/protobuf": ("gzip", "deflate", "none"),
    "grpc": ("gzip", "none"),
}
# RFC 9110, 5.6.2, and gRPC's subset. gRPC expects binary values for ``-bin`` names, which variables cannot have.
_HTTP_HEADER: Final = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_GRPC_HEADER: Final = re.compile(r"(?!grpc-)[0-9a-z_.-]+(?<!-bin)")


@dataclass(frozen=True, kw_only=True, slots=True)
class Settings:
    """Settings of one endpoint. ``url`` is the URL to post to, or scheme, host and port for gRPC.

    Header names are lower case. ``enrolled`` means that the token came from ``gua enroll``.
    """

    protocol: Protocol
    url: str
    headers: Mapping[str, str]
    timeout_seconds: float
    compression: Compression
    certificate: Path | None
    client_certificate: Path | None
    client_key: Path | None
    enrolled: bool = False

    @property
    def credentials_remedy(self) -> str:
        """Remedy if the endpoint rejects the credentials."""
        if self.enrolled:
            return "it does not accept the token: get one that may write there, and run gua enroll again"
        return "set OTEL_EXPORTER_OTLP_HEADERS to what it requires (authorization=Bearer%20...)"

    @property
    def shown(self) -> str:
        """URL for display, without its query, which may contain a key."""
        return self.url.partition("?")[0]

    def without_secrets(self, text: str) -> str:
        """Return an endpoint's message with credentials replaced by ``***``, as every user may read the status."""
        query = parse_qsl(urlsplit(self.url).query)
        for value in (*self.headers.values(), *(value for _, value in query)):
            # A header may be a scheme and a credential. Values under 4 characters, as tenant numbers, are public.
            for secret in (value, *value.split()[1:]):
                if len(secret) >= _SHORTEST_SECRET:
                    text = text.replace(secret, "***").replace(quote(secret, safe=""), "***")
        return text

    @property
    def secure(self) -> bool:
        """Whether the connection uses TLS."""
        return self.url.startswith("https:")

    @property
    def other_protocol(self) -> str:
        """Hint for an endpoint that seems to use the other protocol."""
        if self.protocol == "grpc":
            return "; OTLP over HTTP has 4318, and OTEL_EXPORTER_OTLP_PROTOCOL=http/protobuf speaks it"
        return "; OTLP over gRPC has 4317, and OTEL_EXPORTER_OTLP_PROTOCOL=grpc speaks it"

    @property
    def hint(self) -> str:
        """``other_protocol`` if the port is the other protocol's default, else empty."""
        port = urlsplit(self.url).port
        return self.other_protocol if port == (4318 if self.protocol == "grpc" else 4317) else ""

    def untrusted(self, why: str) -> UnavailableError:
        """Return the error for a certificate that is not trusted."""
        return UnavailableError(
            f"{self.shown}: its certificate is not trusted ({why}): "
            "set OTEL_EXPORTER_OTLP_CERTIFICATE to the certificate of its authority, or correct the host name"
        )

    def tls_failed(self, why: str, *, client_certificate: bool) -> UnavailableError:
        """Return the error for a failed TLS handshake, which may be due to a missing ``client_certificate``."""
        if not client_certificate:
            return UnavailableError(f"{self.shown}: TLS failed ({why}): does it speak https?{self.hint}")
        return UnavailableError(
            f"{self.shown} wants a client certificate ({why}): "
            "set OTEL_EXPORTER_OTLP_CLIENT_CERTIFICATE and OTEL_EXPORTER_OTLP_CLIENT_KEY"
        )

    @property
    def client_hint(self) -> str:
        """Hint if the server closed the connection: with TLS 1.3 that may mean a missing client certificate."""
        if not self.secure or self.client_certificate:
            return ""
        return ", and whether it wants a client certificate (OTEL_EXPORTER_OTLP_CLIENT_CERTIFICATE)"


def configured_endpoint(environ: Mapping[str, str]) -> str | None:
    """Return OTEL_EXPORTER_OTLP_METRICS_ENDPOINT as it is set, else the URL from OTEL_EXPORTER_OTLP_ENDPOINT.

    For HTTP, ``/v1/metrics`` is appended to the latter, as OpenTelemetry specifies. ``None`` if neither is set.
    Raises :class:`UsageError` for an unsupported protocol.
    """
    own = environ.get("OTEL_EXPORTER_OTLP_METRICS_ENDPOINT", "").strip()
    if own:
        return own
    shared = environ.get("OTEL_EXPORTER_OTLP_ENDPOINT", "").strip()
    if not shared or protocol(environ) == "grpc":
        return shared or None
    base, question_mark, query = shared.partition("?")
    return f"{base.rstrip('/')}/v1/metrics{question_mark}{query}"


def absolute_files(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the variables for certificates and keys that are set, as absolute paths (the directory may change)."""
    variables = [
        f"OTEL_EXPORTER_OTLP_{form}{name}"
        for form in ("", "METRICS_")
        for name in ("CERTIFICATE", "CLIENT_CERTIFICATE", "CLIENT_KEY")
    ]
    return {name: str(Path(path).absolute()) for name in variables if (path := environ.get(name, "").strip())}


def read_settings(url: str | None, environ: Mapping[str, str], enrollment: Enrollment | None = None) -> Settings:
    """Return the settings for ``url``, or for the environment's endpoint without one.

    An enrollment's protocol, token and certificate take precedence over the environment's.

    Raises :class:`UsageError` for an unusable value, with the variable's name.
    """
    url = url or configured_endpoint(environ)
    if not url:
        raise UsageError("no endpoint is named: give --endpoint URL, or set OTEL_EXPORTER_OTLP_ENDPOINT")
    chosen: Protocol = protocol(environ) if enrollment is None else known_protocol(enrollment.protocol)
    if chosen == "grpc":
        insecure = _variable(environ, "INSECURE")[1].lower() == "true"
        # "http" means no TLS, as does a bare host:port with "insecure". A path is dropped, as gRPC has none.
        bare = "://" not in url
        parts = _parts(f"{'http' if insecure else 'https'}://{url}" if bare else url)
        port = parts.port or (None if bare else {"http": 80, "https": 443}[parts.scheme])
        if port is None:
            raise UsageError(f"{url!r} names no port: gRPC needs one, as in http://localhost:4317")
        host = f"[{parts.hostname}]" if ":" in (parts.hostname or "") else parts.hostname
        target = f"{parts.scheme}://{host}:{port}"
    elif url == environ.get("OTEL_EXPORTER_OTLP_METRICS_ENDPOINT", "").strip():
        target = urlunsplit(_parts(url))
    else:
        target = metrics_url(url)
    # RFC 6750, 2.1
    token = {} if enrollment is None else {"authorization": f"Bearer {enrollment.token}"}
    stored = Path(enrollment.certificate) if enrollment is not None and enrollment.certificate else None
    return Settings(
        protocol=chosen,
        url=target,
        headers=headers(environ, chosen) | token,
        timeout_seconds=timeout_seconds(environ),
        compression=_compression(environ, chosen),
        certificate=stored or _path(environ, "CERTIFICATE"),
        client_certificate=_path(environ, "CLIENT_CERTIFICATE"),
        client_key=_path(environ, "CLIENT_KEY"),
        enrolled=enrollment is not None,
    )


def protocol(environ: Mapping[str, str]) -> Protocol:
    """Return OTEL_EXPORTER_OTLP_PROTOCOL, ``http/protobuf`` if unset. Raises :class:`UsageError` if unsupported."""
    variable, text = _variable(environ, "PROTOCOL")
    return known_protocol(text.lower(), f"{variable} is {text!r}")


def known_protocol(name: str, what: str = "the enrollment's protocol is unknown") -> Protocol:
    """Return the protocol of this name (``""`` is HTTP). Raises :class:`UsageError`, beginning with ``what``."""
    protocols: dict[str, Protocol] = {"": "http/protobuf", "http/protobuf": "http/protobuf", "grpc": "grpc"}
    if name not in protocols:
        raise UsageError(f"{what}: set it to http/protobuf or grpc, no other protocol is spoken")
    return protocols[name]


def metrics_url(url: str) -> str:
    """Return the URL to post to (path /v1/metrics by default). Raises :class:`UsageError` for no valid http(s) URL."""
    parts = _parts(url)
    return urlunsplit(parts._replace(path="/v1/metrics")) if parts.path in ("", "/") else url


def headers(environ: Mapping[str, str], chosen: Protocol) -> dict[str, str]:
    """Return the user's headers, with lower-case names. Raises :class:`UsageError` for an invalid header."""
    variable, _ = _variable(environ, "HEADERS")
    allowed = _GRPC_HEADER if chosen == "grpc" else _HTTP_HEADER
    pairs = {key.lower(): value for key, value in parse_pairs(variable, environ).items()}
    for key, value in pairs.items():
        if not allowed.fullmatch(key) or not value.isprintable() or not value.isascii():
            raise UsageError(f"{variable}: {key!r} cannot be sent as a header: correct or unset it")
    return pairs


def timeout_seconds(environ: Mapping[str, str]) -> float:
    """Return OTEL_EXPORTER_OTLP_TIMEOUT (milliseconds, as OpenTelemetry specifies) in seconds; 10 if unset.

    Raises :class:`UsageError` unless it is a whole number of up to one hour.
    """
    variable, text = _variable(environ, "TIMEOUT")
    if not text:
        return _TIMEOUT_SECONDS
    if not text.isascii() or not text.isdigit() or not 0 < int(text[:9]) <= _LONGEST_TIMEOUT_MS or len(text) > 9:
        raise UsageError(f"{variable} is {text!r}: give a whole number of milliseconds up to an hour, as in 10000")
    return int(text) / 1000


def _variable(environ: Mapping[str, str], name: str) -> tuple[str, str]:
    """Return the variable in effect (the METRICS one before the general one) and its value; ``""`` if unset."""
    general = f"OTEL_EXPORTER_OTLP_{name}"
    for variable in (f"OTEL_EXPORTER_OTLP_METRICS_{name}", general):
        if text := environ.get(variable, "").strip():
            return variable, text
    return general, ""


def _compression(environ: Mapping[str, str], chosen: Protocol) -> Compression:
    variable, text = _variable(environ, "COMPRESSION")
    for known in _COMPRESSIONS[chosen]:
        if (text.lower() or "gzip") == known:
            return known
    msg = f"{variable} is {text!r}: set it to {' or '.join(_COMPRESSIONS[chosen])}, that is what {chosen} has"
    raise UsageError(msg)


def _path(environ: Mapping[str, str], name: str) -> Path | None:
    _, text = _variable(environ, name)
    return Path(text) if text else None


def _parts(url: str) -> SplitResult:
    try:
        parts = urlsplit(url)
        usable = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        usable = False
    else:
        if parts.username is not None or parts.password is not None:
            msg = "the endpoint's URL holds a user or password: put them into OTEL_EXPORTER_OTLP_HEADERS instead"
            raise UsageError(msg)
    if not usable or not url.isprintable() or any(character.isspace() for character in url):
        raise UsageError(f"{url!r} is not an endpoint: give an http(s) URL, as in http://localhost:4318")
    return parts


def check_files(settings: Settings) -> None:
    """Raise :class:`UsageError` unless certificates and key are readable, valid, and match each other.

    Called before anything is sent, as the transports' own errors for bad files are unclear.
    """
    if settings.client_key and not settings.client_certificate:
        raise UsageError("OTEL_EXPORTER_OTLP_CLIENT_KEY is set without OTEL_EXPORTER_OTLP_CLIENT_CERTIFICATE: set both")
    import ssl  # noqa: PLC0415 - 4 MB, needed only with TLS

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    if path := settings.certificate:
        _require_readable(path, "CERTIFICATE")
        try:
            context.load_verify_locations(path)
        except ssl.SSLError:
            msg = f"OTEL_EXPORTER_OTLP_CERTIFICATE: {path} holds no certificate in PEM format: name the authority's"
            raise UsageError(msg) from None
    if path := settings.client_certificate:
        _require_readable(path, "CLIENT_CERTIFICATE")
        if settings.client_key:
            _require_readable(settings.client_key, "CLIENT_KEY")
        try:
            context.load_cert_chain(path, settings.client_key, password="")
        except (ssl.SSLError, ValueError):
            raise UsageError(
                f"{path} and {settings.client_key or path} are no client certificate and key that belong together, "
                "in PEM format and without a passphrase: see OTEL_EXPORTER_OTLP_CLIENT_CERTIFICATE and "
                "OTEL_EXPORTER_OTLP_CLIENT_KEY"
            ) from None


def _require_readable(path: Path, name: str) -> None:
    try:
        path.read_bytes()
    except OSError as error:
        msg = f"OTEL_EXPORTER_OTLP_{name}: cannot read {path} ({error.strerror}): correct or unset it"
        raise UsageError(msg) from None
