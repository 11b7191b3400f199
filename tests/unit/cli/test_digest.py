"""``gua digest`` on an embedded store: lines, JSON, and mistakes in one line."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from fakes.fleet import spooled_ticks
from gua.cli.main import main
from gua.core.tick import Origin
from gua.core.words import Source
from gua.sim.host import Scenario, simulate
from gua.store.database import open_store

pytestmark = pytest.mark.engine

POLICY = """
[digest]
to = ["mailto://127.0.0.1:9?from=a@example.org&to={owner}@example.org"]
opt_out = ["bo"]
admins = ["json://127.0.0.1:9/"]
[[digest.team]]
name = "vision"
owners = ["ana"]
to = ["json://127.0.0.1:9/secret"]
"""
Run = Callable[..., tuple[int, str, str]]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory, made_store: Callable[[Path], str]) -> Path:
    path = tmp_path_factory.mktemp("digest")
    origin = Origin(host="lab-1", source=Source.SIMULATOR, interval_ms=600_000)
    with open_store(made_store(path / "store")) as store:
        ticks = simulate(Scenario(seed=1, gpus=4, interval_ms=600_000, ticks=200), origin=origin)
        assert store.land(list(spooled_ticks(ticks))) == []
        store.count_hours()
    return path


@pytest.fixture
def gua(folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Run:
    monkeypatch.setenv("GUA_HOME", str(folder))
    monkeypatch.setenv("GUA_STORE", f"chdb://{folder}/store")
    for name in ("GUA_SINCE", "GUA_NOTIFY_POLICY"):
        monkeypatch.delenv(name, raising=False)

    def run(policy: str, *arguments: str) -> tuple[int, str, str]:
        (folder / "policy.toml").write_text(policy)
        code = main(["digest", "--policy", str(folder / "policy.toml"), *arguments])
        said = capsys.readouterr()
        return code, said.out, said.err

    return run


def test_a_dry_run_has_a_line_for_each_recipient(gua: Run) -> None:
    code, said, wrong = gua(POLICY, "--dry-run", "--to-admins")
    assert (code, wrong) == (0, "")
    lines = said.splitlines()
    assert any(line.startswith("due: owner ana, GPU-hours: ") for line in lines)
    assert all(line.endswith("; opted out") for line in lines if " owner bo," in line)
    assert lines[-1].startswith("due: admins, GPU-hours: ")
    assert lines[-1].endswith("; 1 json://127.0.0.1:9 due")
    assert not any("secret" in line or "@" in line for line in lines)


def test_json_has_each_recipient_with_its_numbers(gua: Run) -> None:
    code, said, _ = gua(POLICY, "--dry-run", "--by", "team", "--since", "1d", "--json")
    assert code == 0
    made = json.loads(said)
    assert (made["schema"], made["by"]) == ("gua.digest/1", "team")
    assert made["since"] < made["until"]
    (team,) = made["recipients"]
    assert (team["kind"], team["name"], team["members"], team["result"]) == ("team", "vision", ["ana"], "due")
    assert {*team["times"]} == {"used", "idle-held", "empty", "unknown"}
    assert team["times"]["used"]["gpu_hours"] + team["times"]["idle-held"]["gpu_hours"] > 1
    assert team["channels"] == [{"channel": "1 json://127.0.0.1:9", "result": "due", "detail": ""}]
    assert "secret" not in said


def test_a_server_that_is_down_is_exit_code_3(gua: Run) -> None:
    code, said, _ = gua(POLICY, "--by", "team")
    assert code == 3
    assert said.startswith("unreachable: team vision, ")
    assert "cannot be reached: Connection refused" in said


@pytest.mark.parametrize(
    ("policy", "arguments", "code", "wrong"),
    [
        ("", [], 2, "has no [digest]: add it, see docs/notices.md"),
        ("[digest]", [], 2, "digest: to is missing, so nobody gets a digest: add it"),
        ("[digest]", ["--to-admins"], 2, "digest: admins is missing, so nobody gets the whole list: add it"),
        ("[digest]", ["--by", "team"], 2, "digest: has no team: add [[digest.team]], or leave --by team out"),
        ("[digest]\nto = 1", [], 4, "digest: to: is no list"),
        (POLICY, ["--by", "x\x1b[31m"], 2, "--by x[31m: write one of owner, team, namespace"),
        (POLICY, ["--since", "soon"], 2, "soon"),
        (POLICY, ["--since", "2999-01-01"], 2, "is too far away"),
    ],
)
def test_bad_input_is_one_line(gua: Run, policy: str, arguments: list[str], code: int, wrong: str) -> None:
    found, said, error = gua(policy, "--dry-run", *arguments)
    assert (found, said) == (code, "")
    assert wrong in error
    assert error.count("\n") == 1
    assert error.startswith("gua: ")
