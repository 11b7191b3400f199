"""The user behind a user id."""

from __future__ import annotations

import pwd
from collections.abc import Callable


def passwd_name(uid: int) -> str | None:
    """Return the user's name as the host's name service (passwd file, LDAP, SSSD) knows it, ``None`` if it does not."""
    try:
        return pwd.getpwuid(uid).pw_name
    except (KeyError, OverflowError):
        return None


class Owners:
    """Names of users, looked up once each: a name service may answer slowly.

    A user id without a name, as in most containers, is its own name ("1234"), as in ``ls`` and ``ps``;
    it is asked for again, since a directory may be unreachable for a while.
    """

    def __init__(self, look_up: Callable[[int], str | None] = passwd_name) -> None:
        self._look_up = look_up
        self._names: dict[int, str] = {}

    def name(self, uid: int | None) -> str | None:
        """Return who a user id is; ``None`` only if the id itself is not known."""
        if uid is None:
            return None
        if uid not in self._names:
            found = self._look_up(uid)
            if not found:
                return str(uid)
            self._names[uid] = found
        return self._names[uid]
