"""One HTTP POST, as the sender sees it; replaced by a fake in tests."""

from __future__ import annotations

import urllib.error
import urllib.request
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from email.message import Message
from typing import IO

_MAX_ANSWER_BYTES = 64 * 1024


@dataclass(frozen=True, kw_only=True, slots=True)
class Request:
    """One POST: where, with which headers, for how many seconds to wait."""

    url: str
    headers: Mapping[str, str]
    body: bytes
    timeout_seconds: float


@dataclass(frozen=True, kw_only=True, slots=True)
class Answer:
    """What came back: status, the value of Retry-After if any, and the start of the body."""

    status: int
    retry_after: str | None
    body: bytes


Post = Callable[[Request], Answer]


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """A redirected POST would become a GET, and the ticks be lost with a 200."""

    def redirect_request(  # noqa: PLR0913, PLR0917 - the signature is urllib's
        self,
        req: urllib.request.Request,  # noqa: ARG002 - as above
        fp: IO[bytes],  # noqa: ARG002 - as above
        code: int,  # noqa: ARG002 - as above
        msg: str,  # noqa: ARG002 - as above
        headers: Message,  # noqa: ARG002 - as above
        newurl: str,  # noqa: ARG002 - as above
    ) -> None:
        return None


def post_with_urllib(request: Request) -> Answer:
    """Post and return the answer, whatever its status. Raises ``OSError`` or ``HTTPException`` without one."""
    made = urllib.request.Request(request.url, request.body, dict(request.headers), method="POST")  # noqa: S310 - metrics_url admits http(s) only
    opener = urllib.request.build_opener(_NoRedirect)
    try:
        with opener.open(made, timeout=request.timeout_seconds) as response:
            return Answer(status=response.status, retry_after=None, body=response.read(_MAX_ANSWER_BYTES))
    except urllib.error.HTTPError as error:
        with error:
            return Answer(
                status=error.code, retry_after=error.headers.get("Retry-After"), body=error.read(_MAX_ANSWER_BYTES)
            )
