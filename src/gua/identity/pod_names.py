"""Names of pods and containers by id: queries the kubelet in a thread of its own, only if an id is new."""

import contextlib
import http.client
import math
import re
import ssl
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Any, Final, NoReturn
from urllib.parse import urlsplit

from gua.core.errors import GuaError, TransientError, UsageError
from gua.core.pods import ListedPod, is_name
from gua.core.tick import ReadError
from gua.core.untrusted import LAST_MS, object_in, objects_in, parsed_json, require
from gua.core.workloads import declared
from gua.identity.process import NO_NAMES, Names, start_thread

# Kubernetes mounts a service account's token here, rotates it within the hour, and adds the cluster's CA certificate.
SERVICE_ACCOUNT: Final = Path("/var/run/secrets/kubernetes.io/serviceaccount")
_STATUSES: Final = ("containerStatuses", "initContainerStatuses", "ephemeralContainerStatuses")
# A static pod's cgroup path has the hash of its manifest; its uid in the list may be that of its mirror pod.
_HASH: Final = "kubernetes.io/config.hash"
_COUNT: Final = re.compile(r"[0-9]{1,5}")
_LABELS: Final = {"kind": "gua/kind", "model": "gua/model"}


@dataclass(frozen=True, kw_only=True, slots=True)
class Kubelet:
    """A kubelet at ``host``:``port``; ``insecure`` disables certificate verification, so any server gets the token."""

    host: str
    port: int
    path: str = "/pods"
    insecure: bool = False

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"https://{host}:{self.port}{self.path}"


def parse_kubelet(text: str, *, insecure: bool = False) -> Kubelet:
    """Return the kubelet at ``https://HOST[:PORT][/PATH]``; the default port is 10250, the default path ``/pods``.

    An IPv6 address may lack its brackets, as NODE_IP does in a manifest, if port and path are present.
    Raises UsageError.
    """
    text = text.strip()
    try:
        url = urlsplit(_bracketed(text))
        port = 10250 if url.port is None else url.port
        plain = text.isascii() and text.isprintable() and " " not in text
    except ValueError:
        url, port, plain = urlsplit(""), 0, False
    if url.scheme != "https" or not url.hostname or not port or not plain or url.query or "@" in url.netloc:
        raise UsageError(f"--kubelet {text!r} is no address of a kubelet: write https://NODE:10250/pods")
    return Kubelet(host=url.hostname, port=port, path=url.path if url.path.strip("/") else "/pods", insecure=insecure)


def _bracketed(text: str) -> str:
    scheme, separator, rest = text.partition("://")
    netloc, slash, path = rest.partition("/")
    if netloc.count(":") > 1 and "[" not in netloc:
        host, _, port = netloc.rpartition(":")
        netloc = f"[{host}]:{port}"
    return f"{scheme}{separator}{netloc}{slash}{path}"


def parse_pod_list(body: bytes) -> list[dict[str, Any]]:
    """Return the items of a PodList, not yet validated. Raises ValueError for anything but a PodList."""
    pod_list = parsed_json(body)
    require(object_in(pod_list).get("kind") == "PodList", "no PodList")
    return objects_in(pod_list.get("items"))


def read_pod(item: Mapping[str, Any]) -> ListedPod | None:
    """Return a pod of a PodList, ``None`` if it lacks a uid or a valid name."""
    metadata, spec, status = (object_in(item.get(part)) for part in ("metadata", "spec", "status"))
    name, namespace = _name(metadata.get("name")), _name(metadata.get("namespace"))
    # The uid in cgroup paths first.
    known_uids = (object_in(metadata.get("annotations")).get(_HASH), metadata.get("uid"))
    uids = tuple(dict.fromkeys(uid for uid in known_uids if isinstance(uid, str) and uid))
    if name is None or namespace is None or not uids:
        return None
    containers = [container for statuses in _STATUSES for container in objects_in(status.get(statuses))]
    states = [object_in(container.get("state")) for container in containers]
    # A deleted pod with terminated containers only: it has ended, although its phase may not show it.
    is_gone = (
        metadata.get("deletionTimestamp") is not None and bool(states) and all("terminated" in each for each in states)
    )
    has_ended = status.get("phase") in ("Succeeded", "Failed") or is_gone
    ends = [_moment(object_in(state.get("terminated")).get("finishedAt")) for state in states]
    labels = object_in(metadata.get("labels"))
    return ListedPod(
        name=name,
        namespace=namespace,
        uids=uids,
        limits=_limits(spec),
        containers=dict(_named(containers)),
        has_claims=bool(objects_in(spec.get("resourceClaims"))),
        since_ms=_moment(status.get("startTime")),
        workload=declared({key: labels.get(label) for key, label in _LABELS.items()}),
        has_ended=has_ended,
        ended_ms=max((end for end in ends if end is not None), default=None) if has_ended else None,
    )


