#!/usr/bin/env python3
"""Stop JupyterHub servers whose user has idle GPU processes on this host: a managed service. README.md says how.

It stops a server only on exit code 0 of `gua idle`. In use (1), unknown (3) and a failing gua leave it alone.
"""

from __future__ import annotations

import argparse
import json
import os
import pwd
import subprocess
import sys
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any
from urllib.error import URLError
from urllib.parse import quote, urlencode
from urllib.request import Request, urlopen

PAGE = 50
IDLE, IN_USE, UNKNOWN = 0, 1, 3


def hub(method: str, path: str) -> Any:  # noqa: ANN401 - JSON
    """Return the answer of JupyterHub's API, ``None`` if it is empty."""
    headers = {
        "Authorization": f"token {os.environ['JUPYTERHUB_API_TOKEN']}",
        # Without this header the hub returns one page only, and does not say so.
        "Accept": "application/jupyterhub-pagination+json",
    }
    request = Request(os.environ["JUPYTERHUB_API_URL"] + path, method=method, headers=headers)  # noqa: S310 - the hub's
    with urlopen(request, timeout=60) as response:  # noqa: S310
        return json.loads(response.read() or b"null")


def users() -> Iterator[dict[str, Any]]:
    """Yield the users with a server that is ready, page by page."""
    page: Any = {"offset": 0, "limit": PAGE}
    while page:
        asked = {"state": "ready", "offset": page["offset"], "limit": page["limit"]}
        answer = hub("GET", f"/users?{urlencode(asked)}")
        yield from answer["items"]
        page = answer["_pagination"]["next"]


def idle(user: str, duration: str) -> tuple[int, str, float]:
    """Return gua's exit code, its reason and DURATION in seconds for what a user has on this host's GPUs."""
    try:
        uid = pwd.getpwnam(user).pw_uid  # the name 1000 must not select the user with uid 1000
    except KeyError:
        return UNKNOWN, "this host has no such user", 0
    command = ["gua", "idle", f"--user={uid}", f"--for={duration}", "--json"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)  # noqa: S603 - no shell
        answer = json.loads(done.stdout)
        if done.returncode == IDLE and answer["idle"] is not True:
            return UNKNOWN, "gua contradicts itself", 0
        return done.returncode, str(answer["reason"]), float(answer["for_seconds"])
    except (OSError, ValueError, KeyError, TypeError, subprocess.TimeoutExpired) as error:
        return UNKNOWN, f"gua failed: {error}", 0


def cull(duration: str) -> None:
    """Stop the servers of all users whose GPU processes are idle, and print one line for each of these users."""
    for user in list(users()):  # before the first stop: that would shift the pages
        name = user["name"]
        code, reason, seconds = idle(name, duration)
        if code != IDLE:
            say(f"{name}: kept ({'in use' if code == IN_USE else 'unknown'}): {reason}")
            continue
        for server_name, server in user["servers"].items():
            age = (datetime.now(UTC) - datetime.fromisoformat(server["started"])).total_seconds()
            if not server["ready"] or age < seconds:
                # Its user came back after the GPU became idle.
                say(f"{name}/{server_name}: kept: not ready, or started less than {duration} ago")
                continue
            try:
                # Not /servers/: the default server has no name.
                path = f"servers/{quote(server_name, safe='')}" if server_name else "server"
                hub("DELETE", f"/users/{quote(name, safe='')}/{path}")
                say(f"{name}/{server_name}: stopped: {reason}")
            except (URLError, OSError) as error:  # others still get their turn
                say(f"{name}/{server_name}: not stopped: {error}")


def say(text: str) -> None:
    """Write a line to the hub's log."""
    sys.stderr.write(f"gua_culler: {text}\n")


def main() -> None:
    """Cull every so often, or once."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--for", dest="duration", default="1h", help="stop after this time without GPU use (1h)")
    parser.add_argument("--every", type=float, default=300, help="seconds between two rounds (300); 0: one round")
    options = parser.parse_args()
    while True:
        try:
            cull(options.duration)
        except (URLError, OSError, ValueError, KeyError, TypeError) as error:
            say(f"the hub did not answer as expected: {error}")
            if not options.every:
                sys.exit(1)
        if not options.every:
            return
        time.sleep(options.every)


if __name__ == "__main__":
    main()
