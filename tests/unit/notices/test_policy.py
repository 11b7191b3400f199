"""What a policy's file may have, and how each mistake in it is reported."""

from __future__ import annotations

import os
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gua.core.errors import DataError, GuaError, UnavailableError, UsageError
from gua.notices.held import HeldState
from gua.notices.policy import (
    Addresses,
    Digests,
    Policy,
    Quiet,
    Team,
    check_permissions,
    parse_policy,
    read_policy,
)

HOUR_MS = 3_600_000
PATH = Path("/etc/gua/policy.toml")
RULE = '[[rule]]\nname = "idle"\nstate = "idle-held"\nafter = "2h"\n'
NOTICE = '[[rule.step]]\nto = ["slack://a/b/c"]\n'


def parse(text: str) -> Policy:
    return parse_policy(text, PATH)


def problem(text: str) -> str:
    with pytest.raises(DataError) as caught:
        parse(text)
    assert str(caught.value).isprintable()
    return str(caught.value).removeprefix(f"{PATH}: ")


FULL = """
zone = "europe/berlin"
most_per_owner_per_day = 5
sender = "GPU admins"
contact = "gpu@example.org"
exempt_owners = ["root"]
addresses = { file = "addresses.csv" }
[[hold]]
owner = "alice"
gpu = "GPU-1"
until = 2026-12-31
reason = "paper deadline"
[[rule]]
name = "idle"
state = ["idle-held", "no-process"]
after = "1h30m"
min_memory = "1.5 GiB"
hosts = ["gpu-*"]
qos = ["normal"]
labels = { team = "vision", room = ["1", "2*"] }
except_owners = ["svc-*"]
except_partitions = ["long"]
[[rule.quiet]]
days = ["fri-mon", "Wednesday"]
from = "22:00"
until = "07:00"
[[rule.quiet]]
dates = ["2026-12-24", 2026-12-25, "2026-12-27/2027-01-02"]
[[rule.hold]]
job = "4711"
until = "2026-12-31T18:00:00+01:00"
reason = "benchmark"
[[rule.step]]
to = ["mailto://${MAIL}?to={address}", "${file:/etc/gua/slack}"]
remind_every = "8h"
growing = 3
most_reminders = 2
template = "notice.html"
[[rule.step]]
after = "1d"
to = ["slack://a/b/c"]
command = ["scancel", "{job}"]
[[rule]]
name = "empty"
state = "empty"
after = "30m"
"""


def test_everything_that_a_policy_may_have_is_parsed() -> None:
    policy = parse(FULL)
    assert (policy.zone, policy.most_per_owner_per_day, policy.exempt_owners) == ("Europe/Berlin", 5, ("root",))
    assert datetime(2026, 7, 1, tzinfo=policy.timezone).utcoffset() == timedelta(hours=2)
    assert (policy.sender, policy.contact) == ("GPU admins", "gpu@example.org")
    assert policy.addresses == Addresses(file=Path("/etc/gua/addresses.csv"))
    assert policy.holds[0].selectors == {"owner": "alice", "gpu": "GPU-1"}
    assert [rule.name for rule in policy.rules] == ["idle", "empty"]
    rule = policy.rules[0]
    assert rule.states == (HeldState.IDLE_HELD, HeldState.NO_PROCESS)
    assert (rule.after_ms, rule.min_memory_bytes) == (5_400_000, 3 * 2**29)
    assert rule.conditions == {"hosts": ("gpu-*",), "qos": ("normal",)}
    assert rule.labels == {"team": ("vision",), "room": ("1", "2*")}
    assert rule.exceptions == {"owners": ("svc-*",), "partitions": ("long",)}
    dates = ((date(2026, 12, 24),) * 2, (date(2026, 12, 25),) * 2, (date(2026, 12, 27), date(2027, 1, 2)))
    week = Quiet(days=frozenset({4, 5, 6, 0, 2}), from_minute=22 * 60, until_minute=7 * 60)
    assert rule.quiet == (week, Quiet(dates=dates))
    first, second = rule.steps
    assert first.to == ("mailto://${MAIL}?to={address}", "${file:/etc/gua/slack}")
    assert (first.after_ms, second.after_ms) == (5_400_000, 24 * HOUR_MS)
    assert first.reminder_distances_ms == (8 * HOUR_MS, 24 * HOUR_MS)
    assert first.template == Path("/etc/gua/notice.html")
    assert (second.command, second.reminder_distances_ms) == (("scancel", "{job}"), ())


