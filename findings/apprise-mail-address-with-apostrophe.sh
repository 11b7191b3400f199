#!/usr/bin/env bash
# apprise 2.3.0, 2026-11-28.
# mailto://...&to=o'brien@example.org, percent-encoded or not, is mail to brien@example.org with the name "o": somebody
# else. An apostrophe is valid in an address (RFC 5322, atext). A second address without a dot in its domain is left out
# without a warning, though the same address alone is a recipient: to=a@example.org,root@localhost is only a@example.org,
# and notify() is true. One guesses that an address is taken whole or refused.
# Seen: o%27brien@example.org: [('o', 'brien@example.org')]
#       root@localhost: [(False, 'root@localhost')]
#       a@example.org,root@localhost: [(False, 'a@example.org')]
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check apprise==2.3.0
"$folder/venv/bin/python" - <<'PY'
import logging
import sys

import apprise

warnings = []
handler = logging.Handler(logging.WARNING)
handler.emit = lambda record: warnings.append(record.getMessage())
logging.getLogger("apprise").addHandler(handler)


def targets(address):
    found = apprise.Apprise.instantiate(f"mailto://127.0.0.1?from=gua@example.org&to={address}").targets
    print(f"{address}: {found}")
    return [each for _, each in found]


as_stated = (
    targets("o%27brien@example.org") == ["brien@example.org"]
    and targets("root@localhost") == ["root@localhost"]
    and targets("a@example.org,root@localhost") == ["a@example.org"]
    and not warnings
)
print("warnings:", warnings)
sys.exit(not as_stated)
PY
