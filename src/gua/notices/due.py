"""Which step of a rule is due for a holder, given what was sent before."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from gua.notices.held import Held, Notice
from gua.notices.policy import Rule, Step

MISSED_MS: Final = 24 * 3_600_000
"""How long a channel that could not be reached is tried again for a notice that other channels got."""
_MOST_REMINDERS: Final = 254


class Taken(NamedTuple):
    """A notice that was sent, or may have been: when first (Unix ms), and its channels by their number in the step."""

    at_ms: int
    channels: frozenset[int]


Sent = Mapping[tuple[int, int], Taken]
"""What was sent to one holder by one rule, by step and reminder (both from 1)."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Due:
    """What is due for a holder by the first rule that matches it, at ``at_ms`` (Unix ms), after what was ``sent``.

    Without ``enforce`` steps that only run a command are not taken.
    """

    rule: Rule
    held: Held
    sent: Sent
    at_ms: int
    enforce: bool = False

    def notice(self) -> Notice | None:
        """Return the one notice that is due, ``None`` if none is.

        A step is due once the holder has been idle for its ``after_ms``, the steps before it were taken, and as much
        time has passed since the step before as their ``after_ms`` differ: a holder that was idle long before the
        policy gets one step after another. A reminder is due ``remind_every_ms`` after its step was taken, each further
        one ``growing`` times later, until the next step is taken. A channel that could not be reached is tried again
        for :data:`MISSED_MS`.
        """
        steps = self.rule.steps
        if not steps or self.held.idle_ms < steps[0].after_ms:
            return None
        newest = 0
        for number, step in enumerate(steps, start=1):
            if (number, 1) in self.sent:
                newest = number
                if missed := self._missed(number, 1):
                    return missed
            elif self._is_due(step, newest):
                return self._notice(number, 1)
            else:
                break
        return self._reminder(newest) if newest else None

    def _is_due(self, step: Step, newest: int) -> bool:
        """Return whether a step is due whose predecessor, the step ``newest``, was taken (0: it is the first)."""
        if self.held.idle_ms < step.after_ms or not (step.to or self.enforce):
            return False
        distance_ms = step.after_ms - self.rule.steps[newest - 1].after_ms
        return not newest or self.at_ms - self.sent[newest, 1].at_ms >= distance_ms

    def _reminder(self, number: int) -> Notice | None:
        """Return the reminder of a step that was taken, if it is due."""
        step = self.rule.steps[number - 1]
        if step.remind_every_ms is None or not step.to:
            return None
        last = max(reminder for one, reminder in self.sent if one == number)
        if missed := self._missed(number, last):
            return missed
        distance_ms = step.remind_every_ms * step.growing ** (last - 1)
        is_due = self.at_ms - self.sent[number, last].at_ms >= distance_ms
        return self._notice(number, last + 1) if is_due and last <= min(step.most_reminders, _MOST_REMINDERS) else None

    def _missed(self, number: int, reminder: int) -> Notice | None:
        """Return a notice for the channels that could not be reached when others got it, ``None`` without any."""
        taken = self.sent[number, reminder]
        every = range(1, len(self.rule.steps[number - 1].to) + 1)
        missed = [channel for channel in every if channel not in taken.channels]
        return self._notice(number, reminder, missed) if missed and self.at_ms - taken.at_ms <= MISSED_MS else None

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
