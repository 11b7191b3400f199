"""Set up an empty Superset, import a bundle by its own command, and query each chart over its REST API.

Argument: the bundle. It prints one JSON object: datasets, dashboards, and of each chart the status of its answer, the
SQL that Superset wrote, how many rows came and what went wrong.
"""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
from pathlib import Path

from flask.testing import FlaskClient
from superset.app import create_app

ADMIN = shlex.split(
    "fab create-admin --username admin --firstname a --lastname b --email admin@example.com --password admin"
)


def main() -> None:
    for words in (
        ["db", "upgrade"],
        ADMIN,
        ["init"],
        ["import-dashboards", "-p", sys.argv[1], "-u", "admin"],
    ):
        command = [str(Path(sys.executable).parent / "superset"), *words]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode or "Error" in done.stdout:
            sys.exit(f"superset {words}: {done.stdout[-2000:]} {done.stderr[-2000:]}")
    client = create_app().test_client()
    token = client.post(
        "/api/v1/security/login",
        json={"username": "admin", "password": "admin", "provider": "db", "refresh": False},
    ).json["access_token"]
    headers = {"Authorization": f"Bearer {token}"}
    charts = client.get("/api/v1/chart/", headers=headers).json["result"]
    sys.stdout.write(
        json.dumps(
            {
                "datasets": client.get("/api/v1/dataset/", headers=headers).json["count"],
                "dashboards": [
                    each["dashboard_title"] for each in client.get("/api/v1/dashboard/", headers=headers).json["result"]
                ],
                "charts": {each["slice_name"]: shown(client, headers, each["id"]) for each in charts},
            }
        )
    )


def shown(client: FlaskClient, headers: dict[str, str], chart: int) -> dict[str, object]:
    answer = client.get(f"/api/v1/chart/{chart}/data/?force=true", headers=headers)
    body = answer.json or {}
    (result,) = body.get("result") or [{}]
    return {
        "status": answer.status_code,
        "sql": result.get("query", ""),
        "rows": result.get("rowcount"),
        "error": result.get("error") or body.get("message"),
    }


if __name__ == "__main__":
    main()
