"""clickhouse-connect client, embedded or for a server. Every failure becomes one of gua's errors."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from gua.core.errors import GuaError, TransientError, UnavailableError, UsageError
from gua.store.dsn import EmbeddedDsn, ServerDsn
from gua.store.engine import require_descriptors, staying_here, version_number, without_optional

if TYPE_CHECKING:
    from clickhouse_connect.driver.client import Client

_CODE = re.compile(r"Code: (\d+)|error code (\d+)", re.IGNORECASE)
_OBJECT = re.compile(r"(?:identifier|[Tt]able(?: function)?) [`'\"]?(gua(?:_report)?\.\w+)")
_LEAST_VERSION = (25, 8)
_NOISE = re.compile(
    r"Received ClickHouse exception, code: \d+, server response: |Code: \d+\. DB::Exception: |"
    r" \([A-Z_]+\)(?= |\Z)| \(version [^)]*\)| \(for url [^)]*\)"
)
_M_MMAP_THRESHOLD = -3
_BLOCK_BYTES = 128 * 2**10
_UNKNOWN_TABLE = 60
_UNKNOWN_OBJECT = {_UNKNOWN_TABLE, 81}
_REFUSED = {192, 193, 194, 516}
_READ_ONLY_USER = 164
_NO_RIGHT = {_READ_ONLY_USER, 497}
_NO_SPACE = 243
_READ_ONLY_TABLE = 242
_TOO_MUCH = {158, 159, 160, 241, 307, 396}
_BUSY = {159, 202, 209, 210, 241, _READ_ONLY_TABLE, _NO_SPACE, 319, 425}
_CONNECTION_FAILURES = ("Connection refused", "Name or service not known", "timed out", "CERTIFICATE_VERIFY_FAILED")
_ONE_QUERY = "query memory limit exceeded"


class QueryError(UnavailableError):
    """The engine rejected a statement. ``code`` is ClickHouse's error number, 0 if unknown."""

    def __init__(self, message: str, code: int) -> None:
        super().__init__(message)
        self.code = code

    @property
    def unknown_object(self) -> bool:
        """Whether a table or database does not exist."""
        return self.code in _UNKNOWN_OBJECT

    @property
    def no_right(self) -> bool:
        """Whether the user lacks the right for the statement."""
        return self.code in _NO_RIGHT

    @property
    def about_data(self) -> bool:
        """Whether the rows may be the cause: not rights, credentials, schema or connection."""
        return self.code not in {0, *_UNKNOWN_OBJECT, *_REFUSED, *_NO_RIGHT}


def connect(dsn: EmbeddedDsn | ServerDsn, *, data: str | None = None) -> Client:
    """Return a client; ``data`` is the embedded engine's directory. Raises UnavailableError, TransientError."""
    with without_optional():
        import clickhouse_connect  # noqa: PLC0415 - takes 0.2 s, which commands without a store save

    # It also logs the errors that it raises; without a handler Python would print them beside gua's one line.
    logging.getLogger("clickhouse_connect").addHandler(logging.NullHandler())
    with translated(dsn):
        if isinstance(dsn, EmbeddedDsn):
            require_descriptors(dsn)
            with staying_here():
                client: Client = clickhouse_connect.get_client(interface="chdb", path=data)
        else:
            give_back_blocks()
            client = clickhouse_connect.get_client(
                host=dsn.host,
                port=dsn.port,
                secure=dsn.secure,
                username=dsn.user,
                password=dsn.password,
                autogenerate_session_id=False,
                # In the body: proxies limit a request line to 8 kB, and a list of hosts may be a hundred times longer.
                form_encode_query_params=True,
                connect_timeout=10,
                send_receive_timeout=300,
            )
            try:
                check_version(dsn, str(client.server_version))
            except UnavailableError:
                client.close()
                raise
        return client


def give_back_blocks() -> None:
    """Make glibc return each freed block of 128 KiB or more to the system (``mallopt(3)``, ``M_MMAP_THRESHOLD``).

    By default glibc raises that threshold to the freed sizes, up to 32 MiB, and retains the memory of query results:
    a fifth of a report's memory at 10,000 cards. Does nothing with a C library without ``mallopt``.
    """
    import ctypes  # noqa: PLC0415 - the client imports it anyway

    set_option = getattr(ctypes.CDLL(None), "mallopt", None)
    if set_option is not None:
        set_option(_M_MMAP_THRESHOLD, _BLOCK_BYTES)


