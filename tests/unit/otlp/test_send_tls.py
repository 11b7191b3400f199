from __future__ import annotations

import contextlib
import gc
import os
import ssl
from dataclasses import dataclass
from pathlib import Path

import pytest
import trustme

from fakes.otlp import GrpcReceiver, HttpReceiver, Tls
from fakes.spooled import spooled
from gua.core.errors import TransientError, UnavailableError, UsageError
from gua.otlp.send import OtlpEndpoint, open_endpoint

RECEIVERS = {"http/protobuf": HttpReceiver, "grpc": GrpcReceiver}
CLIENT = "OTEL_EXPORTER_OTLP_CLIENT_CERTIFICATE"
KEY = "OTEL_EXPORTER_OTLP_CLIENT_KEY"
AUTHORITY = "OTEL_EXPORTER_OTLP_CERTIFICATE"


@dataclass
class Authority:
    folder: Path

    def __post_init__(self) -> None:
        self.folder.mkdir()
        self._ca = trustme.CA()
        self.certificate = self.folder / "ca.pem"
        self._ca.cert_pem.write_to_path(self.certificate)

    def issue(self, name: str) -> tuple[Path, Path]:
        """Return certificate and key, each in a file."""
        issued = self._ca.issue_cert(name)
        certificate, key = self.folder / f"{name}.pem", self.folder / f"{name}.key"
        issued.private_key_pem.write_to_path(key)
        certificate.write_bytes(b"".join(blob.bytes() for blob in issued.cert_chain_pems))
        return certificate, key

    def server(self, name: str = "127.0.0.1", clients: Path | None = None) -> Tls:
        certificate, key = self.issue(name)
        return Tls(certificate=certificate, key=key, clients=clients)


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path / "authority")


@pytest.fixture
def stranger(tmp_path: Path) -> Authority:
    return Authority(tmp_path / "stranger")


