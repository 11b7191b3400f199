from __future__ import annotations

from pathlib import Path

import pytest

from gua.core.errors import UsageError
from gua.store.dsn import EmbeddedDsn, ServerDsn, parse_dsn, without_password

SECRET = "s3cr3t"  # noqa: S105 - what must not show


def server(**changes: object) -> ServerDsn:
    plain: dict[str, object] = {"host": "db", "port": 8123, "secure": False, "user": "default", "password": ""}
    return ServerDsn(**(plain | changes))  # type: ignore[arg-type] # a test's fields


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("clickhouse://db", server()),
        ("clickhouse://db/", server()),
        ("clickhouse://db:9999", server(port=9999)),
        ("clickhouses://db", server(port=8443, secure=True)),
        ("clickhouse://reader@db:8123", server(user="reader")),
        ("clickhouse://reader:a%2Fb%40c%3A%25@db", server(user="reader", password="a/b@c:%")),  # noqa: S106 - a test's own
        ("clickhouse://reader:@db", server(user="reader")),
        ("clickhouse://us%40er@db", server(user="us@er")),
        ("clickhouse://[::1]:8123", server(host="::1")),
        ("CLICKHOUSE://DB.Example", server(host="db.example")),
        ("chdb:///var/lib/gua", EmbeddedDsn(path=Path("/var/lib/gua"))),
        ("chdb:///var/lib/my%20store%20%231", EmbeddedDsn(path=Path("/var/lib/my store #1"))),
        ("chdb:///var/lib/my store", EmbeddedDsn(path=Path("/var/lib/my store"))),
    ],
)
def test_an_address_names_a_server_or_a_directory(text: str, expected: ServerDsn | EmbeddedDsn) -> None:
    assert parse_dsn(text) == expected


@pytest.mark.parametrize(
    "dsn",
    [
        EmbeddedDsn(path=Path("/var/lib/my store #1 50%")),
        server(),
        server(host="::1", port=1, secure=True, user="us@er:x/y"),
    ],
)
def test_a_printed_address_parses_to_the_same_address(dsn: ServerDsn | EmbeddedDsn) -> None:
    assert parse_dsn(str(dsn)) == dsn


def test_the_password_of_the_environment_counts_where_the_address_has_none() -> None:
    assert parse_dsn("clickhouse://u@db", password=SECRET) == server(user="u", password=SECRET)
    assert parse_dsn("clickhouse://u:own@db", password=SECRET) == server(user="u", password="own")  # noqa: S106 - ditto
    assert parse_dsn("clickhouse://u:@db", password=SECRET) == server(user="u", password="")


@pytest.mark.parametrize(
    "text",
    [
        "",
        "/var/lib/gua",
        "db:8123",
        "http://db:8123",
        "postgres://u:s3cr3t@db",
        "u:s3cr3t@db",
        "clickhouse://",
        "clickhouse://:8123",
        "clickhouse://u:s3cr3t@",
        "clickhouse://u:s3cr3t@db:port",
        "clickhouse://u:s3cr3t@db:65536",
        "clickhouse://u:s3cr3t@db/gua",
        "clickhouse://u:s3cr3t@db?database=gua",
        "clickhouse://u:s3cr3t@db#gua",
        "clickhouse://u:s3cr3t/x@db",
        "clickhouse://u:s3cr3t#x@db",
        "clickhouse://u:s3cr3t?x@db",
        "clickhouse://u:s3cr3t\u2100@db",
        "clickhouse://u:s3cr3t@[::1",
        "clickhouse:///db",
        "clickhouse:u:s3cr3t@db",
        "chdb://",
        "chdb:///",
        "chdb://relative/path",
        "chdb://u:s3cr3t@host/path",
        "chdb:relative",
        "chdb:///path?x=1",
        "chdb:///path%3Fx",
        "chdb:///path#x",
        "chdb:///pa%00th",
    ],
)
def test_an_invalid_address_is_refused_in_one_line_that_shows_the_formats(text: str) -> None:
    with pytest.raises(UsageError) as refused:
        parse_dsn(text)
    message = str(refused.value)
    assert "chdb:///" in message
    assert "\n" not in message
    assert SECRET not in message
    assert refused.value.__context__ is None or refused.value.__suppress_context__


def test_a_password_is_in_no_text_form() -> None:
    dsn = parse_dsn(f"clickhouse://u:{SECRET}@db")
    for text in (str(dsn), repr(dsn), f"{dsn}", f"{dsn!r}"):
        assert SECRET not in text
        assert "u" in text


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        (f"clickhouse://u:{SECRET}@db", "clickhouse://u@db:8123"),
        (f"clickhouses://u:{SECRET}@[::1]:9", "clickhouses://u@[::1]:9"),
        ("clickhouse://u@db", "clickhouse://u@db"),
        ("chdb:///a b", "chdb:///a b"),
        ("./store", "./store"),
    ],
)
def test_an_address_is_shown_as_it_was_written_but_for_its_password(text: str, shown: str) -> None:
    assert without_password(text) == shown