@pytest.mark.parametrize(
    ("until", "moment"),
    [
        ("2026-12-31", datetime(2026, 12, 31, 23, tzinfo=UTC)),
        ('"2026-10-25"', datetime(2026, 10, 25, 23, tzinfo=UTC)),
        ('"2026-12-31T18:00:00+01:00"', datetime(2026, 12, 31, 17, tzinfo=UTC)),
        ("2026-12-31T18:00:00Z", datetime(2026, 12, 31, 18, tzinfo=UTC)),
        ('"2026-12-31T18:00Z"', datetime(2026, 12, 31, 18, tzinfo=UTC)),
    ],
)
def test_a_hold_ends_with_a_date_of_the_zone_or_at_a_moment(until: str, moment: datetime) -> None:
    policy = parse(f'zone = "Europe/Berlin"\n[[hold]]\nowner = "a"\nuntil = {until}\nreason = "r"\n')
    assert policy.holds[0].until_ms == moment.timestamp() * 1000


def test_a_policy_without_rules_is_valid() -> None:
    assert parse("") == Policy(path=PATH)


def test_reminders_grow_twofold_and_are_three_by_default() -> None:
    step = parse(RULE + NOTICE + 'remind_every = "1h"\n').rules[0].steps[0]
    assert step.reminder_distances_ms == (HOUR_MS, 2 * HOUR_MS, 4 * HOUR_MS)


@pytest.mark.parametrize("quiet", ['{ from = "18:00", until = "09:00" }', '{ days = ["mon-sat"] }'])
def test_quiet_times_may_leave_some_hours_of_the_week(quiet: str) -> None:
    assert len(parse(f"{RULE}quiet = [{quiet}]").rules[0].quiet) == 1


def test_a_channels_url_is_in_no_representation() -> None:
    assert "a/b/c" not in repr(parse(RULE + NOTICE))
    team = '[[digest.team]]\nname = "t"\nowners = ["x"]\nto = ["slack://a/b/c"]\n'
    assert "a/b/c" not in repr(parse('[digest]\nto = ["slack://a/b/c"]\nadmins = ["slack://a/b/c"]\n' + team))


DIGEST = """
[digest]
to = ["mailto://smtp.example.org?from=a@b&to={address}", "write://", "json://h/{owner}"]
least_gpu_hours = 0.5
opt_out = ["svc-*"]
admins = ["${ADMINS}"]
[[digest.team]]
name = "Vision & Audio"
owners = ["ana"]
groups = ["vision"]
to = ["slack://a/b/c"]
"""


def test_everything_that_digests_may_have_is_parsed() -> None:
    found = parse(DIGEST).digests
    assert found is not None
    assert (len(found.to), found.least_gpu_hours, found.opt_out, found.admins) == (3, 0.5, ("svc-*",), ("${ADMINS}",))
    assert found.teams == (Team(name="Vision & Audio", owners=("ana",), groups=("vision",), to=("slack://a/b/c",)),)
    assert parse("[digest]").digests == Digests(least_gpu_hours=1)
    assert parse("").digests is None


TEAM = '[[digest.team]]\nname = "t"\n'


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("digest = 1", "digest: is no table: write [digest] before its keys"),
        ("[digest]\nteem = 1", "digest: teem: unknown key: did you mean team?"),
        ("[digest]\nteam = 1", "digest: team: is no array of tables: write [[digest.team]] before each"),
        ('[digest]\nto = "x"', "digest: to: is no list"),
        (
            '[digest]\nto = ["json://h/{host}"]',
            "digest: to: item 1 has {host}: a digest has {address} and {owner} here",
        ),
        ('[digest]\nadmins = ["json://h/{owner}"]', "digest: admins: item 1 has {owner}: a digest has none here"),
        ('[digest]\nadmins = ["write://"]', "digest: admins: item 1 is write://, but this digest has no owner"),
        ("[digest]\nadmins = []", "digest: admins: is an empty list"),
        ("[digest]\nleast_gpu_hours = -1", "digest: least_gpu_hours: must be a number of GPU-hours from 0 to"),
        ("[digest]\nleast_gpu_hours = nan", "digest: least_gpu_hours: must be a number of GPU-hours from 0 to"),
        ("[digest]\nleast_gpu_hours = true", "digest: least_gpu_hours: must be a number of GPU-hours from 0 to"),
        ('[[digest.team]]\nowners = ["a"]', "digest: team 1: name: is missing"),
        (TEAM + 'owners = ["a"]', "digest: team 1: to: is missing"),
        (TEAM + 'to = ["slack://a/b/c"]', "digest: team 1: owners: is missing: add owners, groups or both"),
        (
            TEAM + 'owners = ["a"]\nto = ["json://h/{address}"]',
            "digest: team 1: to: item 1 has {address}: a digest has",
        ),
        (2 * (TEAM + 'owners = ["a"]\nto = ["slack://a/b/c"]\n'), "digest: team 2: name: an earlier team has the same"),
    ],
)
def test_errors_in_digest_settings_are_reported_with_their_place(text: str, said: str) -> None:
    assert problem(text).startswith(said)


