"""Parts that many pods share are stored once, and dropped when no pod uses them any more."""

import json

import pytest

from rescheduler.cluster.codecs.pod_json import JsonPodReader
from rescheduler.cluster.codecs.pod_protobuf import ProtobufPodReader
from rescheduler.cluster.codecs.pod_spec_codec import PER_NODE_CAPACITY, DecodeCache
from rescheduler.cluster.codecs.record_resources import PodReader
from rescheduler.cluster.pod_record import PodRecord
from tests.unit.kube.codecs.manifests import REQUIRED, SCHEMA, Json


def read(form: str, manifests: list[Json]) -> list[PodRecord]:
    pods = PodReader()
    if form == "json":
        return [pods.from_json(json.dumps(manifest).encode()) for manifest in manifests]
    items = SCHEMA.encode("PodList", {"items": manifests})
    return list(pods.from_protobuf(items))


def replica(name: str, node: str, token: str, claim: str = "data") -> Json:
    """Two pods of one template differ in this and nothing else."""
    return {
        "metadata": {"name": name, "namespace": "shop", "uid": name, "labels": {"app": "web"}},
        "spec": {
            "nodeName": node,
            "volumes": [
                {"name": token, "projected": {"defaultMode": 420}},
                {"name": "data", "persistentVolumeClaim": {"claimName": claim}},
            ],
            "containers": [{"name": "app", "volumeMounts": [{"name": token, "mountPath": "/token"}]}],
            "tolerations": [{"operator": "Exists"}],
        },
    }


both = pytest.mark.parametrize("form", ["json", "protobuf"])


@both
def test_pods_of_one_template_share_shape_labels_volumes_and_requests(form: str):
    one, other = read(form, [replica("a", "n1", "token-x"), replica("b", "n2", "token-y")])
    assert one.shape is other.shape
    assert one.labels is other.labels
    assert one.volumes is other.volumes
    assert one.requests is other.requests


@both
def test_pods_of_a_stateful_set_share_their_shape_though_each_has_its_own_claim(form: str):
    one, other = read(form, [replica("a", "n1", "t", "data-0"), replica("b", "n2", "t", "data-1")])
    assert one.shape is other.shape
    assert [volume.name for volume in (*one.volumes, *other.volumes)] == ["data-0", "data-1"]


@both
def test_pods_of_a_daemon_set_share_their_shape_though_each_is_bound_to_its_node(form: str):
    manifests = [replica("a", "n1", "t"), replica("b", "n2", "t")]
    for manifest in manifests:
        name = {"key": "metadata.name", "operator": "In", "values": [manifest["spec"]["nodeName"]]}
        required = {"nodeSelectorTerms": [{"matchFields": [name]}]}
        manifest["spec"]["affinity"] = {"nodeAffinity": {REQUIRED: required}}
    one, other = read(form, manifests)
    assert one.shape is other.shape
    assert one.affinity != other.affinity


@both
def test_strings_that_repeat_are_stored_once(form: str):
    one, other = read(form, [replica("a", "n1", "t"), replica("b", "n1", "t")])
    assert one.node is other.node
    assert one.namespace is other.namespace


def test_a_memo_makes_each_value_once():
    made: list[int] = []
    memo: DecodeCache[int, int] = DecodeCache(lambda key: made.append(key) or -key)
    assert [memo[key] for key in (1, 2, 1, 2)] == [-1, -2, -1, -2]
    assert made == [1, 2]


def test_a_memo_never_holds_more_than_twice_its_capacity():
    memo: DecodeCache[int, object] = DecodeCache(lambda _: object(), capacity=10)
    for key in range(1000):
        assert memo[key] is not None
        assert memo.held <= 20


def test_a_memo_keeps_what_is_still_asked_for_whatever_else_comes():
    memo: DecodeCache[int, object] = DecodeCache(lambda _: object(), capacity=10)
    kept = memo[0]
    for key in range(1, 1000):
        assert memo[key] is not memo[0]
        assert memo[0] is kept


def test_a_memo_remembers_no_failure():
    attempts: list[int] = []

    def make(key: int) -> int:
        attempts.append(key)
        raise ValueError("not today")

    memo: DecodeCache[int, int] = DecodeCache(make)
    for _ in range(2):
        with pytest.raises(ValueError, match="not today"):
            _ = memo[1]
    assert attempts == [1, 1]
    assert memo.held == 0


@pytest.mark.parametrize("reader", [JsonPodReader(), ProtobufPodReader()], ids=["json", "protobuf"])
def test_whatever_a_reader_remembers_has_a_bound(reader: JsonPodReader | ProtobufPodReader):
    remembered = list(vars(reader).values())
    assert remembered
    assert all(isinstance(memo, DecodeCache) and memo.capacity <= PER_NODE_CAPACITY for memo in remembered)


def test_templates_that_come_and_go_are_forgotten(monkeypatch: pytest.MonkeyPatch):
    reader = ProtobufPodReader()
    for memo in vars(reader).values():
        monkeypatch.setattr(memo, "capacity", 8)
    for number in range(200):
        manifest = replica("a", "n", "t", claim=f"data-{number}")
        manifest["spec"]["containers"][0]["image"] = f"web:{number}"
        reader.records(SCHEMA.encode("PodList", {"items": [manifest]}))
    assert max(memo.held for memo in vars(reader).values()) <= 16
