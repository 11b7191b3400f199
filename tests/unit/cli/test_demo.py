import json
from pathlib import Path

import pytest

from gua.cli.main import main
from servers.gua import Gua

WRONG = {
    "no card": ["--gpus", "0"],
    "too many cards": ["--gpus", "257"],
    "no tick": ["--ticks", "0"],
    "no day": ["--days", "0"],
    "ticks and days": ["--ticks", "10", "--days", "1"],
    "too short an interval": ["--interval", "999ms"],
    "too long an interval": ["--interval", "11m"],
    "not an interval": ["--interval", "often"],
    "too long a time": ["--days", "367"],
    "two destinations": ["--store", "chdb:///nowhere", "--endpoint", "http://localhost:1"],
    "too narrow": ["--width", "3"],
    "not a number": ["--gpus", "many"],
}


@pytest.mark.parametrize("options", WRONG.values(), ids=list(WRONG))
def test_wrong_options_are_refused_in_one_line(options: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["demo", *options]) == 2

    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.startswith("gua: ")
    assert printed.err.count("\n") == 1


def test_a_real_agent_s_settings_do_not_reach_the_demo(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("GUA_STORE", "nonsense")
    monkeypatch.setenv("GUA_ENDPOINT", "nonsense")
    monkeypatch.setenv("GUA_INTERVAL", "nonsense")

    assert main(["demo", "--gpus", "0"]) == 2
    assert "--gpus 0" in capsys.readouterr().err


@pytest.mark.engine
def test_the_demo_says_that_it_is_simulated_and_leaves_nothing_behind(tmp_path: Path) -> None:
    done = Gua(tmp_path).run("demo", "--ticks", "12", "--gpus", "2", "--interval", "1m")

    assert done.returncode == 0
    assert done.stderr == "", "no bar in a pipe"
    assert done.stdout.startswith("Simulated numbers of an invented lab: 2 GPUs, a tick every 1m, seed 0.\n")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.engine
def test_a_kept_demo_is_reported_like_the_demo_itself(tmp_path: Path) -> None:
    gua = Gua(tmp_path)
    options = ("--ticks", "30", "--gpus", "5", "--seed", "4", "--json")
    store = f"chdb://{tmp_path / 'kept'}"

    shown = json.loads(gua.must("demo", *options))

    assert json.loads(gua.must("demo", *options, "--store", store)) == shown
    window = shown["window"]
    assert gua.report(store, "--since", window["since"], "--until", window["until"]) == shown
    assert shown["hosts"] == ["demo-host"]
    assert shown["headline"]["card_ticks"] == 30 * 7
