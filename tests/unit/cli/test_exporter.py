"""What the command line and the environment may say of the endpoint, and the one line for what they may not."""

from __future__ import annotations

from pathlib import Path

import pytest

from gua.app.settings import AgentSettings, between, serving
from gua.cli.daemon import OPTIONAL_VALUES
from gua.cli.main import main, with_values
from gua.core.errors import UsageError
from gua.exporter.address import Address, Serving, parse_address
from gua.identity.pod_names import Kubelet
from gua.state.directory import Home


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("127.0.0.1:9835", Address()),
        ("0.0.0.0:80", Address(host="0.0.0.0", port=80)),  # noqa: S104 - what users write
        (":9000", Address(host="", port=9000)),
        ("9000", Address(port=9000)),
        ("node-1.lab", Address(host="node-1.lab")),
        ("node-1.lab.:80", Address(host="node-1.lab.", port=80)),
        (f"bücher_1.{'a' * 63}", Address(host=f"bücher_1.{'a' * 63}")),
        ("[::1]:9000", Address(host="::1", port=9000)),
        ("[::]", Address(host="::")),
        ("::1", Address(host="::1")),
    ],
)
def test_an_address_is_read_as_people_write_it(text: str, address: Address) -> None:
    assert parse_address(text) == address


@pytest.mark.parametrize(
    "text",
    [
        *("", "a:b", ":", ":0", ":65536", "http://x:1", "a b:1", "[::1", "[]:1", "x:1:", "٣"),
        *("a..b", "a..b:19904", ".", ".a:1", "a" * 64, f"{'a' * 70}:19904", f"b.{'é' * 60}:1"),
    ],
)
def test_what_is_no_address_is_refused_in_one_line(text: str) -> None:
    with pytest.raises(UsageError, match="is no address: write HOST:PORT") as error:
        parse_address(text)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("arguments", "read"),
    [
        (["--prometheus"], ["--prometheus=on"]),
        (["--prometheus", "--once"], ["--prometheus=on", "--once"]),
        (["--prometheus", ":80"], ["--prometheus", ":80"]),
        (["--prometheus=:80", "--once"], ["--prometheus=:80", "--once"]),
        (["--once"], ["--once"]),
        ([], []),
    ],
)
def test_the_address_may_be_left_out(arguments: list[str], read: list[str]) -> None:
    assert with_values(arguments, OPTIONAL_VALUES["daemon"]) == read


def test_the_variables_of_the_older_exporter_count_and_ours_come_first() -> None:
    environ = {"HTTP_PORT": "9000", "NODE_NAME": "n1", "POD_NAME": "p", "POD_NAMESPACE": "s", "POLL_INTERVAL": "1m30s"}
    constant = {"node": "n1", "pod": "p", "namespace": "s"}
    found = serving("on", environ, is_compatible=True)
    assert found == Serving(address=Address(port=9000), constant=constant)
    found = serving("0.0.0.0:80", environ, is_compatible=False)
    assert found == Serving(address=Address(host="0.0.0.0", port=80), constant=None)  # noqa: S104 - what users write
    assert between(None, environ, default="5s") == ("1m30s", "POLL_INTERVAL")
    assert between("10s", environ, default="5s") == ("10s", "--interval")
    assert between(None, {"POLL_INTERVAL": ""}, default="5s") == ("5s", "--interval")


@pytest.mark.parametrize("off", [None, "", "off", "0", "false"])
def test_an_endpoint_is_served_only_on_request(off: str | None) -> None:
    assert serving(off, {"HTTP_PORT": "9000"}, is_compatible=True) is None


@pytest.mark.parametrize("interval", ["0", "-1s", "abc", "500ms", "11m", "5"])
@pytest.mark.parametrize("command", [["exporter"], ["daemon", "--prometheus"]])
def test_an_interval_that_makes_no_sense_is_one_line_and_exit_code_2(
    command: list[str],
    interval: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
) -> None:
    monkeypatch.setenv("POLL_INTERVAL", interval)
    monkeypatch.setenv("GUA_HOME", str(tmp_path))
    assert main(command) == 2
    printed = capsys.readouterr().err
    assert printed.startswith("gua: POLL_INTERVAL")
    assert printed.count("\n") == 1
    assert repr(interval) in printed


@pytest.mark.parametrize("port", ["0", "-1", "abc", "65536", "80 80", "127.0.0.1:9835", "٣"])
def test_a_port_that_makes_no_sense_is_one_line_and_exit_code_2(
    port: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("HTTP_PORT", port)
    assert main(["exporter"]) == 2
    printed = capsys.readouterr().err
    assert printed == f"gua: HTTP_PORT {port!r} is no port: write a number from 1 to 65535, as in 9835\n"


@pytest.mark.parametrize("address", ["a..b:19904", f"{'a' * 70}:19904"])
@pytest.mark.parametrize("command", ["exporter", "daemon"])
def test_a_host_name_that_none_can_have_is_one_line_and_exit_code_2(
    command: str, address: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([command, "--prometheus", address]) == 2
    printed = capsys.readouterr().err
    assert printed.startswith(f"gua: --prometheus {address!r} is no address: write HOST:PORT")
    assert printed.count("\n") == 1


def test_an_exporter_that_is_turned_off_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["exporter", "--prometheus", "off"]) == 2
    assert "turns off all that gua exporter does" in capsys.readouterr().err


@pytest.mark.parametrize(
    "served", [None, Serving(), Serving(address=Address(port=1), constant=None, names=("gpu01.lab", "*"))]
)
@pytest.mark.parametrize("kubelet", [None, Kubelet(host="fd00::7", port=10250, insecure=True)])
def test_the_agents_process_receives_all_exporter_settings(
    served: Serving | None, kubelet: Kubelet | None, tmp_path: Path
) -> None:
    settings = AgentSettings(
        interval_ms=5000,
        procfs=Path("/proc"),
        home=Home(tmp_path),
        serving=served,
        kubelet=kubelet,
    )
    assert AgentSettings.from_json(settings.to_json()) == settings