def check_version(dsn: ServerDsn, version: str) -> None:
    """Raise UnavailableError if the server is older than the shipped SQL supports."""
    if version_number(version) < _LEAST_VERSION:
        least = ".".join(map(str, _LEAST_VERSION))
        raise UnavailableError(f"{dsn} runs ClickHouse {version}, gua needs {least} or newer: upgrade the server")


@contextmanager
def translated(dsn: EmbeddedDsn | ServerDsn, *, of_user: bool = False) -> Iterator[None]:
    """Turn exceptions of clickhouse-connect into gua's errors: one line with the cause and the remedy.

    ``of_user``: the user wrote the statement, so messages are about its SQL.
    """
    from clickhouse_connect.driver.exceptions import Error  # noqa: PLC0415 - as in connect

    try:
        yield
    # The embedded engine raises RuntimeError if it lacks memory or threads.
    except (Error, MemoryError, OSError, RuntimeError) as error:
        text = " ".join(str(error).split()) or "not enough memory"
        match = _CODE.search(text)
        code = int(match.group(1) or match.group(2)) if match else 0
        raise (_of_statement if of_user else _error)(dsn, text, code) from None


def _of_statement(dsn: EmbeddedDsn | ServerDsn, text: str, code: int) -> GuaError:
    if code in _TOO_MUCH:
        return UsageError(f"the statement exceeds a limit ({_short(text)}): filter it, or aggregate in it")
    if code in _NO_RIGHT:
        return UnavailableError(f"{dsn} lets this user only read, and not everything ({_short(text)})")
    if code and code not in _REFUSED | _BUSY:
        return UsageError(f"the statement is refused: {_short(text)}")
    return _error(dsn, text, code)


def _error(dsn: EmbeddedDsn | ServerDsn, text: str, code: int) -> GuaError:
    # Error texts for a missing parameterized view, and for a missing table on another server of the cluster.
    if "Unknown table function gua_report." in text or "There is no table `gua" in text:
        code = _UNKNOWN_TABLE
    if code in _BUSY:
        return TransientError(_busy(dsn, code, text))
    if code:
        return QueryError(_about(dsn, code, text), code)
    if isinstance(dsn, ServerDsn) and "CERTIFICATE_VERIFY_FAILED" in text:
        why = "its certificate is of an authority that is not known here, or of another host"
        return TransientError(f"cannot trust {dsn}, {why}: set SSL_CERT_FILE to the authority's, or correct --store")
    if isinstance(dsn, ServerDsn):
        reason = next((one for one in _CONNECTION_FAILURES if one.lower() in text.lower()), _short(text))
        return TransientError(f"cannot reach {dsn} ({reason}): start the server or correct --store")
    return UnavailableError(f"{dsn} cannot be used ({_short(text)})")


def _busy(dsn: EmbeddedDsn | ServerDsn, code: int, text: str) -> str:
    if code == _NO_SPACE:
        return f"the disk of {dsn} is full ({_short(text)}): free some space there"
    if code == _READ_ONLY_TABLE:
        why = _short(text)
        return f"{dsn} takes no rows now, its tables are read-only ({why}): see its log, and ClickHouse Keeper's"
    if _ONE_QUERY in text.lower():  # this query's own limit; waiting for other queries' memory does not help
        return f"{dsn} may not use so much memory for a query ({_short(text)}): query less time or fewer hosts"
    return f"{dsn} cannot do it now ({_short(text)}): try again later"


def _about(dsn: EmbeddedDsn | ServerDsn, code: int, text: str) -> str:
    if code in _UNKNOWN_OBJECT:
        lacking = match[1] if (match := _OBJECT.search(text.replace("`", ""))) else "the schema of this version"
        return f"{dsn} lacks {lacking}: run gua schema apply --store {dsn}"
    if code in _REFUSED:
        return f"{dsn} refuses the user or the password: correct --store, or set GUA_STORE_PASSWORD"
    if code == _READ_ONLY_USER:
        return f"{dsn}: this user or server is read-only ({_short(text)}): use a user who may write"
    if code in _NO_RIGHT:
        return f"{dsn}: the user may not do this ({_short(text)}): use another user or grant it"
    return f"{dsn} refused a statement ({_short(text)})"


def _short(text: str) -> str:
    text = _NOISE.sub("", text).strip(" .")
    return text if len(text) <= 300 else f"{text[:297]}..."
