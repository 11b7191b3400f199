"""What the image's entry point finds in its container, made by hand: no container engine is needed.

A mount namespace in which nothing can be written but the folder of the state, and a user without any capability who
cannot get one (``no_new_privs``), as ``readOnlyRootFilesystem``, ``runAsNonRoot``, ``capabilities: drop: [ALL]`` and
``allowPrivilegeEscalation: false`` make it. The PID namespace stays the host's, as ``hostPID`` has it. Not made here:
the seccomp filter, AppArmor, and the device cgroup.
"""

from __future__ import annotations

import os
import shlex
import shutil
import signal
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from servers.second_user import SecondUser

UID = 10_001  # of the image's user, see deploy/docker/Dockerfile
_ACCOUNT = "/run/secrets/kubernetes.io/serviceaccount"  # /var/run is /run
_SET_UP = r"""
set -eu
umask 022  # as engines have it, also for what they make to mount in
mount --bind "$1" "$1"
if [ -n "$ACCOUNT" ]; then
  mount -t tmpfs tmpfs /run
  mkdir -p "$ACCOUNT_INSIDE"
  mount --bind "$ACCOUNT" "$ACCOUNT_INSIDE"
fi
# What /proc, /sys and /dev hold is the kernel's; what was mounted below the /run of before is out of reach.
awk '{print $5}' /proc/self/mountinfo | while read -r place; do
  place=$(printf '%b' "$place")
  case "$place" in "$1" | /proc* | /sys* | /dev/*) continue ;; esac
  mountpoint -q "$place" || continue
  mount -o remount,bind,ro "$place"
done
shift
exec setpriv --reuid "$UID_INSIDE" --regid "$UID_INSIDE" --clear-groups --no-new-privs \
  --inh-caps=-all --ambient-caps=-all --bounding-set="$CAPABILITIES" -- "$@"
"""


def missing() -> str | None:
    """Return why no container can be made by hand here, ``None`` if one can."""
    for program in ("unshare", "setpriv", "mount", "mountpoint", "awk"):
        if shutil.which(program) is None:
            return f"{program} is not on PATH"
    attempt = subprocess.run(["unshare", "--mount", "true"], capture_output=True, text=True, check=False)
    return None if attempt.returncode == 0 else attempt.stderr.strip()


def contained(
    state: Path,
    command: Sequence[str],
    *,
    uid: int = UID,
    capabilities: Sequence[str] = (),
    own_pids: bool = False,
    account: Path | None = None,
) -> list[str]:
    """Return the command as it runs in such a container, which may write below ``state`` and nowhere else.

    A user id of 0 gets ``capabilities`` and no others, an ordinary user none, as in Kubernetes. With ``own_pids`` it
    is in a PID namespace of its own, as without ``hostPID``. ``account`` is mounted as the service account's folder.
    """
    bounding = ",".join(["-all", *(f"+{name}" for name in capabilities)])
    script = _SET_UP.replace('"$UID_INSIDE"', str(uid)).replace('"$CAPABILITIES"', bounding)
    script = script.replace('"$ACCOUNT_INSIDE"', _ACCOUNT).replace('"$ACCOUNT"', shlex.quote(str(account or "")))
    pids = ["--pid", "--fork", "--mount-proc"] if own_pids else []
    return ["unshare", "--mount", *pids, "--propagation", "private", "sh", "-c", script, "sh", str(state), *command]


def start(
    user: SecondUser,
    state: Path,
    arguments: Sequence[str],
    log: Path,
    environ: Mapping[str, str],
    *,
    uid: int = UID,
    capabilities: Sequence[str] = (),
    own_pids: bool = False,
    account: Path | None = None,
) -> subprocess.Popen[bytes]:
    """Start gua with these arguments, as the image's user if no other is named; what it prints goes to ``log``."""
    with log.open("wb") as file:
        return subprocess.Popen(
            contained(
                state,
                user.command(*arguments),
                uid=uid,
                capabilities=capabilities,
                own_pids=own_pids,
                account=account,
            ),
            env={**user.environ, "HOME": "/home/gua", **environ},
            cwd="/",
            stdin=subprocess.DEVNULL,
            stdout=file,
            stderr=subprocess.STDOUT,
        )


def end(agent: subprocess.Popen[bytes]) -> int:
    """End it as a container is ended, with SIGTERM, and return its exit code."""
    # unshare stays beside a process in a PID namespace of its own, and passes no signal on.
    children = Path(f"/proc/{agent.pid}/task/{agent.pid}/children").read_text("ascii").split()
    os.kill(int(children[0]) if _has_own_pids(agent) else agent.pid, signal.SIGTERM)
    return agent.wait(timeout=60)


def _has_own_pids(agent: subprocess.Popen[bytes]) -> bool:
    return isinstance(agent.args, list) and "--fork" in agent.args
