"""What policies of notices need from outside of gua: groups from this host's name service, and jobs from squeue."""

import grp
import os
import pwd
import re
from typing import Final

# Each has its own squeue: accounts are any text of users where Slurm does not check them, and may look like other jobs.
_FORMATS: Final = {"partitions": "%A|%P", "qos": "%A|%q", "accounts": "%A|%a"}
_JOB: Final = re.compile(r"([0-9]{1,10})\|(.*)")
_NOTHING: Final = frozenset(("", "(null)", "N/A"))


class HostFacts:
    """Facts of this host's name service and Slurm (:class:`gua.notices.matching.Facts`). For one run and one thread.

    squeue runs once for partitions, QOS and accounts each, when the first is looked up, and not again after a failure.
    """

    def __init__(self) -> None:
        self._groups: dict[str, frozenset[str] | None] = {}
        self._jobs: dict[str, dict[str, str | None]] = {}
        self.trouble: str | None = None
        """Why squeue failed, ``None`` unless it did."""

    def groups(self, owner: str) -> frozenset[str] | None:
        """Return the names of a user's groups; ``None`` if the user or the name of a group is unknown."""
        if owner not in self._groups:
            self._groups[owner] = _groups(owner)
        return self._groups[owner]

    def of_job(self, job: str, key: str) -> str | None:
        """Return the ``partitions``, ``qos`` or ``accounts`` of a job of Slurm; ``None`` if unknown."""
        from gua.allocation.slurm_poll import CommandError, run_command  # noqa: PLC0415 - few policies need Slurm

        if key not in self._jobs and self.trouble is None:
            command = ("squeue", "--noheader", "--all", f"--format={_FORMATS[key]}")
            try:
                self._jobs[key] = parse_squeue(run_command(command, seconds=10.0))
            except CommandError as error:
                self.trouble = str(error)
        return self._jobs.get(key, {}).get(job)


def parse_squeue(output: str) -> dict[str, str | None]:
    """Return a value by job id, ``None`` if it is empty, or if a job has different ones, as users may forge."""
    jobs: dict[str, str | None] = {}
    for match in filter(None, map(_JOB.fullmatch, output.split("\n"))):
        value = None if match[2] in _NOTHING else match[2]
        jobs[match[1]] = value if jobs.get(match[1], value) == value else None
    return jobs


def _groups(owner: str) -> frozenset[str] | None:
    try:
        numbers = os.getgrouplist(owner, pwd.getpwnam(owner).pw_gid)
        return frozenset(grp.getgrgid(number).gr_name for number in numbers)
    except (KeyError, ValueError, OSError):
        return None
