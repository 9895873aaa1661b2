"""The same records from JSON and from protobuf, whatever is in the objects."""

import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings

from bench.protobuf_writer import enveloped
from bench.realistic import pods as realistic_pods
from rescheduler.cluster.codecs.record_resources import NODE_CODEC, POD_CODEC
from rescheduler.cluster.pod_record import PodRecord
from rescheduler.kube.codecs import api_pb2
from rescheduler.kube.codecs.codec import LATEST_S
from tests.unit.kube.codecs.manifests import SCHEMA, Json, nodes, pods

JSON = "application/json"
PROTOBUF = "application/vnd.kubernetes.protobuf"
CAPTURED = Path(__file__).with_name("captured")

thoroughly = settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])


def from_json(codec: Any, manifest: Json) -> Any:
    return codec.decode_one(JSON, json.dumps(manifest).encode())


def from_protobuf(codec: Any, kind: str, manifest: Json) -> Any:
    return codec.decode_one(PROTOBUF, enveloped(SCHEMA.encode(kind, manifest), kind))


@thoroughly
@given(pods)
@example({})
@example({"spec": {"containers": []}, "status": {"containerStatuses": [{"name": "a", "state": {}}]}})
def test_any_pod_gives_the_same_record_from_both_encodings(manifest: Json):
    assert from_protobuf(POD_CODEC, "Pod", manifest) == from_json(POD_CODEC, manifest)


@thoroughly
@given(nodes)
@example({})
def test_any_node_gives_the_same_record_from_both_encodings(manifest: Json):
    assert from_protobuf(NODE_CODEC, "Node", manifest) == from_json(NODE_CODEC, manifest)


@pytest.mark.parametrize(("kind", "codec"), [("Pod", POD_CODEC), ("Node", NODE_CODEC)])
@pytest.mark.parametrize(("seconds", "read"), [(10**15, LATEST_S), (-(10**15), 0), (7, 7)])
def test_a_time_that_no_calendar_has_is_read_as_the_latest(kind: str, codec: Any, seconds: int, read: int):
    """A kubelet may write any number of seconds, and no check must fail because of it."""
    message = getattr(api_pb2, kind)()
    message.status.conditions.add(type="Ready", status="True").lastTransitionTime.seconds = seconds
    (condition,) = codec.decode_one(PROTOBUF, enveloped(message.SerializeToString(), kind)).conditions
    assert condition.since_s == read
    assert datetime.fromtimestamp(condition.since_s, UTC) + timedelta(days=36_500)


def test_pods_of_a_busy_cluster_give_the_same_records_from_both_encodings():
    listed = list(realistic_pods(300))
    text = json.dumps({"metadata": {"resourceVersion": "7"}, "items": listed}).encode()
    raw = enveloped(
        SCHEMA.encode("PodList", {"metadata": {"resourceVersion": "7"}, "items": listed}), "PodList"
    )
    assert POD_CODEC.decode_page(PROTOBUF, raw) == POD_CODEC.decode_page(JSON, text)


@pytest.mark.parametrize(
    ("codec", "name", "count"),
    [
        pytest.param(POD_CODEC, "pods", 3, id="pods of a real API server"),
        pytest.param(NODE_CODEC, "nodes", 1, id="nodes of a real API server"),
    ],
)
def test_what_a_real_server_sent_in_both_encodings_gives_the_same_records(codec: Any, name: str, count: int):
    text, raw = ((CAPTURED / f"{name}.{form}").read_bytes() for form in ("json", "protobuf"))
    found = codec.decode_page(PROTOBUF, raw).items
    assert len(found) == count
    assert found == codec.decode_page(JSON, text).items


@pytest.fixture(params=["json", "protobuf"])
def everything(request: pytest.FixtureRequest) -> PodRecord:
    content_type = JSON if request.param == "json" else PROTOBUF
    page = POD_CODEC.decode_page(content_type, (CAPTURED / f"pods.{request.param}").read_bytes())
    return page.items[0]


