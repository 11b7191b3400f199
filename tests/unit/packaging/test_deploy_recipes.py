"""deploy/recipes against a gua, a Slurm, a Kubernetes and a JupyterHub that answer as a test says.

The scripted kubectl stands for the real one: it prints the pods of a file, and notes its arguments and standard input.
tests/pipeline/test_slurm.py has the recipe of Slurm with a real one.
"""

from __future__ import annotations

import json
import os
import pwd
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

RECIPES = Path(__file__).resolve().parents[3] / "deploy" / "recipes"
FAILURES = (2, 4, 70, 127)  # wrong usage, data refused, a fault, no gua
NOT_IDLE = (1, 3, *FAILURES)
GUA = """\
#!/bin/sh
echo "gua $*" >>{log}
read -r code next <{codes}
[ -z "$next" ] || echo "$next" >{codes}
case $code in 0) idle=true ;; 1) idle=false ;; *) idle=null ;; esac
case " $* " in
  *" --json "*) echo '{{"idle": '$idle', "for_seconds": 3600.0, "reason": "as scripted"}}' ;;
  *) echo "as scripted" ;;
esac
exit $code
"""
SAYS = """\
#!/bin/sh
echo "{name} $*" >>{log}
{body}
"""


@dataclass
class Site:
    """A folder of scripted programs, and what was called."""

    folder: Path
    environment: dict[str, str] = field(default_factory=dict)

    def answer(self, *codes: int) -> None:
        """Have gua exit with these codes in turn, and with the last one from then on."""
        (self.folder / "codes").write_text(" ".join(map(str, codes)) + "\n")
        self.put("gua", GUA.format(log=self.folder / "log", codes=self.folder / "codes"))

    def says(self, name: str, body: str) -> None:
        self.put(name, SAYS.format(name=name, log=self.folder / "log", body=body))

    def put(self, name: str, text: str) -> None:
        file = self.folder / "bin" / name
        file.parent.mkdir(exist_ok=True)
        file.write_text(text)
        file.chmod(0o755)

    def calls(self, name: str) -> list[str]:
        log = self.folder / "log"
        lines = log.read_text().splitlines() if log.exists() else []
        return [line.partition(" ")[2] for line in lines if line.split()[0] == name]

    def run(self, recipe: str, *arguments: str) -> subprocess.CompletedProcess[str]:
        path = f"{self.folder / 'bin'}:{Path(sys.executable).parent}:/usr/bin:/bin"
        environment = {"PATH": path, "HOME": str(self.folder), **self.environment}
        python = [sys.executable] if recipe in {"gua_culler.py", "gua-idle-pods"} else []
        command = [*python, str(RECIPES / recipe), *arguments]
        return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60, check=False)


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return Site(tmp_path)


# Slurm


def with_jobs(site: Site, *jobs: str) -> None:
    site.says("squeue", "\n".join(f"echo '{job}'" for job in jobs))
    site.says("scancel", "exit 0")


def test_an_idle_job_is_listed_and_cancelled_by_the_id_of_its_array_task(site: Site) -> None:
    with_jobs(site, "7 7_2 1 ana")
    site.answer(0)
    listed = site.run("gua-idle-jobs", "--for", "2h", "--node", "n1")
    assert (listed.returncode, listed.stdout, site.calls("scancel")) == (0, "7_2 ana as scripted\n", [])
    assert "--nodelist=n1" in site.calls("squeue")[0]
    assert site.calls("gua") == ["idle --job 7 --for 2h"]
    cancelled = site.run("gua-idle-jobs", "--cancel")
    assert (cancelled.returncode, cancelled.stdout.splitlines()[-1]) == (0, "7_2 scancel sent")
    assert site.calls("scancel") == ["--state=RUNNING 7_2"]


@pytest.mark.parametrize("code", NOT_IDLE)
def test_a_job_that_is_not_known_to_be_idle_is_never_listed_or_cancelled(site: Site, code: int) -> None:
    with_jobs(site, "8 8 1 ana", "9 9 1 bob")
    site.answer(code)
    done = site.run("gua-idle-jobs", "--cancel")
    assert (done.stdout, site.calls("scancel")) == ("", [])
    assert done.returncode == (1 if code in FAILURES else 0)
    assert len(site.calls("gua")) == 2, "one failure does not end the round"


@pytest.mark.parametrize("code", NOT_IDLE)
def test_a_job_that_is_in_use_again_when_asked_right_before_is_not_cancelled(site: Site, code: int) -> None:
    with_jobs(site, "8 8 1 ana")
    site.answer(0, code)
    done = site.run("gua-idle-jobs", "--cancel")
    assert (done.stdout, site.calls("scancel")) == ("8 ana as scripted\n", [])


@pytest.mark.parametrize("job", ["8 8 2 ana", "8 8+0 1 ana"])
def test_a_job_with_other_hosts_is_skipped_because_gua_knows_this_one_only(site: Site, job: str) -> None:
    with_jobs(site, job)
    site.answer(0)
    done = site.run("gua-idle-jobs", "--cancel")
    assert (done.returncode, done.stdout, site.calls("scancel")) == (0, "", [])
    assert "unknown on its other hosts" in done.stderr


