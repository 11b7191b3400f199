"""deploy/recipes/gua-idle-pods on a real one-node Kubernetes, with an agent on the node and simulated cards.

The device plugin allocates cards to pods; the recipe has a service account with the rights that its README names.
Run with `make test TESTS=wide`; `.ci/run` leaves it out.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final

import pytest

from driver.scenario import IDLE, MIB, Card, Constant, Process, Scenario, replace_text, uuid
from servers.cluster import NODE, Cluster, missing
from servers.process import poll
from servers.tools import ROOT

pytestmark = [pytest.mark.wide, pytest.mark.xdist_group("cluster")]
CARDS: Final = [uuid(1), uuid(2), uuid(3)]
TEAM: Final = "team-a"
NAME: Final = "gua/idle-since"
RECIPE: Final = ROOT / "deploy" / "recipes" / "gua-idle-pods"
WORKS: Final = Constant(90)
IDLE_FOR: Final = "20s"
LONG: Final = 150.0


class Site:
    """The cluster with an agent on its node, and pods whose processes are on the cards that they were allocated."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.loads: dict[str, Constant] = {}
        self.pids: dict[str, int] = {}
        self.cards: dict[str, str] = {}
        programs = cluster.folder / "bin"
        programs.mkdir()
        (programs / "kubectl").symlink_to(cluster._kubectl)  # noqa: SLF001 - the same program, for the recipe
        self._environment = {
            "PATH": f"{programs}:{Path(sys.executable).parent}:/usr/sbin:/usr/bin:/sbin:/bin",
            "HOME": str(cluster.folder),
            "KUBECONFIG": str(cluster.folder / "recipe.kubeconfig"),
            "GUA_HOME": "/var/lib/gua-agent/state",
            "GUA_RUN_DIR": str(cluster.folder / "run"),
            "GUA_SIMULATED_DRIVER": str(cluster.scenario),
        }
        self.write()

    def give_rights(self) -> None:
        """Give the recipe a service account that may get, list, patch and delete pods, and nothing else."""
        self.cluster.must("create", "serviceaccount", "idle-pods", f"--namespace={TEAM}")
        self.cluster.must("create", "clusterrole", "idle-pods", "--verb=get,list,patch,delete", "--resource=pods")
        account = f"--serviceaccount={TEAM}:idle-pods"
        self.cluster.must("create", "clusterrolebinding", "idle-pods", "--clusterrole=idle-pods", account)
        token = self.cluster.must("create", "token", "idle-pods", f"--namespace={TEAM}").strip()
        config = json.loads((self.cluster.folder / "kubeconfig").read_text())
        config["users"] = [{"name": "u", "user": {"token": token}}]
        (self.cluster.folder / "recipe.kubeconfig").write_text(json.dumps(config))

    @property
    def command(self) -> list[str]:
        return ["env", "-i", *(f"{name}={value}" for name, value in self._environment.items())]

    def write(self) -> None:
        """Have the driver report each pod's process on its card."""
        held = {
            self.cards[name]: [Process(self.pids[name], memory=4096 * MIB, load=load)]
            for name, load in self.loads.items()
        }
        cards = [Card(one, memory_reserved=500 * MIB, processes=held.get(one, [])) for one in CARDS]
        replace_text(self.cluster.scenario, Scenario(cards).text())

    def run(self, name: str, load: Constant | None, *, cards: int = 1) -> None:
        """Run a pod that is allocated a card, or none; its process is on the card with a load, or is not."""
        self.pids[name] = self.cluster.run_pod(name, TEAM, cards=cards, seconds=LONG)
        if cards:
            self.cards[name] = poll(lambda: self.allocated(name), f"the allocation of {name}", seconds=LONG)
        if load is not None:
            self.loads[name] = load
            self.write()

    def allocated(self, pod: str) -> str:
        """Return the card that the agent reports as allocated to a pod, empty if there is none."""
        status = json.loads(self.gua("status", "--json"))
        found = [card for card in status["cards"] if f'"{pod}"' in json.dumps(card.get("allocations", []))]
        return str(found[0]["uuid"]) if found else ""

    def gua(self, *arguments: str) -> str:
        return self.cluster.tried(*self.command, "gua", *arguments).stdout

    def answer(self, pod: str) -> int:
        """Return the exit code of ``gua idle`` for a pod."""
        return self.cluster.tried(*self.command, "gua", "idle", f"--pod={TEAM}/{pod}", "--for", IDLE_FOR).returncode

    def recipe(self, *options: str) -> list[str]:
        """Run the recipe and return its lines."""
        done = self.cluster.tried(
            *self.command, sys.executable, str(RECIPE), "--for", IDLE_FOR, "--node", NODE, *options
        )
        assert (done.returncode, done.stderr) == (0, "")
        print(f"\ngua-idle-pods {' '.join(options)}\n{done.stdout}", end="", flush=True)  # noqa: T201 - a transcript
        return done.stdout.splitlines()

    def pods(self) -> dict[str, Any]:
        """Return the pods that are not being deleted, by name."""
        found = self.cluster.get("pods", f"--namespace={TEAM}")["items"]
        return {one["metadata"]["name"]: one for one in found if "deletionTimestamp" not in one["metadata"]}

    def annotated(self) -> dict[str, str]:
        """Return the annotation of each pod that has it."""
        annotations = {name: pod["metadata"].get("annotations", {}) for name, pod in self.pods().items()}
        return {name: values[NAME] for name, values in annotations.items() if NAME in values}