OF_THE_REAL_POD: list[tuple[str, Callable[[PodRecord], Any], Any]] = [
    (
        "its key",
        lambda pod: (pod.key, pod.namespace, pod.name),
        ("wire-check/everything", "wire-check", "everything"),
    ),
    ("its node", lambda pod: pod.node, "node-1"),
    ("that it is terminating", lambda pod: (pod.is_terminating, pod.deletion_grace_s), (True, 45)),
    ("its finalizers", lambda pod: pod.finalizers, ("example.com/hold",)),
    ("the owner that controls it", lambda pod: pod.owner.kind, "ReplicaSet"),
    ("all its owners", lambda pod: [owner.kind for owner in pod.owners], ["ReplicaSet", "PodMigration"]),
    (
        "only the annotations that are marks",
        lambda pod: dict(pod.annotations),
        {
            "karpenter.sh/do-not-disrupt": "true",
            "rescheduler.dev/handover": "Evict",
            "scheduling-retries": "3",
        },
    ),
    ("what a copy of it would ask for", lambda pod: pod.shape.requests.cpu_millis, 2000),
    (
        "ports of the node, of sidecars too",
        lambda pod: [(p.port, p.protocol, p.ip) for p in pod.constraints.host_ports],
        [(9000, "UDP", "0.0.0.0"), (8080, "TCP", "10.0.0.1")],
    ),
    (
        "volumes, the claim of the ephemeral one by its generated name, configuration left out",
        lambda pod: [(volume.kind, volume.name) for volume in pod.volumes][:5],
        [
            ("persistentVolumeClaim", "data"),
            ("hostPath", "/srv"),
            ("emptyDir", "Memory"),
            ("persistentVolumeClaim", "everything-scratch"),
            ("csi", "csi.example.com"),
        ],
    ),
    (
        "an empty namespace selector, which is not the same as none",
        lambda pod: (
            pod.affinity.pod_affinity.preferred[0]
            .pod_affinity_term.namespace_selector.selector()
            .selects_everything
        ),
        True,
    ),
    (
        "requirements on fields of the node",
        lambda pod: pod.affinity.node_affinity.required.node_selector_terms[0].match_fields[0].values,
        ("node-9",),
    ),
    ("all of a spread constraint", lambda pod: pod.constraints.spread[0].min_domains, 3),
    ("why a container was terminated", lambda pod: pod.container_statuses[0].last_state.reason, "OOMKilled"),
    ("why a container waits", lambda pod: pod.container_statuses[1].state.reason, "CrashLoopBackOff"),
    ("how an init container ended", lambda pod: pod.init_container_statuses[0].state.exit_code, 0),
    ("since when it is not ready", lambda pod: pod.condition("Ready").since_s, 1772359205),
    ("that a resize waits", lambda pod: pod.condition("PodResizePending").reason, "Deferred"),
]


@pytest.mark.parametrize(
    ("look", "expected"), [pytest.param(look, expected, id=name) for name, look, expected in OF_THE_REAL_POD]
)
def test_a_real_pod_with_everything_in_it_shows(
    everything: PodRecord, look: Callable[[PodRecord], Any], expected: Any
):
    assert look(everything) == expected


@pytest.mark.parametrize("content_type", [JSON, PROTOBUF])
def test_a_gated_pod_of_a_real_server_has_its_gate_its_nomination_and_its_requests(content_type: str):
    name = "pods.json" if content_type == JSON else "pods.protobuf"
    gated = POD_CODEC.decode_page(content_type, (CAPTURED / name).read_bytes()).items[1]
    assert gated.shape.scheduling_gates == ("rescheduler.dev/hold",)
    assert gated.nominated_node == "node-3"
    assert gated.requests.cpu_millis == 3000
    assert gated.shape.host_network


def test_nulls_mean_absent():
    manifest = {
        "metadata": {
            "name": "a",
            "namespace": "b",
            "labels": None,
            "ownerReferences": None,
            "annotations": None,
        },
        "spec": {
            "nodeName": None,
            "containers": [{"name": "c", "resources": {"requests": None}, "ports": None}],
            "volumes": [{"name": "v", "emptyDir": None, "hostPath": {"path": None}}],
            "affinity": {"nodeAffinity": None, "podAffinity": {"x": None}},
            "tolerations": None,
        },
        "status": {"conditions": None, "containerStatuses": None},
    }
    bare = {
        "metadata": {"name": "a", "namespace": "b"},
        "spec": {"containers": [{"name": "c"}], "volumes": [{"name": "v", "hostPath": {}}]},
    }
    assert from_json(POD_CODEC, manifest) == from_json(POD_CODEC, bare)


@pytest.mark.parametrize(
    ("reason", "cpu_millis"),
    [
        pytest.param("Deferred", 2000, id="the spec counts while its resize waits"),
        pytest.param("Infeasible", 500, id="but not once its node can never grant it"),
    ],
)
def test_a_pod_that_is_being_resized(reason: str, cpu_millis: int):
    manifest = {
        "spec": {"containers": [{"name": "app", "resources": {"requests": {"cpu": "2"}}}]},
        "status": {
            "conditions": [{"type": "PodResizePending", "status": "True", "reason": reason}],
            "containerStatuses": [
                {
                    "name": "app",
                    "allocatedResources": {"cpu": "500m"},
                    "resources": {"requests": {"cpu": "500m"}},
                }
            ],
        },
    }
    for record in (from_json(POD_CODEC, manifest), from_protobuf(POD_CODEC, "Pod", manifest)):
        assert record.requests.cpu_millis == cpu_millis
        assert record.shape.requests.cpu_millis == 2000
