"""Which agent is queried, by users whose home is theirs, somebody else's, or missing."""

from __future__ import annotations

from pathlib import Path

import pytest

from gua.app.local_agent import first_response
from gua.core.errors import TransientError
from gua.local_socket.client import NobodyError, NotAllowedError

OWN, HOSTS = Path("/home/agent.sock"), Path("/run/gua/agent.sock")


def query_first(answers: dict[Path, str | Exception]) -> str:
    def query(path: Path) -> str:
        answer = answers[path]
        if isinstance(answer, Exception):
            raise answer
        return answer

    return first_response([OWN, HOSTS], query)


def test_the_first_agent_that_listens_is_queried() -> None:
    assert query_first({OWN: "own"}) == "own"
    assert query_first({OWN: NobodyError("none"), HOSTS: "the host's"}) == "the host's"


def test_a_home_of_another_user_does_not_hide_the_hosts_agent() -> None:
    assert query_first({OWN: NotAllowedError("not yours"), HOSTS: "the host's"}) == "the host's"


def test_if_no_agent_answers_the_most_useful_error_is_raised() -> None:
    with pytest.raises(NotAllowedError, match="not yours"):
        query_first({OWN: NotAllowedError("not yours"), HOSTS: NobodyError("none")})
    with pytest.raises(NobodyError, match="none there either"):
        query_first({OWN: NobodyError("none"), HOSTS: NobodyError("none there either")})


def test_an_own_agent_that_does_not_answer_is_not_passed_over() -> None:
    with pytest.raises(TransientError, match="stalled"):
        query_first({OWN: TransientError("stalled"), HOSTS: "the host's"})
