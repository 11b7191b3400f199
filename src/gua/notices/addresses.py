"""From an owner to an address: by a template, a file or a command. Owners are untrusted, addresses are checked."""

import csv
import os
import re
import signal
import subprocess
import tomllib
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

from gua.core.errors import DataError, GuaError, UsageError
from gua.core.plaintext import quoted, safe
from gua.notices.bounded import bounded
from gua.state.named_file import read_named_file

COMMAND_SECONDS: Final = 10.0
HEADER: Final = ["owner", "address"]
_MOST_BYTES: Final = 4 * 2**20
_MOST_OUTPUT: Final = 1024
_LONGEST: Final = 254  # octets of a mail address, RFC 5321 with its erratum 1690
_OWNER: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._@+-]*", re.ASCII)
# Apprise splits and cuts addresses at the other characters: o'brien@example.org becomes brien@example.org.
_ADDRESS: Final = re.compile(r"[A-Za-z0-9._@+=~#!/:][A-Za-z0-9._@+=~#!/:-]*", re.ASCII)


class NotApplicableError(GuaError):
    """A notice has no such address or channel: a part of it is unknown, or cannot be in it. Nothing may be sent."""


AddressBook = Callable[[str | None], str]
"""Returns the address of an owner, ``None`` if unknown. Raises NotApplicableError with the reason if there is none."""


def no_addresses(_owner: str | None) -> str:
    """Raise NotApplicableError: the policy does not say how to find addresses."""
    raise NotApplicableError("the policy has no [addresses]")


def check_owner(owner: str | None) -> str:
    """Return an owner that may be put into an address, a URL or a command. Raises NotApplicableError."""
    if not owner:
        raise NotApplicableError("the owner is unknown")
    if not _OWNER.fullmatch(owner) or len(owner) > _LONGEST:
        raise NotApplicableError(f"owner {quoted(owner)} cannot be an address: only letters, digits and . _ @ + - can")
    return owner


def check_address(address: str) -> str:
    """Return a text that is one address: ASCII without separators, one ``@`` at most, at most 254 bytes.

    Raises NotApplicableError.
    """
    if not _ADDRESS.fullmatch(address) or ".." in address or len(address) > _LONGEST:
        allowed = f"letters, digits and . _ @ + - = ~ # ! / : are, up to {_LONGEST}"
        raise NotApplicableError(f"address {quoted(address)} has characters that are not allowed: {allowed}")
    if address.count("@") > 1 or address.endswith("@"):
        raise NotApplicableError(f"address {quoted(address)} is not one address")
    return address


def template_addresses(template: str) -> AddressBook:
    """Return addresses by a template such as ``{owner}@example.org``. Raises UsageError if it is none."""
    try:
        check_address(template.replace("{owner}", "x", 1) if "{owner}" in template else "")
    except NotApplicableError:
        raise UsageError(f"{quoted(template)} makes no address: write it as in {{owner}}@example.org") from None
    return lambda owner: check_address(template.replace("{owner}", check_owner(owner)))


def file_addresses(path: Path) -> AddressBook:
    """Return addresses from a CSV file with the header ``owner,address``, or a TOML file of ``owner = "address"``.

    Owners in it may have any characters. Raises DataError with the line or the owner for an invalid address and for a
    second one, UsageError if the path is no file, and UnavailableError if it cannot be read.
    """
    content = _read(path)
    addresses: dict[str, str] = {}
    for where, owner, address in _toml(path, content) if path.suffix == ".toml" else _csv(path, content):
        try:
            before = addresses.setdefault(owner, check_address(address))
        except NotApplicableError as error:
            raise DataError(f"{where}: {error}") from None
        if before != address:
            raise DataError(f"{where}: owner {quoted(owner)} has another address above")

    def find(owner: str | None) -> str:
        if not owner:
            return check_owner(owner)
        if owner not in addresses:
            raise NotApplicableError(f"owner {quoted(owner)} is not in the file of addresses")
        return addresses[owner]

    return find


def _read(path: Path) -> str:
    content, _ = read_named_file(path, _MOST_BYTES, "a CSV or TOML file of addresses")
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise DataError(f"{path}: byte {error.start} is not UTF-8 text: save it in UTF-8") from None


def _toml(path: Path, content: str) -> Iterator[tuple[str, str, str]]:
    try:
        table = tomllib.loads(content)
    except tomllib.TOMLDecodeError as error:
        raise DataError(f"{path}: is not TOML: {safe(str(error))}") from None
    for owner, address in table.items():
        where = f"{path}: {quoted(owner)}"
        if not isinstance(address, str):
            raise DataError(f'{where}: has no text as address: write it as in alice = "alice@example.org"')
        yield where, owner, address


def _csv(path: Path, content: str) -> Iterator[tuple[str, str, str]]:
    reader = csv.reader(content.splitlines(), strict=True)
    has_header = False
    try:
        for row in reader:
            cells = [cell.strip() for cell in row]
            where = f"{path}:{reader.line_num}"
            if any(cells) and has_header:
                if len(cells) != len(HEADER) or not cells[0]:
                    raise DataError(f"{where}: must have an owner and one address")
                yield where, cells[0], cells[1]
            elif any(cells):
                has_header = [cell.lower() for cell in cells] == HEADER
                if not has_header:
                    raise DataError(f"{where}: the header must be {','.join(HEADER)}")
    except csv.Error as error:
        raise DataError(f"{path}:{reader.line_num}: is not CSV ({error})") from None


def command_addresses(arguments: Sequence[str], *, seconds: float = COMMAND_SECONDS) -> AddressBook:
    """Return addresses by a command, started without a shell with the owner as last argument, for each owner once.

    It must print one line with one address within ``seconds``, at most 1 KiB.
    """
    results: dict[str, str | NotApplicableError] = {}

    def find(owner: str | None) -> str:
        checked = check_owner(owner)
        if checked not in results:
            try:
                results[checked] = check_address(_printed([*arguments, checked], seconds))
            except NotApplicableError as error:
                results[checked] = error
        result = results[checked]
        if isinstance(result, NotApplicableError):
            raise NotApplicableError(str(result))
        return result

    return find


def _printed(command: Sequence[str], seconds: float) -> str:
    """Return the single line that a command prints. Raises NotApplicableError."""
    name = f"the command {quoted(command[0])}"
    try:
        process = subprocess.Popen(  # noqa: S603 - the site's own command
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
    except (OSError, ValueError) as error:
        raise NotApplicableError(f"{name} cannot be started: {error}") from None

    def read() -> tuple[bytes, int]:
        content = process.stdout.read(_MOST_OUTPUT + 1) if process.stdout else b""
        return content, process.wait() if len(content) <= _MOST_OUTPUT else 0

    output = bounded(read, seconds)
    if process.poll() is None:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    if output is None:
        raise NotApplicableError(f"{name} gave no answer within {seconds:g} s")
    lines = output[0].decode("utf-8", "replace").splitlines()
    if output[1]:
        raise NotApplicableError(f"{name} ended with exit code {output[1]}")
    if len(lines) != 1 or len(output[0]) > _MOST_OUTPUT:
        raise NotApplicableError(f"{name} did not print one line with an address, of at most {_MOST_OUTPUT} bytes")
    return lines[0].strip()
