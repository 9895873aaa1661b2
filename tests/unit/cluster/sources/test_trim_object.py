"""What is saved of an object: enough for the same decisions, and no secret."""

import json

import msgspec
import pytest

from rescheduler.api.podmigration import decode_migration
from rescheduler.cluster.budget_record import decode_budget
from rescheduler.cluster.cluster_state import APPLIERS
from rescheduler.cluster.codecs.record_resources import NodeReader, PodReader
from rescheduler.cluster.sources.cluster_export import trim_object
from rescheduler.cluster.sources.cluster_kinds import CLUSTER_KINDS, METRICS_KINDS
from rescheduler.cluster.sources.object_fields import FIELDS
from rescheduler.cluster.storage_decoders import STORAGE_DECODERS
from rescheduler.cluster.workload_record import WORKLOAD_KINDS, decode_workload
from tests.unit.cluster.sources.rich_cluster import MIGRATION, NODE, POD, SECRETS, rich_objects


def test_nothing_that_could_be_a_secret_is_saved():
    text = json.dumps([trim_object(each["kind"], each) for each in rich_objects()])
    whole = json.dumps(rich_objects())
    for secret in SECRETS:
        assert secret in whole
        assert secret not in text


def test_a_pod_is_read_the_same_from_what_is_saved_of_it():
    whole, saved = (
        PodReader().from_json(msgspec.json.encode(each)) for each in (POD, trim_object("Pod", POD))
    )
    assert msgspec.structs.asdict(saved) == msgspec.structs.asdict(whole)


def test_a_node_is_read_the_same_from_what_is_saved_of_it():
    whole, saved = (
        NodeReader().from_json(msgspec.json.encode(each)) for each in (NODE, trim_object("Node", NODE))
    )
    assert saved == whole


def test_every_other_kind_is_read_the_same_from_what_is_saved_of_it():
    readers = {
        **STORAGE_DECODERS,
        **dict.fromkeys(WORKLOAD_KINDS, decode_workload),
        "PodDisruptionBudget": decode_budget,
    }
    seen = set()
    for each in rich_objects():
        if read := readers.get(each["kind"]):
            seen.add(each["kind"])
            assert read(trim_object(each["kind"], each)) == read(each)
    assert seen == set(readers) - {"CronJob"}
    whole, saved = decode_migration(MIGRATION), decode_migration(trim_object("PodMigration", MIGRATION))
    # The reason is for people, and may say anything.
    assert msgspec.structs.replace(whole.spec, reason="") == saved.spec
    assert saved.status == whole.status


@pytest.mark.parametrize("kind", sorted(APPLIERS.keys() | {"Pod", "Node"}))
def test_every_kind_that_is_decided_by_is_in_both_tables(kind):
    assert kind in FIELDS
    assert kind in {each.kind for each in CLUSTER_KINDS}


def test_every_kind_that_is_read_can_be_saved():
    assert {each.kind for each in (*CLUSTER_KINDS, *METRICS_KINDS)} == set(FIELDS)
