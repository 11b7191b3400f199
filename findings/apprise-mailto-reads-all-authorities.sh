#!/usr/bin/env bash
# apprise 2.3.0, 2026-11-28.
# mailto:// sends without TLS, and reads all certificate authorities of the system for each message all the same:
# AppriseSMTPController calls ssl.create_default_context() before it looks at its mode. With OpenSSL 3.0 and a bundle of
# 140 authorities that is 45 ms of CPU a message, of 53 in all; 5,000 mails to a relay on the same host take 4 minutes
# longer. One guesses that only mailtos:// needs authorities. With SSL_CERT_FILE=/dev/null it is 8 ms a message.
# Seen: mailto:// without TLS: {'mails': 5, 'contexts': 5, 'authorities': 5}, sent 5 of 5
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check apprise==2.3.0 aiosmtpd==1.4.6
"$folder/venv/bin/python" - <<'PY'
import socket
import ssl
import sys

import apprise
from aiosmtpd.controller import Controller

MAILS = 5
counts = {"mails": 0, "contexts": 0, "authorities": 0}
create, load = ssl.create_default_context, ssl.SSLContext.load_default_certs


class Handler:
    async def handle_DATA(self, server, session, envelope):
        counts["mails"] += 1
        return "250 OK"


def create_default_context(*arguments, **options):
    counts["contexts"] += 1
    return create(*arguments, **options)


def load_default_certs(*arguments, **options):
    counts["authorities"] += 1
    return load(*arguments, **options)


with socket.create_server(("127.0.0.1", 0)) as listening:
    port = listening.getsockname()[1]
controller = Controller(Handler(), hostname="127.0.0.1", port=port)
controller.start()
sender = apprise.Apprise()
sender.add(f"mailto://127.0.0.1:{port}?from=gua@example.org&to=alice@example.org")
ssl.create_default_context, ssl.SSLContext.load_default_certs = create_default_context, load_default_certs
sent = [bool(sender.notify(body="hello", title="subject")) for _ in range(MAILS)]
controller.stop()
print(f"mailto:// without TLS: {counts}, sent {sum(sent)} of {MAILS}")
sys.exit(counts["mails"] != MAILS or counts["authorities"] != MAILS)
PY
