from __future__ import annotations

from google.rpc.status_pb2 import Status
from hypothesis import given
from hypothesis import strategies as st
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceResponse

from gua.otlp.endpoint import Acceptance, parse_acceptance, parse_reason

TEXT = st.text(st.characters(codec="utf-8", categories=("L", "N", "P")), max_size=90)


@given(st.integers(0, 2**63 - 1), TEXT)
def test_a_partial_success_is_read_as_protobuf_wrote_it(rejected: int, message: str) -> None:
    response = ExportMetricsServiceResponse()
    response.partial_success.rejected_data_points = rejected
    response.partial_success.error_message = message
    assert parse_acceptance(response.SerializeToString()) == Acceptance(rejected, message)


def test_an_empty_answer_rejects_nothing() -> None:
    assert parse_acceptance(b"") == Acceptance(0, "")
    assert parse_acceptance(b"\x0a\x00") == Acceptance(0, "")


@given(st.integers(-(2**31), 2**31 - 1), TEXT)
def test_a_status_gives_its_message(code: int, message: str) -> None:
    status = Status(code=code, message=message)
    status.details.add(type_url="example", value=b"\xff")
    assert parse_reason(status.SerializeToString()) == message


def test_a_page_of_html_gives_no_reason() -> None:
    assert parse_reason(b"<html>\n<h1>404</h1></html>") == ""


def test_plain_text_is_its_own_reason_in_one_harmless_line() -> None:
    assert parse_reason(b"no such\r\ntenant \x1b[2J\xff") == "no such tenant [2J\ufffd"


def test_a_negative_number_of_points_is_none() -> None:
    response = ExportMetricsServiceResponse()
    response.partial_success.rejected_data_points = -1
    assert parse_acceptance(response.SerializeToString()).rejected_points == 0


@given(st.binary(max_size=300))
def test_garbage_is_never_an_error(body: bytes) -> None:
    assert parse_acceptance(body).rejected_points >= 0
    assert "\n" not in parse_reason(body)
    assert len(parse_reason(body)) <= 200
