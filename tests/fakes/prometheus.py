"""A server with Prometheus' API on given samples, and with any other answer that a test wants in its place."""

from __future__ import annotations

import json
import re
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self
from urllib.parse import parse_qs, urlsplit

Labels = dict[str, str]
# Labels with the name, and samples of (Unix time in ms, value).
Series = tuple[Labels, Sequence[tuple[int, str]]]
TOO_MANY = "query processing would load too many samples into memory in query execution"
_SELECTOR = re.compile(r"(\w+)(?:\{.*\})?\[(\d+)(ms|s)\]\)?$", re.DOTALL)


@dataclass(frozen=True, kw_only=True)
class Reply:
    """An answer. ``missing_bytes``: the connection ends so long before the end that its head announces."""

    body: bytes = b""
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    missing_bytes: int = 0
    after_seconds: float = 0.0


@dataclass(frozen=True, kw_only=True)
class Asked:
    """A request: the path after /api/v1/, and its parameters."""

    method: str
    path: str
    parameters: Mapping[str, Sequence[str]]
    headers: Mapping[str, str]
    length: int

    def one(self, name: str) -> str:
        """Return the only value of a parameter."""
        return self.parameters[name][0]


def as_json(data: object, status: int = 200, **others: object) -> Reply:
    """Return an answer as Prometheus writes it."""
    text = {"status": "success", "data": data, **others}
    body = json.dumps(text, separators=(",", ":")).encode()
    return Reply(body=body, status=status, headers={"Content-Type": "application/json"})


def refusal(status: int, error: str, **headers: str) -> Reply:
    """Return an error as Prometheus writes it."""
    text = {"status": "error", "errorType": "execution", "error": error}
    return Reply(body=json.dumps(text).encode(), status=status, headers={"Content-Type": "application/json", **headers})


class FakePrometheus:
    """Serves until its block ends. ``instead`` returns what replaces an answer, or ``None``; ``asked`` are requests.

    It finds series by the name of a selector alone, and refuses a query of more than ``most_samples``.
    """

    def __init__(
        self,
        series: Sequence[Series] = (),
        instead: Callable[[Asked], Reply | None] = lambda _: None,
        *,
        most_samples: int = 10**9,
    ) -> None:
        self.series = series
        self.instead = instead
        self.most_samples = most_samples
        self.asked: list[Asked] = []
        self.ended = threading.Event()
        fake = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                body = self.rfile.read(int(self.headers.get("Content-Length", 0))).decode()
                parts = urlsplit(self.path)
                asked = Asked(
                    method=self.command,
                    path=parts.path.removeprefix("/api/v1/"),
                    parameters=parse_qs(body or parts.query),
                    headers=dict(self.headers),
                    length=len(self.path),
                )
                fake.asked.append(asked)
                reply = fake.instead(asked) or fake.answer(asked)
                fake.ended.wait(reply.after_seconds)
                self.send_response(reply.status)
                for name, value in reply.headers.items():
                    self.send_header(name, value)
                self.send_header("Content-Length", str(len(reply.body)))
                self.end_headers()
                self.wfile.write(reply.body[: len(reply.body) - reply.missing_bytes])
                self.close_connection = bool(reply.missing_bytes)

            do_POST = do_GET  # noqa: N815 - as above

            def log_message(self, *_: object) -> None:
                """Say nothing."""

        class Server(ThreadingHTTPServer):
            def handle_error(self, *_: object) -> None:
                """Say nothing of a client that went away."""

        self._server = Server(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}"

    def __enter__(self) -> Self:
        threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self.ended.set()
        self._server.shutdown()
        self._server.server_close()

    def answer(self, asked: Asked) -> Reply:
        """Return what Prometheus answers."""
        if asked.path == "label/__name__/values":
            return as_json(sorted({labels["__name__"] for labels, _ in self.series}))
        if asked.path == "series":
            names = {re.split(r"[{]", one)[0] for one in asked.parameters["match[]"]}
            return as_json([labels for labels, _ in self.series if labels["__name__"] in names])
        if asked.path == "query":
            return self._result(asked)
        return Reply(body=b"404 page not found\n", status=404, headers={"Content-Type": "text/plain"})

    def _result(self, asked: Asked) -> Reply:
        expression, end_ms = (
            asked.one("query"),
            round(float(asked.one("time")) * 1000) if "time" in asked.parameters else 0,
        )
        if expression == "vector(1)":
            return as_json({"resultType": "vector", "result": [{"metric": {}, "value": [time.time(), "1"]}]})
        matched = _SELECTOR.search(expression)
        if matched is None:
            return refusal(400, f"this fake does not know {expression}")
        start_ms = end_ms - int(matched[2]) * (1 if matched[3] == "ms" else 1000)
        result: list[dict[str, Any]] = []
        for labels, samples in self.series:
            values = [[at / 1000, value] for at, value in samples if start_ms <= at <= end_ms]
            if labels["__name__"] == matched[1] and values:
                result.append({"metric": labels, "values": values})
        if sum(len(one["values"]) for one in result) > self.most_samples:
            return refusal(422, TOO_MANY)
        return as_json({"resultType": "matrix", "result": result})


def card(uuid: str = "GPU-a", *, begin_ms: int, count: int = 20, step_ms: int = 30_000, **labels: str) -> list[Series]:
    """Return the series of one busy card by dcgm-exporter, with a sample at each step, and of its target's ``up``."""
    every = {"instance": "n1:9400", "job": "dcgm", "gpu": "0", "UUID": uuid, "Hostname": "n1", **labels}
    target = {name: value for name, value in every.items() if name in {"instance", "job", "cluster"}}
    times = [begin_ms + step_ms * place for place in range(1, count + 1)]
    values = {"DCGM_FI_DEV_GPU_UTIL": "90", "DCGM_FI_DEV_FB_USED": "1000", "DCGM_FI_DEV_FB_FREE": "9000"}
    return [
        *(({"__name__": name, **every}, [(at, value) for at in times]) for name, value in values.items()),
        ({"__name__": "up", **target}, [(at, "1") for at in times]),
    ]
