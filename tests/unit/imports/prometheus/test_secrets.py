"""Credentials reach the server, and nothing else: no output, no error, no text of an object, no file."""

from __future__ import annotations

import base64
import os
import pty
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from fakes.patience import at_most
from fakes.prometheus import Asked, FakePrometheus, Reply, card, refusal
from gua.cli.main import main
from gua.cli.prometheus import AccessOptions
from gua.core.errors import UsageError
from gua.imports.prometheus.client import Access, Client

SECRET = "Zebra-9f3-secret"  # noqa: S105 - of a server of this test
BEGIN_MS = 1_700_000_000_000
COMMAND = Path(sys.executable).with_name("gua")
WINDOW = ("--since", "2023-11-14", "--until", "2023-11-15")


@pytest.fixture
def fake() -> Iterator[FakePrometheus]:
    with FakePrometheus(card(begin_ms=BEGIN_MS)) as one:
        yield one


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "secret"
    path.write_text(f"{SECRET}\n")
    return path


def basic(user: str, password: str) -> str:
    return f"Basic {base64.b64encode(f'{user}:{password}'.encode()).decode()}"


@pytest.mark.parametrize(
    ("options", "header", "value"),
    [
        (["--token-file", "FILE"], "Authorization", f"Bearer {SECRET}"),
        (["--user", "reader", "--password-file", "FILE"], "Authorization", basic("reader", SECRET)),
        (["--user", "reader"], "Authorization", basic("reader", "")),
        (["--header", "X-Scope-OrgID: team"], "X-Scope-OrgID", "team"),
        (["--header", "X-Key:@FILE"], "X-Key", SECRET),
        (["--header", "X-Key: @FILE", "--token-file", "FILE"], "Authorization", f"Bearer {SECRET}"),
    ],
)
def test_each_way_reaches_the_server_and_is_not_shown(
    options: list[str],
    header: str,
    value: str,
    fake: FakePrometheus,
    file: Path,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
) -> None:
    given = [one.replace("FILE", str(file)) for one in options]
    # The server repeats what it got, as some proxies do.
    fake.instead = lambda asked: refusal(422, "no tenant") if asked.path == "series" else None
    code = main(["audit", fake.url, *WINDOW, "--store", str(tmp_path / "store"), *given])
    said = capsys.readouterr()
    assert (code, said.err) == (3, f"gua: {fake.url} refused a query (422): no tenant\n")
    assert {asked.headers[header] for asked in fake.asked} == {value}
    assert SECRET not in said.out + said.err


@pytest.mark.engine
def test_a_whole_audit_leaves_no_secret_behind(
    fake: FakePrometheus,
    file: Path,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("GUA_HOME", str(tmp_path / "home"))
    options = ["--token-file", str(file), "--header", f"X-Key:@{file}"]
    assert main(["audit", fake.url, *WINDOW, *options]) == 0
    said = capsys.readouterr()
    assert "imported  20 card ticks of 1 card on 1 host (n1)" in said.err
    left = [path for path in (tmp_path / "home").rglob("*") if path.is_file()]
    assert left
    assert [path for path in left if SECRET.encode() in path.read_bytes()] == []
    assert SECRET not in said.out + said.err


@pytest.mark.parametrize(
    "url",
    [
        "http://reader:{}@prometheus.example:9090",
        "reader:{}@prometheus.example:9090",
        "ftp://reader:{}@prometheus.example",
        "http://{}@prometheus.example",
        "http://:{}@",
        "https://reader:{}@[::1",
    ],
)
def test_a_url_with_credentials_is_refused_and_not_repeated(url: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["audit", url.format(SECRET)]) == 2
    assert capsys.readouterr().err == (
        "gua: the URL has a user name, which others can read in process lists: use --user and --password-file\n"
    )


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        (f"ftp://prometheus.example/?token={SECRET}", "ftp://prometheus.example/"),
        ("http://", "http://"),
        ("http://[::1", "http://[::1"),
        ("http://prometheus.example:99999", "http://prometheus.example:99999"),
        ("http://prometheus.example:0", "http://prometheus.example:0"),
        ("http://prometheus .example", "http://prometheus .example"),
        ("http://prom\u0435theus.example", "http://prom\u0435theus.example"),
        ("", ""),
    ],
)
def test_an_invalid_url_is_reported(url: str, shown: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["audit", url]) == 2
    assert capsys.readouterr().err == (
        f"gua: {shown!r} is no URL of a Prometheus: give it as in http://prometheus.example:9090\n"
    )


