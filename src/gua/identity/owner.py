"""User names for user ids. A lookup waits only briefly for a name service, which may be slow, down or not the host's.

The caller chooses the source of names. This process's name service (passwd file, LDAP, SSSD) is valid only if the
process has the host's root file system. In a container it has the container's users, which are unrelated to the host's
ids. There the host's passwd file is read through ``<procfs>/1/root``; without permission for that a user is a number.
"""

from __future__ import annotations

import pwd
import threading
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from dataclasses import KW_ONLY, dataclass
from pathlib import Path
from typing import Final

Lookup = Callable[[int], str | None]

PATIENCE_SECONDS: Final = 0.2
_NAME_SECONDS: Final = 3_600.0
_NO_NAME_SECONDS: Final = 300.0
# A name stays valid while the directory is unreachable, because name services then report that a user does not exist.
_CACHED_SECONDS: Final = 86_400.0
_MOST_NAMES: Final = 1_024
_MOST_WAITING: Final = 256


def start_thread(work: Callable[[], None], name: str) -> bool:
    """Start a background thread; return whether that was possible: a host may have run out of processes."""
    try:
        threading.Thread(target=work, name=name, daemon=True).start()
    except RuntimeError:
        return False
    return True


def passwd_name(uid: int) -> str | None:
    """Return the user's name from this system's name service, ``None`` without one. May block for minutes."""
    try:
        return pwd.getpwuid(uid).pw_name
    except (KeyError, OverflowError):
        return None


def passwd_file_name(path: Path, uid: int) -> str | None:
    """Return the name of the first user with this id in a passwd file (passwd(5)).

    ``None`` without one, or if the file cannot be read. It is read each time because it may be large and may change.
    """
    with suppress(OSError), path.open(encoding="utf-8", errors="replace") as file:
        for line in file:
            fields = line.split(":", 3)
            if len(fields) > 3 and fields[2] == str(uid) and fields[0]:
                return fields[0]
    return None


@dataclass(frozen=True, slots=True)
class _Answer:
    name: str | None
    received_at: float
    expires_at: float


@dataclass(eq=False)
class Owners:
    """Cache of at most 1,024 user names: a name for an hour, a missing one for five minutes.

    ``look_up`` may block; it runs in a thread of its own, one lookup at a time. The first lookup of an id waits up to
    ``patience_seconds``, unless another one is running. Until it returns the name is unknown. ``local`` must not block
    and is called first. A user id without a name, as in most containers, is its own name ("1234"). Reports
    distinguish owners by name alone.
    """

    look_up: Lookup = passwd_name
    _: KW_ONLY
    local: Lookup = lambda _uid: None
    patience_seconds: float = PATIENCE_SECONDS
    monotonic: Callable[[], float] = time.monotonic

    def __post_init__(self) -> None:
        self._answers: dict[int, _Answer] = {}
        self._changed = threading.Condition()
        self._waiting: deque[int] = deque()
        self._working = False

    def name(self, uid: int | None) -> str | None:
        """Return the name of a user id; ``None`` if the id is unknown or its name is still being looked up."""
        if uid is None:
            return None
        answer = self._answers.get(uid)
        if answer is None or self.monotonic() >= answer.expires_at:
            answer = self._query(uid, answer)
            if answer is None:
                return None
        return answer.name or str(uid)

    def __len__(self) -> int:
        """Return the number of cached user ids."""
        return len(self._answers)

    def _query(self, uid: int, before: _Answer | None) -> _Answer | None:
        name = self.local(uid)
        with self._changed:
            if name:
                self._remember(uid, name)
                return self._answers[uid]
            if self._answers.get(uid) is not before:
                return self._answers.get(uid)  # another thread stored it meanwhile
            free = not self._working
            if uid not in self._waiting and len(self._waiting) < _MOST_WAITING:
                self._waiting.append(uid)
            if free:
                self._working = start_thread(self._work, "gua-owners")
            if free and self._working:
                # Returns at once with an older result, which is used until the new one arrives.
                self._changed.wait_for(lambda: uid in self._answers, self.patience_seconds)
            return self._answers.get(uid)

    def _work(self) -> None:
        """Look up the waiting ids, then end, so that an idle agent has no such thread."""
        while True:
            with self._changed:
                if not self._waiting:
                    self._working = False
                    return
                uid = self._waiting[0]
            try:
                name = self.look_up(uid)
            except Exception:  # noqa: BLE001 - any error of a name service means that the name is unknown
                name = None
            with self._changed:
                self._waiting.popleft()
                self._remember(uid, name)
                self._changed.notify_all()

    def _remember(self, uid: int, name: str | None) -> None:
        now = self.monotonic()
        before = self._answers.pop(uid, None)
        if name:
            self._answers[uid] = _Answer(name, now, now + _NAME_SECONDS)
        elif before is not None and before.name and now - before.received_at < _CACHED_SECONDS:
            self._answers[uid] = _Answer(before.name, before.received_at, now + _NO_NAME_SECONDS)
        else:
            self._answers[uid] = _Answer(None, now, now + _NO_NAME_SECONDS)
        if len(self._answers) > _MOST_NAMES:
            del self._answers[next(iter(self._answers))]
