"""A system with systemd as its first process, in namespaces of its own: Debian by debootstrap, gua by its README.

No image and no engine is needed: root, debootstrap and unshare, and the version 2 of control groups mounted somewhere.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Self

from servers.process import ServerProcess, poll
from servers.tools import ROOT, TOOLS, made_once

SUITE = "trixie"
PACKAGES = ("systemd", "dbus", "python3-venv", "ca-certificates")
NEEDED = ("debootstrap", "unshare", "nsenter")
_PATH = "/usr/sbin:/usr/bin:/sbin:/bin"
_CERTIFICATES = Path("/etc/ssl/certs/ca-certificates.crt")


def missing() -> str | None:
    """Return why no systemd can be the first process of anything here, ``None`` if one can."""
    if os.geteuid() != 0:
        return "only root can start a system"
    absent = [name for name in NEEDED if shutil.which(name) is None]
    if absent:
        return (
            f"{', '.join(absent)} not on PATH: apt-get install --no-install-recommends debootstrap iproute2 util-linux"
        )
    return None if _control_groups() is not None else "control groups of version 2 are mounted nowhere"


def _control_groups() -> Path | None:
    """Return where control groups of version 2 are mounted, as /proc/mounts has it."""
    found = re.search(r"^\S+ (\S+) cgroup2 \S*\brw\b", Path("/proc/mounts").read_text(), re.MULTILINE)
    return Path(found[1]) if found else None


def system_root() -> Path:
    """Return the root of a Debian with systemd and all that gua needs; made once with debootstrap (1.1 GB, minutes)."""
    content = b"".join((ROOT / name).read_bytes() for name in ("pyproject.toml", "uv.lock"))
    content += " ".join((SUITE, *PACKAGES)).encode()
    return made_once(TOOLS / "systemd" / hashlib.sha256(content).hexdigest()[:16], "root", _bootstrap)


def _bootstrap(scratch: Path) -> Path:
    root = scratch / "root"
    _must("debootstrap", "--variant=minbase", f"--include={','.join(PACKAGES)}", SUITE, str(root))
    shutil.copy("/etc/resolv.conf", root / "etc" / "resolv.conf")
    if _CERTIFICATES.exists():
        shutil.copy(_CERTIFICATES, root / _CERTIFICATES.relative_to("/"))
    _must("chroot", str(root), "python3", "-m", "venv", "/opt/gua")
    shutil.copy(wheel(scratch), root / "opt")
    (name,) = (path.name for path in (root / "opt").glob("*.whl"))
    _must("chroot", str(root), "/opt/gua/bin/pip", "install", "--quiet", f"/opt/{name}[local]")
    return root


def wheel(folder: Path) -> Path:
    """Return the checkout as a wheel, made in the folder."""
    _must(str(TOOLS / "uv" / "bin" / "uv"), "build", "--quiet", "--wheel", "--out-dir", str(folder), str(ROOT))
    (made,) = folder.glob("*.whl")
    return made


def _must(*command: str) -> None:
    environment = {name: value for name, value in os.environ.items() if name != "PIP_FIND_LINKS"}
    if _CERTIFICATES.exists():
        environment["PIP_CERT"] = str(_CERTIFICATES)
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{' '.join(command)} failed:\n{done.stdout[-2000:]}{done.stderr[-2000:]}"


class System:
    """A running system; use it as a context. ``files`` are put into it before it starts."""

    def __init__(self, files: Mapping[str, bytes]) -> None:
        self._folder = Path(tempfile.mkdtemp(prefix="gua-systemd."))
        groups = _control_groups()
        assert groups is not None
        self._group = groups / self._folder.name
        self._root = system_root()
        self._files = files
        boot = Path(__file__).with_name("systemd_boot.sh")
        command = ["sh", str(boot), str(self._root), str(self._folder), str(self._group)]
        self._process = ServerProcess("systemd", command, os.environ, self._folder)

    def __enter__(self) -> Self:
        try:
            self._process.start(self._is_up)
            for name, content in self._files.items():
                self.write(name, content)
            made = wheel(self._folder)
            self.write(f"/opt/{made.name}", made.read_bytes())
            again = ("--quiet", "--no-deps", "--no-index", "--force-reinstall")
            self.must("/opt/gua/bin/pip", "install", *again, f"/opt/{made.name}")
        except BaseException:
            self.__exit__()
            raise
        return self

    def _is_up(self) -> bool:
        return self("systemctl", "is-system-running").stdout.strip() in {"running", "degraded"}

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        poll(self._gone, f"the processes of {self._group} to end", seconds=30)
        shutil.rmtree(self._folder, ignore_errors=True)

    def _gone(self) -> bool:
        """Take away its control groups, which the kernel allows when nothing runs in them."""
        for folder, _, _ in os.walk(self._group, topdown=False):
            try:
                Path(folder).rmdir()
            except OSError:
                return False
        return True

    def __call__(
        self, *command: str, user: str = "root", given: bytes | None = None
    ) -> subprocess.CompletedProcess[str]:
        """Run a command in it and return what happened."""
        first = self._first()
        if first is None:
            return subprocess.CompletedProcess(command, 1, "", "it does not run yet")
        inside = ["nsenter", "--target", str(first), "--all", "env", "-i", "-C", "/", f"PATH={_PATH}"]
        if user != "root":
            inside += ["setpriv", f"--reuid={user}", "--regid=nogroup", "--clear-groups"]
        done = subprocess.run([*inside, *command], input=given, capture_output=True, check=False, timeout=300)
        out, err = (stream.decode(errors="replace") for stream in (done.stdout, done.stderr))
        return subprocess.CompletedProcess(command, done.returncode, out, err)

    def must(self, *command: str, user: str = "root") -> str:
        """Run it, insist on success and return its standard output."""
        done = self(*command, user=user)
        assert done.returncode == 0, f"{' '.join(command)}: {done.returncode}\n{done.stdout}{done.stderr}"
        return done.stdout

    def write(self, name: str, content: bytes) -> None:
        """Put a file into it, readable by all; whoever reads it sees the old or the new one whole."""
        script = 'mkdir -p "$(dirname "$1")" && cat > "$1.new" && chmod 644 "$1.new" && mv "$1.new" "$1"'
        done = self("sh", "-c", script, "sh", name, given=content)
        assert done.returncode == 0, done.stderr

    def shown(self, unit: str, *names: str) -> list[str]:
        """Return properties of a unit, in the order of the names."""
        lines = self.must("systemctl", "show", unit, *(f"--property={name}" for name in names)).splitlines()
        found = dict(line.split("=", 1) for line in lines)
        return [found[name] for name in names]

    def _first(self) -> int | None:
        """Return the pid of its first process once that is systemd."""
        outer = self._process.pid
        children = Path(f"/proc/{outer}/task/{outer}/children").read_text().split()
        for child in children:
            if Path(f"/proc/{child}/comm").read_text().strip() == "systemd":
                return int(child)
        return None
