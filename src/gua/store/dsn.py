"""Store addresses: ``chdb:///path`` (embedded) and ``clickhouse://`` or ``clickhouses://`` (a server)."""

from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import SplitResult, quote, unquote, urlsplit

from gua.core.errors import UsageError

FORMS = "/path, chdb:///path, clickhouse://user@host:8123 or clickhouses://user@host:8443"


@dataclass(frozen=True, kw_only=True, slots=True)
class EmbeddedDsn:
    """Address of an embedded store: a directory on this machine."""

    path: Path

    def __str__(self) -> str:
        return f"chdb://{quote(str(self.path))}"


@dataclass(frozen=True, kw_only=True, slots=True)
class ServerDsn:
    """Address of a ClickHouse server's HTTP interface. ``str()`` never contains the password."""

    host: str
    port: int
    secure: bool
    user: str
    password: str = field(repr=False)

    def __str__(self) -> str:
        scheme = "clickhouses" if self.secure else "clickhouse"
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{scheme}://{quote(self.user, safe='')}@{host}:{self.port}"


def is_path(text: str) -> bool:
    """Return whether an address is a plain path of an embedded store. A bare word is not, as it may be a host."""
    return text.startswith(("/", "./", "../"))


def parse_dsn(text: str, *, password: str | None = None) -> EmbeddedDsn | ServerDsn:
    """Return the parsed store address; ``password`` applies if ``text`` has none.

    Raises UsageError; its message never contains the password.
    """
    try:
        parts = urlsplit(text)
        port = parts.port
    except ValueError:
        # The error's text may contain the password, if that has a slash or the like not written as %2F.
        msg = f"the store's address cannot be read: write {FORMS}, and special characters of a password as in %2F"
        raise UsageError(msg) from None
    if parts.scheme == "chdb":
        return _embedded(parts)
    if parts.scheme not in {"clickhouse", "clickhouses"}:
        begins = f"begins with {parts.scheme!r}" if parts.scheme else "is no path, which begins with / or ./"
        raise UsageError(f"the store's address {begins}: write {FORMS}")
    if not parts.hostname:
        raise UsageError(f"the store's address names no host: write {FORMS}")
    if parts.path not in {"", "/"} or parts.query or parts.fragment:
        raise UsageError(f"the store's address ends with the port, the databases are gua and gua_report: write {FORMS}")
    secure = parts.scheme == "clickhouses"
    return ServerDsn(
        host=parts.hostname,
        port=port or (8443 if secure else 8123),
        secure=secure,
        user=unquote(parts.username or "default"),
        password=unquote(parts.password) if parts.password is not None else (password or ""),
    )


def without_password(text: str) -> str:
    """Return an address without its password, safe to display (GUA_STORE_PASSWORD supplies it instead).

    Raises UsageError if the address cannot be parsed.
    """
    if "://" not in text:
        return text
    parsed = parse_dsn(text)
    return str(parsed) if isinstance(parsed, ServerDsn) and parsed.password else text


def _embedded(parts: SplitResult) -> EmbeddedDsn:
    path = unquote(parts.path)
    if parts.netloc or not path.startswith("/") or path == "/" or parts.query or parts.fragment or {*path} & {*"\0?"}:
        # The engine parses text after a question mark as its options.
        msg = "an embedded store is named by three slashes and an absolute path without ?: write chdb:///absolute/path"
        raise UsageError(msg)
    return EmbeddedDsn(path=Path(path))
