"""Commands of a policy's steps: their arguments from a holder, and one run of them."""

import re
import subprocess
from collections.abc import Sequence
from typing import Final

from gua.core.plaintext import safe
from gua.notices.channels import SendResult
from gua.notices.held import Held, NoticeResult

_SECONDS: Final = 60
_PLACEHOLDER: Final = re.compile(r"\{([a-z]+)\}")
# A value never begins with a hyphen, which a command would read as an option.
_SAFE: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.:@+/-]*", re.ASCII)


def command_arguments(command: Sequence[str], held: Held) -> list[str] | None:
    """Return the arguments of a command with the holder's values put in.

    ``None`` if one of them is unknown or has characters that no job, pod, host or user name has.
    """
    values = {
        "job": held.job,
        "pod": held.pod,
        "namespace": held.namespace,
        "host": held.host,
        "owner": held.owner,
        "pid": None if held.pid is None else str(held.pid),
    }
    used = {name for argument in command for name in _PLACEHOLDER.findall(argument)}
    if any(not _SAFE.fullmatch(values.get(name) or "") for name in used):
        return None
    return [_PLACEHOLDER.sub(lambda found: values[found[1]] or "", argument) for argument in command]


def run_command(arguments: Sequence[str]) -> SendResult:
    """Run a command without a shell and without input, for at most a minute; return its exit code and last line."""
    try:
        done = subprocess.run(  # noqa: S603 - the site's own command, without a shell
            arguments,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return SendResult(result=NoticeResult.FAILED, detail=f"no end within {_SECONDS} s, stopped")
    except OSError as error:
        return SendResult(result=NoticeResult.FAILED, detail=f"could not be started: {error.strerror}")
    lines = done.stdout.decode("utf-8", "replace").split("\n")
    last = next((line for line in reversed(lines) if line.strip()), "")
    result = NoticeResult.FAILED if done.returncode else NoticeResult.SENT
    return SendResult(result=result, detail=safe(f"exit code {done.returncode}{': ' if last else ''}{last}", 120))
