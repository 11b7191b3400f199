#!/usr/bin/env bash
# jupyterhub 6.1.1, jupyterhub-idle-culler 2.0.0, jupyter_server 2.20.0, configurable-http-proxy 5.3.0, 2026-11-28.
# The culler stops a server whose kernel is busy with a cell that prints nothing, once --timeout has passed: as
# activity count messages of a kernel and requests, not its execution state. One guesses that a server with a running
# cell is active (cull_busy of jupyter_server's own culler is false by default, but this culler has no such setting).
# A training run without output and with the browser closed is stopped like an idle notebook.
# Seen: the cell ran for 23 s, silently, and its server was stopped
# It needs node and npm.
set -euo pipefail
folder=$(mktemp -d)
trap 'kill "${hub:-}" 2>/dev/null && wait "$hub" || true; rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/pip install --quiet --disable-pip-version-check \
  jupyterhub==6.1.1 jupyterhub-idle-culler==2.0.0 jupyter_server==2.20.0 ipykernel
npm install --silent --prefix "$folder" configurable-http-proxy@5.3.0 >/dev/null
ports=$(venv/bin/python -c 'import socket; all=[socket.create_server(("127.0.0.1", 0)) for _ in "123"]; print(*(s.getsockname()[1] for s in all))')
read -r public internal api <<<"$ports"
cat >config.py <<PY
import sys
c.JupyterHub.bind_url = "http://127.0.0.1:$public"
c.JupyterHub.hub_port = $internal
c.ConfigurableHTTPProxy.api_url = "http://127.0.0.1:$api"
c.ConfigurableHTTPProxy.command = ["$folder/node_modules/.bin/configurable-http-proxy"]
c.JupyterHub.last_activity_interval = 2
c.JupyterHub.authenticator_class = "dummy"
c.Authenticator.allow_all = True
c.JupyterHub.spawner_class = "simple"
c.Spawner.cmd = ["$folder/venv/bin/jupyterhub-singleuser"]
c.Spawner.args = ["--allow-root"]
c.Spawner.http_timeout = c.Spawner.start_timeout = 180
c.Spawner.environment = {"JUPYTERHUB_ACTIVITY_INTERVAL": "2", "JUPYTER_RUNTIME_DIR": "$folder/runtime"}
c.JupyterHub.services = [
    {"name": "trial", "api_token": "t" * 32},
    {"name": "culler", "command": [sys.executable, "-m", "jupyterhub_idle_culler", "--timeout=20", "--cull-every=2"]},
]
c.JupyterHub.load_roles = [
    {"name": "trial", "scopes": ["admin:users", "admin:servers", "access:servers"], "services": ["trial"]},
    {
        "name": "culler",
        "scopes": ["list:users", "read:users:activity", "read:servers", "delete:servers"],
        "services": ["culler"],
    },
]
PY
PATH="$folder/venv/bin:$PATH" venv/bin/jupyterhub -f config.py >hub.log 2>&1 &
hub=$!
venv/bin/python - "$public" "$internal" <<'PY'
import json
import sys
import time
import urllib.request
from pathlib import Path

from jupyter_client import BlockingKernelClient

PUBLIC, INTERNAL = (f"http://127.0.0.1:{port}" for port in sys.argv[1:])


def ask(method, url, body=None):
    headers = {"Authorization": "token " + "t" * 32, "Content-Type": "application/json"}
    data = None if body is None else json.dumps(body).encode()
    with urllib.request.urlopen(urllib.request.Request(url, data, headers, method=method), timeout=200) as answer:
        return json.loads(answer.read() or b"null")


def wait(what, seconds=200):
    for _ in range(seconds):
        try:
            if found := what():
                return found
        except OSError:
            pass
        time.sleep(1)
    sys.exit("it did not come up in time")


def servers():
    return ask("GET", f"{INTERNAL}/hub/api/users/ada")["servers"]


wait(lambda: ask("GET", f"{INTERNAL}/hub/api/"))
ask("POST", f"{INTERNAL}/hub/api/users/ada")
ask("POST", f"{INTERNAL}/hub/api/users/ada/server", {})
wait(lambda: servers()[""]["ready"])
kernel = ask("POST", f"{PUBLIC}/user/ada/api/kernels", {})["id"]
client = BlockingKernelClient(connection_file=f"runtime/kernel-{kernel}.json")
client.load_connection_file()
client.start_channels()
beat = Path("beat").absolute()
client.execute(f"import time\nwhile True:\n    open({str(beat)!r}, 'w').write(str(time.time()))\n    time.sleep(1)")
wait(beat.exists)
begun = time.time()
end = begun + 90
while servers() and time.time() < end:  # the hub's own answers are no activity of the server
    time.sleep(1)
if servers():
    print("after 90 s the server still runs")
    sys.exit(1)
print(f"the cell ran for {float(beat.read_text()) - begun:.0f} s, silently, and its server was stopped")
PY
