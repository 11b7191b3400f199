"""Which step of a rule is due for a holder, given what was sent before."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from gua.notices.held import Held, Notice
from gua.notices.policy import Rule

MISSED_MS: Final = 24 * 3_600_000
"""How long a channel that could not be reached is tried again for a notice that other channels got."""
COMMAND: Final = 0
"""Number of a step's command among its channels."""
_MOST_REMINDERS: Final = 254


class Taken(NamedTuple):
    """A notice that was sent, or may have been: when first (Unix ms), and its channels by their number in the step.

    ``is_sent``: a channel took it, so its holder can have read it.
    """

    at_ms: int
    channels: frozenset[int]
    is_sent: bool = True


Sent = Mapping[tuple[int, int], Taken]
"""What was sent to one holder by one rule, by step and reminder (both from 1)."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Due:
    """What is due for a holder by the first rule that matches it, at ``at_ms`` (Unix ms), after what was ``sent``.

    Without ``enforce`` no command is due, and steps that only run a command are not taken.
    """

    rule: Rule
    held: Held
    sent: Sent
    at_ms: int
    enforce: bool = False

    def notice(self) -> Notice | None:
        """Return the one notice that is due, ``None`` if none is; without channels only a command is.

        A step is due once the holder has been idle for its ``after_ms``, the steps before it were taken, and as much
        time has passed since the step before as their ``after_ms`` differ: a holder that was idle long before the
        policy gets one step after another. A reminder is due ``remind_every_ms`` after its step was taken, each further
        one ``growing`` times later, until the next step is taken. A channel that could not be reached is tried again
        for :data:`MISSED_MS`, until the next step or reminder.
        """
        steps, newest = self.rule.steps, 0
        while newest < len(steps) and (newest + 1, 1) in self.sent:
            newest += 1
        if newest < len(steps) and self._is_due(newest + 1):
            return self._notice(newest + 1, 1)
        if not newest or self.held.idle_ms < steps[newest - 1].after_ms:
            return None
        return self._again(newest)

    def runs_command(self, notice: Notice) -> bool:
        """Return whether the command of a due notice's step is due too."""
        return notice.reminder == 1 and self._is_command_due(notice.step)

    def _is_due(self, number: int) -> bool:
        """Return whether a step is due that was not taken, and all before it were."""
        step = self.rule.steps[number - 1]
        if self.held.idle_ms < step.after_ms or not (step.to or self._is_command_due(number)):
            return False
        return number == 1 or self._is_grace_over(number, number - 1, self.sent[number - 1, 1])

    def _is_grace_over(self, number: int, earlier: int, taken: Taken) -> bool:
        """Return whether as much time has passed since an earlier step as the ``after_ms`` of the two differ."""
        steps = self.rule.steps
        return self.at_ms - taken.at_ms >= steps[number - 1].after_ms - steps[earlier - 1].after_ms

    def _is_command_due(self, number: int) -> bool:
        """Return whether a step's command has not run, and an earlier notice was sent whose grace is over."""
        before = self.sent.get((number, 1))
        if not (self.enforce and self.rule.steps[number - 1].command) or (before and COMMAND in before.channels):
            return False
        return any(
            earlier < number and taken.is_sent and self._is_grace_over(number, earlier, taken)
            for (earlier, _), taken in self.sent.items()
        )

    def _again(self, number: int) -> Notice | None:
        """Return what is due of the newest step that was taken: its command, a reminder, or channels not reached."""
        step = self.rule.steps[number - 1]
        last = max(reminder for one, reminder in self.sent if one == number)
        if self._is_command_due(number):
            return self._notice(number, 1, self._missed(number, 1) if last == 1 else ())
        if step.remind_every_ms is not None and step.to and last <= min(step.most_reminders, _MOST_REMINDERS):
            distance_ms = step.remind_every_ms * step.growing ** (last - 1)
            if self.at_ms - self.sent[number, last].at_ms >= distance_ms:
                return self._notice(number, last + 1)
        missed = self._missed(number, last)
        return self._notice(number, last, missed) if missed else None

    def _missed(self, number: int, reminder: int) -> Sequence[int]:
        """Return the channels that could not be reached when others got a notice, and are tried again."""
        taken = self.sent[number, reminder]
        every = range(1, len(self.rule.steps[number - 1].to) + 1)
        is_tried = self.at_ms - taken.at_ms <= MISSED_MS
        return [channel for channel in every if channel not in taken.channels] if is_tried else []

    def _notice(self, number: int, reminder: int, channels: Sequence[int] | None = None) -> Notice:
        to = self.rule.steps[number - 1].to
        chosen = range(1, len(to) + 1) if channels is None else channels
        return Notice(
            rule=self.rule.name,
            step=number,
            reminder=reminder,
            held=self.held,
            to=tuple((channel, to[channel - 1]) for channel in chosen),
        )
