from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from gua.cli.main import main

FOLDER = Path(__file__).parents[3] / "deploy" / "systemd"
UNIT = FOLDER / "gua.service"


@pytest.fixture
def directives() -> dict[str, list[str]]:
    """Every directive of the service with its values, in order."""
    found: dict[str, list[str]] = {}
    for line in UNIT.read_text().splitlines():
        if line and not line.startswith(("#", "[")):
            name, _, value = line.partition("=")
            found.setdefault(name, []).append(value)
    return found


def test_systemd_waits_for_the_agent_and_watches_it(directives: dict[str, list[str]]) -> None:
    assert directives["Type"] == ["notify"]
    assert directives["NotifyAccess"] == ["main"]
    assert directives["WatchdogSec"] == ["2min"]
    assert directives["Restart"] == ["on-failure"]
    assert directives["RestartPreventExitStatus"] == ["2"], "wrong usage does not heal"
    assert directives["KillMode"] == ["mixed"]
    assert directives["OOMPolicy"] == ["continue"]


def test_the_options_and_settings_of_the_unit_exist_in_the_daemons_help(
    directives: dict[str, list[str]], capsys: pytest.CaptureFixture[str]
) -> None:
    program, command, *options = directives["ExecStart"][0].split()
    assert (program, command) == ("/opt/gua/bin/gua", "daemon")
    assert main(["daemon", "--help"]) == 0
    shown = capsys.readouterr().out
    assert options == ["--foreground", "--socket", "/run/gua/agent.sock"]
    assert all(f"{option} " in shown for option in options if option.startswith("--"))
    example = (FOLDER / "agent.env.example").read_text()
    settings = [*directives["Environment"], *re.findall(r"^#(\w+=.*)$", example, re.MULTILINE)]
    for name in (setting.partition("=")[0] for setting in settings):
        assert name in shown or name == "GUA_HOST_NAME" or name.startswith("OTEL_EXPORTER_OTLP_")


def test_it_may_write_its_state_and_its_socket_and_nothing_else(directives: dict[str, list[str]]) -> None:
    assert (directives["StateDirectory"], directives["StateDirectoryMode"]) == (["gua"], ["0700"])
    assert (directives["RuntimeDirectory"], directives["RuntimeDirectoryMode"]) == (["gua"], ["0755"])
    assert directives["Environment"] == ["GUA_HOME=/var/lib/gua"]
    assert directives["ProtectSystem"] == ["strict"]
    assert directives["ProtectHome"] == ["yes"]
    assert directives["UMask"] == ["0077"]
    assert not {"ReadWritePaths", "CacheDirectory", "LogsDirectory"} & set(directives)


def test_it_has_no_rights_beyond_the_cards(directives: dict[str, list[str]]) -> None:
    assert directives["DynamicUser"] == directives["NoNewPrivileges"] == ["yes"]
    assert directives["CapabilityBoundingSet"] == directives["AmbientCapabilities"] == [""]
    assert directives["DevicePolicy"] == ["closed"]
    assert {device.split()[0] for device in directives["DeviceAllow"]} == {
        "char-195",
        "char-nvidia",
        "char-nvidia-frontend",
        "char-nvidia-caps",
    }
    assert all(
        directives[name] == ["yes"]
        for name in (
            "LockPersonality",
            "PrivateTmp",
            "ProtectClock",
            "ProtectControlGroups",
            "ProtectHostname",
            "ProtectKernelLogs",
            "ProtectKernelModules",
            "ProtectKernelTunables",
            "RemoveIPC",
            "RestrictNamespaces",
            "RestrictRealtime",
            "RestrictSUIDSGID",
        )
    )
    assert directives["SystemCallFilter"] == ["@system-service", "~@privileged"]
    assert directives["SystemCallErrorNumber"] == ["EPERM"]


@pytest.mark.parametrize(
    "blinding",
    ["PrivateUsers", "PrivatePIDs", "PrivateNetwork", "PrivateDevices", "MemoryDenyWriteExecute", "CPUQuota"],
)
def test_no_directive_hides_processes_devices_or_the_network_from_the_agent(
    directives: dict[str, list[str]], blinding: str
) -> None:
    assert blinding not in directives
    assert blinding in UNIT.read_text(), "the unit says why"
    assert directives["ProtectProc"] == ["default"]
    assert directives["ProcSubset"] == ["all"]


def test_no_directive_stands_twice_but_lists_and_systemd_knows_them_all(
    directives: dict[str, list[str]], tmp_path: Path
) -> None:
    assert {name for name, values in directives.items() if len(values) > 1} == {"DeviceAllow", "SystemCallFilter"}
    copy = tmp_path / "gua.service"
    copy.write_text(UNIT.read_text().replace("/opt/gua/bin/gua", "/bin/true"))
    if shutil.which("systemd-analyze"):  # where there is systemd, its own word counts
        done = subprocess.run(
            ["systemd-analyze", "verify", str(copy)], capture_output=True, text=True, timeout=20, check=False
        )
        assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
