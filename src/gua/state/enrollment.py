"""The enrollment of this host, kept in the state directory: read by the agent, written and removed by gua enroll."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import stat
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Final

from gua.core.errors import UnavailableError
from gua.state.directory import open_private, replace_private

NAME: Final = "enrolled"
_VERSION: Final = 1
_LONGEST_BYTES: Final = 64 * 1024
_PROTOCOLS: Final = ("http/protobuf", "grpc")

Stamp = tuple[int, int, int] | None
"""Which file it is: inode, time of change and size; ``None`` where there is none."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Enrollment:
    """One endpoint as it was proven to work.

    ``endpoint`` is the address as given, ``protocol`` what it speaks (``http/protobuf`` or ``grpc``), ``token`` its
    bearer token, and ``certificate`` the path of the authorities' file kept with it, ``None`` for the usual ones.
    ``since_ms`` is when the proof was accepted (Unix ms). No text form holds the token.
    """

    endpoint: str
    protocol: str
    token: str = field(repr=False)
    since_ms: int
    certificate: str | None = None


def enrollment_file(home: Path) -> Path:
    """Return where the enrollment of a state directory is."""
    return home / f"{NAME}.json"


def stamp(home: Path) -> Stamp:
    """Return what changes with each enrollment, cheap enough to ask before each request."""
    try:
        found = enrollment_file(home).lstat()
    except OSError:
        return None
    return found.st_ino, found.st_mtime_ns, found.st_size


def read_enrollment(home: Path) -> Enrollment | None:
    """Return the enrollment, ``None`` if this host has none.

    Raises UnavailableError for a file that others may read or write, that is reached through a link, or that is
    no enrollment; no message repeats what it holds.
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
        text = file.read(_LONGEST_BYTES)
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):  # the latter from brackets in brackets without end
        found = None
    match found:
        case {
            "version": 1,
            "endpoint": str(endpoint),
            "protocol": str(protocol),
            "token": str(token),
            "since_ms": int(since_ms),
            "certificate": str() | None as certificate,
        } if protocol in _PROTOCOLS and endpoint and token:
            return Enrollment(
                endpoint=endpoint, protocol=protocol, token=token, since_ms=since_ms, certificate=certificate
            )
        case {"version": int(version)} if version != _VERSION:
            what = f"is an enrollment of another version of gua ({version}, this one knows {_VERSION})"
        case _:
            what = "is no enrollment that this gua understands"
    raise UnavailableError(f"{path} {what}: run gua enroll again, or gua enroll --remove")


def keep_enrollment(home: Path, enrollment: Enrollment, authorities: bytes | None) -> Enrollment:
    """Store the enrollment in one step, with its authorities' certificates (PEM) beside it, and return it as stored.

    The directory is one that :func:`~gua.state.directory.prepare_home` returned. Each file is made 0600 under
    a name of its own and then takes its place, so that no link is followed and a crash leaves the old or the new.
    Raises UnavailableError.
    """
    certificate = None
    try:
        if authorities is not None:
            # Named by its content: the enrollment that is still in force keeps its own until it is replaced.
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
    """Remove the enrollment and its certificates; return whether there was one. Raises UnavailableError."""
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
