"""The services of docker-compose.yml as processes, made from what the file says and not beside it.

The file is loaded by Docker Compose's own library. What a container would give is translated and nothing else:

- a path at which something is mounted, to where that is here; any other path stays as it is, and is not there;
- a service's name with a port, and the container's own addresses, to a free port of 127.0.0.1;
- an image to the program that it holds.

So a wrong path, name, port, option or variable in the file makes a service fail here, too.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import string
import subprocess
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from servers.clickhouse import serving
from servers.gua import COMMAND
from servers.process import ServerProcess, free_ports, http_answers, poll
from servers.tools import ROOT, collector_binary, compose_checker

FILE = ROOT / "docker-compose.yml"
DOCKERFILE = ROOT / "deploy" / "docker" / "Dockerfile"
HERE = Path(__file__).resolve().parent
OWN_HOSTS = frozenset({"127.0.0.1", "0.0.0.0", "localhost"})  # noqa: S104 - names in a file, nothing listens there
ADDRESS = re.compile(r"(?<![\w.-])([A-Za-z][\w.-]*|\d+\.\d+\.\d+\.\d+):(\d{2,5})(?!\d)")


def load_project(*profiles: str, settings: Mapping[str, str], file: Path = FILE) -> dict[str, Any]:
    """Return the project as Docker Compose would run it; fails with its message where it would refuse the file."""
    done = subprocess.run(
        [str(compose_checker()), str(file), *profiles],
        env={"PATH": os.environ["PATH"], **settings},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    project: dict[str, Any] = json.loads(done.stdout)
    return project


class Trial:
    """The project, with its volumes and mounts below ``folder``; nothing runs at first."""

    def __init__(self, folder: Path, settings: Mapping[str, str]) -> None:
        self._folder = folder
        self._settings = dict(settings)
        self._services: dict[str, Any] = load_project("report", settings=settings)["services"]
        self._ports: dict[tuple[str, int], int] = {}
        self._processes: dict[str, ServerProcess] = {}
        self._done: set[str] = set()

    # What the file says

    def address(self, service: str, port: int) -> str:
        """Return where a container's port is here; it must be one that the file publishes."""
        published = {each["target"] for each in self._services[service]["ports"]}
        assert port in published, f"{service} does not publish {port}"
        return self._translated(service, f"127.0.0.1:{port}")

    def volume(self, name: str) -> Path:
        """Return where a named volume is here."""
        path = self._folder / "volumes" / name
        path.mkdir(parents=True, exist_ok=True)
        return path

    def log(self, service: str) -> str:
        return self._processes[service].log.read_text(errors="replace")

    # What Compose does

    def up(self, service: str) -> None:
        """Start a service after what it depends on, as `docker compose up` does."""
        for name, dependency in (self._services[service].get("depends_on") or {}).items():
            match dependency["condition"]:
                case "service_completed_successfully":
                    self.complete(name)
                case "service_healthy":
                    self.up(name)
                    self.wait_until_healthy(name)
                case "service_started":
                    self.up(name)
                case other:
                    raise AssertionError(other)
        if service not in self._processes:
            self.start(service)

    def complete(self, service: str) -> None:
        """Run a one-shot service to its end, once, after what it depends on; insist on success."""
        if service in self._done:
            return
        for name in self._services[service].get("depends_on") or {}:
            self.up(name)
            self.wait_until_healthy(name)
        self.once(service)
        self._done.add(service)

    def start(self, service: str) -> None:
        """Start a service whatever else runs, as after a restart of the machine; it must not end by itself."""
        if service not in self._processes:
            folder = self._folder / service
            folder.mkdir(parents=True, exist_ok=True)
            self._processes[service] = ServerProcess(
                service, self._command(service), self._environment(service), folder
            )
        self._processes[service].start(lambda: True)

    def revive(self) -> None:
        """Start again what ended by itself, where the file says so, as Docker does.

        The test's ClickHouse aborts at times when a client of its native port is killed, which a real one does not.
        """
        for service, process in self._processes.items():
            if process.ended_by_itself and self._services[service].get("restart") == "unless-stopped":
                process.start(lambda: True)

    def kill(self, service: str) -> None:
        self._processes[service].kill()

    def stop(self, service: str) -> None:
        self._processes[service].stop()

    def kill_all(self) -> None:
        for process in self._processes.values():
            process.kill()

    def once(self, service: str, *arguments: str) -> str:
        """Run a service in the foreground, with other arguments if given, and return what it printed."""
        if self._services[service].get("user") == "0:0" and os.geteuid() != 0:
            return ""  # what root would prepare is this user's already
        done = subprocess.run(
            self._command(service, arguments),
            env=self._environment(service),
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        assert done.returncode == 0, f"{service} exited with {done.returncode}:\n{done.stderr}"
        return done.stdout

    def healthy(self, service: str) -> bool:
        """Run the service's own health check."""
        kind, *command = self._services[service]["healthcheck"]["test"]
        words = [self._translated(service, word) for word in command]
        if kind == "CMD-SHELL":
            words = ["/bin/sh", "-c", *words]
        elif words[0] == "wget" and not shutil.which("wget"):
            return http_answers(words[-1])
        try:
            return subprocess.run(words, capture_output=True, timeout=10, check=False).returncode == 0
        except subprocess.TimeoutExpired:
            return False

    def wait_until_healthy(self, service: str) -> None:
        poll(lambda: self.healthy(service), f"{service} to be healthy; see {self._folder / service}")

    # Translation

    def _command(self, service: str, arguments: tuple[str, ...] = ()) -> list[str]:
        configured = self._services[service]
        image = str(configured["image"]).rpartition(":")[0]
        entrypoint = configured.get("entrypoint")
        command = list(arguments or configured.get("command") or ())
        self._mount(service)
        if configured.get("build"):
            assert image == "gua"
            assert 'ENTRYPOINT ["gua"]' in DOCKERFILE.read_text().splitlines()
            # An entrypoint of the service takes the place of the image's, and of its arguments.
            program, *before = entrypoint or ["gua"]
            assert program == "gua"
            words = [str(COMMAND), *before, *command]
        elif entrypoint:
            words = [*entrypoint, *command]
        elif image == "otel/opentelemetry-collector-contrib":
            words = [str(collector_binary()), *command]
        elif image == "clickhouse/clickhouse-server":
            assert not command
            words = self._clickhouse(service)
        else:
            msg = f"nothing here stands for the image {configured['image']}"
            raise AssertionError(msg)
        return [self._translated(service, word) for word in words]

    def _environment(self, service: str) -> dict[str, str]:
        home = self._folder / service / "home"
        home.mkdir(parents=True, exist_ok=True)
        configured: Mapping[str, str] = self._services[service].get("environment") or {}
        given = {"PATH": os.environ["PATH"], "HOME": str(home), "NO_COLOR": "1"}
        return {**given, **{name: self._translated(service, value) for name, value in configured.items()}}

    def _clickhouse(self, service: str) -> list[str]:
        """Return the server's command line, its configuration laid out as in the image."""
        etc = self._root(service) / "etc" / "clickhouse-server"
        etc.mkdir(parents=True, exist_ok=True)
        users = etc / "users.xml"
        shutil.copy(HERE / "users.xml", users)
        config = etc / "config.xml"
        template = string.Template((HERE / "clickhouse.xml").read_text())
        (own_tcp_port,) = free_ports(1)
        config.write_text(
            template.substitute(
                http_port=self._port(service, 8123),
                tcp_port=own_tcp_port,
                path=self._root(service) / "var" / "lib" / "clickhouse",
                users=users,
                more="",
            )
        )
        return serving(config, self._port(service, 9000))

    def _root(self, service: str) -> Path:
        return self._folder / service / "root"

    def _mounts(self, service: str) -> dict[str, Path]:
        """Return what is mounted in a container: the path there, and what it is here."""
        return {
            each["target"]: self.volume(each["source"]) if each["type"] == "volume" else Path(each["source"])
            for each in self._services[service].get("volumes") or ()
        }

    def _mount(self, service: str) -> None:
        for target, source in self._mounts(service).items():
            assert source.exists(), f"{service} mounts {source}, which is not there"
            here = self._root(service) / target.removeprefix("/")
            here.parent.mkdir(parents=True, exist_ok=True)
            with suppress(FileExistsError):
                here.symlink_to(source)

    def _translated(self, service: str, text: str) -> str:
        for target in self._mounts(service):
            here = self._root(service) / target.removeprefix("/")
            text = re.sub(rf"(?<![\w./-]){re.escape(target)}(?![\w.-])", str(here), text)
        text = ADDRESS.sub(lambda found: self._translated_address(service, found), text)
        # A host and a port on their own, in variables of two.
        if text in OWN_HOSTS:
            return "127.0.0.1"
        if text.isdecimal() and int(text) in {each["target"] for each in self._services[service].get("ports") or ()}:
            return str(self._port(service, int(text)))
        return text

    def _translated_address(self, service: str, found: re.Match[str]) -> str:
        host, port = found[1], int(found[2])
        if host in OWN_HOSTS:
            return f"127.0.0.1:{self._port(service, port)}"
        if host in self._services and self._services[service].get("network_mode") is None:
            return f"127.0.0.1:{self._port(host, port)}"
        return found[0]

    def _port(self, service: str, port: int) -> int:
        if (service, port) not in self._ports:
            (self._ports[service, port],) = free_ports(1)
        return self._ports[service, port]
