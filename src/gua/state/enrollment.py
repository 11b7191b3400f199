"""The host's enrollment in the state directory: read by the agent, written and removed by ``gua enroll``."""

import contextlib
import hashlib
import json
import os
import stat
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Final

from gua.core.errors import UnavailableError
from gua.core.untrusted import parsed_json
from gua.state.directory import open_private, replace_private

NAME: Final = "enrolled"
_VERSION: Final = 1
_LONGEST_BYTES: Final = 64 * 1024

Stamp = tuple[int, int, int] | None
"""Inode, modification time [ns] and size [bytes] of the file; ``None`` if it is missing."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Enrollment:
    """An endpoint that accepted a tick.

    ``endpoint`` is the address as entered, ``protocol`` is ``http/protobuf`` or ``grpc``, and ``token`` the bearer
    token. ``certificate`` is the path of the stored CA file, ``None`` for the default CAs. ``since_ms`` is the time of
    acceptance (Unix ms). ``repr()`` never contains the token.
    """

    endpoint: str
    protocol: str
    token: str = field(repr=False)
    since_ms: int
    certificate: str | None = None


def enrollment_file(home: Path) -> Path:
    """Return the path of the enrollment file."""
    return home / f"{NAME}.json"


def stamp(home: Path) -> Stamp:
    """Return a value that changes with each enrollment; cheap enough to read before each request."""
    try:
        status = enrollment_file(home).lstat()
    except OSError:
        return None
    return status.st_ino, status.st_mtime_ns, status.st_size


def read_enrollment(home: Path) -> Enrollment | None:
    """Return the enrollment; ``None`` if this host has none.

    Raises UnavailableError for a file that others can read or write, a symlink, or invalid content. Messages never
    contain the content.
    """
    path = enrollment_file(home)
    if not os.path.lexists(path):
        return None
    descriptor = open_private(path, os.O_RDONLY)
    with os.fdopen(descriptor, "rb") as file:
        mode = stat.S_IMODE(os.fstat(descriptor).st_mode)
        if mode & 0o077:
            msg = f"{path} can be read by others (mode {mode:04o}): chmod 600 {path}, and have its token replaced"
            raise UnavailableError(msg)
        content = parsed_json(file.read(_LONGEST_BYTES))
    match content:
        case {
            "version": 1,
            "endpoint": str(endpoint),
            "protocol": str(protocol),
            "token": str(token),
            "since_ms": int(since_ms),
            "certificate": str() | None as certificate,
        } if protocol in ("http/protobuf", "grpc") and endpoint and token:
            return Enrollment(
                endpoint=endpoint, protocol=protocol, token=token, since_ms=since_ms, certificate=certificate
            )
        case {"version": int(version)} if version != _VERSION:
            what = f"is an enrollment of another version of gua ({version}, this one knows {_VERSION})"
        case _:
            what = "is no enrollment that this gua understands"
    raise UnavailableError(f"{path} {what}: run gua enroll again, or gua enroll --remove")


def store_enrollment(home: Path, enrollment: Enrollment, authorities: bytes | None) -> Enrollment:
    """Store the enrollment atomically, its CA certificates (PEM) beside it; return it with their path.

    ``home`` was returned by :func:`~gua.state.directory.prepare_home`. Each file is written with mode 0600 under a
    temporary name and then renamed: no symlink is followed, and a crash leaves the old or the new file.
    Raises UnavailableError.
    """
    certificate = None
    try:
        if authorities is not None:
            # Named by its content: the current enrollment keeps its own file until it is replaced.
            certificate = home / f"{NAME}-{hashlib.sha256(authorities).hexdigest()[:16]}.pem"
            replace_private(certificate, authorities)
        kept = replace(enrollment, certificate=None if certificate is None else str(certificate))
        replace_private(enrollment_file(home), json.dumps({"version": _VERSION, **asdict(kept)}, indent=2).encode())
    except OSError as error:
        msg = f"cannot store the enrollment in {home} ({error.strerror}): nothing was stored, try again"
        raise UnavailableError(msg) from None
    _forget_certificates(home, but=certificate)
    return kept


def forget_enrollment(home: Path) -> bool:
    """Remove the enrollment and its certificates; return whether one existed. Raises UnavailableError."""
    try:
        enrollment_file(home).unlink()
    except FileNotFoundError:
        return False
    except OSError as error:
        msg = f"cannot remove {enrollment_file(home)} ({error.strerror}): remove it yourself"
        raise UnavailableError(msg) from None
    _forget_certificates(home, but=None)
    return True


def _forget_certificates(home: Path, *, but: Path | None) -> None:
    with contextlib.suppress(OSError):
        for path in home.glob(f"{NAME}-*"):
            if path != but:
                path.unlink(missing_ok=True)
