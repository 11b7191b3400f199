"""Make the zip file that Superset imports, with the address of your server.

Run: python bundle.py clickhousedb://gua_bi@db.example:8123/gua_public gua.zip

Without a password in the address Superset's page asks for it; for ``superset import-dashboards`` put it in.
"""

from __future__ import annotations

import sys
import zipfile
from pathlib import Path
from urllib.parse import urlsplit

BUNDLE = Path(__file__).parent / "gua"
ADDRESS = "clickhousedb://gua_bi:XXXXXXXXXX@db.example:8123/gua_public"


def main() -> None:
    """Write the file, or exit with 2 and a line saying what is wrong."""
    if len(sys.argv) != 3:
        sys.exit(
            "bundle.py: give an address, as in clickhousedb://gua_bi@db.example:8123/gua_public, and a file to write"
        )
    address, target = sys.argv[1:]
    found = urlsplit(address)
    if not found.scheme.startswith("clickhousedb") or not found.hostname or not found.username:
        sys.exit(f"bundle.py: {address} is no address: write clickhousedb://gua_bi@HOST:PORT/gua_public")
    if found.password is None:
        address = address.replace("@", ":XXXXXXXXXX@", 1)
    with zipfile.ZipFile(target, "w") as file:
        for part in sorted(BUNDLE.rglob("*.yaml")):
            text = part.read_text("utf-8").replace(ADDRESS, address)
            file.writestr(f"gua/{part.relative_to(BUNDLE).as_posix()}", text)


if __name__ == "__main__":
    main()
