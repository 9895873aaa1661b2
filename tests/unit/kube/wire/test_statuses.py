"""Refusals in both encodings."""

import json

import pytest

from bench.protobuf_writer import enveloped
from rescheduler.kube.wire.codec import Undecodable
from rescheduler.kube.wire.status import Cause, Status, StatusDetails
from rescheduler.kube.wire.statuses import status_from
from tests.unit.kube.wire.bodies import CAPTURED, JSON, PROTOBUF
from tests.unit.kube.wire.manifests import SCHEMA


@pytest.mark.parametrize(("form", "content_type"), [("json", JSON), ("protobuf", PROTOBUF)])
def test_a_refusal_of_a_real_server_names_each_field(form: str, content_type: str):
    status = status_from(content_type, (CAPTURED / f"invalid.{form}").read_bytes())
    assert (status.code, status.reason) == (422, "Invalid")
    assert [cause.field for cause in status.details.causes] == [
        "metadata.name",
        "spec.containers[0].resources.requests[cpu]",
    ]


def test_both_encodings_say_the_same():
    for name in ("invalid", "not-found"):
        text, raw = ((CAPTURED / f"{name}.{form}").read_bytes() for form in ("json", "protobuf"))
        assert status_from(JSON, text) == status_from(PROTOBUF, raw)


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
    expected = Status(
        status="Failure",
        reason="TooManyRequests",
        code=429,
        details=StatusDetails(
            causes=(Cause("DisruptionBudget", "The disruption budget web needs 1"),),
            retry_after_seconds=10,
        ),
    )
    assert status_from(JSON, json.dumps(refusal).encode()) == expected
    assert status_from(PROTOBUF, enveloped(SCHEMA.encode("Status", refusal), "Status")) == expected


def test_the_page_of_a_proxy_is_no_status():
    with pytest.raises(Undecodable, match="a status from text/html"):
        status_from("text/html", b"<html>502 Bad Gateway</html>")