def _limits(spec: Mapping[str, Any]) -> dict[str, int | None]:
    """Return the number of devices of each NVIDIA resource that is allocated to a pod.

    Init containers pass their devices on to the main containers; sidecar containers, which keep running, do not:
    https://kubernetes.io/docs/concepts/workloads/pods/sidecar-containers/#resource-sharing-within-containers.
    """
    lasting: dict[str, int | None] = {}
    most: dict[str, int | None] = {}
    for container in objects_in(spec.get("initContainers")):
        own = _own_limits(container)
        if container.get("restartPolicy") == "Always":
            lasting = _combined(sum, lasting, own)
        else:
            most = _combined(max, most, _combined(sum, lasting, own))
    for container in objects_in(spec.get("containers")):
        lasting = _combined(sum, lasting, _own_limits(container))
    return {name: count for name, count in _combined(max, most, lasting).items() if count != 0}


def _own_limits(container: Mapping[str, Any]) -> dict[str, int | None]:
    limits = object_in(object_in(container.get("resources")).get("limits"))
    return {name: _count(value) for name, value in limits.items() if name.startswith("nvidia.com/")}


def _combined(
    how: Callable[[tuple[int, int]], int], one: Mapping[str, int | None], other: Mapping[str, int | None]
) -> dict[str, int | None]:
    """Return both counts of each name combined by ``how``; ``None`` if one of them is unknown."""
    pairs = {name: (one.get(name, 0), other.get(name, 0)) for name in (*one, *other)}
    return {name: None if a is None or b is None else how((a, b)) for name, (a, b) in pairs.items()}


def _count(value: object) -> int | None:
    text = str(value) if type(value) is int else value
    return int(text) if isinstance(text, str) and _COUNT.fullmatch(text) else None


def _moment(value: object) -> int | None:
    """Return a Kubernetes timestamp as Unix time [ms], ``None`` if it is invalid."""
    if not isinstance(value, str):
        return None
    try:
        moment = datetime.fromisoformat(value)
        ms = int(moment.timestamp() * 1000) if moment.tzinfo is not None else 0
    except (ValueError, OverflowError):
        return None
    return ms if 0 < ms <= LAST_MS else None


def _named(containers: Iterable[Mapping[str, Any]]) -> Iterator[tuple[str, str]]:
    for container in containers:
        name, identity = _name(container.get("name")), container.get("containerID")
        if name is not None and isinstance(identity, str) and identity:
            yield identity.rpartition("://")[2], name


def _name(value: object) -> str | None:
    return value if isinstance(value, str) and is_name(value) else None


MOST_BYTES: Final = 8 * 2**20
_CALL_SECONDS: Final = 5.0
_ALL_SECONDS: Final = 10.0
_MOST_TOKEN: Final = 64 * 1024
_REFUSALS: Final = {
    401: "it does not know the token (401): does it take service accounts' tokens?",
    403: "the service account may not get nodes/pods (403): see docs/kubernetes.md",
}
AGAIN_SECONDS: Final = 30.0
NEW_SECONDS: Final = 2.0
MOST_PODS: Final = 1_024
CALL: Final = "kubelet GET /pods"
_MOST_CONTAINERS: Final = 64

_Key = tuple[str, str | None]


