"""From owners to addresses: templates, files and commands, with hostile owners."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from gua.core.errors import DataError, UnavailableError, UsageError
from gua.notices.addresses import (
    AddressBook,
    NotApplicableError,
    check_address,
    check_owner,
    command_addresses,
    file_addresses,
    template_addresses,
)
from servers.process import poll

HOSTILE_OWNERS = [
    "a&to=root",
    "a,root@example.org",
    "a root",
    "a\r\nBcc: root",
    "o'brien",
    "%2c",
    "${HOME}",
    "{address}",
    "-rf",
    "../etc",
    "a;id",
    "$(id)",
    "ä",
    "a" * 300,
]


def command(code: str, **options: float) -> AddressBook:
    return command_addresses([sys.executable, "-c", f"import sys; owner = sys.argv[1]\n{code}"], **options)


@pytest.mark.parametrize("owner", ["alice", "alice.b", "svc_gpu-2", "alice@EXAMPLE.ORG", "1005", "_x"])
def test_names_of_users_may_be_in_addresses(owner: str) -> None:
    assert check_owner(owner) == owner


@pytest.mark.parametrize("owner", HOSTILE_OWNERS)
def test_no_hostile_owner_gets_into_an_address(owner: str) -> None:
    with pytest.raises(NotApplicableError, match=r"^owner '.*' cannot be an address") as caught:
        template_addresses("{owner}@example.org")(owner)
    assert "\n" not in str(caught.value)
    with pytest.raises(NotApplicableError, match="cannot be an address"):
        command("print('never@example.org')")(owner)


@pytest.mark.parametrize("owner", [None, ""])
def test_an_unknown_owner_has_no_address(owner: str | None) -> None:
    for book in (template_addresses("{owner}@example.org"), command("print('never@example.org')")):
        with pytest.raises(NotApplicableError, match="the owner is unknown"):
            book(owner)


@pytest.mark.parametrize(
    "address", ["alice@example.org", "a+b=c@x.example.org", "@alice:example.org", "+4912345", "U0123"]
)
def test_an_address_is_one_recipient(address: str) -> None:
    assert check_address(address) == address


@pytest.mark.parametrize(
    "address",
    [
        "",
        "a@example.org,root@example.org",
        "a@example.org root@example.org",
        "a@example.org\nroot@example.org",
        "a@b@example.org",
        "Alice <a@example.org>",
        "o'brien@example.org",
        "a;root@example.org",
        "a%2Croot@example.org",
        "a@",
        "a\x00@example.org",
        "-oProxy@example.org",
        "a" * 250 + "@x.org",
    ],
)
def test_what_is_not_one_address_is_refused(address: str) -> None:
    with pytest.raises(NotApplicableError, match=r"^address '"):
        check_address(address)


def test_an_owner_with_a_domain_does_not_get_a_second_one() -> None:
    with pytest.raises(NotApplicableError, match="is not one address"):
        template_addresses("{owner}@example.org")("root@evil.example")


@pytest.mark.parametrize(
    "template", ["admin@example.org", "{owner}", "{owner}@{owner}", "{user}@example.org", "", "{owner}@a b"]
)
def test_a_template_has_the_owner_once(template: str) -> None:
    if template == "{owner}":
        assert template_addresses(template)("alice@example.org") == "alice@example.org"
        return
    with pytest.raises(UsageError, match="makes no address: write it as in"):
        template_addresses(template)


def test_a_file_has_addresses_of_owners_with_any_name(tmp_path: Path) -> None:
    path = tmp_path / "addresses.csv"
    path.write_text('\ufeffOwner,Address\n\nalice,alice@example.org\n"LAB\\bob, B.",bob@example.org\n', "utf-8")
    book = file_addresses(path)
    assert [book("alice"), book("LAB\\bob, B.")] == ["alice@example.org", "bob@example.org"]
    with pytest.raises(NotApplicableError, match="owner 'carol' is not in the file"):
        book("carol")
    with pytest.raises(NotApplicableError, match="the owner is unknown"):
        book(None)


def test_a_file_may_be_toml(tmp_path: Path) -> None:
    path = tmp_path / "addresses.toml"
    path.write_text('alice = "alice@example.org"\n"LAB\\\\bob" = "bob@example.org"\n')
    assert file_addresses(path)("LAB\\bob") == "bob@example.org"


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.csv", b"owner,address\nalice,a b\n", ":2: address 'a b' has characters"),
        ("a.csv", b"owner,address\nalice,a@x.org\nalice,b@x.org\n", ":3: owner 'alice' has another address above"),
        ("a.csv", b"owner,address\nalice\n", ":2: must have an owner and one address"),
        ("a.csv", b"owner,address\n,a@x.org\n", ":2: must have an owner and one address"),
        ("a.csv", b"alice,a@x.org\n", ":1: the header must be owner,address"),
        ("a.csv", b'owner,address\n"alice,a@x.org\n', "is not CSV"),
        ("a.csv", b"owner,address\n\xff,a@x.org\n", "byte 14 is not UTF-8 text"),
        ("a.csv", b"x" * (4 * 2**20 + 1), "is larger than 4 MiB"),
        ("a.toml", b"alice = 1\n", "'alice': has no text as address"),
        ("a.toml", b"[alice]\nx = 'y'\n", "'alice': has no text as address"),
        ("a.toml", b"alice\n", "is not TOML"),
        ("a.toml", b'alice = "a, b"\n', "'alice': address 'a, b' has characters"),
    ],
)
def test_a_wrong_file_is_refused_with_its_place(tmp_path: Path, name: str, content: bytes, message: str) -> None:
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(DataError) as caught:
        file_addresses(path)
    assert message in str(caught.value)
    assert str(path) in str(caught.value)


def test_a_missing_file_is_a_usage_error(tmp_path: Path) -> None:
    for path in (tmp_path / "none.csv", tmp_path):
        with pytest.raises(UsageError, match="give the path of a CSV or TOML file"):
            file_addresses(path)


def test_a_file_that_cannot_be_read_is_reported(tmp_path: Path) -> None:
    loop = tmp_path / "loop.csv"
    loop.symlink_to(loop)
    with pytest.raises(UnavailableError, match="cannot be read"):
        file_addresses(loop)


def test_a_command_gets_the_owner_as_its_last_argument() -> None:
    assert command("print(owner + '@example.org')")("alice") == "alice@example.org"


@pytest.mark.parametrize(
    ("code", "message"),
    [
        ("print('a@x.org'); print('b@x.org')", "did not print one line"),
        ("pass", "did not print one line"),
        ("print('a' * 5000)", "did not print one line with an address, of at most 1024 bytes"),
        ("print('a@x.org, b@x.org')", "has characters that are not allowed"),
        ("print('a@x.org'); sys.exit(3)", "ended with exit code 3"),
    ],
)
def test_a_command_must_print_one_address(code: str, message: str) -> None:
    with pytest.raises(NotApplicableError, match=message):
        command(code)("alice")


def test_a_command_that_hangs_is_ended_with_its_children(tmp_path: Path) -> None:
    pids = tmp_path / "pids"
    waiting = command_addresses(["sh", "-c", f"sleep 600 & echo $! >{pids}; sleep 600"], seconds=0.5)
    with pytest.raises(NotApplicableError, match=r"gave no answer within 0\.5 s"):
        waiting("alice")
    status = Path(f"/proc/{pids.read_text().strip()}/status")
    poll(lambda: not status.exists() or "\tZ" in status.read_text(), "the end of the command's child", seconds=20)


def test_a_command_that_is_missing_is_reported() -> None:
    with pytest.raises(NotApplicableError, match="cannot be started"):
        command_addresses(["/nonexistent/command"])("alice")


def test_a_command_is_run_once_for_each_owner_also_where_it_fails(tmp_path: Path) -> None:
    log = tmp_path / "log"
    book = command(f"open({str(log)!r}, 'a').write(owner + '\\n'); print(owner)\nif owner == 'bob': sys.exit(1)")
    attempts: list[Callable[[], str]] = [lambda: book("alice"), lambda: book("alice")]
    assert [each() for each in attempts] == ["alice", "alice"]
    for _ in range(2):
        with pytest.raises(NotApplicableError, match="exit code 1"):
            book("bob")
    assert log.read_text() == "alice\nbob\n"
