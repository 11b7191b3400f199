"""The terminals of a user on this host: listed by ``who``, written to by util-linux' ``write``."""

import re
import subprocess
from time import monotonic
from typing import Final

from gua.core.plaintext import safe

LIST_SECONDS: Final = 5.0
_MOST: Final = 16
_LINE: Final = re.compile(r"[A-Za-z0-9/]+", re.ASCII)


def _run(command: list[str], text: str, seconds: float) -> tuple[str, str]:
    """Return what a command prints, and why it failed, empty if it did not."""
    try:
        done = subprocess.run(  # noqa: S603 - two fixed commands with checked arguments
            command, input=text, capture_output=True, text=True, errors="replace", timeout=seconds, check=False
        )
    except OSError as error:
        return "", f"{command[0]} cannot be started: {error.strerror}"
    except subprocess.TimeoutExpired:
        return "", f"{' '.join(command)}: no answer within {seconds:.0f} s"
    return done.stdout, (done.stderr.strip() or f"exit code {done.returncode}") if done.returncode else ""


def terminals(user: str) -> tuple[list[str], str]:
    """Return the user's terminals on this host that take messages, at most 16, and why others do not or none is there.

    A terminal refuses by ``mesg n``, which ``write`` would ignore for root.
    """
    listed, problem = _run(["who", "-T"], "", LIST_SECONDS)
    rows = [row.split() for row in listed.splitlines()]
    own = [row for row in rows if len(row) > 2 and row[0] == user and _LINE.fullmatch(row[2])]
    taking = [row[2] for row in own if row[1] != "-"]
    refusing = "; ".join(f"{row[2]} refuses messages" for row in own if row[1] == "-")
    return taking[:_MOST], problem or refusing or ("" if own else f"{safe(user, 60)} has no terminal on this host")


def write(user: str, text: str, seconds: float) -> tuple[int, str]:
    """Write to each terminal of a user, within ``seconds`` in all; return how many took it, and why others did not."""
    lines, problem = terminals(user)
    until = monotonic() + seconds
    clean = "".join(f"{safe(line)}\n" for line in text.splitlines())
    problems = [_run(["write", user, line], clean, max(0.1, until - monotonic()))[1] for line in lines]
    return problems.count(""), "; ".join(filter(None, [problem, *problems]))
