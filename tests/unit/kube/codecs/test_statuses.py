"""Status errors in both encodings."""

import json

import pytest

from bench.protobuf_writer import enveloped
from rescheduler.kube.codecs.codec import ApiStatus, StatusCause, StatusDetails, Undecodable
from rescheduler.kube.codecs.negotiated_codec import decode_any_status
from tests.unit.kube.codecs.bodies import CAPTURED, JSON, PROTOBUF
from tests.unit.kube.codecs.manifests import SCHEMA


@pytest.mark.parametrize(("form", "content_type"), [("json", JSON), ("protobuf", PROTOBUF)])
def test_a_refusal_of_a_real_server_names_each_field(form: str, content_type: str):
    status = decode_any_status(content_type, (CAPTURED / f"invalid.{form}").read_bytes())
    assert (status.code, status.reason) == (422, "Invalid")
    assert [cause.field for cause in status.details.causes] == [
        "metadata.name",
        "spec.containers[0].resources.requests[cpu]",
    ]


def test_both_encodings_say_the_same():
    for name in ("invalid", "not-found"):
        text, raw = ((CAPTURED / f"{name}.{form}").read_bytes() for form in ("json", "protobuf"))
        assert decode_any_status(JSON, text) == decode_any_status(PROTOBUF, raw)


def test_the_delay_and_the_budget_that_refuses():
    refusal = {
        "status": "Failure",
        "reason": "TooManyRequests",
        "code": 429,
        "details": {
            "retryAfterSeconds": 10,
            "causes": [{"reason": "DisruptionBudget", "message": "The disruption budget web needs 1"}],
        },
    }
    expected = ApiStatus(
        status="Failure",
        reason="TooManyRequests",
        code=429,
        details=StatusDetails(
            causes=(StatusCause("DisruptionBudget", "The disruption budget web needs 1"),),
            retry_after_seconds=10,
        ),
    )
    assert decode_any_status(JSON, json.dumps(refusal).encode()) == expected
    assert decode_any_status(PROTOBUF, enveloped(SCHEMA.encode("Status", refusal), "Status")) == expected


def test_the_page_of_a_proxy_is_no_status():
    with pytest.raises(Undecodable, match="a status from text/html"):
        decode_any_status("text/html", b"<html>502 Bad Gateway</html>")