def test_failures_of_squeue_and_scancel_and_wrong_options_end_with_another_code(site: Site) -> None:
    site.answer(0)
    with_jobs(site, "8 8 1 ana")
    site.says("scancel", "exit 1")
    assert site.run("gua-idle-jobs", "--cancel").returncode == 1
    site.says("squeue", "exit 1")
    assert (site.run("gua-idle-jobs").returncode, site.run("gua-idle-jobs", "--kill").returncode) == (1, 2)
    with_jobs(site)
    assert site.run("gua-idle-jobs").returncode == 0


# Kubernetes

POD = {"metadata": {"namespace": "team-a", "name": "notebook-0", "uid": "uid-1"}}
ANNOTATED = {"metadata": {**POD["metadata"], "annotations": {"gua/idle-since": "2026-11-28T01:00:00Z"}}}


def with_pods(site: Site, *pods: object) -> None:
    (site.folder / "pods.json").write_text(json.dumps({"items": pods}))
    body = f"case $* in *' get pods '*) cat {site.folder / 'pods.json'} ;; *--raw*) cat >{site.folder / 'body'} ;; esac"
    site.says("kubectl", body)


def changes(site: Site) -> list[str]:
    return [call for call in site.calls("kubectl") if " get " not in call]


def test_an_idle_pod_is_annotated_once_with_a_moment_since_which_it_was_idle(site: Site) -> None:
    with_pods(site, POD)
    site.answer(0)
    done = site.run("gua-idle-pods", "--for", "1h", "--node", "n1", "--selector", "app=notebook")
    assert (done.returncode, done.stdout) == (0, "team-a/notebook-0: as scripted\n")
    assert site.calls("gua") == ["idle --pod=team-a/notebook-0 --for=1h --json"]
    assert "spec.nodeName=n1,status.phase=Running --selector=app=notebook" in site.calls("kubectl")[0]
    [change] = changes(site)
    before, _, moment = change.partition("gua/idle-since=")
    assert before == "--request-timeout=60s annotate --namespace=team-a pod notebook-0 "
    age = datetime.now(UTC) - datetime.fromisoformat(moment)
    assert timedelta(hours=1) <= age < timedelta(hours=1, minutes=2)
    with_pods(site, ANNOTATED)
    site.run("gua-idle-pods")
    assert len(changes(site)) == 1, "the first moment stays"


def test_an_idle_pod_is_deleted_by_its_uid(site: Site) -> None:
    with_pods(site, POD)
    site.answer(0)
    assert site.run("gua-idle-pods", "--delete").returncode == 0
    assert changes(site) == ["delete --raw=/api/v1/namespaces/team-a/pods/notebook-0 --filename=-"]
    assert json.loads((site.folder / "body").read_text())["preconditions"] == {"uid": "uid-1"}


@pytest.mark.parametrize("code", NOT_IDLE)
@pytest.mark.parametrize("options", [[], ["--delete"]])
def test_a_pod_that_is_not_known_to_be_idle_is_left_alone_and_loses_an_old_annotation(
    site: Site, code: int, options: list[str]
) -> None:
    with_pods(site, POD, ANNOTATED)
    site.answer(code)
    done = site.run("gua-idle-pods", *options)
    assert (done.returncode, done.stdout) == (1 if code in FAILURES else 0, "")
    assert changes(site) == ["--request-timeout=60s annotate --namespace=team-a pod notebook-0 gua/idle-since-"]


@pytest.mark.parametrize("code", NOT_IDLE)
def test_a_pod_that_is_in_use_again_when_asked_right_before_is_not_deleted(site: Site, code: int) -> None:
    with_pods(site, POD)
    site.answer(0, code)
    site.run("gua-idle-pods", "--delete")
    assert changes(site) == []


def test_an_exit_code_and_an_answer_that_contradict_each_other_are_no_answer(site: Site) -> None:
    with_pods(site, POD)
    site.put("gua", '#!/bin/sh\necho \'{"idle": null, "for_seconds": 1, "reason": ""}\'\n')
    assert (site.run("gua-idle-pods", "--delete").returncode, changes(site)) == (1, [])
    site.says("kubectl", "exit 1")
    assert site.run("gua-idle-pods").returncode == 1


# Autostop


def autostop(site: Site, *codes: int, rounds: int = 65) -> tuple[int, int]:
    """Return how often it shut down and warned within so many rounds."""
    site.answer(*codes)
    site.says("sudo", "exit 0")
    site.says("logger", "exit 0")
    site.put(
        "sleep", f"#!/bin/sh\necho sleep >>{site.folder}/log\n[ $(grep -c ^sleep {site.folder}/log) -le {rounds} ]\n"
    )
    site.run("gua-autostop")
    assert set(site.calls("sudo")) <= {"shutdown -h now"}
    return len(site.calls("sudo")), len(site.calls("logger"))


def test_a_machine_stops_when_its_gpus_are_idle(site: Site) -> None:
    assert autostop(site, 1, 3, 1, 0) == (1, 0)
    assert site.calls("gua") == ["idle --for 30m"] * 4


