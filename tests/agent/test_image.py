"""The image's entry point, as its user, on a file system that it cannot write to; see tests/servers/container.py."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import urllib.request
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families

from driver.fixture import SimulatedDriver
from driver.scenario import Scenario, crowd
from fakes.kubelet import POD_UID, kubelet
from servers import container
from servers.agent import read_spool
from servers.process import free_ports, http_answers, poll
from servers.second_user import SecondUser, second_user
from servers.tools import ROOT
from servers.user import readable_by_all, shared_folder

PROC = ROOT / "tests/fixtures/proc/host"
DOCKERFILE = (ROOT / "deploy/docker/Dockerfile").read_text(encoding="utf-8")


def words(instruction: str) -> list[str]:
    """Return what the last such instruction of the Dockerfile holds."""
    return re.findall(r'"([^"]+)"', re.findall(rf"^{instruction} (.+)$", DOCKERFILE, re.MULTILINE)[-1])


@pytest.fixture(scope="module")
def folder() -> Iterator[Path]:
    if reason := container.missing():
        pytest.skip(f"only root can make a container by hand: {reason}")
    with shared_folder() as made:
        yield made


@pytest.fixture(scope="module")
def user(folder: Path) -> SecondUser:
    return second_user(folder, {})


@pytest.fixture
def volume(folder: Path, tmp_path: Path) -> Path:
    """Return a folder like an ``emptyDir``: root's, and everybody may write in it."""
    made = folder / tmp_path.name
    made.mkdir()
    made.chmod(0o777)
    return made


def for_everybody(driver: SimulatedDriver, folder: Path, user: SecondUser) -> dict[str, str]:
    """Return the environment of a driver whose files everybody may read."""
    library, scenario = folder / "library", folder / "scenario"
    shutil.copytree(driver.library, library, dirs_exist_ok=True)
    shutil.copyfile(driver.scenario, scenario)
    for each in (library, scenario):
        readable_by_all(each)
    paths = [str(library), user.environ.get("LD_LIBRARY_PATH", "")]
    return {"LD_LIBRARY_PATH": os.pathsep.join(filter(None, paths)), "GUA_SIMULATED_DRIVER": str(scenario)}


def test_nothing_can_be_written_in_it_but_the_state(user: SecondUser, folder: Path, volume: Path) -> None:
    (folder / "open").mkdir(exist_ok=True)
    (folder / "open").chmod(0o777)
    asked = (
        "for place in /tmp /home /var/tmp '{}'; do touch $place/x 2>/dev/null && echo wrote $place; done;"
        " touch '{}/x' && grep -E '^(CapEff|CapBnd|NoNewPrivs)' /proc/self/status; id -u"
    ).format(folder / "open", volume)
    done = subprocess.run(
        container.contained(volume, ["sh", "-c", asked]),
        env=dict(user.environ),
        capture_output=True,
        text=True,
        check=True,
    )
    status = dict(line.split(":\t") for line in done.stdout.splitlines()[:-1])
    assert status == {"CapEff": "0" * 16, "CapBnd": "0" * 16, "NoNewPrivs": "1"}
    assert int(done.stdout.splitlines()[-1]) == container.UID


def test_the_image_samples_cards_and_their_holders_without_any_capability(
    simulated_driver: SimulatedDriver,
    lab: Scenario,  # noqa: ARG001 - the world
    user: SecondUser,
    folder: Path,
    volume: Path,
    tmp_path: Path,
) -> None:
    (port,) = free_ports(1)
    log = tmp_path / "log"
    agent = container.start(
        user,
        volume,
        [*words("CMD"), "--interval", "1s"],
        log,
        {
            **for_everybody(simulated_driver, folder, user),
            "GUA_HOME": str(volume / "state"),
            "GUA_ENDPOINT": f"http://127.0.0.1:{port}",  # no receiver: the ticks stay in the spool
            "GUA_HOST_LOCK": f"gua-test-{uuid.uuid4().hex[:12]}",
            "NODE_NAME": "node-7",
            "POD_NAME": "gua-x",
            "POD_NAMESPACE": "gua",
        },
    )
    try:
        spool = volume / "state" / "spool.db"
        # Until it answers the spool is being made, and who looks into it would make files of its own there.
        answers = volume / "state" / "agent.sock"
        poll(lambda: agent.poll() is not None or answers.exists(), "the agent to answer")
        poll(lambda: agent.poll() is not None or len(read_spool(spool, "endpoint")) >= 2, "two ticks")
        assert agent.poll() is None, log.read_text()
    finally:
        code = container.end(agent)
    assert code == 0, log.read_text()
    assert "Traceback" not in log.read_text()
    assert spool.stat().st_uid == container.UID
    tick = read_spool(spool, "endpoint")[0]
    assert tick.origin.host == "node-7"
    assert {"k8s.node.name": "node-7", "k8s.pod.name": "gua-x", "k8s.namespace.name": "gua"}.items() <= dict(
        tick.origin.attributes
    ).items()
    assert [card.process_list for card in tick.cards] == ["known"] * 3
    (holder,) = tick.cards[1].processes
    # This test's own process, which is root's: pid, name, start, user and cgroup need no capability.
    assert holder.pid == os.getpid()
    assert holder.uid == os.geteuid()
    assert holder.comm
    assert holder.created_ms is not None


