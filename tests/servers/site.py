"""A site that had a Collector and a ClickHouse before gua: its user, its tables, and what it grants gua's owner."""

from __future__ import annotations

import shutil
from pathlib import Path

from servers.clickhouse import PASSWORDS, ClickHouseServer

COLLECTORS = Path(__file__).resolve().parents[1] / "pipeline" / "collectors"
CONFIG = COLLECTORS / "plain.yaml"
SETTINGS = {"CLICKHOUSE_USER": "site", "CLICKHOUSE_PASSWORD": PASSWORDS["site"]}
GRANTS = tuple(f"GRANT SELECT ON otel.otel_metrics_{kind}" for kind in ("gauge", "sum"))


def settle(server: ClickHouseServer) -> None:
    """Add the site's user to a server that has not started, and grant gua's owner what attaching prints, no more."""
    users = server.folder / "users.d"
    shutil.copy(COLLECTORS / "site-user.xml", users / "site.xml")
    before, owner, after = (users / "gua.xml").read_text("utf-8").partition("<gua_owner>")
    granted = "".join(f"<query>{grant}</query>" for grant in GRANTS)
    (users / "gua.xml").write_text(before + owner + after.replace("</grants>", f"{granted}</grants>", 1), "utf-8")
