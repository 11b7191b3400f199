"""What the Kubernetes source costs an agent: CPU of questions and of looks, and memory.

Queries a server with the kubelet's own types (tests/tools/pod_resources) as the agent's thread does every 30 s.

    .venv/bin/python bench/bench_pod_resources.py --pods 50
"""

from __future__ import annotations

import argparse
import resource
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

from fakes.kubelet import FakeKubelet, kubelet, pod, pod_list
from gua.allocation.kubernetes import KubernetesReader
from gua.allocation.pod_resources import query_pod_resources
from gua.core.allocation import CardKey
from gua.identity.pod_names import PodNames
from servers.pod_resources import PodResourcesServer, told

CARDS = tuple(CardKey(f"GPU-{number:08d}-0000-4000-8000-000000000000", number, number) for number in range(8))
GPU = "nvidia.com/gpu"
NOW = 1_774_396_800_000


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--pods", type=int, default=50)
    arguments.add_argument("--times", type=int, default=100)
    options = arguments.parse_args()
    with tempfile.TemporaryDirectory() as folder, kubelet(Path(folder) / "tls") as fake:
        fake.body = pod_list(*(_listed(number) for number in range(options.pods)))
        with PodResourcesServer(Path(folder)) as server:
            server.answer(*(told(f"pod-{number}", {GPU: [_id(number)]}) for number in range(options.pods)))
            _measure(server.socket, fake, options.pods, options.times)


def _measure(socket: Path, fake: FakeKubelet, pods: int, times: int) -> None:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    reader = KubernetesReader(lambda: query_pod_resources(socket))
    names = PodNames(fake.kubelet, fetch=lambda _kubelet: fake.body)
    asks, looks, again, lists = [], [], [], []
    for number in range(times):
        asks.append(_cpu_ms(reader.query))
        now = NOW + number
        cards = (*CARDS[:-1], CARDS[-1]._replace(pods=frozenset({str(number)})))
        looks.append(_cpu_ms(lambda now=now, cards=cards: reader.look(now - 1000, now, cards)))
        again.append(_cpu_ms(lambda now=now, cards=cards: reader.look(now - 1000, now, cards)))
        lists.append(_cpu_ms(names.query))
    grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024
    ask, look, same, read = (statistics.median(each) for each in (asks, looks, again, lists))
    size = len(fake.body) / 1024
    print(
        f"{pods} pods, ms of CPU: PodResources {ask:.2f}, a look at something new {look:.2f}, at the same {same:.2f},"
    )
    print(f"to read a list of {size:.0f} KiB {read:.2f}; {grown:.1f} MB more memory")


def _id(number: int) -> str:
    return f"{CARDS[number % len(CARDS)].uuid}::{number}"


def _listed(number: int) -> dict[str, Any]:
    """Return a pod of the usual size: 8 KiB, most of it environment, volumes and conditions."""
    made = pod(f"uid-{number}", name=f"pod-{number}", namespace="lab")
    made["spec"]["containers"][0] |= {"resources": {"limits": {GPU: "1"}}}
    made["spec"]["containers"][0]["env"] = [{"name": f"VARIABLE_{each}", "value": "x" * 50} for each in range(80)]
    return made


def _cpu_ms(what: Callable[[], object]) -> float:
    begun = time.process_time()
    what()
    return (time.process_time() - begun) * 1000


if __name__ == "__main__":
    main()
