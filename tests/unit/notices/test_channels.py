"""Channels: templates and their secrets, webhooks on loopback, terminals, and what is shown of all that."""

from __future__ import annotations

import logging
import os
import socket
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from fakes.idle_notice import HOSTILE, SETTING, hostile, idle, notice
from gua.core.errors import GuaError, UnavailableError, UsageError
from gua.notices import channels
from gua.notices.addresses import NotApplicableError
from gua.notices.channels import (
    PLACEHOLDERS,
    Channel,
    SendResult,
    check_template,
    fill,
    parts,
    put_secrets,
    reachable,
    send,
    shown,
)
from gua.notices.held import NoticeResult
from gua.notices.messages import Message, notice_message
from servers.process import free_ports
from servers.smtp import Mailbox, mail_server, silent_server
from servers.webhook import Webhook

MESSAGE = Message(subject="2 GPUs idle", text="2 GPUs idle.\nOwner: alice\n", html="<p>2 GPUs idle.</p>")
SENT = SendResult(result=NoticeResult.SENT)
VALUES: dict[str, str | None] = {
    "owner": "alice",
    "address": "alice@example.org",
    "host": "node1.example.org",
    "rule": "idle",
    "job": "4711_3",
    "pod": "team-a/train-0",
    "namespace": "team-a",
}
TOKEN = "s3cr3tt0k3ns3cr3tt0k3n"  # noqa: S105 - of nothing