class KubeletError(GuaError):
    """The kubelet returned no names; ``code`` is the reason, as one word or an HTTP status."""

    def __init__(self, message: str, *, code: str) -> None:
        super().__init__(message)
        self.code = code


class _TimedSocket(ssl.SSLSocket):
    """Socket with a deadline for all reads, because a server that sends a byte a second never hits a read timeout."""

    deadline = math.inf

    def recv_into(self, *arguments: Any, **more: Any) -> int:  # noqa: ANN401 - as the standard library has it
        left = self.deadline - time.monotonic()
        if left <= 0:
            raise TimeoutError
        self.settimeout(min(left, _CALL_SECONDS))
        return super().recv_into(*arguments, **more)


def fetch_pods(kubelet: Kubelet, account: Path = SERVICE_ACCOUNT, *, all_seconds: float = _ALL_SECONDS) -> bytes:
    """Return the body of the kubelet's response, at most 8 MiB, within ``all_seconds`` of the connection.

    The service account's token is read again each time. Proxies and redirects are not followed, so that the token goes
    to this address alone. Raises KubeletError.
    """
    context = _context(kubelet, account)
    context.sslsocket_class = _TimedSocket
    try:
        with (account / "token").open(encoding="ascii") as file:
            token = file.read(_MOST_TOKEN).strip()
    except (OSError, ValueError) as error:
        msg = f"{account}/token cannot be read ({type(error).__name__}): mount the service account's token"
        raise KubeletError(msg, code="account") from None
    headers = {"Authorization": f"Bearer {token}", "Accept": "application/json"}
    try:
        connection = http.client.HTTPSConnection(kubelet.host, kubelet.port, timeout=_CALL_SECONDS, context=context)
        with contextlib.closing(connection):
            connection.connect()
            if isinstance(connection.sock, _TimedSocket):
                connection.sock.deadline = time.monotonic() + all_seconds
            connection.request("GET", kubelet.path, headers=headers)
            answer = connection.getresponse()
            body = answer.read(MOST_BYTES + 1) if answer.status == http.HTTPStatus.OK else b""
    except ssl.SSLCertVerificationError as error:
        msg = f"its certificate is not of this cluster's authority ({error.verify_message}): see --kubelet-insecure"
        raise KubeletError(msg, code="certificate") from None
    except TimeoutError:
        raise KubeletError("it does not answer in time", code="timeout") from None
    except (OSError, http.client.HTTPException, ValueError) as error:
        raise KubeletError(str(error) or type(error).__name__, code="unreachable") from None
    if answer.status != http.HTTPStatus.OK:
        known = _REFUSALS.get(answer.status, f"it answers {answer.status}")
        raise KubeletError(known, code=str(answer.status))
    if len(body) > MOST_BYTES:
        raise KubeletError(f"its answer is longer than {MOST_BYTES // 2**20} MiB", code="size")
    if answer.length:  # http.client does not raise for a body that ends early
        raise KubeletError("its answer ends early", code="garbage")
    return body


def _context(kubelet: Kubelet, account: Path) -> ssl.SSLContext:
    if kubelet.insecure:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
        return context
    try:
        return ssl.create_default_context(cafile=account / "ca.crt")
    except OSError as error:
        msg = f"{account}/ca.crt cannot be used ({error.strerror or error}): mount the service account's token"
        raise KubeletError(msg, code="account") from None