@dataclass
class Exporter:
    """What starts ``gua exporter`` in a container and reads its page."""

    user: SecondUser
    volume: Path
    log: Path
    driver: dict[str, str]

    @contextmanager
    def page(
        self,
        until: str = "",
        *,
        uid: int = container.UID,
        capabilities: Sequence[str] = (),
        own_pids: bool = False,
        account: Path | None = None,
        **further: str,
    ) -> Iterator[str]:
        """Yield the page that has ``until`` in it."""
        (port,) = free_ports(1)
        environ = {
            **self.driver,
            "GUA_HOME": str(self.volume / "state"),
            **further,
            "GUA_INTERVAL": "1s",
            "GUA_PROMETHEUS": f"0.0.0.0:{port}",
            "GUA_HOST_LOCK": f"gua-test-{uuid.uuid4().hex[:12]}",
            "NODE_NAME": "node-7",
            "POD_NAME": "gua-x",
            "POD_NAMESPACE": "gua",
        }
        # As deploy/kubernetes has it.
        agent = container.start(
            self.user,
            self.volume,
            ["exporter"],
            self.log,
            environ,
            uid=uid,
            capabilities=capabilities,
            own_pids=own_pids,
            account=account,
        )
        try:
            url = f"http://127.0.0.1:{port}"
            poll(lambda: agent.poll() is not None or http_answers(f"{url}/readyz"), "the exporter")
            assert agent.poll() is None, self.log.read_text()
            poll(lambda: http_answers(f"{url}/healthz"), "it to be well")
            pages: list[str] = []

            def is_there() -> bool:
                with urllib.request.urlopen(f"{url}/metrics", timeout=60) as answer:  # noqa: S310 - the test's own URL
                    pages.append(answer.read().decode())
                return until in pages[-1]

            poll(is_there, until)
            yield pages[-1]
        finally:
            code = container.end(agent)
        assert code == 0, self.log.read_text()


@pytest.fixture
def exporter(
    simulated_driver: SimulatedDriver,
    lab: Scenario,  # noqa: ARG001 - the world
    user: SecondUser,
    folder: Path,
    volume: Path,
    tmp_path: Path,
) -> Exporter:
    return Exporter(user, volume, tmp_path / "log", for_everybody(simulated_driver, folder, user))


def labels(page: str, name: str) -> list[dict[str, str]]:
    """Return the labels of each sample of a name."""
    families = text_string_to_metric_families(page)
    return [sample.labels for family in families for sample in family.samples if sample.name == name]


def test_the_exporter_serves_prometheus_without_any_right(exporter: Exporter) -> None:
    with exporter.page() as page:
        pid = str(os.getpid())
        assert re.search(rf'^gua_process_idle_duration_seconds{{[^}}]*process_pid="{pid}"', page, re.MULTILINE)
        of_the_agent = {"gpu": "1", "pid": pid, "node": "node-7", "pod": "gua-x", "namespace": "gua"}
        assert any(of_the_agent.items() <= one.items() for one in labels(page, "gpu_idle_process_idle_seconds"))


def test_without_the_hosts_pid_namespace_cards_are_reported_and_owners_are_not(exporter: Exporter) -> None:
    with exporter.page(own_pids=True) as page:
        assert len(re.findall(r'^gua_gpu_info{.*gua_gpu_process_list="pid_namespace"', page, re.MULTILINE)) == 3
        assert re.search(r'^gua_gpu_state{hw_id="[^"]*2",state="idle-held"} 1\.0$', page, re.MULTILINE)
        assert not re.search(r"(process_owner|gua_process_comm|container_id|k8s_pod_uid)=", page)
        assert set(re.findall(r'^gpu_idle_process_.*process="([^"]*)"', page, re.MULTILINE)) <= {"unknown"}
        assert re.search(r"^gua_process_gpu_time", page, re.MULTILINE)
        assert not re.search(r"^gua_process_(gpu_utilization|idle)", page, re.MULTILINE)


