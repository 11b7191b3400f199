"""PodResources as the kubelet answers it: its bytes, servers that behave, and servers that do not."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import quote

import grpc

from fakes.sockets import listening
from gua.allocation.pod_resources import LIST
from gua.state.socket_address import short_address

Claim = tuple[str, str, str, Sequence[str]]


def text(number: int, value: str | bytes) -> bytes:
    """Return a length-delimited field."""
    content = value.encode() if isinstance(value, str) else value
    length, head = len(content), bytearray()
    while length > 127:
        head.append(length & 127 | 128)
        length >>= 7
    return bytes((number << 3 | 2,)) + bytes((*head, length)) + content


def pod(
    name: str = "train-0",
    namespace: str = "lab",
    *containers: Mapping[str, Sequence[str]],
    claims: Sequence[Claim] = (),
) -> bytes:
    """Return a pod as a field of the answer: devices by resource for each container; claims are of the first.

    Beside them stands what real ones have, too: CPUs, memory, NUMA nodes, and a field of a version to come.
    """
    bodies = []
    for place, devices in enumerate(containers or ({},)):
        body = text(1, f"c{place}")
        for resource, ids in devices.items():
            numa = text(3, text(1, b"\x08\x01"))
            body += text(2, text(1, resource) + b"".join(text(2, each) for each in ids) + numa)
        body += text(3, b"\x01\x02\xac\x02") + text(4, text(1, "memory") + b"\x10\x80\x80\x40")
        for driver, pool, device, cdi in claims if place == 0 else ():
            names = b"".join(text(1, text(1, each)) for each in cdi)
            claim = names + text(2, driver) + text(3, pool) + text(4, device)
            body += text(5, text(2, "gpu") + text(3, namespace) + text(4, claim))
        bodies.append(text(3, body))
    return text(1, text(1, name) + text(2, namespace) + b"".join(bodies) + text(4, b"\x01") + b"\x78\x07")


@dataclass
class Served:
    """The response or error of a server, and whether it answers at all before it ends; ``asked`` counts requests."""

    answer: bytes = b""
    status: grpc.StatusCode | None = None
    answers: bool = True
    asked: int = 0
    requests: list[bytes] = field(default_factory=list)


@contextmanager
def pod_resources(path: Path, answer: bytes = b"", *, method: str = LIST) -> Iterator[Served]:
    """Serve PodResources by grpc itself, by the name of another method if that is given."""
    served, ended = Served(answer=answer), threading.Event()

    def answered(request: bytes, context: grpc.ServicerContext) -> bytes:
        served.asked += 1
        served.requests.append(request)
        if not served.answers:
            ended.wait(60)
        if served.status is not None:
            context.abort(served.status, "rejected by rate limit: 7 é")
        return served.answer

    class Handler(grpc.GenericRpcHandler):
        def service(self, call: grpc.HandlerCallDetails) -> grpc.RpcMethodHandler | None:
            return grpc.unary_unary_rpc_method_handler(answered) if call.method == method else None

    server = grpc.server(ThreadPoolExecutor(2), options=[("grpc.max_send_message_length", -1)])
    server.add_generic_rpc_handlers((Handler(),))
    with short_address(path) as address:
        server.add_insecure_port(f"unix:{quote(address)}")
        server.start()
        try:
            yield served
        finally:
            ended.set()
            server.stop(None).wait(5)


@contextmanager
def talking(path: Path, talk: Callable[[socket.socket], None]) -> Iterator[None]:
    """Serve one connection at the socket by ``talk``."""
    with listening(path) as listener:

        def serve() -> None:
            with suppress(OSError):
                connection, _ = listener.accept()
                with connection, suppress(OSError):
                    talk(connection)

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield
        listener.shutdown(socket.SHUT_RDWR)
        thread.join(5)
