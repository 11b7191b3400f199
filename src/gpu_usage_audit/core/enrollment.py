"""What makes a host a member of a fleet: an endpoint and the token that may write there."""

from __future__ import annotations

from dataclasses import dataclass, field


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
