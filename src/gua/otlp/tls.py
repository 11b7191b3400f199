"""The files of TLS, looked at before anything is sent: the transports' own words for a bad one help nobody."""

from __future__ import annotations

import ssl
from pathlib import Path

from gua.core.errors import UsageError
from gua.otlp.endpoint import Settings

_PREFIX = "OTEL_EXPORTER_OTLP_"


def check_files(settings: Settings) -> None:
    """Raise :class:`UsageError` unless each certificate and key can be read, is one, and key and certificate fit."""
    if settings.client_key and not settings.client_certificate:
        msg = f"{_PREFIX}CLIENT_KEY is set without {_PREFIX}CLIENT_CERTIFICATE: set both"
        raise UsageError(msg)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    if path := settings.certificate:
        _read(path, "CERTIFICATE")
        try:
            context.load_verify_locations(path)
        except ssl.SSLError:
            msg = f"{_PREFIX}CERTIFICATE: {path} holds no certificate in PEM format: name the authority's"
            raise UsageError(msg) from None
    if path := settings.client_certificate:
        _read(path, "CLIENT_CERTIFICATE")
        if settings.client_key:
            _read(settings.client_key, "CLIENT_KEY")
        try:
            context.load_cert_chain(path, settings.client_key, password=_nobody_to_ask)
        except (ssl.SSLError, ValueError):
            msg = (
                f"{path} and {settings.client_key or path} are no client certificate and key that belong together, "
                f"in PEM format and without a passphrase: see {_PREFIX}CLIENT_CERTIFICATE and {_PREFIX}CLIENT_KEY"
            )
            raise UsageError(msg) from None


def _read(path: Path, name: str) -> None:
    try:
        path.read_bytes()
    except OSError as error:
        msg = f"{_PREFIX}{name}: cannot read {path} ({error.strerror}): correct or unset it"
        raise UsageError(msg) from None


def _nobody_to_ask() -> str:
    return ""