@dataclass(eq=False)
class PodNames:
    """Cache of names from a node's pod list.

    A uid never gets another name, so the names of the last 1,024 pods stay cached. The list is queried when an unknown
    id appears: at once, but not within 2 s of the last query. While the list lacks the id or cannot be read, it is
    queried every 30 s. ``trouble`` is why names are missing, ``None`` if the last query succeeded.
    """

    kubelet: Kubelet
    _: KW_ONLY
    fetch: Callable[[Kubelet], bytes] = fetch_pods
    monotonic: Callable[[], float] = time.monotonic

    def __post_init__(self) -> None:
        self._lock = threading.Lock()
        self._pods: dict[str, ListedPod] = {}
        self._in_vain: set[_Key] = set()
        self._requested: set[_Key] = set()
        self._queried_at = -math.inf
        self._working = False
        self.trouble: str | None = None
        self._errors: list[ReadError] = []
        self._listener: Callable[[], None] | None = None

    def begin(self) -> None:
        """Query the list before the first lookup, so that names are available by the first tick if possible."""
        with self._lock:
            self._working = start_thread(self._work, "gua-pods")

    def names(self, pod_uid: str | None, container_id: str | None) -> Names:
        """Return the cached names; never waits, never raises."""
        if pod_uid is None:
            return NO_NAMES
        with self._lock:
            pod = self._pods.get(pod_uid)
            container = None if pod is None or container_id is None else pod.containers.get(container_id)
            if pod is None or (container is None and container_id is not None) or self.trouble is not None:
                self._request((pod_uid, container_id))
            if pod is None:
                return NO_NAMES
            return Names(pod=pod.name, namespace=pod.namespace, container=container, workload=pod.workload)

    def listen(self, listener: Callable[[], None]) -> None:
        """Set a callback for when a list has a new pod; it is called in a background thread."""
        self._listener = listener

    def query(self) -> tuple[ListedPod, ...]:
        """Query the list in the caller's thread; return its valid pods. Raises GuaError, also if one pod is invalid."""
        with self._lock:
            requested, self._requested = self._requested, set()
        try:
            items = parse_pod_list(self.fetch(self.kubelet))
            pods = list(map(read_pod, items))
        except KubeletError as error:
            self._failed(error.code, str(error))
        except ValueError:
            self._failed("garbage", "its answer is no list of pods")
        except Exception as error:  # noqa: BLE001 - names are optional: ids must stay available after any error
            self._failed("fault", f"unexpected {type(error).__name__}")
        known = tuple(pod for pod in pods if pod is not None)
        with self._lock:
            self._queried_at = self.monotonic()
            self.trouble = None
            self._learn(known, requested)
        if len(known) < len(pods):
            raise TransientError("a pod without uid or name")
        return known

    def _failed(self, code: str, message: str) -> NoReturn:
        with self._lock:
            self._queried_at = self.monotonic()
            self.trouble = f"pods have ids but no names: {self.kubelet}: {message}"
            self._errors.append(ReadError(call=CALL, code=code))
        raise TransientError(message) from None

    def errors(self) -> Sequence[ReadError]:
        """Return the errors since the last call."""
        with self._lock:
            errors, self._errors = self._errors, []
        return errors

    def _request(self, key: _Key) -> None:
        if len(self._requested) < MOST_PODS:
            self._requested.add(key)
        again = key in self._in_vain or self.trouble is not None
        pause_seconds = AGAIN_SECONDS if again else NEW_SECONDS
        if not self._working and self.monotonic() - self._queried_at >= pause_seconds:
            self._working = start_thread(self._work, "gua-pods")  # if that fails, the next tick tries again

    def _work(self) -> None:
        with self._lock:
            before = set(self._pods)
        try:
            with contextlib.suppress(GuaError):
                self.query()
        finally:
            with self._lock:
                self._working = False
                is_new = not before.issuperset(self._pods)
        if is_new and self._listener is not None:
            self._listener()

    def _learn(self, pods: Sequence[ListedPod], requested: set[_Key]) -> None:
        for uid, pod in [(uid, each) for each in pods for uid in each.uids]:
            before = self._pods.pop(uid, None)
            # A container that ended is no longer listed, but may still have a process for a moment.
            earlier = {} if before is None else dict(list(before.containers.items())[-_MOST_CONTAINERS:])
            self._pods[uid] = replace(pod, containers={**earlier, **pod.containers})
        for uid in list(self._pods)[: max(0, len(self._pods) - MOST_PODS)]:
            del self._pods[uid]
        if len(self._in_vain) > MOST_PODS:
            self._in_vain.clear()
        named = {(uid, id_) for uid, pod in self._pods.items() for id_ in (None, *pod.containers)}
        self._in_vain = (self._in_vain | requested) - named