@pytest.mark.parametrize(
    ("text", "reported"),
    [
        ("zoen = 1", "zoen: unknown key: did you mean zone?"),
        ("xyz = 1", "xyz: unknown key: write one of zone, most_per_owner_per_day, sender"),
        ('"a\\u001b[2J" = 1', "a[2J: unknown key"),
        (RULE + 'aftr = "2h"', "rule idle: aftr: unknown key: did you mean after?"),
        (RULE + 'except_owner = ["a"]', "rule idle: except_owner: unknown key: did you mean except_owners?"),
        (RULE + NOTICE + 'cmd = ["a"]', "rule idle: step 1: cmd: unknown key"),
        ('[[rule]]\nname = "idle"', "rule idle: after: is missing: add it"),
        ('[[rule]]\nafter = "1h"', "rule 1: name: is missing: add it"),
        ('[[rule]]\nname = "idle"\nafter = "1h"', "rule idle: state: is missing"),
        ('[[rule]]\nname = "Idle"\nafter = "1h"', "rule Idle: name: 'Idle' is no name of a rule: write a-z, 0-9 and -"),
        ('[rule]\nname = "idle"', "rule: is no array of tables: write [[rule]]"),
        ("hold = [1]", "hold: is no array of tables"),
        (RULE + RULE, "rule idle: name: an earlier rule has the same: write another"),
        ("zone = 1", "zone: is no text: write a text in quotes"),
        ('zone = "Europe/Berln"', "zone: unknown time zone 'Europe/Berln'"),
        ('zone = "local"', "zone: unknown time zone 'local'"),
        ("most_per_owner_per_day = true", "most_per_owner_per_day: must be a whole number from 1 to 1000"),
        ("most_per_owner_per_day = 0", "must be a whole number"),
        ("most_per_owner_per_day = nan", "must be a whole number"),
        ('exempt_owners = "root"', 'exempt_owners: is no list: write one, as in ["one", "two"]'),
        ('exempt_owners = ["a", 2]', "exempt_owners: item 2 is no text"),
        ('exempt_owners = ["a\\nb"]', "exempt_owners: item 1 has a line break"),
        ('exempt_owners = ["a\\u202eb"]', "exempt_owners: item 1 has a line break, or a character"),
        ('exempt_owners = [" "]', "exempt_owners: item 1 is empty"),
        (f'exempt_owners = ["{"a" * 5000}"]', "item 1 is empty, or has more than 4096 characters"),
        ('addresses = "x"', "addresses: is no table with one key: write template, file or command"),
        ("addresses = {}", "addresses: is no table with one key"),
        ('addresses = { file = "a", template = "b" }', "addresses: is no table with one key"),
        ('addresses = { fil = "a" }', "addresses: is no table with one key"),
        ('addresses = { template = "{user}@a" }', "addresses: template has the unknown placeholder 'user'"),
        (
            'addresses = { command = ["find", "{owner}"] }',
            "command item 2 has the unknown placeholder 'owner': remove it",
        ),
        ('contact = "a\\nBcc: b"', "contact: has a line break"),
        ("addresses = { command = [] }", "addresses: command is an empty list"),
        ("addresses = { file = 1 }", "addresses: file is no text"),
    ],
)
def test_a_wrong_key_or_value_is_reported_with_its_place(text: str, reported: str) -> None:
    assert problem(text).startswith(reported) or reported in problem(text)


