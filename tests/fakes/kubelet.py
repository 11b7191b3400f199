"""A kubelet's ``/pods`` behind TLS and a token, and the ways in which it may fail."""

from __future__ import annotations

import json
import ssl
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import trustme

from gua.identity.pod_names import Kubelet

TOKEN = "the-first"  # noqa: S105 - of a fake
POD_UID = "0a1b2c3d-4e5f-6071-8293-a4b5c6d7e8f9"
CONTAINER_ID = "3f1c" * 16


def pod(
    uid: str = POD_UID, *, name: str = "train-0", namespace: str = "lab", containers: dict[str, str] | None = None
) -> dict[str, Any]:
    """Return a pod as the list has it; ``containers`` are names by id."""
    ids = {CONTAINER_ID: "main"} if containers is None else containers
    return {
        "metadata": {"name": name, "namespace": namespace, "uid": uid, "creationTimestamp": "2026-03-25T00:00:00Z"},
        "spec": {"nodeName": "n1", "containers": [{"name": each, "image": "i:1"} for each in ids.values()]},
        "status": {
            "phase": "Running",
            "containerStatuses": [
                {
                    "name": each,
                    "ready": True,
                    "restartCount": 0,
                    "image": "i:1",
                    "imageID": "i@sha256:0",
                    "containerID": f"containerd://{identity}",
                }
                for identity, each in ids.items()
            ],
        },
    }


def pod_list(*pods: dict[str, Any]) -> bytes:
    """Return the answer, as the kubelet writes it."""
    return json.dumps({"kind": "PodList", "apiVersion": "v1", "metadata": {}, "items": [*pods]}).encode()


@dataclass
class FakeKubelet:
    """Its response, and the tokens and paths of its requests."""

    kubelet: Kubelet
    account: Path
    status: int = 200
    body: bytes = field(default_factory=lambda: pod_list(pod()))
    token: str = TOKEN
    byte_seconds: float = 0.0
    length: int | None = None
    asked: list[str] = field(default_factory=list)

    def rotate(self, token: str) -> None:
        """Replace the token, as Kubernetes does within the hour."""
        self.token = token
        (self.account / "token").write_text(token + "\n")


@contextmanager
def kubelet(folder: Path, *, name: str = "127.0.0.1") -> Iterator[FakeKubelet]:
    """Serve a list of pods, with a service account's token and authority in ``folder``."""
    authority = trustme.CA()
    account = folder / "account"
    account.mkdir(parents=True)
    authority.cert_pem.write_to_path(account / "ca.crt")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert(name).configure_cert(context)
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
    server.daemon_threads = True
    server.socket = context.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
    fake = FakeKubelet(kubelet=Kubelet(host="127.0.0.1", port=server.server_port), account=account)
    fake.rotate(TOKEN)
    _Handler.fake = fake
    thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield fake
    finally:
        server.shutdown()
        server.server_close()
        thread.join(10)


class _Handler(BaseHTTPRequestHandler):
    fake: FakeKubelet

    def do_GET(self) -> None:
        fake = self.fake
        fake.asked.append(self.path)
        known = self.headers["Authorization"] == f"Bearer {fake.token}"
        status, body = (fake.status, fake.body) if known else (401, b"Unauthorized")
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body) if fake.length is None else fake.length))
        if status == 302:
            self.send_header("Location", "https://127.0.0.1:1/")
        self.end_headers()
        try:
            for start in range(0, len(body), 1 if fake.byte_seconds else 65536):
                self.wfile.write(body[start : start + (1 if fake.byte_seconds else 65536)])
                time.sleep(fake.byte_seconds)
        except OSError:
            return

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the standard library's name
        """Say nothing."""
