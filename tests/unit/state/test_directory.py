from __future__ import annotations

import os
import pwd
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from gua.core.errors import UnavailableError
from gua.state.directory import Home, examine_home, home_path, prepare_home, reading_home, replace_private

SOMEBODY = 65534
PREPARE = """
import os, sys
from pathlib import Path
from gua.state.directory import examine_home, prepare_home
from gua.core.errors import UnavailableError
path = Path(sys.argv[1])
if len(sys.argv) > 2:  # only now: this Python may lie where the user cannot read
    os.setgroups([])
    os.setgid(int(sys.argv[2]))
    os.setuid(int(sys.argv[2]))
print(examine_home(path))
try:
    print(prepare_home(path).path)
except UnavailableError as error:
    print(error)
"""


def mode(path: Path) -> int:
    return path.stat().st_mode & 0o7777


def by_somebody(path: Path) -> list[str]:
    """Return what an ordinary user learns of this directory: examined, then prepared."""
    user = [str(SOMEBODY)] if os.geteuid() == 0 else []
    done = subprocess.run(
        [sys.executable, "-c", PREPARE, str(path), *user], capture_output=True, text=True, check=True, timeout=20
    )
    return done.stdout.splitlines()


@pytest.fixture
def reachable() -> Iterator[Path]:
    """A directory of an ordinary user's, somebody else's if this runs as root."""
    with tempfile.TemporaryDirectory() as above:
        place = Path(above) / "somebody"
        place.mkdir(mode=0o700)
        if os.geteuid() == 0:
            Path(above).chmod(0o711)
            os.chown(place, SOMEBODY, SOMEBODY)
        yield place
        place.chmod(0o700)


def refused(path: Path) -> str:
    """Return why both refuse the directory, and see that neither changed it."""
    before = os.lstat(path) if os.path.lexists(path) else None
    with pytest.raises(UnavailableError) as error:
        prepare_home(path)
    assert examine_home(path) == str(error.value)
    after = os.lstat(path) if os.path.lexists(path) else None
    assert (before is None) == (after is None)
    if before is not None and after is not None:
        assert (before.st_mode, before.st_uid, before.st_ino) == (after.st_mode, after.st_uid, after.st_ino)
    assert "\n" not in str(error.value)
    return str(error.value)


def test_a_home_is_made_for_its_owner_alone_with_its_parents(tmp_path: Path) -> None:
    path = tmp_path / "a" / "b" / "gua"
    assert examine_home(path) is None
    assert not (tmp_path / "a").exists()
    assert prepare_home(path) == Home(path)
    assert [mode(place) for place in (path, path.parent, path.parent.parent)] == [0o700] * 3
    assert examine_home(path) is None
    assert prepare_home(path) == Home(path)


def test_every_file_of_the_agent_lies_in_its_home(tmp_path: Path) -> None:
    home = Home(tmp_path)
    files = [home.spool, home.pid_file, home.socket, home.log_file, home.boot_file, home.store]
    assert [file.name for file in files] == ["spool.db", "agent.pid", "agent.sock", "agent.log", "boot.json", "store"]
    assert {file.parent for file in files} == {tmp_path}


def test_a_relative_home_is_the_same_after_the_agent_left_its_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert prepare_home(Path("state")).path == tmp_path / "state"


def test_a_home_of_another_user_is_refused(tmp_path: Path) -> None:
    path = Path("/usr")
    if os.geteuid() == 0:
        path = tmp_path / "theirs"
        path.mkdir(mode=0o700)
        os.chown(path, SOMEBODY, -1)
    message = refused(path)
    assert f"belongs to uid {path.stat().st_uid}, not to uid {os.geteuid()}: run gua as its owner" in message
    assert "--state-dir" in message


@pytest.mark.parametrize("bits", [0o777, 0o1777, 0o770, 0o720, 0o702])
def test_a_home_that_others_may_write_is_refused_for_what_they_may_have_put_there(tmp_path: Path, bits: int) -> None:
    path = tmp_path / "shared"
    path.mkdir()
    path.chmod(bits)
    assert f"can be written by others (mode {bits:04o})" in refused(path)
    assert "chmod 700" in refused(path)


def test_a_home_that_others_may_read_becomes_private(tmp_path: Path) -> None:
    path = tmp_path / "home"
    path.mkdir()
    path.chmod(0o755)
    for name in ("spool.db", "spool.db-wal", "agent.log.1", "accepted-policy", "notify.lock", "audits"):
        (path / name).touch()
    assert mode(path) == 0o755
    prepare_home(path)
    assert mode(path) == 0o700


def test_what_a_killed_process_left_of_a_file_is_gua_s_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "home"
    path.mkdir()
    path.chmod(0o755)
    while_writing: list[str] = []
    monkeypatch.setattr(os, "fsync", lambda _: while_writing.extend(one.name for one in path.iterdir()))
    replace_private(path / "history.json", b"{}")
    (path / while_writing[0]).touch()
    assert while_writing[0] != "history.json"
    prepare_home(path)
    assert mode(path) == 0o700


def test_the_home_of_gpu_usage_audit_1_becomes_private_too(tmp_path: Path) -> None:
    path = tmp_path / ".gua"
    path.mkdir()
    path.chmod(0o755)
    for name in ("gua.db", "gua.db-wal", "gua.log", "gua.pid", "cloud.json"):
        (path / name).touch()
    prepare_home(path)
    assert mode(path) == 0o700


def test_a_directory_with_other_files_does_not_change_its_mode_because_of_gua(tmp_path: Path) -> None:
    path = tmp_path / "user"
    path.mkdir()
    path.chmod(0o755)
    (path / "public_html").mkdir()
    with pytest.raises(UnavailableError, match=r"holds other files \(public_html\): chmod 700 it"):
        prepare_home(path)
    assert mode(path) == 0o755
    path.chmod(0o700)
    prepare_home(path)


