"""A webhook on loopback that records what it gets and answers as it was given."""

from __future__ import annotations

import json
import threading
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self


@dataclass
class Webhook:
    """``status``, ``body`` and ``location`` are what it answers; ``requests`` the paths and bodies that it got."""

    status: int = 200
    body: bytes = b"ok"
    location: str | None = None
    requests: list[tuple[str, bytes]] = field(default_factory=list)

    def __enter__(self) -> Self:
        hook = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                hook.requests.append((self.path, self.rfile.read(int(self.headers.get("Content-Length") or 0))))
                self.send_response(hook.status)
                if hook.location is not None:
                    self.send_header("Location", hook.location)
                self.send_header("Content-Length", str(len(hook.body)))
                self.end_headers()
                self.wfile.write(hook.body)

            def log_message(self, *_arguments: object) -> None:
                """Stay silent."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self._server.server_port}"

    def payloads(self) -> list[dict[str, Any]]:
        """Return the bodies of the requests, read as JSON."""
        return [json.loads(body) for _, body in self.requests]
