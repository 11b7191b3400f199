"""Notices by mail to an SMTP server on loopback: seconds, CPU and peak memory of what sends them. Run: make bench.

The server (aiosmtpd, in another process) stores nothing. Limits are for 5,000 notices: 60 s and 200 MB.
"""

from __future__ import annotations

import argparse
import resource
import subprocess
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

from measures.figures import machine, show, title

from fakes.idle_notice import SETTING, card, idle, notice
from gua.notices.channels import fill, parts, reachable, send
from gua.notices.held import NoticeResult
from gua.notices.messages import notice_message

LIMIT_SECONDS, LIMIT_MB, LIMIT_NOTICES = 60, 200, 5_000
SERVE = """
import sys
from servers.smtp import Mailbox, mail_server

class Counter(Mailbox):
    async def handle_DATA(self, server, session, envelope):
        return "250 OK"

with mail_server(Counter()) as port:
    print(port, flush=True)
    sys.stdin.read()
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--notices", type=int, default=LIMIT_NOTICES)
    options = parser.parse_args()
    tests = Path(__file__).resolve().parents[1] / "tests"
    with subprocess.Popen(
        [sys.executable, "-c", SERVE], cwd=tests, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as server:
        port = int(server.stdout.readline())
        template = f"mailto://127.0.0.1:{port}?from=gua@example.org&to={{address}}"
        checked: dict[tuple[str, int], str] = {}

        def one(number: int) -> NoticeResult:
            held = idle(owner=f"user{number}", pid=number, cards=(card(number % 8, f"node{number // 8}"),))
            due = notice(held)
            channel = fill(template, parts(due, f"user{number}@example.org"))
            unreachable = reachable(channel, checked=checked)
            return NoticeResult.FAILED if unreachable else send(channel, notice_message(due, SETTING)).result

        begun, cpu = time.perf_counter(), time.process_time()
        results = [one(number) for number in range(options.notices)]
        seconds, cpu_seconds = time.perf_counter() - begun, time.process_time() - cpu
        server.stdin.close()
    if set(results) != {NoticeResult.SENT}:
        sys.exit(f"{sum(result is not NoticeResult.SENT for result in results)} notices were not sent")
    print(machine())
    title(f"{options.notices:,} notices by mail")
    note = f"{cpu_seconds:.1f} s of CPU, {seconds / options.notices * 1000:.1f} ms each"
    show("time", seconds, "s", LIMIT_SECONDS * options.notices / LIMIT_NOTICES, note=note)
    peak_mb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    show("peak memory", peak_mb, "MB", LIMIT_MB)


if __name__ == "__main__":
    main()
