from __future__ import annotations

import os
import pwd
from pathlib import Path

import pytest

from gua.identity.process import owners_of
from gua.procfs.reader import ProcFs


def tree(root: Path, *, mine: str, first: str) -> ProcFs:
    for name, device in (("self", mine), ("1", first)):
        (root / name).mkdir(parents=True)
        (root / name / "mountinfo").write_text(f"27 1 {device} / / rw - ext4 /dev/vda rw\n")
    return ProcFs(root)


def test_on_the_host_the_name_service_resolves_user_ids(tmp_path: Path) -> None:
    me = os.getuid()
    try:
        expected = pwd.getpwuid(me).pw_name
    except KeyError:
        expected = str(me)
    assert owners_of(tree(tmp_path, mine="254:0", first="254:0")).name(me) == expected


@pytest.mark.parametrize("readable", [True, False])
def test_in_a_container_only_the_hosts_own_passwd_file_does(tmp_path: Path, readable: bool) -> None:  # noqa: FBT001 - a case
    host = tree(tmp_path, mine="0:99", first="254:0")
    if readable:
        host.host_passwd.parent.mkdir(parents=True)
        host.host_passwd.write_text("hostroot:x:0:0::/root:/bin/sh\n")
    assert owners_of(host).name(0) == ("hostroot" if readable else "0")
    assert owners_of(host).name(1) == "1"
