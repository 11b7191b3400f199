"""What policies of notices need from outside of gua: groups from this host's name service, and jobs from squeue."""

from __future__ import annotations

import grp
import os
import pwd
import re
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Final

from gua.allocation.slurm_poll import CommandError, run_command

SECONDS: Final = 10.0
_KEYS: Final = ("partitions", "qos", "accounts")
# Where accounts are not enforced they are any text of the user: last, so that they change no other field.
_COMMAND: Final = ("squeue", "--noheader", "--all", "--format=%A|%P|%q|%a")
_JOB: Final = re.compile(r"([0-9]{1,10})\|([^|\s]*)\|([^|\s]*)\|(.*)")
_NOTHING: Final = frozenset(("", "(null)", "N/A"))


def query_squeue(command: Sequence[str]) -> str:
    """Return the output of squeue within 10 s. Raises CommandError."""
    return run_command(command, seconds=SECONDS)


class HostFacts:
    """Facts of this host's name service and Slurm (:class:`gua.notices.matching.Facts`). For one run and one thread.

    squeue runs once, when the first job is looked up.
    """

    def __init__(self, run: Callable[[Sequence[str]], str] = query_squeue) -> None:
        self._run = run
        self._groups: dict[str, frozenset[str] | None] = {}
        self.trouble: str | None = None
        """Why squeue failed, ``None`` unless it did."""

    def groups(self, owner: str) -> frozenset[str] | None:
        """Return the names of a user's groups; ``None`` if the user or the name of a group is unknown."""
        if owner not in self._groups:
            self._groups[owner] = _groups(owner)
        return self._groups[owner]

    def of_job(self, job: str, key: str) -> str | None:
        """Return the ``partitions``, ``qos`` or ``accounts`` of a job of Slurm; ``None`` if unknown."""
        return self._jobs.get(job, {}).get(key)

    @cached_property
    def _jobs(self) -> dict[str, dict[str, str | None]]:
        try:
            return parse_squeue(self._run(_COMMAND))
        except CommandError as error:
            self.trouble = str(error)
            return {}


def parse_squeue(output: str) -> dict[str, dict[str, str | None]]:
    """Return partition, QOS and account by job id and key; a job with different lines, as users may forge, has none."""
    jobs: dict[str, dict[str, str | None]] = {}
    for line in output.split("\n"):
        if match := _JOB.fullmatch(line):
            job, *found = match.groups()
            known = {key: None if value in _NOTHING else value for key, value in zip(_KEYS, found, strict=True)}
            jobs[job] = known if jobs.get(job, known) == known else {}
    return jobs


def _groups(owner: str) -> frozenset[str] | None:
    try:
        numbers = os.getgrouplist(owner, pwd.getpwnam(owner).pw_gid)
        return frozenset(grp.getgrgid(number).gr_name for number in numbers)
    except (KeyError, ValueError, OSError):
        return None