@pytest.mark.parametrize(("code", "warnings"), [(1, 0), *((code, 1) for code in (3, *FAILURES))])
def test_a_machine_never_stops_on_unknown_but_warns(site: Site, code: int, warnings: int) -> None:
    assert autostop(site, code) == (0, warnings)


# JupyterHub


@dataclass
class Hub:
    """The two requests of a JupyterHub that the culler makes; pages as the real one has them."""

    users: list[dict[str, Any]]
    deleted: list[str] = field(default_factory=list)
    url: str = ""
    refuses: str = ""

    def get(self, query: dict[str, list[str]]) -> object:
        assert query["state"] == ["ready"]
        offset, limit = int(query["offset"][0]), int(query["limit"][0])
        end = offset + limit
        more = {"offset": end, "limit": limit, "url": "http://elsewhere.invalid/"} if end < len(self.users) else None
        return {"items": self.users[offset:end], "_pagination": {"next": more}}


@pytest.fixture
def hub(site: Site) -> Iterator[Hub]:
    made = Hub([])

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            assert self.headers["Accept"] == "application/jupyterhub-pagination+json"
            self.reply(200, json.dumps(made.get(parse_qs(urlsplit(self.path).query))).encode())

        def do_DELETE(self) -> None:
            if self.path == made.refuses:
                self.reply(500, b"{}")
                return
            made.deleted.append(self.path)
            self.reply(204, b"")

        def reply(self, code: int, body: bytes) -> None:
            assert self.headers["Authorization"] == "token secret"
            self.send_response(code)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    site.environment = {
        "JUPYTERHUB_API_URL": f"http://127.0.0.1:{server.server_port}/hub/api",
        "JUPYTERHUB_API_TOKEN": "secret",
    }
    yield made
    server.shutdown()
    server.server_close()


def user(name: str, *servers: str, hours: float = 2, ready: bool = True) -> dict[str, Any]:
    started = (datetime.now(UTC) - timedelta(hours=hours)).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
    each = {server: {"name": server, "ready": ready, "started": started} for server in servers or ("",)}
    return {"name": name, "servers": each}


ME = pwd.getpwuid(os.getuid()).pw_name


def test_all_servers_of_a_user_with_idle_gpus_are_stopped(site: Site, hub: Hub) -> None:
    hub.users = [user(ME, "", "a b/c")]
    site.answer(0)
    done = site.run("gua_culler.py", "--every", "0", "--for", "1h")
    assert done.returncode == 0, done.stderr
    assert hub.deleted == [f"/hub/api/users/{ME}/server", f"/hub/api/users/{ME}/servers/a%20b%2Fc"]
    assert site.calls("gua") == [f"idle --user={os.getuid()} --for=1h --json"]


@pytest.mark.parametrize("code", NOT_IDLE)
def test_no_server_is_stopped_unless_gua_knows_that_it_is_idle(site: Site, hub: Hub, code: int) -> None:
    hub.users = [user(ME)]
    site.answer(code)
    done = site.run("gua_culler.py", "--every", "0")
    assert (done.returncode, hub.deleted) == (0, [])
    assert f"{ME}: kept ({'in use' if code == 1 else 'unknown'})" in done.stderr


def test_a_gua_that_is_missing_or_prints_rubbish_is_unknown(site: Site, hub: Hub) -> None:
    hub.users = [user(ME)]
    for text in ("#!/bin/sh\necho rubbish\n", "#!/nonexistent\n", "#!/bin/sh\necho '{\"idle\": null}'\n"):
        site.put("gua", text)
        assert "kept (unknown)" in site.run("gua_culler.py", "--every", "0").stderr
    assert hub.deleted == []


def test_a_server_that_started_within_the_time_or_is_not_ready_is_kept(site: Site, hub: Hub) -> None:
    hub.users = [user(ME, hours=0.5), user(ME, ready=False)]
    site.answer(0)
    site.run("gua_culler.py", "--every", "0")
    assert hub.deleted == []


def test_a_name_that_is_a_number_or_no_user_of_this_host_is_unknown(site: Site, hub: Hub) -> None:
    hub.users = [user(str(os.getuid())), user("nobody-here"), user("--for=1s")]
    site.answer(0)
    site.run("gua_culler.py", "--every", "0")
    assert (hub.deleted, site.calls("gua")) == ([], [])


def test_users_behind_the_first_page_are_seen_and_one_refusal_stops_no_other(site: Site, hub: Hub) -> None:
    hub.users = [*(user(f"nobody-{place}") for place in range(120)), user(ME), user("root" if ME != "root" else "bin")]
    hub.refuses = f"/hub/api/users/{ME}/server"
    site.answer(0)
    done = site.run("gua_culler.py", "--every", "0")
    assert "not stopped: HTTP Error 500" in done.stderr
    assert len(hub.deleted) == 1


def test_a_hub_that_does_not_answer_is_said(site: Site, hub: Hub) -> None:
    site.environment["JUPYTERHUB_API_URL"] = "http://127.0.0.1:1/hub/api"
    assert site.run("gua_culler.py", "--every", "0").returncode == 1
    assert hub.deleted == []