@pytest.fixture(autouse=True)
def _direct(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "https_proxy", "all_proxy", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def terminal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Stand in for who and write: of pts/0 to pts/2 of alice the second refuses, and the third fails."""
    written = tmp_path / "written"
    (tmp_path / "who").write_text(
        "#!/bin/sh\n[ $1 = -T ] || exit 1\necho 'alice    + pts/0   2026-11-28 03:00 (x)'\n"
        "echo 'alice    - pts/1   2026-11-28 03:00'\necho 'alice    + pts/2   2026-11-28 03:00'\n"
        "echo 'alice    ? :0      2026-11-28 03:00'\necho 'bob      - pts/3   2026-11-28 03:00'\n"
    )
    (tmp_path / "write").write_text(
        f'#!/bin/sh\n[ "$2" = pts/2 ] && {{ echo "write: $2 is gone" >&2; exit 1; }}\n'
        f'echo "to $1 $2" >>{written}\ncat >>{written}\n'
    )
    for name in ("who", "write"):
        (tmp_path / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    return written


@pytest.mark.parametrize(
    ("template", "names"),
    [
        ("mailto://smtp.example.org?from=gua@example.org&to={owner}@example.org", {"owner"}),
        ("json://${WEBHOOK_USER}:${file:/etc/gua/password}@{host}:8080/{rule}/{job}", {"host", "rule", "job"}),
        ("${SLACK_URL}", set()),
        ("write://", set()),
        ("json://x/%7Bowner%7D", set()),
    ],
)
def test_the_placeholders_of_a_template_are_known(template: str, names: set[str]) -> None:
    assert check_template(template) == names


@pytest.mark.parametrize(
    ("template", "message"),
    [
        (f"json://u:{TOKEN}@x/{{user}}", "has other braces than {owner}, {address}, {host}"),
        (f"json://u:{TOKEN}@x/{{owner", "has other braces than"),
        (f"json://u:{TOKEN}@x/{{{{owner}}}}", "has other braces than"),
        (f"json://u:{TOKEN}@x/{{}}", "has other braces than"),
        (f"json://u:{TOKEN}@x/{{owner.__class__}}", "has other braces than"),
        (f"json://u:{TOKEN}@x/${{a b}}", "has a secret that is neither"),
        (f"json://u:{TOKEN}@x/${{file:relative}}", "has a secret that is neither"),
        (f"json://u:{TOKEN}@x/\nx", "has a line break"),
        (TOKEN, "is no URL: write it as in mailto://"),
        (f"write://{TOKEN}", "has more than write://"),
    ],
)
def test_a_wrong_template_is_refused_without_being_shown(template: str, message: str) -> None:
    with pytest.raises(UsageError) as caught:
        check_template(template)
    assert message in str(caught.value)
    assert TOKEN not in str(caught.value)


def test_values_are_percent_encoded() -> None:
    template = "json://{host}:8080/{pod}/{job}?-to={address}&-owner={owner}&-rule={rule}&-in={namespace}"
    assert fill(template, VALUES).url == (
        "json://node1.example.org:8080/team-a%2Ftrain-0/4711_3?-to=alice%40example.org&-owner=alice&-rule=idle&-in=team-a"
    )
    assert fill("json://x/{owner}", {"owner": "alice+gpu@lab"}).url == "json://x/alice%2Bgpu%40lab"


@pytest.mark.parametrize("name", PLACEHOLDERS)
@pytest.mark.parametrize("value", [None, ""])
def test_a_channel_with_an_unknown_part_does_not_apply(name: str, value: str | None) -> None:
    with pytest.raises(NotApplicableError, match=f"{name} is unknown" if name != "owner" else "the owner is unknown"):
        fill(f"json://x/{{{name}}}", {**VALUES, name: value})


@pytest.mark.parametrize("name", PLACEHOLDERS)
@pytest.mark.parametrize(
    "value",
    ["a&to=root", "a,root", "a\r\nX: y", "a b", "a;b", "a%2Cb", "../x", "a/b/c", "#all", "@all", "${HOME}", HOSTILE],
)
def test_a_hostile_part_gets_into_no_url(name: str, value: str) -> None:
    if name == "address" and value in {"a/b/c", "#all", "@all"}:
        return  # addresses of chat services, from the site's own file
    with pytest.raises(NotApplicableError) as caught:
        fill(f"json://x/{{{name}}}", {**VALUES, name: value})
    assert str(caught.value).isprintable()


@pytest.mark.parametrize(
    ("name", "value"), [("owner", "a@evil.example"), ("host", "a+b"), ("pod", "a/b"), ("address", "a@b")]
)
def test_a_part_cannot_lead_to_another_server(name: str, value: str) -> None:
    with pytest.raises(NotApplicableError, match="cannot be in the name of a server"):
        fill(f"json://{{{name}}}.example.org/x", {**VALUES, name: value})


def test_parts_are_those_of_the_notice() -> None:
    held = idle(job="1", pod="a/b", namespace="a")
    assert parts(notice(held, rule="r"), "x@y") == {
        "owner": "alice",
        "address": "x@y",
        "host": "node1",
        "rule": "r",
        "job": "1",
        "pod": "a/b",
        "namespace": "a",
    }


@pytest.mark.parametrize(
    ("url", "text"),
    [
        (f"mailto://u:{TOKEN}@smtp.example.org:25/{TOKEN}?to={TOKEN}", "mailto://smtp.example.org:25"),
        (f"MAILTO://{TOKEN}@smtp.example.org?pass={TOKEN}", "mailto://smtp.example.org"),
        (f"json://u@{TOKEN}@x/{TOKEN}", "json://x"),
        (f"json://x?a={TOKEN}@y", "json://x"),
        (f"slack://{TOKEN}/B/C", "slack://"),
        (f"discord://{TOKEN}/{TOKEN}", "discord://"),
        (f"tgram://{TOKEN}", "tgram://"),
        (f"https://hooks.slack.com/services/{TOKEN}", "https://"),
        (f"mmost://{TOKEN}@chat.example.org/{TOKEN}", "mmost://chat.example.org"),
        (f"json://${{USER}}:${{file:/{TOKEN}}}@x/", "json://"),
        (f"${{{TOKEN}}}", "(secret)"),
        (TOKEN, "(secret)"),
        ("write://", "write://"),
        ("mailto://{host}/x", "mailto://"),
    ],
)
def test_only_schema_and_server_are_shown(url: str, text: str) -> None:
    assert shown(url) == text


def test_a_channel_does_not_show_its_url() -> None:
    assert TOKEN not in repr(Channel(url=f"slack://{TOKEN}/x", owner="alice"))


def test_secrets_come_from_variables_and_files(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("b%40c\n")
    secret.chmod(0o600)
    url = f"json://u:${{A}}@x/${{file:{secret}}}"
    assert put_secrets(url, {"A": "${B}", "B": "never"}) == "json://u:${B}@x/b%40c"


@pytest.mark.parametrize(
    ("content", "mode", "error", "message"),
    [
        (b"secret\n", 0o644, UsageError, "others may read this secret: chmod 600"),
        (b"secret\n", 0o640, UsageError, "others may read this secret"),
        (b"a\nb\n", 0o600, UsageError, "must be one line of UTF-8 text"),
        (b"", 0o600, UsageError, "must be one line"),
        (b"\n", 0o600, UsageError, "must be one line"),
        (b"\xff\n", 0o600, UsageError, "must be one line of UTF-8"),
        (b"x" * 4097, 0o600, UsageError, "of 1 to 4096 bytes"),
        (None, 0o600, UnavailableError, "cannot be read: No such file"),
    ],
)
def test_a_secret_that_is_not_fit_is_not_used(
    tmp_path: Path, content: bytes | None, mode: int, error: type[GuaError], message: str
) -> None:
    path = tmp_path / "secret"
    if content is not None:
        path.write_bytes(content)
        path.chmod(mode)
    with pytest.raises(error, match=message):
        put_secrets(f"${{file:{path}}}", {})
    channel = Channel(url=f"json://127.0.0.1/${{file:{path}}}")
    failed = send(channel, MESSAGE)
    assert (failed.result, message in failed.detail) == (NoticeResult.FAILED, True)
    assert message in (reachable(channel) or "")


def test_a_fifo_is_no_secret_and_does_not_block(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo", 0o600)
    with pytest.raises(UsageError, match="must be one line"):
        put_secrets(f"${{file:{tmp_path}/fifo}}", {})


def test_a_variable_that_is_not_set_is_reported_with_its_name() -> None:
    for environ in ({}, {"GUA_PASSWORD": ""}):
        with pytest.raises(UsageError, match=r"the secret \$\{GUA_PASSWORD\} of a channel is not set"):
            put_secrets("json://u:${GUA_PASSWORD}@x", environ)


def test_a_webhook_gets_subject_and_text() -> None:
    with Webhook() as hook:
        assert send(Channel(url=f"json://{hook.address}/notices/x?-rule=idle"), MESSAGE) == SENT
    assert [path for path, _ in hook.requests] == ["/notices/x?rule=idle"]
    (payload,) = hook.payloads()
    assert (payload["title"], payload["message"]) == (MESSAGE.subject, MESSAGE.text.strip())


def test_hostile_names_stay_text_in_a_webhook() -> None:
    message = notice_message(hostile(), SETTING)
    with Webhook() as hook:
        assert send(Channel(url=f"json://{hook.address}/"), message) == SENT
    (payload,) = hook.payloads()
    assert payload["title"] == message.subject
    assert "<script>" in payload["message"]  # a webhook gets names as they are


def test_a_chat_gets_the_headline_once_and_another_subject_before_the_text() -> None:
    other = Message(subject="For you", text=MESSAGE.text)
    with Webhook() as hook:
        for message in (MESSAGE, other):
            assert send(Channel(url=f"mmost://{hook.address}/{TOKEN}"), message) == SENT
    assert [each["text"] for each in hook.payloads()] == [MESSAGE.text.strip(), f"For you\r\n{MESSAGE.text.strip()}"]


def test_hostile_names_make_no_link_mention_or_markup_in_a_chat() -> None:
    with Webhook() as hook:
        assert send(Channel(url=f"mmost://{hook.address}/{TOKEN}"), notice_message(hostile(), SETTING)) == SENT
    (payload,) = hook.payloads()
    assert hook.requests[0][0] == f"/hooks/{TOKEN}"
    assert not set("<>&@[]*`|~#") & set(payload["text"])
    assert "://" not in payload["text"]
    assert "icon_url" not in payload


@pytest.mark.parametrize(
    "url",
    [
        "slack://T1JJ3T3L2/A1BRTD4JD/TIiajkdnlazkcOXrIdevi7/#gpus",
        "discord://4174216298/JHMHI8qBe7bk2ZwO5U711o3dV_js",
        "workflows://prod-NO.example.com:443/643903ad2b1d42/aBcDeF0123456789aBcDeF0123456789",
    ],
)
def test_what_chat_services_get_has_no_markup_of_a_name(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The services cannot be reached here: the request itself is caught."""
    import requests  # noqa: PLC0415 - what apprise sends by

    bodies: list[str] = []

    def request(_session: object, **options: object) -> requests.Response:
        bodies.append(str(options.get("data") or options.get("json")))
        assert options["allow_redirects"] is False
        response = requests.Response()
        response.status_code = 200
        response._content = b"ok"  # noqa: SLF001 - of a double
        return response

    monkeypatch.setattr(requests.Session, "request", request)
    assert send(Channel(url=url), notice_message(hostile(), SETTING)).result is NoticeResult.ACCEPTED
    (body,) = bodies
    for markup in ("<!", "&lt;", "<script", "@channel", "](http", "http://evil", "`x`", "*b*"):
        assert markup not in body


def test_a_redirect_is_not_followed() -> None:
    with Webhook() as other, Webhook(status=302, location=f"http://{other.address}/elsewhere") as hook:
        failed = send(Channel(url=f"json://{hook.address}/"), MESSAGE)
    assert (failed.result, "302" in failed.detail) == (NoticeResult.FAILED, True)
    assert other.requests == []


@pytest.mark.parametrize("status", [400, 401, 404, 429, 500, 503])
def test_an_error_status_of_a_webhook_is_a_failure_with_its_number(status: int) -> None:
    with Webhook(status=status) as hook:
        failed = send(Channel(url=f"json://{hook.address}/{TOKEN}"), MESSAGE)
    assert failed.result is NoticeResult.FAILED
    assert str(status) in failed.detail
    assert len(hook.requests) == 1


@pytest.mark.parametrize("schema", ["json", "form", "xml", "mmost"])
@pytest.mark.parametrize(
    "answer",
    [
        '{"ok": false, "error": "channel_not_found"}',
        '{"ok": false}',
        '{"success": false}',
        '{"error": {"code": 7}}',
        '{"errors": ["no such channel"]}',
        '{"errcode": 310000, "errmsg": "sign not match"}',
        '{"status": "Error"}',
        "Webhook message delivery failed with error: Microsoft Teams endpoint returned HTTP error 413",
    ],
)
def test_an_answer_with_status_200_and_an_error_is_a_failure_that_shows_it(schema: str, answer: str) -> None:
    with Webhook(body=answer.encode()) as hook:
        failed = send(Channel(url=f"{schema}://{hook.address}/{TOKEN}"), MESSAGE)
    assert (failed.result, failed.may_have_arrived) == (NoticeResult.FAILED, False)
    assert answer[:40] in failed.detail


@pytest.mark.parametrize("answer", ["", "{}", "[]", '{"error": null, "id": 7}', '{"errcode": 0}', "<html>", "[" * 9999])
def test_an_answer_without_an_error_that_confirms_nothing_is_accepted(answer: str) -> None:
    with Webhook(body=answer.encode()) as hook:
        assert send(Channel(url=f"json://{hook.address}/"), MESSAGE).result is NoticeResult.ACCEPTED


@pytest.mark.parametrize("answer", ["ok", "OK\n", "1", '{"ok": true}', '{"success": true}', '{"status": "success"}'])
def test_an_answer_that_confirms_the_message_is_sent(answer: str) -> None:
    with Webhook(body=answer.encode()) as hook:
        assert send(Channel(url=f"json://{hook.address}/"), MESSAGE) == SENT


def test_no_secret_of_the_url_is_in_a_failure_that_shows_the_answer() -> None:
    with Webhook(body=f'{{"ok": false, "url": "{TOKEN}"}}'.encode()) as hook:
        assert TOKEN not in send(Channel(url=f"json://{hook.address}/{TOKEN}"), MESSAGE).detail


@pytest.mark.parametrize(("status", "may"), [(400, False), (404, False), (500, True), (504, True)])
def test_only_an_answer_that_refuses_a_message_says_that_it_did_not_arrive(status: int, may: bool) -> None:  # noqa: FBT001
    with Webhook(status=status) as hook:
        assert send(Channel(url=f"json://{hook.address}/"), MESSAGE).may_have_arrived is may


def test_a_mail_that_one_of_two_recipients_got_may_have_arrived() -> None:
    mailbox = Mailbox(refused=frozenset({"bo@example.org"}))
    with mail_server(mailbox) as port:
        url = f"mailto://127.0.0.1:{port}?from=gua@example.org&to="
        both = send(Channel(url=f"{url}ana@example.org,bo@example.org"), MESSAGE)
        alone = send(Channel(url=f"{url}bo@example.org"), MESSAGE)
    assert mailbox.recipients() == ["ana@example.org"]
    assert (both.result, both.may_have_arrived) == (NoticeResult.FAILED, True)
    assert (alone.result, alone.may_have_arrived) == (NoticeResult.FAILED, False)


def test_a_message_that_one_of_two_chat_channels_got_may_have_arrived() -> None:
    hook = Webhook()

    class Requests(list[tuple[str, bytes]]):
        def append(self, one: tuple[str, bytes]) -> None:
            super().append(one)
            hook.status = 400 if len(self) > 1 else 200

    hook.requests = Requests()
    with hook:
        failed = send(Channel(url=f"mmost://{hook.address}/{TOKEN}?channels=one,two"), MESSAGE)
    assert len(hook.requests) == 2
    assert (failed.result, failed.may_have_arrived) == (NoticeResult.FAILED, True)


def test_a_slack_answer_other_than_ok_is_a_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    import requests  # noqa: PLC0415 - what apprise sends by

    response = requests.Response()
    response.status_code = 200
    response._content = b'{"ok": false, "error": "channel_not_found"}'  # noqa: SLF001 - of a double
    monkeypatch.setattr(requests.Session, "request", lambda _session, **_options: response)
    failed = send(Channel(url="slack://T1JJ3T3L2/A1BRTD4JD/TIiajkdnlazkcOXrIdevi7"), MESSAGE)
    assert failed.result is NoticeResult.FAILED


def test_a_failure_stays_one_where_the_url_calls_the_service_optional() -> None:
    with Webhook(status=500) as hook:
        assert send(Channel(url=f"json://{hook.address}/?optional=yes"), MESSAGE).result is NoticeResult.FAILED


def test_no_secret_is_in_what_a_failure_reports(
    capfd: pytest.CaptureFixture[str],
) -> None:
    port = free_ports(1)[0]
    password, address = "pa55%40word", "alice@example.org"
    results = [
        send(Channel(url=url), MESSAGE)
        for url in (
            f"json://gua:{password}@127.0.0.1:{port}/{TOKEN}?-key={TOKEN}&+Authorization={TOKEN}",
            f"mailto://gua:{password}@127.0.0.1:{port}?from=gua@example.org&to={address}",
            f"mmost://127.0.0.1:{port}/{TOKEN}",
            f"discord://{TOKEN}",
            f"nonsense://{TOKEN}",
            f"json://{TOKEN}:{password}",
            f"mailto://127.0.0.1:{port}?from={TOKEN}&to={address}",
        )
    ]
    out, err = capfd.readouterr()
    for text in map(repr, results):
        for secret in (TOKEN, password, "pa55@word", address, "alice"):
            assert secret not in text
    assert {each.result for each in results} == {NoticeResult.FAILED}
    assert "Connection refused" in results[0].detail
    assert (out, err) == ("", "")
    assert not logging.getLogger("apprise").propagate


def test_a_webhook_that_never_answers_is_given_up() -> None:
    with silent_server() as port:
        failed = send(Channel(url=f"json://127.0.0.1:{port}/?rto=60"), MESSAGE, seconds=0.3)
    assert failed == SendResult(result=NoticeResult.FAILED, detail="no answer within 0.3 s", may_have_arrived=True)


def test_a_service_that_raises_is_a_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    def notify(*_arguments: object, **_options: object) -> None:
        raise RuntimeError(TOKEN)

    apprise = channels._apprise()  # noqa: SLF001 - the only place that has it
    monkeypatch.setattr(apprise.Apprise, "notify", notify)
    failed = send(Channel(url=f"json://{TOKEN}"), MESSAGE)
    assert failed == SendResult(
        result=NoticeResult.FAILED, detail="apprise failed with RuntimeError", may_have_arrived=True
    )


@pytest.mark.parametrize(
    ("url", "file"),
    [
        ("mailto://127.0.0.1:25?from=gua@example.org&to=alice@example.org", os.devnull),
        ("mailto://127.0.0.1:25?from=gua@example.org&to=alice@example.org&mode=starttls", None),
        ("mailto://gua:password@gmail.com?to=alice@example.org", None),  # apprise knows that it has TLS
        ("mailtos://127.0.0.1?from=gua@example.org&to=alice@example.org", None),
        ("json://127.0.0.1", None),
    ],
)
def test_authorities_are_read_where_a_service_has_tls(
    url: str, file: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("SSL_CERT_FILE", raising=False)
    seen: list[str | None] = []
    monkeypatch.setattr(channels, "bounded", lambda *_: seen.append(os.environ.get("SSL_CERT_FILE")))
    send(Channel(url=url), MESSAGE)
    assert seen == [file]
    assert "SSL_CERT_FILE" not in os.environ


def test_many_threads_send_at_once_and_keep_their_details() -> None:
    results: dict[int, SendResult] = {}
    with Webhook() as good, Webhook(status=404) as bad:
        hooks = [bad if number % 2 else good for number in range(8)]
        workers = [
            threading.Thread(
                target=lambda n=number: results.update({n: send(Channel(url=f"json://{hooks[n].address}"), MESSAGE)})
            )
            for number in range(8)
        ]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
    assert [results[number].result for number in range(8)] == [NoticeResult.SENT, NoticeResult.FAILED] * 4
    assert ["404" in results[number].detail for number in range(8)] == [False, True] * 4


def test_a_server_is_reachable_if_it_accepts_a_connection() -> None:
    with silent_server() as port:
        for schema in ("json", "mailto", "mmost", "ntfy"):
            assert reachable(Channel(url=f"{schema}://127.0.0.1:{port}/{TOKEN}?from=a@example.org")) is None


def test_a_server_that_is_down_is_reported_and_checked_once() -> None:
    port = free_ports(1)[0]
    checked: dict[tuple[str, int], str] = {}
    channel = Channel(url=f"mailto://u:{TOKEN}@127.0.0.1:{port}?from=gua@example.org&to=alice@example.org")
    reason = reachable(channel, checked=checked)
    assert reason == f"127.0.0.1:{port} cannot be reached: Connection refused"
    with socket.create_server(("127.0.0.1", port)):
        assert reachable(channel, checked=checked) == reason
        assert reachable(channel) is None


def test_a_server_that_does_not_accept_in_time_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    ended = threading.Event()

    def create_connection(*_arguments: object, **_options: object) -> None:
        ended.wait(60)  # as with a name server that is silent
        raise OSError

    monkeypatch.setattr(socket, "create_connection", create_connection)
    try:
        assert reachable(Channel(url="json://127.0.0.1:9/"), seconds=0.1) == (
            "127.0.0.1:9 cannot be reached: no answer within 0.1 s"
        )
    finally:
        ended.set()


@pytest.mark.parametrize("url", [f"nonsense://{TOKEN}", f"mailto://smtp.example.org?to={TOKEN}", f"slack://{TOKEN}"])
def test_a_url_that_apprise_does_not_take_is_not_reachable(url: str) -> None:
    reason = reachable(Channel(url=url))
    assert (reason or "").startswith("apprise cannot use the URL: ")
    assert TOKEN not in (reason or "")


def test_services_with_fixed_servers_and_proxies_are_not_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(socket, "create_connection", lambda *_, **__: pytest.fail("connected"))
    assert reachable(Channel(url="slack://T1JJ3T3L2/A1BRTD4JD/TIiajkdnlazkcOXrIdevi7")) is None
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")
    monkeypatch.delenv("no_proxy", raising=False)
    monkeypatch.delenv("NO_PROXY", raising=False)
    assert reachable(Channel(url="json://hooks.example.org:8080/")) is None


def test_the_owner_gets_it_on_each_terminal_that_takes_messages(terminal: Path) -> None:
    message = Message(subject="2 GPUs\x1b[31m idle", text="Owner:  alice\n\x1b]0;evil\x07line\x9b31m\n")
    sent = send(fill("write://", VALUES), message)
    assert sent == SendResult(result=NoticeResult.SENT, detail="pts/1 refuses messages; write: pts/2 is gone")
    assert terminal.read_text() == "to alice pts/0\n2 GPUs[31m idle\n\nOwner: alice\n]0;evilline31m\n"


def test_only_the_owners_terminals_count(terminal: Path) -> None:
    assert reachable(fill("write://", VALUES)) is None
    bob, carol = (fill("write://", {"owner": name}) for name in ("bob", "carol"))
    assert send(bob, MESSAGE) == SendResult(result=NoticeResult.FAILED, detail="pts/3 refuses messages")
    assert send(carol, MESSAGE) == SendResult(result=NoticeResult.FAILED, detail="carol has no terminal on this host")
    assert reachable(bob) == "pts/3 refuses messages"
    assert reachable(carol) == "carol has no terminal on this host"
    assert not terminal.exists()


@pytest.mark.parametrize("owner", [None, "-x", "a b", "a;b"])
def test_write_needs_an_owner_that_can_be_a_user(owner: str | None) -> None:
    with pytest.raises(NotApplicableError):
        fill("write://", {"owner": owner})


def test_a_host_without_who_or_write_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    failed = send(fill("write://", VALUES), MESSAGE)
    assert failed.detail == "who cannot be started: No such file or directory"
    (tmp_path / "who").write_text("#!/bin/sh\necho alice + pts/0\n")
    (tmp_path / "who").chmod(0o755)
    failed = send(fill("write://", VALUES), MESSAGE)
    assert failed == SendResult(result=NoticeResult.FAILED, detail="write cannot be started: No such file or directory")


def test_without_apprise_the_error_is_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "apprise", None)
    channels._apprise.cache_clear()  # noqa: SLF001 - as in a process that has not sent
    for call in (lambda: send(Channel(url="json://x"), MESSAGE), lambda: reachable(Channel(url="json://x"))):
        with pytest.raises(
            UsageError, match=r"apprise, which sends notices, is not installed: run pip install 'apprise>=2\.3,<3'"
        ):
            call()


def test_apprise_is_imported_only_to_send() -> None:
    code = "import sys, gua.notices.channels, gua.notices.messages; print('apprise' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "False\n"
