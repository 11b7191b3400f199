"""The user behind a user id. A name service may be slow, down or not the host's: nobody waits for it for long.

Whose names are right is decided where this is put together: the name service (passwd file, LDAP, SSSD) of this
process only if it has the host's own root file system. In a container it would tell the container's users, who
have nothing to do with the host's ids; there the host's passwd file is read through ``<procfs>/1/root``, and where
that is not permitted a user is a number.
"""

from __future__ import annotations

import pwd
import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

Lookup = Callable[[int], str | None]

PATIENCE_SECONDS: Final = 0.2
_NAME_SECONDS: Final = 3_600.0
_NO_NAME_SECONDS: Final = 300.0
# A name outlives the directory it came from: "not found" is also what an unreachable one answers.
_KEPT_SECONDS: Final = 86_400.0
_MOST_NAMES: Final = 1_024
_MOST_WAITING: Final = 256


def passwd_name(uid: int) -> str | None:
    """Return the user's name as this system's name service knows it, ``None`` if it does not. May block for minutes."""
    try:
        return pwd.getpwuid(uid).pw_name
    except (KeyError, OverflowError):
        return None


class PasswdFile:
    """Looks a user up in one passwd file (passwd(5)), read anew each time: a site's may be large, and changes."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def name(self, uid: int) -> str | None:
        """Return the first user with this id, ``None`` if there is none or the file cannot be read."""
        wanted = str(uid)
        try:
            with self._path.open(encoding="utf-8", errors="replace") as file:
                for line in file:
                    fields = line.split(":", 3)
                    if len(fields) > 3 and fields[2] == wanted and fields[0]:
                        return fields[0]
        except OSError:
            return None
        return None


def _nobody(_uid: int) -> None:
    """Know no user."""


@dataclass(frozen=True, slots=True)
class _Answer:
    name: str | None
    came_at: float
    ask_again_at: float


class Owners:
    """Names of users, remembered for an hour, a missing one for five minutes; at most 1,024 of them.

    ``look_up`` may block: it runs in a thread of its own, one question at a time. A first question waits up to
    ``patience_seconds`` for it, unless an earlier one is still out; until the answer is there the name is not
    known. ``local`` must not block and is asked first. A user id that has no name, as in most containers, is
    its own name ("1234"), as in ``ls`` and ``ps``: reports tell owners apart by name alone.
    """

    def __init__(
        self,
        look_up: Lookup = passwd_name,
        *,
        local: Lookup = _nobody,
        patience_seconds: float = PATIENCE_SECONDS,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._look_up = look_up
        self._local = local
        self._patience_seconds = patience_seconds
        self._monotonic = monotonic
        self._answers: dict[int, _Answer] = {}
        self._changed = threading.Condition()
        self._waiting: deque[int] = deque()
        self._working = False

    def name(self, uid: int | None) -> str | None:
        """Return who a user id is; ``None`` if the id is not known or its name is still being looked up."""
        if uid is None:
            return None
        answer = self._answers.get(uid)
        if answer is None or self._monotonic() >= answer.ask_again_at:
            answer = self._ask(uid, answer)
            if answer is None:
                return None
        return answer.name or str(uid)

    def __len__(self) -> int:
        """Return how many user ids are remembered."""
        return len(self._answers)

    def _ask(self, uid: int, before: _Answer | None) -> _Answer | None:
        name = self._local(uid)
        with self._changed:
            if name:
                self._remember(uid, name)
                return self._answers[uid]
            if self._answers.get(uid) is not before:
                return self._answers.get(uid)  # it came meanwhile
            free = not self._working
            if uid not in self._waiting and len(self._waiting) < _MOST_WAITING:
                self._waiting.append(uid)
            if free and self._start():
                # At once where an older answer is there: it serves until the new one comes.
                self._changed.wait_for(lambda: uid in self._answers, self._patience_seconds)
            return self._answers.get(uid)

    def _start(self) -> bool:
        """Start to answer; return whether that was possible. Else the next question tries again."""
        self._working = True
        try:
            threading.Thread(target=self._work, name="gua-owners", daemon=True).start()
        except RuntimeError:  # a host whose users have used up its processes must not lose its ticks, too
            self._working = False
        return self._working

    def _work(self) -> None:
        """Answer what is asked until nothing is: a thread lives for a few questions, not for ever."""
        while True:
            with self._changed:
                if not self._waiting:
                    self._working = False
                    return
                uid = self._waiting[0]
            try:
                name = self._look_up(uid)
            except Exception:  # noqa: BLE001 - a broken name service is one without an answer, whatever it raises
                name = None
            with self._changed:
                self._waiting.popleft()
                self._remember(uid, name)
                self._changed.notify_all()

    def _remember(self, uid: int, name: str | None) -> None:
        now = self._monotonic()
        before = self._answers.pop(uid, None)
        if name:
            self._answers[uid] = _Answer(name, now, now + _NAME_SECONDS)
        elif before is not None and before.name and now - before.came_at < _KEPT_SECONDS:
            self._answers[uid] = _Answer(before.name, before.came_at, now + _NO_NAME_SECONDS)
        else:
            self._answers[uid] = _Answer(None, now, now + _NO_NAME_SECONDS)
        if len(self._answers) > _MOST_NAMES:
            del self._answers[next(iter(self._answers))]