@pytest.mark.parametrize(
    ("line", "reported"),
    [
        ("min_memory = 1", "min_memory: is no text"),
        ('min_memory = "1 GB"', "min_memory: '1 GB' is no size: write a number and MiB, GiB or TiB"),
        ("owners = []", "owners: is an empty list, so nothing matches: add an item, or remove the key"),
        ("labels = {}", "labels: is no table of labels"),
        ("labels = { a = 1 }", "labels: is no list"),
        ('labels = { a = ["b", ""] }', "labels: item 2 is empty"),
        ('owners = ["a", "b"]\nexcept_owners = ["b", "a"]', "owners: never matches, as all of it is exempt"),
        ('owners = ["boss"]', "owners: never matches, as all of it is exempt"),
        ('qos = ["a"]\nexcept_qos = ["a"]', "qos: never matches"),
        ('except_hosts = ["*"]', "except_hosts: exempts everybody, so the rule never matches: remove '*'"),
        ("quiet = [{}]", "quiet 1: days: is missing"),
        ('quiet = [{ days = ["mo"] }]', "quiet 1: days: item 1 'mo' is no day of the week: write mon, tue"),
        ('quiet = [{ days = ["mon-fir"] }]', "quiet 1: days: item 1 'mon-fir' is no day of the week"),
        ("quiet = [{ days = [] }]", "quiet 1: days: is an empty list"),
        ('quiet = [{ from = "22:00" }]', "quiet 1: until: from and until must differ, and both be there"),
        ('quiet = [{ from = "07:00", until = "07:00" }]', "quiet 1: until: from and until must differ"),
        ('quiet = [{ from = "24:00", until = "07:00" }]', "quiet 1: until: from and until must differ"),
        ('quiet = [{ from = "24:01", until = "07:00" }]', "quiet 1: from: '24:01' is no time of the day"),
        ('quiet = [{ from = "7:00", until = "07:00" }]', "quiet 1: from: '7:00' is no time of the day"),
        ('quiet = [{ dates = ["2026-02-29"] }]', "quiet 1: dates: item 1 '2026-02-29' is no date"),
        ('quiet = [{ dates = ["0001-01-01"] }]', "quiet 1: dates: item 1 '0001-01-01' is no date from 1900 to 2199"),
        ('quiet = [{ dates = ["2026-02-02/2026-02-01"] }]', "ends before it begins: write the earlier date first"),
        ('quiet = [{ dates = ["2026-02-02"], days = ["mon"] }]', "quiet 1: dates: cannot be beside days"),
        ('quiet = [{ days = ["mon-sun"] }]', "quiet: covers every hour of the week, so nothing is ever sent"),
        ('quiet = [{ from = "06:00", until = "18:00" }, { from = "18:00", until = "06:00" }]', "covers every hour"),
        ('hold = [{ until = "2026-12-31", reason = "r" }]', "hold 1: owner: is missing: add one or more of owner"),
        ('hold = [{ owner = "a", reason = "r" }]', "hold 1: until: is missing"),
        ('hold = [{ owner = "a", until = "2026-12-31" }]', "hold 1: reason: is missing"),
        ('hold = [{ owner = "a", until = "soon", reason = "r" }]', "hold 1: until: 'soon' is no date, and no moment"),
        ('hold = [{ owner = "a", until = "2026-12-31T10:00", reason = "r" }]', "is no date, and no moment with an off"),
        ('hold = [{ owner = "a", until = "2026-13-01", reason = "r" }]', "hold 1: until: '2026-13-01' is no date from"),
        ('hold = [{ owner = "a", until = "2026-13-01T00:00Z", reason = "r" }]', "hold 1: until: '2026-13-01T00:00Z'"),
        ('hold = [{ owner = "a", until = 9999-12-31, reason = "r" }]', "hold 1: until: '9999-12-31' is no date from"),
        ('hold = [{ user = "a" }]', "hold 1: user: unknown key"),
    ],
)
def test_a_rule_that_is_wrong_or_never_matches_is_reported(line: str, reported: str) -> None:
    found = problem(f'exempt_owners = ["boss"]\n{RULE}{line}\n')
    assert found.startswith("rule idle: ")
    assert reported in found


