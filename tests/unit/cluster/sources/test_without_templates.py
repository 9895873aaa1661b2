"""Workloads are read without their templates, and are the same in both encodings."""

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bench.protobuf_writer import enveloped
from rescheduler.cluster.sources.cluster_kinds import without_templates
from rescheduler.cluster.workload_record import decode_workload
from rescheduler.kube.api_resources import CRON_JOBS, DEPLOYMENTS, REPLICA_SETS, STATEFUL_SETS
from tests.unit.kube.codecs.manifests import SCHEMA, metadata, objects, selector, small

JSON = "application/json"
PROTOBUF = "application/vnd.kubernetes.protobuf"
TEMPLATE = {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "main"}]}}

replica_sets = st.fixed_dictionaries(
    {"metadata": metadata.map(lambda given: {"namespace": "shop", **given, "name": "web-1"})},
    optional={
        "spec": objects(replicas=small, selector=selector, minReadySeconds=small),
        "status": objects(
            replicas=small,
            readyReplicas=small,
            availableReplicas=small,
            observedGeneration=st.integers(1, 2**31),  # 0 is what JSON leaves away
        ),
    },
)


def listed(*items: dict[str, Any]) -> dict[str, Any]:
    return {"metadata": {"resourceVersion": "7"}, "items": list(items)}


def from_protobuf(*items: dict[str, Any]) -> list[Any]:
    raw = enveloped(SCHEMA.encode("ReplicaSetList", listed(*items)), "ReplicaSetList")
    return without_templates(REPLICA_SETS).codec.decode_page(PROTOBUF, raw).items


def from_json(resource: Any, *items: dict[str, Any]) -> list[Any]:
    return without_templates(resource).codec.decode_page(JSON, json.dumps(listed(*items)).encode()).items


@settings(max_examples=100, deadline=None)
@given(replica_sets)
def test_any_replica_set_gives_the_same_record_from_both_encodings(manifest):
    (one,), (other,) = from_protobuf(manifest), from_json(REPLICA_SETS, manifest)
    assert decode_workload(one, "ReplicaSet") == decode_workload(other, "ReplicaSet")
    identify = REPLICA_SETS.identify
    assert identify(one) == identify(other)


def test_a_controller_that_has_not_looked_yet_shows_no_generation_in_either_encoding():
    never_seen = {"metadata": {"name": "web-1", "generation": 3}, "status": {"observedGeneration": 0}}
    (found,) = from_protobuf(never_seen)
    assert decode_workload(found, "ReplicaSet").observed_generation == 3


def test_replica_sets_are_asked_for_as_protobuf_first():
    assert without_templates(REPLICA_SETS).codec.accept.startswith(PROTOBUF)


@pytest.mark.parametrize("resource", [DEPLOYMENTS, REPLICA_SETS, STATEFUL_SETS], ids=lambda each: each.kind)
def test_templates_are_left_out_and_all_else_of_the_spec_stays(resource):
    spec = {"replicas": 3, "template": TEMPLATE, "volumeClaimTemplates": [{"spec": {}}]}
    (found,) = from_json(resource, {"metadata": {"name": "web", "managedFields": [{}]}, "spec": spec})
    assert found == {"metadata": {"name": "web"}, "spec": {"replicas": 3}}


def test_so_are_those_of_cron_jobs():
    (found,) = from_json(
        CRON_JOBS, {"metadata": {"name": "web"}, "spec": {"suspend": True, "jobTemplate": {}}}
    )
    assert found["spec"] == {"suspend": True}