@pytest.mark.parametrize(
    ("url", "kept"),
    [
        ("prometheus.example:9090/", "http://prometheus.example:9090"),
        ("https://mimir.example/prometheus/api/v1/query?query=up", "https://mimir.example/prometheus"),
        ("http://h:9090/graph?g0.expr=up", "http://h:9090"),
        ("http://[::1]:9090", "http://[::1]:9090"),
    ],
)
def test_the_path_of_a_copied_url_is_dropped(url: str, kept: str) -> None:
    assert Access.of(url).url == kept


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b"", "has no secret on a line of its own: write it there alone"),
        (b" \n\n", "has no secret on a line of its own: write it there alone"),
        (b"one\ntwo\n", "has no secret on a line of its own: write it there alone"),
        (b"a\0b", "has no secret on a line of its own: write it there alone"),
        (b"\x7fELF\xff\xfe", "cannot be read (no text): name a file with the secret"),
        (None, "cannot be read (No such file or directory): name a file with the secret"),
    ],
)
@pytest.mark.parametrize("option", ["--token-file {}", "--user reader --password-file {}", "--header X-Key:@{}"])
def test_a_file_without_a_secret_is_refused(
    option: str, content: bytes | None, why: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "secret"
    if content is not None:
        path.write_bytes(content)
    assert main(["audit", "http://127.0.0.1:1", *option.format(path).split()]) == 2
    assert capsys.readouterr().err == f"gua: {path} {why}\n"


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--header", f"Authorization Bearer {SECRET}"], "--header number 1 is no header"),
        (["--header", "A:b", "--header", f"Authorization=Bearer {SECRET}"], "--header number 2 is no header"),
        (["--header", SECRET], "--header number 1 is no header"),
        (["--header", f"X-Key:{SECRET}\r\nX-Other: 1"], "--header X-Key has no value, or characters"),
        (["--header", f"X-Key:{SECRET}\u0436"], "--header X-Key has no value, or characters"),
        (["--header", "X-Key:"], "--header X-Key has no value"),
        (["--user", "a", "--token-file", "FILE"], "--token-file and --user are two ways"),
        (["--password-file", "FILE"], "--password-file is of a user: give --user, too"),
        (["--client-cert", "FILE"], "--client-cert and --client-key go together: give both"),
    ],
)
def test_unusable_options_are_reported_without_their_value(
    options: list[str], said: str, file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["audit", "http://127.0.0.1:1", *(one.replace("FILE", str(file)) for one in options)]) == 2
    [line] = capsys.readouterr().err.splitlines()
    assert said in line
    assert SECRET not in line


def test_a_token_that_no_header_can_have_is_refused(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file.write_text(f"{SECRET}\u0436", encoding="utf-8")
    assert main(["audit", "http://127.0.0.1:1", "--token-file", str(file)]) == 2
    assert capsys.readouterr().err == (
        "gua: the token has no value, or characters that no header can have: write it in printable ASCII\n"
    )


def test_no_text_of_an_object_has_a_secret(file: Path) -> None:
    access = Access.of("http://h", token=SECRET, headers=[f"X-Key:{SECRET}"])
    client = Client(access)
    options = AccessOptions(header=[f"X-Key:{SECRET}"], token_file=file)
    for one in (access, client, options, vars(client)):
        assert SECRET not in repr(one)
    with pytest.raises(UsageError) as refused:
        Access.of(f"http://reader:{SECRET}@h", token=SECRET)
    assert SECRET not in repr(refused.value)


def test_an_encrypted_key_is_refused_without_a_prompt(tmp_path: Path) -> None:
    from cryptography.hazmat.primitives import serialization  # noqa: PLC0415
    from cryptography.hazmat.primitives.asymmetric import ec  # noqa: PLC0415

    key = ec.generate_private_key(ec.SECP256R1())
    path = tmp_path / "key.pem"
    path.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.BestAvailableEncryption(SECRET.encode()),
        )
    )
    import trustme  # noqa: PLC0415

    certificate = tmp_path / "certificate.pem"
    trustme.CA().issue_cert("client").cert_chain_pems[0].write_to_path(certificate)
    options = ["--client-cert", str(certificate), "--client-key", str(path)]
    # On a terminal of its own, where OpenSSL would prompt for the password.
    process, terminal = pty.fork()
    if not process:
        os.execv(COMMAND, [str(COMMAND), "audit", "https://127.0.0.1:1", *options])  # noqa: S606
    said = b""
    with at_most(60), suppress(OSError):  # the terminal ends with its program
        while b"\n" not in said:
            said += os.read(terminal, 4096)
    assert os.waitstatus_to_exitcode(os.waitpid(process, 0)[1]) == 3
    assert said.decode().startswith(f"gua: cannot read the certificates in {certificate}, {path} (")


def test_a_redirect_with_a_secret_is_not_repeated(fake: FakePrometheus, capsys: pytest.CaptureFixture[str]) -> None:
    def instead(_: Asked) -> Reply:
        return Reply(status=302, headers={"Location": f"https://reader:{SECRET}@sso.example/login?token={SECRET}"})

    fake.instead = instead
    assert main(["audit", fake.url]) == 3
    assert capsys.readouterr().err == (
        f"gua: {fake.url} redirects, as login pages do: give the URL of Prometheus itself\n"
    )