@pytest.mark.parametrize(
    "after", ['"2x"', '""', '"0s"', '"-1h"', '"366d"', '"1000y"', "2", "true", "[]", '"2h\\u0000"']
)
def test_an_impossible_duration_is_reported(after: str) -> None:
    assert problem(f'[[rule]]\nname = "idle"\nstate = "empty"\nafter = {after}').startswith("rule idle: after: ")


@pytest.mark.parametrize("state", ['"truly-idle"', "[]", "1", '["empty", "emty"]', '"IDLE_HELD"'])
def test_an_unknown_state_is_reported(state: str) -> None:
    assert problem(f'[[rule]]\nname = "idle"\nstate = {state}\nafter = "1h"').startswith("rule idle: state: ")


@pytest.mark.parametrize(
    ("steps", "reported"),
    [
        ("[[rule.step]]", "step 1: to: is missing or empty: add a channel, or a command"),
        ("[[rule.step]]\nto = []", "step 1: to: is missing or empty"),
        ('[[rule.step]]\ncommand = ["a"]', "step 1: command: has no notice before it: add an earlier step with to"),
        ('[[rule.step]]\nto = ["a://b"]\ncommand = ["a"]', "step 1: command: has no notice before it"),
        (NOTICE + NOTICE, "step 2: after: is missing or too short: write more than the step before, 2h"),
        (NOTICE + NOTICE + 'after = "2h"', "step 2: after: is missing or too short"),
        (NOTICE + 'after = "1h"', "step 1: after: is shorter than that of the rule, 2h"),
        (NOTICE + "growing = 2", "step 1: growing: is of no use without remind_every"),
        (NOTICE + "most_reminders = 2", "step 1: most_reminders: is of no use without remind_every"),
        (NOTICE + 'remind_every = "1h"\ngrowing = 0', "step 1: growing: must be a whole number from 1 to 10"),
        (NOTICE + 'remind_every = "1h"\nmost_reminders = 51', "step 1: most_reminders: must be a whole number"),
        (NOTICE + '[[rule.step]]\nafter = "3h"\ncommand = []', "step 2: command: is an empty list"),
        (
            NOTICE + '[[rule.step]]\nafter = "3h"\ncommand = ["x", "{user}"]',
            "step 2: command: item 2 has the unknown pl",
        ),
        (NOTICE + '[[rule.step]]\nafter = "3h"\ncommand = ["x", "{"]', "step 2: command: item 2 has a brace without"),
        (NOTICE + '[[rule.step]]\nafter = "3h"\ncommand = ["x", "{pid!r}"]', "item 2 has the unknown placeholder"),
        (NOTICE + '[[rule.step]]\nafter = "3h"\ncommand = ["{owner}"]', "has a placeholder as program or in a shell's"),
        (NOTICE + '[[rule.step]]\nafter = "3h"\ncommand = ["/bin/sh", "-ec", "x {pod}"]', "or in a shell's text"),
        (
            NOTICE + '[[rule.step]]\nafter = "3h"\ncommand = ["x"]\ntemplate = "a"',
            "step 2: template: is of no use without to",
        ),
    ],
)
def test_steps_that_are_wrong_are_reported(steps: str, reported: str) -> None:
    found = problem(RULE + steps)
    assert found.startswith("rule idle: step ")
    assert reported in found


def test_a_shell_gets_names_as_arguments() -> None:
    steps = NOTICE + '[[rule.step]]\nafter = "3h"\ncommand = ["sh", "-c", "echo $1", "sh", "{owner}"]'
    assert parse(RULE + steps).rules[0].steps[1].command[-1] == "{owner}"


@pytest.mark.parametrize(
    ("channel", "reported"),
    [
        ("slack:TOKEN", "item 1 is no URL"),
        ("user:TOKEN@example.org", "item 1 is no URL"),
        ("SLACK://{TOKEN}", "item 1 has other braces than {owner}, {address}, {host}"),
        ("mailto://u:TO{KEN@example.org", "item 1 has other braces"),
        ("slack://TOKEN\\nb", "item 1 has a line break"),
        ("${TOKEN", "item 1 has other braces"),
    ],
)
def test_a_wrong_channel_is_reported_without_its_secret(channel: str, reported: str) -> None:
    found = problem(RULE + f'[[rule.step]]\nto = ["{channel}"]')
    assert found.startswith(f"rule idle: step 1: to: {reported}")
    assert "KEN" not in found