@pytest.fixture(params=RECEIVERS)
def protocol(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def endpoint(url: str, protocol: str, **paths: Path) -> OtlpEndpoint:
    environ = {"OTEL_EXPORTER_OTLP_PROTOCOL": protocol} | {name: str(path) for name, path in paths.items()}
    return open_endpoint(url, environ=environ, patience_seconds=0)


def failure(landing: OtlpEndpoint) -> str:
    with pytest.raises(UnavailableError) as raised:
        landing.land([spooled(1)])
    landing.close()
    assert not isinstance(raised.value, TransientError), raised.value
    assert "\n" not in str(raised.value)
    return str(raised.value)


def test_a_receiver_of_a_trusted_authority_is_sent_to(protocol: str, authority: Authority) -> None:
    with RECEIVERS[protocol](tls=authority.server()) as receiver:
        landing = endpoint(receiver.url, protocol, **{AUTHORITY: authority.certificate})
        assert landing.land([spooled(1)]) == []
        landing.close()
        assert receiver.requests[0].hosts == ["host-1"]


def test_the_authority_that_was_set_wins_over_the_one_of_other_programs(
    protocol: str, authority: Authority, stranger: Authority, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("REQUESTS_CA_BUNDLE", str(stranger.certificate))
    monkeypatch.setenv("GRPC_DEFAULT_SSL_ROOTS_FILE_PATH", str(stranger.certificate))
    with RECEIVERS[protocol](tls=authority.server()) as receiver:
        landing = endpoint(receiver.url, protocol, **{AUTHORITY: authority.certificate})
        assert landing.land([spooled(1)]) == []
        landing.close()


def test_an_authority_that_is_not_trusted_is_named_as_such(
    protocol: str, authority: Authority, stranger: Authority
) -> None:
    with RECEIVERS[protocol](tls=authority.server()) as receiver:
        message = failure(endpoint(receiver.url, protocol, **{AUTHORITY: stranger.certificate}))
        assert "its certificate is not trusted" in message
        assert AUTHORITY in message
        assert "its certificate is not trusted" in failure(endpoint(receiver.url, protocol))
        assert receiver.requests == []


def test_a_certificate_of_another_host_is_refused(protocol: str, authority: Authority) -> None:
    with RECEIVERS[protocol](tls=authority.server("other.example")) as receiver:
        message = failure(endpoint(receiver.url, protocol, **{AUTHORITY: authority.certificate}))
        assert "its certificate is not trusted" in message
        assert "correct the host name" in message
        assert receiver.requests == []


def test_a_client_certificate_is_shown_where_one_is_wanted(protocol: str, authority: Authority) -> None:
    certificate, key = authority.issue("node-1.example")
    with RECEIVERS[protocol](tls=authority.server(clients=authority.certificate)) as receiver:
        files = {AUTHORITY: authority.certificate, CLIENT: certificate, KEY: key}
        landing = endpoint(receiver.url, protocol, **files)
        assert landing.land([spooled(1)]) == []
        landing.close()
        assert len(receiver.requests) == 1


def test_certificate_and_key_may_be_in_one_file(protocol: str, authority: Authority, tmp_path: Path) -> None:
    both = tmp_path / "both.pem"
    both.write_bytes(b"".join(path.read_bytes() for path in authority.issue("node-1.example")))
    with RECEIVERS[protocol](tls=authority.server(clients=authority.certificate)) as receiver:
        landing = endpoint(receiver.url, protocol, **{AUTHORITY: authority.certificate, CLIENT: both})
        assert landing.land([spooled(1)]) == []
        landing.close()


def test_a_missing_client_certificate_is_reported(protocol: str, authority: Authority) -> None:
    with RECEIVERS[protocol](tls=authority.server(clients=authority.certificate)) as receiver:
        landing = endpoint(receiver.url, protocol, **{AUTHORITY: authority.certificate})
        with pytest.raises(UnavailableError, match=CLIENT):  # of either kind: the alert may come too late to be read
            landing.land([spooled(1)])
        landing.close()
        assert receiver.requests == []


def test_a_receiver_without_tls_is_distinguished_from_one_that_is_down(protocol: str) -> None:
    with RECEIVERS[protocol]() as receiver:
        url = receiver.url.replace("http:", "https:")
        assert "TLS failed" in failure(endpoint(url, protocol))


@pytest.mark.parametrize(
    ("content", "says"),
    [(None, r"cannot read .* \(No such file or directory\)"), ("no certificate", "holds no certificate in PEM format")],
)
def test_an_authority_that_cannot_be_read_is_wrong_usage(
    protocol: str, tmp_path: Path, content: str | None, says: str
) -> None:
    path = tmp_path / "ca.pem"
    if content:
        path.write_text(content)
    with pytest.raises(UsageError, match=f"OTEL_EXPORTER_OTLP_CERTIFICATE: .*{says}"):
        endpoint("https://localhost:4318", protocol, **{AUTHORITY: path})


def test_a_directory_is_no_certificate(protocol: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="Is a directory"):
        endpoint("https://localhost:4318", protocol, **{CLIENT: tmp_path})


def test_a_key_must_fit_its_certificate(protocol: str, authority: Authority) -> None:
    (certificate, _), (_, key) = authority.issue("a.example"), authority.issue("b.example")
    with pytest.raises(UsageError, match="belong together"):
        endpoint("https://localhost:4318", protocol, **{CLIENT: certificate, KEY: key})
    with pytest.raises(UsageError, match="CLIENT_KEY is set without"):
        endpoint("https://localhost:4318", protocol, **{KEY: key})


def test_a_key_with_a_passphrase_is_refused_without_a_prompt(protocol: str, tmp_path: Path) -> None:
    from cryptography.hazmat.primitives.serialization import (  # noqa: PLC0415 - this test alone
        BestAvailableEncryption,
        Encoding,
        PrivateFormat,
        load_pem_private_key,
    )

    certificate, key = Authority(tmp_path / "ca").issue("node-1.example")
    plain = load_pem_private_key(key.read_bytes(), None)
    key.write_bytes(plain.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(b"secret")))
    with pytest.raises(UsageError, match="without a passphrase"):
        endpoint("https://localhost:4318", protocol, **{CLIENT: certificate, KEY: key})


@pytest.mark.parametrize("trusted", [True, False])
def test_an_endpoint_reads_the_authorities_once(authority: Authority, trusted: bool) -> None:  # noqa: FBT001 - a case
    """The certificates of all authorities are a MB; an outage of a week is ten thousand attempts."""
    files = {AUTHORITY: authority.certificate} if trusted else {}
    with HttpReceiver(tls=authority.server()) as receiver:
        gc.collect()
        gc.disable()
        try:
            before = _contexts()
            landing = endpoint(receiver.url, "http/protobuf", **files)
            for _ in range(3):
                with contextlib.nullcontext() if trusted else pytest.raises(UnavailableError):
                    landing.land([spooled(1)])
            assert _contexts() == before + 1
            landing.close()
        finally:
            gc.enable()


def test_a_certificate_that_is_renewed_is_read_again(authority: Authority, stranger: Authority, tmp_path: Path) -> None:
    named = tmp_path / "authority.pem"
    named.write_bytes(stranger.certificate.read_bytes())
    with HttpReceiver(tls=authority.server()) as receiver:
        landing = endpoint(receiver.url, "http/protobuf", **{AUTHORITY: named})
        with pytest.raises(UnavailableError, match="is not trusted"):
            landing.land([spooled(1)])
        os.utime(named, (1, 1))
        named.write_bytes(authority.certificate.read_bytes())
        assert landing.land([spooled(1)]) == []


def _contexts() -> int:
    return sum(isinstance(thing, ssl.SSLContext) for thing in gc.get_objects())
