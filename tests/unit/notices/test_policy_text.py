"""A policy in sentences, and the warnings about it."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest

from gua.notices.policy import Policy, parse_policy
from gua.notices.policy_text import sentences, warnings

NOW_MS = int(datetime(2026, 11, 28, tzinfo=UTC).timestamp() * 1000)


def parse(text: str) -> Policy:
    return parse_policy(text, Path("policy.toml"))


def rule(lines: str = "", *, name: str = "idle", after: str = "2h", state: str = '"idle-held"') -> str:
    step = '[[rule.step]]\nto = ["slack://a/b/c"]\n'
    return f'[[rule]]\nname = "{name}"\nstate = {state}\nafter = "{after}"\n{lines}\n{step}'


def warned(text: str) -> list[str]:
    return warnings(parse(text), now_ms=NOW_MS)


FULL = """
zone = "Europe/Berlin"
exempt_owners = ["root", "svc-*"]
[[hold]]
owner = "alice"
host = "gpu-1"
until = "2026-12-31"
reason = "paper deadline"
[[rule]]
name = "idle"
state = ["idle-held", "no-process"]
after = "2h"
min_memory = "512MiB"
hosts = ["gpu-*", "big"]
labels = { team = "vision" }
except_groups = ["vip"]
except_qos = ["long"]
[[rule.quiet]]
days = ["mon-fri"]
from = "22:00"
until = "07:00"
[[rule.quiet]]
dates = ["2026-12-24", "2026-12-27/2027-01-02"]
[[rule.hold]]
job = "4711"
until = "2026-12-31T18:00:00+01:00"
reason = "benchmark"
[[rule.step]]
to = ["mailto://user:SECRET@example.org?to={address}", "slack://SECRET", "${SECRET}"]
remind_every = "8h"
[[rule.step]]
after = "1d"
to = ["slack://SECRET"]
command = ["scancel", "{job}"]
[[rule]]
name = "empty"
state = "empty"
after = "30m"
quiet = [{ days = ["sat-sun"] }]
"""


def test_each_rule_is_one_sentence_and_what_is_common_to_them_follows() -> None:
    assert sentences(parse(FULL)) == [
        (
            "idle: idle processes on cards and idle-held cards without a listed process (hosts gpu-*, big and label "
            "team vision, 0.5 GiB or more, except groups vip or qos long), idle for 2h, get a notice by "
            "mailto://example.org, slack://, (secret) after 2h and reminders 8h, 16h, 32h after the one before; a "
            "notice by slack:// after 1d and "
            "with --enforce the command scancel {job} after 1d; nothing on mon, tue, wed, thu, fri from 22:00 to "
            "07:00; nothing on 2026-12-24, 2026-12-27 to 2027-01-02; nothing until 2026-12-31T17:00:00Z about job "
            "4711 (benchmark)."
        ),
        "empty: allocations without a process (all of them), idle for 30m, get nothing; nothing on sat, sun.",
        "For all rules: at most 3 notices per owner and day, times in Europe/Berlin.",
        "No rule concerns owners root, svc-*.",
        "No rule sends anything until 2026-12-31T23:00:00Z about owner alice and host gpu-1 (paper deadline).",
    ]


def test_a_policy_without_rules_sends_nothing() -> None:
    assert sentences(parse("")) == ["No rule: nothing is sent."]
    assert warned("") == []


def test_long_lists_and_texts_are_cut() -> None:
    names = ", ".join(f'"{number}{"x" * 300}"' for number in range(500))
    sentence = sentences(parse(rule(f"owners = [{names}]")))[0]
    assert "and 490 more" in sentence
    assert len(sentence) < 1_000


@pytest.mark.parametrize("lines", ["", 'owners = ["*"]', 'hosts = ["a", "*"]', 'models = ["*"]'])
def test_a_rule_without_conditions_concerns_everybody(lines: str) -> None:
    assert warned(rule(lines)) == ["rule idle: concerns everybody"]


def test_exceptions_are_no_conditions() -> None:
    assert warned(rule('except_owners = ["svc-*"]')) == ["rule idle: concerns everybody but its exceptions"]


@pytest.mark.parametrize(
    "lines", ['owners = ["a*"]', 'partitions = ["*"]', 'labels = { a = "*" }', 'min_memory = "1GiB"', 'groups = ["*"]']
)
def test_a_rule_with_a_condition_does_not_concern_everybody(lines: str) -> None:
    assert warned(rule(lines)) == []


@pytest.mark.parametrize(
    ("earlier", "is_reached"),
    [
        (rule(name="all"), False),
        (rule(name="all", after="1h"), False),
        (rule(name="all", after="3h"), True),
        (rule(name="all", state='"empty"'), True),
        (rule('except_owners = ["a"]', name="all"), True),
        (rule('owners = ["a"]', name="all"), True),
    ],
)
def test_a_rule_behind_one_for_everybody_is_never_reached(earlier: str, is_reached: bool) -> None:  # noqa: FBT001
    reported = "rule idle: never reached for idle-held, as rule all concerns everybody"
    assert (reported in warned(earlier + rule('owners = ["b"]'))) is not is_reached


def test_a_rule_is_never_reached_for_one_of_its_states() -> None:
    text = rule(name="all", state='"empty"') + rule('owners = ["b"]', state='["idle-held", "empty"]')
    assert "rule idle: never reached for empty, as rule all concerns everybody" in warned(text)


def test_a_rule_without_steps_is_a_warning() -> None:
    text = '[[rule]]\nname = "quiet"\nstate = "empty"\nafter = "1h"\nowners = ["a"]\n'
    assert warned(text) == ["rule quiet: has no step, so it sends nothing and no later rule concerns its holders"]


def test_a_hold_that_has_ended_is_a_warning() -> None:
    ended = '{ owner = "a", until = "2026-11-27", reason = "r" }'
    lasting = '{ owner = "a", until = "2026-11-28", reason = "r" }'
    text = f"hold = [{lasting}, {ended}]\n{rule(f'owners = [{chr(34)}a{chr(34)}]{chr(10)}hold = [{ended}]')}"
    after = "ended at 2026-11-28T00:00:00Z: remove it, or write a later end"
    assert warned(text) == [f"hold 2: {after}", f"rule idle: hold 1: {after}"]


def test_digests_are_one_sentence_without_secrets() -> None:
    text = """
[digest]
to = ["mailto://user:secret@smtp.example.org?from=a@example.org&to={address}"]
admins = ["slack://token/b/c"]
least_gpu_hours = 2.5
opt_out = ["svc-*"]
[[digest.team]]
name = "vision"
owners = ["ana"]
to = ["slack://token/b/c"]
"""
    assert sentences(parse(text)) == [
        "No rule: nothing is sent.",
        (
            "gua digest: owners by mailto://smtp.example.org, the leads of vision by slack://, admins by slack://, "
            "from 2.5 GPU-hours on, without owners svc-*."
        ),
    ]