@pytest.mark.parametrize("text", ["a", "a = ", "[", "a = 1\na = 2", "a = " + "[" * 100_000, "a = " + "9" * 9_999, "\0"])
def test_what_is_no_toml_is_reported_in_one_line(text: str) -> None:
    assert problem(text).startswith("is not TOML: ")


def test_a_file_that_cannot_be_read_is_reported(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="No such file or directory: give the path of a policy"):
        read_policy(tmp_path / "missing.toml")
    with pytest.raises(UsageError, match="Is a directory"):
        read_policy(tmp_path)
    with pytest.raises(UnavailableError, match="cannot be read"):
        read_policy(Path("a\0b"))
    with pytest.raises(UnavailableError, match="cannot be read: File name too long"):
        read_policy(tmp_path / ("a" * 300))
    file = tmp_path / "policy.toml"
    file.write_bytes(b"# \xff")
    with pytest.raises(DataError, match="is not UTF-8 text"):
        read_policy(file)
    file.write_bytes(b"#" * (2**20 + 1))
    with pytest.raises(DataError, match="is larger than 1 MiB"):
        read_policy(file)


def test_a_file_of_one_mebibyte_with_a_byte_order_mark_is_read(tmp_path: Path) -> None:
    file = tmp_path / "policy.toml"
    text = "\ufeff" + RULE.replace("\n", "\r\n") + "#"
    file.write_bytes(text.encode().ljust(2**20, b"#"))
    assert read_policy(file).rules[0].name == "idle"


COMMAND = NOTICE + '[[rule.step]]\nafter = "3h"\ncommand = ["scancel", "{job}"]\n'


@pytest.mark.parametrize("mode", [0o620, 0o602, 0o666])
@pytest.mark.parametrize("text", [RULE + COMMAND, 'addresses = { command = ["find"] }'])
def test_a_policy_with_commands_that_others_may_change_is_refused(tmp_path: Path, mode: int, text: str) -> None:
    file = tmp_path / "policy.toml"
    file.write_text(text)
    file.chmod(mode)
    with pytest.raises(UsageError, match="has commands, and others than its owner may change it: run chmod go-w"):
        read_policy(file)
    file.chmod(0o644)
    assert read_policy(file).path == file


def test_a_policy_without_commands_may_be_changed_by_a_group(tmp_path: Path) -> None:
    file = tmp_path / "policy.toml"
    file.write_text(RULE + NOTICE)
    file.chmod(0o664)
    assert read_policy(file).rules[0].steps


def test_permissions_are_those_of_the_opened_file(tmp_path: Path) -> None:
    policy = replace(parse(RULE + COMMAND), path=tmp_path)
    status = tmp_path.stat()
    check_permissions(policy, os.stat_result((0o100644, *tuple(status)[1:])))
    with pytest.raises(UsageError):
        check_permissions(policy, os.stat_result((0o100664, *tuple(status)[1:])))


VALUES = st.recursive(
    st.sampled_from(['"2h"', '"a"', "1", "true", "nan", "2026-12-31", "07:00:00", '"{owner}"', '"a://b"', "{}", "[]"]),
    lambda inner: st.lists(inner, max_size=3).map(lambda items: f"[{', '.join(items)}]"),
    max_leaves=4,
)
KEYS = st.sampled_from(
    ["name", "state", "after", "owners", "labels", "except_owners", "min_memory", "quiet", "hold", "step", "nonsense"]
)


@settings(deadline=None)
@given(st.dictionaries(KEYS, VALUES), st.dictionaries(st.sampled_from(["to", "after", "command", "template"]), VALUES))
def test_any_content_is_a_policy_or_one_line(rule: dict[str, str], step: dict[str, str]) -> None:
    lines = [f"{key} = {value}" for key, value in rule.items()]
    text = "\n".join(["[[rule]]", *lines, "[[rule.step]]", *(f"{key} = {value}" for key, value in step.items())])
    try:
        parse(text)
    except GuaError as error:
        assert str(error).isprintable()  # noqa: PT017 - both are fine, a traceback is not


@settings(deadline=None)
@given(st.text(max_size=200))
def test_any_text_is_a_policy_or_one_line(text: str) -> None:
    try:
        parse(text)
    except GuaError as error:
        assert str(error).isprintable()  # noqa: PT017 - both are fine, a traceback is not
