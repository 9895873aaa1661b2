"""What is saved of an object: enough to decide the same, and no secret."""

import json

import msgspec
import pytest

from rescheduler.kube.wire.nodes import Nodes
from rescheduler.kube.wire.pods import Pods
from rescheduler.model.budgets import budget_of
from rescheduler.model.migrations import migration_of
from rescheduler.model.storage_objects import STORAGE_READERS
from rescheduler.model.workloads import WORKLOAD_KINDS, workload_of
from rescheduler.snapshot.objects import OBJECT_KINDS
from rescheduler.sources.fields import FIELDS
from rescheduler.sources.kinds import CLUSTER_KINDS, METRICS_KINDS
from rescheduler.sources.trimming import trimmed
from tests.unit.sources.rich import MIGRATION, NODE, POD, SECRETS, rich_objects


def test_nothing_that_could_be_a_secret_is_saved():
    text = json.dumps([trimmed(each["kind"], each) for each in rich_objects()])
    whole = json.dumps(rich_objects())
    for secret in SECRETS:
        assert secret in whole
        assert secret not in text


def test_a_pod_is_read_the_same_from_what_is_saved_of_it():
    whole, saved = (Pods().from_json(msgspec.json.encode(each)) for each in (POD, trimmed("Pod", POD)))
    assert msgspec.structs.asdict(saved) == msgspec.structs.asdict(whole)


def test_a_node_is_read_the_same_from_what_is_saved_of_it():
    whole, saved = (Nodes().from_json(msgspec.json.encode(each)) for each in (NODE, trimmed("Node", NODE)))
    assert saved == whole


def test_every_other_kind_is_read_the_same_from_what_is_saved_of_it():
    readers = {
        **STORAGE_READERS,
        **dict.fromkeys(WORKLOAD_KINDS, workload_of),
        "PodDisruptionBudget": budget_of,
    }
    seen = set()
    for each in rich_objects():
        if read := readers.get(each["kind"]):
            seen.add(each["kind"])
            assert read(trimmed(each["kind"], each)) == read(each)
    assert seen == set(readers) - {"CronJob"}
    whole, saved = migration_of(MIGRATION), migration_of(trimmed("PodMigration", MIGRATION))
    # The reason is for people, and may say anything.
    assert msgspec.structs.replace(whole.spec, reason="") == saved.spec
    assert saved.status == whole.status


@pytest.mark.parametrize("kind", sorted(OBJECT_KINDS | {"Pod", "Node"}))
def test_every_kind_that_is_decided_by_is_in_both_tables(kind):
    assert kind in FIELDS
    assert kind in {each.kind for each in CLUSTER_KINDS}


def test_every_kind_that_is_read_can_be_saved():
    assert {each.kind for each in (*CLUSTER_KINDS, *METRICS_KINDS)} == set(FIELDS)
