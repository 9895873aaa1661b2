"""Admission reviews of pods, and the pod after the review."""

import json
from base64 import b64decode
from typing import Any

from kubesim.patches.json_patches import json_patch
from rescheduler.api.podmigration import ControllerReference
from rescheduler.steering.intents import Intent, IntentIndex

__all__ = ["OWNER", "PREFERRED", "REQUIRED", "book_of", "parse_response", "patched", "pod_of", "review_of"]

Json = dict[str, Any]

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
OWNER = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "rs-1", "controller": True}


def book_of(*avoid: str, prefer: str = "", cause: str = "move-1") -> IntentIndex:
    owner = ControllerReference("apps/v1", "ReplicaSet", "web", "rs-1")
    return IntentIndex([Intent("shop", owner, None, prefer, avoid, cause)])


def pod_of(affinity: Any = None, **metadata: Any) -> Json:
    """Return a pod as the API server sends it: without fields that are not set."""
    spec: Json = {"containers": [{"name": "c", "image": "i"}]}
    if affinity is not None:
        spec["affinity"] = affinity
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"generateName": "web-", "namespace": "shop", "ownerReferences": [OWNER], **metadata},
        "spec": spec,
    }


def review_of(pod: Any, **request: Any) -> bytes:
    asked = {
        "uid": "review-1",
        "kind": {"group": "", "version": "v1", "kind": "Pod"},
        "resource": {"group": "", "version": "v1", "resource": "pods"},
        "namespace": "shop",
        "operation": "CREATE",
        "object": pod,
        "oldObject": None,
        "dryRun": False,
        **request,
    }
    review = {"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1", "request": asked}
    return json.dumps(review).encode()


def parse_response(body: bytes) -> tuple[str, list[Json]]:
    """The uid and the patch of an answer that is valid and allows."""
    review = json.loads(body)
    assert (review["apiVersion"], review["kind"]) == ("admission.k8s.io/v1", "AdmissionReview")
    assert set(review) == {"apiVersion", "kind", "response"}
    response = review["response"]
    assert response["allowed"] is True
    assert isinstance(response["uid"], str)
    assert set(response) in ({"uid", "allowed"}, {"uid", "allowed", "patch", "patchType"})
    if "patch" not in response:
        return response["uid"], []
    assert response["patchType"] == "JSONPatch"
    operations = json.loads(b64decode(response["patch"], validate=True))
    assert operations
    return response["uid"], operations


def patched(pod: Json, body: bytes) -> Json:
    """The pod as the server has it after that answer."""
    _, operations = parse_response(body)
    return json_patch(json.loads(json.dumps(pod)), operations) if operations else pod