@pytest.fixture(scope="module")
def site() -> Iterator[Site]:
    if reason := missing():
        pytest.skip(f"left out: {reason}")
    with Cluster([], CARDS) as cluster:
        made = Site(cluster)
        options = ("--interval", "2s", "--allocation", "kubernetes")
        agent = cluster._server("agent", *made.command, "gua", "daemon", "--foreground", *options)  # noqa: SLF001
        agent.start(lambda: "cards" in made.gua("status", "--json"))
        cluster.must("create", "namespace", TEAM)
        made.give_rights()
        yield made


def test_only_pods_that_are_known_to_be_idle_are_annotated_and_deleted(site: Site) -> None:
    site.run("idles", IDLE)
    site.run("works", WORKS)
    site.run("empty", None)
    site.run("without-card", None, cards=0)
    for name in ("idles", "empty"):
        poll(lambda name=name: site.answer(name) == 0, f"{name} to be idle for long enough", seconds=LONG)  # type: ignore[misc]
    assert (site.answer("works"), site.answer("without-card")) == (1, 3)

    assert [line.partition(":")[0] for line in site.recipe()] == [f"{TEAM}/empty", f"{TEAM}/idles"]
    assert set(site.annotated()) == {"empty", "idles"}
    ages = [datetime.now(UTC) - datetime.fromisoformat(since) for since in site.annotated().values()]
    assert all(timedelta(seconds=20) <= age < timedelta(seconds=LONG) for age in ages)

    site.loads["idles"] = WORKS
    site.write()
    poll(lambda: site.answer("idles") == 1, "the pod to work", seconds=LONG)
    assert [line.partition(":")[0] for line in site.recipe()] == [f"{TEAM}/empty"]
    assert set(site.annotated()) == {"empty"}, "no other answer leaves an old annotation"
    site.recipe("--delete")
    poll(lambda: set(site.pods()) == {"idles", "works", "without-card"}, "one pod to be deleted", seconds=LONG)

    site.loads["idles"] = IDLE
    site.write()
    poll(lambda: site.answer("idles") == 0, "the pod to be idle again", seconds=LONG)
    assert site.recipe("--selector", "app=other", "--delete") == []
    assert [line.partition(":")[0] for line in site.recipe("--delete")] == [f"{TEAM}/idles"]
    poll(lambda: set(site.pods()) == {"works", "without-card"}, "the idle pod to be deleted alone", seconds=LONG)
