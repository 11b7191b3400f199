import pytest

from gpu_usage_audit.cli.main import main

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
