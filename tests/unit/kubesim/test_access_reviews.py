"""Access reviews are always answered with yes."""

import base64

import pytest

from kubesim.apiserver.api_messages import ServerRequest, decode
from kubesim.apiserver.api_server import access_review_response

PATH = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
ASKED = b'{"kind":"SelfSubjectAccessReview","apiVersion":"authorization.k8s.io/v1","spec":{}}'
# The same question as kubectl sends it: {typeMeta = 1 {apiVersion = 1, kind = 2}, raw = 2}
AS_PROTOBUF = base64.b64decode(
    "azhzAAoyChdhdXRob3JpemF0aW9uLms4cy5pby92MRIXU2VsZlN1YmplY3RBY2Nlc3NSZXZpZXcSAA=="
)


@pytest.mark.parametrize(
    ("content_type", "body"),
    [
        pytest.param("application/json", ASKED, id="in JSON"),
        pytest.param("application/vnd.kubernetes.protobuf", AS_PROTOBUF, id="in protobuf"),
    ],
)
async def test_everything_is_allowed(content_type, body):
    found = access_review_response(ServerRequest.parse("POST", PATH, {"Content-Type": content_type}, body))

    review = decode(b"".join([chunk async for chunk in found.chunks]))
    assert found.status == 201
    assert review["kind"] == "SelfSubjectAccessReview"
    assert review["status"]["allowed"] is True


@pytest.mark.parametrize(("method", "path"), [("GET", PATH), ("POST", "/api/v1/namespaces")])
def test_other_questions_are_left_to_others(method, path):
    assert access_review_response(ServerRequest.parse(method, path, {}, b"")) is None
