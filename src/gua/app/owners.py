"""Whose names the users of this host's processes have."""

from __future__ import annotations

from pathlib import Path

from gua.identity.owner import Owners, PasswdFile, passwd_name
from gua.procfs.reader import ProcFs


def owners_of(host: ProcFs) -> Owners:
    """Return the names of the host's users; nobody is given a name that only this container knows.

    With the host's own root file system that is the name service, and its passwd file, which never blocks, first.
    Else it is the host's passwd file alone, where it may be read; a user whom it does not know is a number.
    """
    if host.shares_host_root():
        return Owners(passwd_name, local=PasswdFile(Path("/etc/passwd")).name)
    return Owners(PasswdFile(host.host_passwd).name)