def test_an_own_symbolic_link_to_an_own_directory_is_followed(tmp_path: Path) -> None:
    (tmp_path / "big-disk").mkdir(mode=0o700)
    (tmp_path / "home").symlink_to("big-disk")
    assert prepare_home(tmp_path / "home").path == tmp_path / "home"


def test_a_symbolic_link_is_judged_by_where_it_leads(tmp_path: Path) -> None:
    (tmp_path / "home").symlink_to("shared")
    assert "No such file" in refused(tmp_path / "home")
    (tmp_path / "shared").mkdir()
    (tmp_path / "shared").chmod(0o777)
    assert "written by others" in refused(tmp_path / "home")
    (tmp_path / "loop").symlink_to("loop")
    assert "symbolic links" in refused(tmp_path / "loop")


if os.geteuid() == 0:  # only root can become, or own things of, another user

    def test_a_symbolic_link_of_another_user_is_refused(tmp_path: Path) -> None:
        (tmp_path / "own").mkdir(mode=0o700)
        link = tmp_path / "home"
        link.symlink_to("own")
        os.chown(link, SOMEBODY, -1, follow_symlinks=False)
        assert f"is a symbolic link of uid {SOMEBODY}, not of uid 0: remove it" in refused(link)


@pytest.mark.parametrize("below", ["file", "file/gua", "file/a/b"])
def test_a_path_that_cannot_be_a_directory_is_one_line(tmp_path: Path, below: str) -> None:
    (tmp_path / "file").touch()
    message = refused(tmp_path / below)
    assert str(tmp_path / below) in message
    assert "irectory" in message
    assert "--state-dir or GUA_HOME" in message


def test_a_home_that_its_owner_may_not_write_is_refused(reachable: Path) -> None:
    path = reachable / "gua"
    path.mkdir(mode=0o500)
    if os.geteuid() == 0:
        os.chown(path, SOMEBODY, SOMEBODY)
    examined, prepared = by_somebody(path)
    assert examined == prepared
    assert prepared.startswith(f"the state directory {path} cannot be written by its owner (mode 0500): chmod 700 it")


def test_a_home_in_a_directory_that_cannot_be_written_is_one_line(reachable: Path) -> None:
    reachable.chmod(0o500)
    examined, prepared = by_somebody(reachable / ".gua" / "state")
    assert examined == prepared
    assert prepared == (
        f"the state directory {reachable / '.gua' / 'state'} cannot be used (Permission denied): "
        "name another with --state-dir or GUA_HOME"
    )


def test_an_ordinary_user_gets_a_home_of_their_own(reachable: Path) -> None:
    path = reachable / ".gua"
    assert by_somebody(path) == ["None", str(path)]
    assert mode(path) == 0o700


def test_a_read_only_file_system_is_named(tmp_path: Path) -> None:
    read_only = [
        place
        for place in (Path(line.split()[1]) for line in Path("/proc/self/mounts").read_text().splitlines())
        if place.is_dir() and os.access(place, os.X_OK) and os.statvfs(place).f_flag & os.ST_RDONLY
    ]
    # Where nothing is mounted so, a mount is made that only the command sees.
    mounted = ["unshare", "-r", "-m", "sh", "-c", 'mount -t tmpfs -o ro none "$1" && shift && exec "$@"', "-"]
    place = read_only[0] if read_only else tmp_path
    command = [sys.executable, "-c", PREPARE, str(place / "gua")]
    done = subprocess.run(
        command if read_only else [*mounted, str(place), *command],
        check=True,
        capture_output=True,
        text=True,
        timeout=20,
    )
    examined, prepared = done.stdout.splitlines()
    assert examined == prepared
    assert "cannot be used (Read-only file system)" in prepared


def test_the_home_is_as_given_or_as_the_environment_says_or_below_the_users(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    assert home_path(Path("/a"), {"GUA_HOME": "/b"}) == Path("/a")
    assert home_path(None, {"GUA_HOME": "b"}) == tmp_path / "b"
    assert home_path(None, {"GUA_HOME": ""}) == tmp_path / ".gua"
    assert home_path(Path("~/c"), {}) == tmp_path / "c"


def test_no_home_directory_at_all_is_one_line() -> None:
    script = (
        "import os\nfrom gua.state.directory import home_path\n"
        "os.environ.pop('HOME', None)\nos.setuid(54321) if os.getuid() == 0 else None\n"
        "try:\n    print(home_path(None, {}))\nexcept Exception as error:\n    print(type(error).__name__, error)\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=20)
    try:
        home = pwd.getpwuid(54321 if os.geteuid() == 0 else os.geteuid()).pw_dir
    except KeyError:
        assert "UnavailableError there is no home directory" in done.stdout
        assert "--state-dir" in done.stdout
    else:
        assert done.stdout == f"{home}/.gua\n"


def test_a_home_that_is_no_utf_8_is_refused_in_one_line() -> None:
    with pytest.raises(UnavailableError, match=r"'/tmp/h\\udcff' has a name that is no UTF-8"):
        home_path(Path("/tmp/h\udcff"), {})  # noqa: S108 - nothing is made there


def test_a_read_only_command_needs_no_home(monkeypatch: pytest.MonkeyPatch) -> None:
    def homeless() -> Path:
        raise RuntimeError

    monkeypatch.setattr(Path, "home", homeless)
    assert not reading_home(None, {}).exists()
    assert reading_home(Path("/a"), {}) == Path("/a")
