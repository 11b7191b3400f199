"""Which agent is asked, by users whose home is theirs, somebody else's, or not there at all."""

from __future__ import annotations

from pathlib import Path

import pytest

from gua.app.local_agent import first_response
from gua.core.errors import TransientError
from gua.local_socket.client import NobodyError, NotAllowedError

OWN, HOSTS = Path("/home/agent.sock"), Path("/run/gua/agent.sock")


def asking(answers: dict[Path, str | Exception]) -> str:
    def ask(path: Path) -> str:
        answer = answers[path]
        if isinstance(answer, Exception):
            raise answer
        return answer

    return first_response([OWN, HOSTS], ask)


def test_the_first_agent_that_listens_is_asked() -> None:
    assert asking({OWN: "own"}) == "own"
    assert asking({OWN: NobodyError("none"), HOSTS: "the host's"}) == "the host's"


def test_a_home_of_another_user_does_not_hide_the_hosts_agent() -> None:
    assert asking({OWN: NotAllowedError("not yours"), HOSTS: "the host's"}) == "the host's"


def test_where_none_answers_what_is_most_worth_knowing_is_said() -> None:
    with pytest.raises(NotAllowedError, match="not yours"):
        asking({OWN: NotAllowedError("not yours"), HOSTS: NobodyError("none")})
    with pytest.raises(NobodyError, match="none there either"):
        asking({OWN: NobodyError("none"), HOSTS: NobodyError("none there either")})


def test_an_own_agent_that_does_not_answer_is_not_passed_over() -> None:
    with pytest.raises(TransientError, match="stalled"):
        asking({OWN: TransientError("stalled"), HOSTS: "the host's"})
