"""Which step of a rule is due: steps in order, grace, reminders, channels that were not reached, commands."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

import pytest

from fakes.idle_notice import SINCE_MS, idle
from gua.notices.due import COMMAND, MISSED_MS, Due, Taken
from gua.notices.held import HeldState, Notice
from gua.notices.policy import Rule, Step

HOUR_MS: Final = 3_600_000
MINUTE_MS: Final = 60_000
FIRST: Final = Step(to=("json://one.example", "json://two.example"), after_ms=2 * HOUR_MS)
SECOND: Final = Step(to=("json://lead.example",), after_ms=8 * HOUR_MS)
COMMANDING: Final = Step(after_ms=24 * HOUR_MS, command=("scancel", "{job}"))
BOTH: Final = frozenset((1, 2))


def rule(*steps: Step) -> Rule:
    return Rule(name="idle", states=(HeldState.IDLE_HELD,), after_ms=2 * HOUR_MS, steps=steps)


def due(steps: tuple[Step, ...], idle_ms: int, sent: dict[tuple[int, int], Taken], **changes: Any) -> Due:  # noqa: ANN401
    """Return what is due for a holder that became idle at SINCE_MS and is so for ``idle_ms``; it is now as long ago."""
    held = idle(since_ms=SINCE_MS, idle_ms=idle_ms)
    return Due(**{"rule": rule(*steps), "held": held, "sent": sent, "at_ms": SINCE_MS + idle_ms, **changes})


def taken(idle_ms: int, channels: frozenset[int] = BOTH, *, is_sent: bool = True) -> Taken:
    return Taken(SINCE_MS + idle_ms, channels, is_sent)


def named(notice: Notice | None) -> tuple[int, int, tuple[int, ...]] | None:
    """Return step, reminder and numbers of the channels of a notice."""
    return notice and (notice.step, notice.reminder, tuple(number for number, _ in notice.to))


def test_the_first_step_is_due_from_its_idle_time_on_and_not_a_moment_before() -> None:
    assert due((FIRST, SECOND), 2 * HOUR_MS - 1, {}).notice() is None
    assert named(due((FIRST, SECOND), 2 * HOUR_MS, {}).notice()) == (1, 1, (1, 2))


def test_a_notice_has_the_rule_the_holder_and_the_templates_of_its_step() -> None:
    found = due((FIRST, SECOND), 2 * HOUR_MS, {}).notice()
    assert found is not None
    assert (found.rule, found.held.key) == ("idle", "node1 4711")
    assert found.to == ((1, "json://one.example"), (2, "json://two.example"))


def test_a_rule_without_steps_has_nothing_due() -> None:
    assert due((), 100 * HOUR_MS, {}).notice() is None


def test_a_step_that_was_taken_is_not_due_again() -> None:
    sent = {(1, 1): taken(2 * HOUR_MS)}
    assert due((FIRST, SECOND), 8 * HOUR_MS - 1, sent).notice() is None


def test_the_second_step_follows_when_its_idle_time_is_reached() -> None:
    sent = {(1, 1): taken(2 * HOUR_MS)}
    assert named(due((FIRST, SECOND), 8 * HOUR_MS, sent).notice()) == (2, 1, (1,))


def test_an_old_idle_process_gets_one_step_after_another_with_their_distance() -> None:
    first = due((FIRST, SECOND), 100 * HOUR_MS, {}).notice()
    assert named(first) == (1, 1, (1, 2))
    sent = {(1, 1): taken(100 * HOUR_MS)}
    assert due((FIRST, SECOND), 106 * HOUR_MS - 1, sent).notice() is None
    assert named(due((FIRST, SECOND), 106 * HOUR_MS, sent).notice()) == (2, 1, (1,))


def test_the_second_step_needs_its_idle_time_also_where_the_first_was_long_ago() -> None:
    sent = {(1, 1): taken(-50 * HOUR_MS)}
    assert due((FIRST, SECOND), 8 * HOUR_MS - 1, sent).notice() is None


def test_a_policy_that_lost_a_step_sends_nothing_of_what_it_no_longer_has() -> None:
    sent = {(1, 1): taken(2 * HOUR_MS), (2, 1): taken(8 * HOUR_MS)}
    assert due((FIRST,), 50 * HOUR_MS, sent).notice() is None


@pytest.mark.parametrize("growing", [1, 2, 3])
def test_reminders_have_growing_distances_and_end_after_the_most(growing: int) -> None:
    step = replace(FIRST, remind_every_ms=HOUR_MS, growing=growing, most_reminders=3)
    sent: dict[tuple[int, int], Taken] = {(1, 1): taken(2 * HOUR_MS)}
    found = []
    for minute in range(120, 120 + 60 * 50):
        idle_ms = minute * MINUTE_MS
        if notice := due((step,), idle_ms, sent).notice():
            sent[notice.step, notice.reminder] = taken(idle_ms)
            found.append((notice.reminder, idle_ms // HOUR_MS))
    assert found == [(2, 3), (3, 3 + growing), (4, 3 + growing + growing**2)]


def test_a_reminder_goes_to_all_channels_of_its_step() -> None:
    step = replace(FIRST, remind_every_ms=HOUR_MS)
    assert named(due((step,), 3 * HOUR_MS, {(1, 1): taken(2 * HOUR_MS)}).notice()) == (1, 2, (1, 2))


def test_the_next_step_ends_the_reminders_of_the_step_before() -> None:
    step = replace(FIRST, remind_every_ms=HOUR_MS)
    sent = {(1, 1): taken(2 * HOUR_MS), (1, 2): taken(3 * HOUR_MS), (2, 1): taken(8 * HOUR_MS)}
    assert due((step, SECOND), 30 * HOUR_MS, sent).notice() is None


def test_the_next_step_is_due_before_a_reminder_that_is_due_too() -> None:
    step = replace(FIRST, remind_every_ms=6 * HOUR_MS)
    assert named(due((step, SECOND), 8 * HOUR_MS, {(1, 1): taken(2 * HOUR_MS)}).notice()) == (2, 1, (1,))


def test_a_late_run_sends_one_reminder_and_counts_the_distance_from_it() -> None:
    step = replace(FIRST, remind_every_ms=HOUR_MS, growing=1)
    sent = {(1, 1): taken(2 * HOUR_MS), (1, 2): taken(9 * HOUR_MS)}
    assert due((step,), 10 * HOUR_MS - 1, sent).notice() is None
    assert named(due((step,), 10 * HOUR_MS, sent).notice()) == (1, 3, (1, 2))


def test_a_holder_that_is_idle_anew_gets_no_reminder_before_the_idle_time_of_the_step() -> None:
    second = replace(SECOND, remind_every_ms=HOUR_MS)
    sent = {(1, 1): taken(-60 * HOUR_MS), (2, 1): taken(-50 * HOUR_MS, frozenset((1,)))}
    assert due((FIRST, second), 8 * HOUR_MS - 1, sent).notice() is None
    assert named(due((FIRST, second), 8 * HOUR_MS, sent).notice()) == (2, 2, (1,))


def test_a_channel_that_was_not_reached_is_tried_again_alone_for_a_day() -> None:
    sent = {(1, 1): taken(2 * HOUR_MS, frozenset((1,)))}
    assert named(due((FIRST,), 3 * HOUR_MS, sent).notice()) == (1, 1, (2,))
    assert named(due((FIRST,), 2 * HOUR_MS + MISSED_MS, sent).notice()) == (1, 1, (2,))
    assert due((FIRST,), 2 * HOUR_MS + MISSED_MS + 1, sent).notice() is None


def test_a_channel_that_is_never_reached_delays_no_escalation() -> None:
    sent = {(1, 1): taken(2 * HOUR_MS, frozenset((1,)))}
    assert named(due((FIRST, SECOND), 8 * HOUR_MS, sent).notice()) == (2, 1, (1,))


def test_a_channel_that_is_never_reached_delays_no_reminder() -> None:
    step = replace(FIRST, remind_every_ms=HOUR_MS)
    sent = {(1, 1): taken(2 * HOUR_MS, frozenset((1,)))}
    assert named(due((step,), 3 * HOUR_MS, sent).notice()) == (1, 2, (1, 2))


def test_a_channel_is_not_tried_again_for_a_step_that_another_one_followed() -> None:
    sent = {(1, 1): taken(2 * HOUR_MS, frozenset((1,))), (2, 1): taken(8 * HOUR_MS, frozenset((1,)))}
    assert due((FIRST, SECOND), 9 * HOUR_MS, sent).notice() is None


def test_a_channel_of_a_reminder_that_was_not_reached_is_tried_again() -> None:
    step = replace(FIRST, remind_every_ms=HOUR_MS)
    sent = {(1, 1): taken(2 * HOUR_MS), (1, 2): taken(3 * HOUR_MS, frozenset((2,)))}
    assert named(due((step,), 4 * HOUR_MS, sent).notice()) == (1, 2, (1,))


def test_nothing_is_due_after_the_clock_was_set_back() -> None:
    step = replace(FIRST, remind_every_ms=HOUR_MS)
    sent = {(1, 1): taken(50 * HOUR_MS)}
    assert due((step, SECOND), 49 * HOUR_MS, sent).notice() is None


def test_a_step_of_a_command_is_due_only_with_enforce() -> None:
    sent = {(1, 1): taken(2 * HOUR_MS)}
    steps = (FIRST, COMMANDING)
    assert due(steps, 24 * HOUR_MS, sent).notice() is None
    enforced = due(steps, 24 * HOUR_MS, sent, enforce=True)
    found = enforced.notice()
    assert named(found) == (2, 1, ())
    assert found is not None
    assert enforced.runs_command(found)


def test_a_command_waits_for_the_grace_after_the_notice_of_an_old_idle_process() -> None:
    sent = {(1, 1): taken(100 * HOUR_MS)}
    steps = (FIRST, COMMANDING)
    assert due(steps, 122 * HOUR_MS - 1, sent, enforce=True).notice() is None
    assert named(due(steps, 122 * HOUR_MS, sent, enforce=True).notice()) == (2, 1, ())


def test_a_command_does_not_run_where_no_notice_before_it_was_sent() -> None:
    sent = {(1, 1): taken(2 * HOUR_MS, is_sent=False)}
    assert due((FIRST, COMMANDING), 24 * HOUR_MS, sent, enforce=True).notice() is None


def test_a_command_does_not_run_without_grace_after_the_first_notice_that_was_sent() -> None:
    steps = (FIRST, SECOND, COMMANDING)
    sent = {(1, 1): taken(2 * HOUR_MS, is_sent=False), (2, 1): taken(20 * HOUR_MS, frozenset((1,)))}
    assert due(steps, 36 * HOUR_MS - 1, sent, enforce=True).notice() is None
    assert named(due(steps, 36 * HOUR_MS, sent, enforce=True).notice()) == (3, 1, ())


def test_a_command_that_ran_is_not_due_again() -> None:
    sent = {(1, 1): taken(2 * HOUR_MS), (2, 1): taken(24 * HOUR_MS, frozenset((COMMAND,)), is_sent=False)}
    assert due((FIRST, COMMANDING), 100 * HOUR_MS, sent, enforce=True).notice() is None


def test_a_channel_tried_again_does_not_run_the_command_of_its_step_again() -> None:
    step = replace(COMMANDING, to=("json://one.example", "json://two.example"))
    sent = {(1, 1): taken(2 * HOUR_MS), (2, 1): taken(24 * HOUR_MS, frozenset((COMMAND, 1)))}
    again = due((FIRST, step), 25 * HOUR_MS, sent, enforce=True)
    found = again.notice()
    assert named(found) == (2, 1, (2,))
    assert found is not None
    assert not again.runs_command(found)


def test_a_command_that_a_killed_run_did_not_begin_is_due_without_the_channels_that_were_sent() -> None:
    step = replace(COMMANDING, to=("json://one.example",))
    sent = {(1, 1): taken(2 * HOUR_MS), (2, 1): taken(24 * HOUR_MS, frozenset((1,)))}
    again = due((FIRST, step), 25 * HOUR_MS, sent, enforce=True)
    found = again.notice()
    assert named(found) == (2, 1, ())
    assert found is not None
    assert again.runs_command(found)


def test_a_reminder_runs_no_command() -> None:
    step = replace(COMMANDING, to=("json://one.example",), remind_every_ms=HOUR_MS)
    sent = {(1, 1): taken(2 * HOUR_MS), (2, 1): taken(24 * HOUR_MS, frozenset((COMMAND, 1)))}
    again = due((FIRST, step), 26 * HOUR_MS, sent, enforce=True)
    found = again.notice()
    assert named(found) == (2, 2, (1,))
    assert found is not None
    assert not again.runs_command(found)