def test_pods_have_names_where_the_service_accounts_token_is_mounted(
    exporter: Exporter, simulated_driver: SimulatedDriver, folder: Path, tmp_path: Path
) -> None:
    # As components/pod-names has it: the node's kubelet, behind TLS of the cluster's authority, and the token's folder.
    simulated_driver.write(crowd([4545], cards=1))
    shutil.copyfile(simulated_driver.scenario, exporter.driver["GUA_SIMULATED_DRIVER"])
    proc = folder / f"proc-{tmp_path.name}"
    shutil.copytree(PROC, proc, symlinks=True)
    readable_by_all(proc)
    mounted = folder / f"secrets-{tmp_path.name}"
    mounted.mkdir()
    with kubelet(mounted) as fake:
        readable_by_all(mounted)
        with exporter.page(
            'k8s_pod_name="', account=fake.account, GUA_PROCFS=str(proc), GUA_KUBELET=str(fake.kubelet)
        ) as page:
            names = {"k8s_pod_uid": POD_UID, "k8s_pod_name": "train-0", "k8s_namespace_name": "lab"}
            series = labels(page, "gua_process_idle_duration_seconds")
            assert any({"process_pid": "4545", **names}.items() <= one.items() for one in series)
            assert "gua_agent_errors_total{" not in page
        assert set(fake.asked) == {"/pods"}
    assert "no names" not in exporter.log.read_text()


@pytest.mark.parametrize(("capabilities", "code"), [(["chown"], 0), ([], 1)])
def test_one_capability_gives_a_folder_of_the_node_to_the_agents_user(
    capabilities: list[str], code: int, volume: Path
) -> None:
    volume.chmod(0o755)
    command = ["chown", f"{container.UID}:{container.UID}", str(volume)]  # components/state-on-node
    done = subprocess.run(
        container.contained(volume, command, uid=0, capabilities=capabilities), capture_output=True, check=False
    )
    assert done.returncode == code, done.stderr
    assert volume.stat().st_uid == (container.UID if capabilities else 0)


@pytest.mark.parametrize(("uid", "capabilities", "code"), [(0, ["sys_ptrace"], 0), (0, [], 1), (container.UID, [], 1)])
def test_the_nodes_names_of_users_take_root_with_one_capability(
    uid: int, capabilities: list[str], code: int, volume: Path
) -> None:
    # components/owner-names: as through /proc/1/root, here of this process, which the node's first one need not let in.
    command = ["sh", "-c", f"exec cat /proc/{os.getpid()}/root/etc/passwd"]
    done = subprocess.run(
        container.contained(volume, command, uid=uid, capabilities=capabilities), capture_output=True, check=False
    )
    assert done.returncode == code, done.stderr


def owner_names() -> tuple[str, str]:
    """Return the owner of the state folder with components/owner-names, and the agent's GUA_HOME."""
    file = ROOT / "deploy/kubernetes/components/owner-names/kustomization.yaml"
    operations, merged = (yaml.safe_load(each["patch"]) for each in yaml.safe_load(file.read_text("utf-8"))["patches"])
    (owner,) = [each["value"] for each in operations if each["path"].endswith("/initContainers/0/command/1")]
    ((home,),) = [each["env"] for each in merged["spec"]["template"]["spec"]["containers"]]
    assert home["name"] == "GUA_HOME"
    return owner, home["value"]


def test_names_of_users_can_be_had_and_given_up_where_state_lies_on_the_node(exporter: Exporter, volume: Path) -> None:
    volume.chmod(0o755)
    owner_of_root, path = owner_names()
    home = path.replace("/var/lib/gua", str(volume))
    usual = f"{container.UID}:{container.UID}"  # components/state-on-node
    for owner, uid, capabilities, further in (
        (usual, container.UID, [], {}),
        (owner_of_root, 0, ["sys_ptrace"], {"GUA_HOME": home}),
        (usual, container.UID, [], {}),
    ):
        given = container.contained(volume, ["chown", owner, str(volume)], uid=0, capabilities=["chown"])
        subprocess.run(given, check=True)
        with exporter.page("gua_process_state{", uid=uid, capabilities=capabilities, **further):
            pass
    assert {each.name: each.stat().st_uid for each in volume.iterdir()} == {
        "state": container.UID,
        Path(home).name: 0,
    }


def test_the_image_runs_the_agent_by_default() -> None:
    assert words("ENTRYPOINT") == ["gua"]
    assert words("CMD") == ["daemon", "--foreground"]
    assert "GUA_HOME=/var/lib/gua/state" in DOCKERFILE
    assert f"USER {container.UID}:{container.UID}\n" in DOCKERFILE
