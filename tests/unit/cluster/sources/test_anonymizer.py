"""An anonymized cluster contains no names of its owner, and the planner decides the same."""

import json
import re
from collections.abc import Iterator
from dataclasses import replace

import msgspec
import pytest

from rescheduler.api.podmigration import BUILT_IN_TRAITS
from rescheduler.api.well_known_names import MIGRATION_REASON_LABEL
from rescheduler.cluster.sources import pseudonyms
from rescheduler.cluster.sources.anonymizer import anonymize
from rescheduler.cluster.sources.cluster_export import trim_object
from rescheduler.cluster.sources.cluster_kinds import snapshot_of
from rescheduler.cluster.sources.saved_source import read_saved
from rescheduler.config.policy import NodeAutoscaler, Policy
from rescheduler.migrations.transition_table import MigrationStep
from rescheduler.planner.plan import Plan
from rescheduler.planner.plan_builder import build_plan
from rescheduler.strategies.strategy_registry import strategies_of
from tests.battery.scenarios import SCENARIOS, random_cluster
from tests.building import NOW
from tests.unit.cluster.sources.rich_cluster import complete, rich_objects, saved

ALL = ("NodeMaintenance", "TopologySpread", "ResourceOptimization", "LoadBalancing")
POLICY = Policy(enabled_strategies=ALL, max_reschedule_pods=50, imbalance_threshold=5.0, min_gain=0.0)


def planned(objects: list[dict], policy: Policy = POLICY) -> Plan:
    reading = read_saved(json.dumps(saved(objects)).encode(), source="cluster")
    reading.now_s = NOW
    return build_plan(snapshot_of(reading, policy), policy, strategies_of(policy))


def names_of(before: list[dict], after: list[dict]) -> dict[str, str]:
    """Old name → new one, of pods (by key), nodes and uids."""
    found = {}
    for old, new in zip(before, after, strict=True):
        was, now = old["metadata"], new["metadata"]
        found[was["uid"]] = now["uid"]
        if old["kind"] == "Pod":
            found[f"{was['namespace']}/{was['name']}"] = f"{now['namespace']}/{now['name']}"
        elif old["kind"] == "Node":
            found[was["name"]] = now["name"]
    return found


def assert_same_plan(objects: list[dict], policy: Policy = POLICY) -> None:
    objects = [trim_object(each["kind"], each) for each in complete(objects)]
    hidden = anonymize(objects)
    names = names_of(objects, hidden)
    original, found = planned(objects, policy), planned(hidden, policy)
    expected = [
        replace(
            move,
            pod=names[move.pod],
            uid=names[move.uid],
            source=names[move.source],
            target=names[move.target],
        )
        for move in original.moves
    ]
    # Reasons may name things; groups are the values of a label.
    unnamed = [replace(move, reason="", group="") for move in expected]
    assert [replace(move, reason="", group="") for move in found.moves] == unnamed
    # Extended resources have other names, too, in the same order.
    assert [
        (names[each.name], [*each.before.values()], [*each.after.values()]) for each in original.nodes
    ] == [(each.name, [*each.before.values()], [*each.after.values()]) for each in found.nodes]
    assert found.refused_counts == original.refused_counts
    assert [(names.get(each.subject, ""), each.reason) for each in original.refused] == [
        (each.subject, each.reason) for each in found.refused
    ]
    assert [(names[each.node], each.change) for each in original.changes] == [
        (each.node, each.change) for each in found.changes
    ]


NOTHING_TO_READ = {"an empty cluster", "nodes without pods"}


@pytest.mark.parametrize("words", [words for words in SCENARIOS if words not in NOTHING_TO_READ])
def test_the_plan_is_the_same_in_other_words_for(words):
    assert_same_plan(SCENARIOS[words]().objects)


@pytest.mark.parametrize("seed", range(6))
def test_the_plan_is_the_same_in_other_words_for_random_cluster(seed):
    assert_same_plan(random_cluster(seed).objects)


def test_emptying_nodes_finds_the_same_nodes():
    policy = replace(POLICY, enabled_strategies=("CostOptimization",), node_autoscaler=NodeAutoscaler.OTHER)
    assert_same_plan(random_cluster(1).objects, policy)


# --- no word remains


def words_in(value: object, path: tuple[str, ...] = ()) -> Iterator[str]:
    if isinstance(value, dict):
        for name, part in value.items():
            if path and path[-1] in MAPPINGS:
                yield name
            yield from words_in(part, (*path, name))
    elif isinstance(value, list):
        for each in value:
            yield from words_in(each, path)
    elif isinstance(value, str) and path[-1] not in PLAIN:
        yield value


MAPPINGS = {
    "labels", "annotations", "matchLabels", "nodeSelector", "requests", "limits", "capacity", "allocatable",
    "allocatedResources", "usage",
}  # fmt: skip
PLAIN = {
    "apiVersion", "kind", "phase", "status", "operator", "effect", "strategy", "handover", "restartPolicy",
    "protocol", "type", "policy", "whenUnsatisfiable", "accessModes", "volumeBindingMode", "timestamp",
    "volumeMode", "window", "maximumVolumeSize", "capacity",
    "creationTimestamp", "startTime", "startedAt", "finishedAt", "lastTransitionTime", "lastHeartbeatTime",
    "timeAdded", "cpu", "memory", "pods", "storage", "ephemeral-storage", "example.com/dongle", "maxSurge",
    "maxUnavailable", "scheduler.alpha.kubernetes.io/migration-status", "podManagementPolicy",
    "completionMode", "storage.alpha.kubernetes.io/migrated-plugins", "pv.kubernetes.io/bind-completed",
}  # fmt: skip
KNOWN = {
    *pseudonyms.KEYS, *pseudonyms.NAMES, *pseudonyms.NAMESPACES, *pseudonyms.DRIVERS, *pseudonyms.RESOURCES,
    *pseudonyms.CONDITIONS, "metadata.name", "",
}  # fmt: skip


def test_no_word_of_the_owner_s_remains():
    objects = [trim_object(each["kind"], each) for each in rich_objects()]
    original = {
        word
        for text in words_in(objects)
        if text not in KNOWN
        for word in re.split(r"[-_./:@^,]+", text)
        # Numbers say nothing, and the words of keys that stay are not the owner's.
        if len(word) > 1 and not word.isdecimal()
    }
    original -= {part for known in KNOWN for part in re.split(r"[-_./:@^,]+", known)}
    assert {
        "shop",
        "cart",
        "payments",
        "europe",
        "rack",
        "dongle",
        "warm",
        "important",
        "8d3c0f0a",
    } <= original
    hidden = set(re.findall(r"[A-Za-z0-9]+", json.dumps([strip(each) for each in anonymize(objects)])))
    assert original & hidden == set()


def strip(
    value: object, fields: frozenset[str] = frozenset({"operator", "apiVersion", "kind", "type"})
) -> object:
    """Remove the names of fields: `name` may be a label, too."""
    if isinstance(value, dict):
        return [[strip(part), name if "." in name or "/" in name else ""] for name, part in value.items()
                if name not in fields]  # fmt: skip
    return [strip(each) for each in value] if isinstance(value, list) else value


# --- what must hold together


@pytest.fixture(scope="module")
def hidden() -> dict[str, dict]:
    objects = anonymize([trim_object(each["kind"], each) for each in rich_objects()])
    return {each["kind"]: each for each in reversed(objects)}


def test_what_refers_to_each_other_still_does(hidden):
    pod, node, claim = hidden["Pod"], hidden["Node"], hidden["PersistentVolumeClaim"]
    assert pod["spec"]["nodeName"] == node["metadata"]["name"] == hidden["CSINode"]["metadata"]["name"]
    assert pod["metadata"]["namespace"] == hidden["Namespace"]["metadata"]["name"]
    assert pod["spec"]["volumes"][0]["persistentVolumeClaim"]["claimName"] == claim["metadata"]["name"]
    term = pod["spec"]["affinity"]["podAntiAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"][0]
    labels = hidden["Namespace"]["metadata"]["labels"]
    assert term["namespaceSelector"]["matchLabels"] == labels
    assert labels["kubernetes.io/metadata.name"] == pod["metadata"]["namespace"] == term["namespaces"][0]
    assert hidden["PodMigration"]["spec"]["pod"] == {
        "name": pod["metadata"]["name"],
        "uid": pod["metadata"]["uid"],
    }
    driver = hidden["CSINode"]["spec"]["drivers"][0]["name"]
    assert (
        driver == hidden["PersistentVolume"]["spec"]["csi"]["driver"] == hidden["StorageClass"]["provisioner"]
    )
    assert node["status"]["volumesInUse"][0].startswith(f"kubernetes.io/csi/{driver}^")
    (taint,), toleration = node["spec"]["taints"], pod["spec"]["tolerations"][0]
    assert (taint["key"], taint["value"]) == (toleration["key"], toleration["value"])


def test_the_ordinal_of_a_stateful_set_s_pod_stays_and_so_does_its_claim(hidden):
    owner = hidden["Pod"]["metadata"]["ownerReferences"][0]
    assert hidden["Pod"]["metadata"]["name"] == f"{owner['name']}-0"
    assert hidden["PersistentVolumeClaim"]["metadata"]["name"].endswith(f"-{owner['name']}-0")


def test_values_that_are_compared_as_numbers_stay_numbers_in_order():
    objects = [trim_object(each["kind"], each) for each in rich_objects()]
    found = anonymize(objects)
    nodes = {
        old["metadata"]["name"]: new for old, new in zip(objects, found, strict=True) if old["kind"] == "Node"
    }
    pod = next(each for each in found if each["kind"] == "Pod")
    required = pod["spec"]["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    newer = required["nodeSelectorTerms"][0]["matchExpressions"][0]
    low, high = (int(nodes[name]["metadata"]["labels"][newer["key"]]) for name in ("node-b", "node-a"))
    assert low < int(newer["values"][0]) < high


def test_what_an_annotation_records_is_replaced_inside_of_it():
    (pod,) = [
        each for each in rich_objects() if each["metadata"]["name"] == "cart-0" and each["kind"] == "Pod"
    ]
    pod["metadata"]["annotations"] = {
        "rescheduler.dev/avoids": '["node-a"]',
        "scheduler.alpha.kubernetes.io/original-pod": pod["metadata"]["uid"],
        "scheduler.alpha.kubernetes.io/migration-time": "2026-03-02T11:00:00Z",
    }
    (found,) = anonymize([pod])
    assert found["metadata"]["annotations"] == {
        "rescheduler.dev/avoids": json.dumps([found["spec"]["nodeName"]]),
        "scheduler.alpha.kubernetes.io/original-pod": found["metadata"]["uid"],
        "scheduler.alpha.kubernetes.io/migration-time": "2026-03-02T11:00:00Z",
    }


def test_so_are_the_pods_by_which_failed_attempts_are_recorded():
    objects = [trim_object(each["kind"], each) for each in rich_objects()]
    (stateful,) = [each for each in objects if each["kind"] == "StatefulSet"]
    (pod,) = [each for each in objects if each["kind"] == "Pod" and each["metadata"]["name"] == "cart-0"]
    uid, owner = pod["metadata"]["uid"], stateful["metadata"]["uid"]
    tries = [{"t": "2026-03-02T11:00:00Z", "node": "node-a", "pod": uid}]
    lines = {"cart-0": {"revision": "cart-7d4b9", "tries": tries}, "node": {"tries": []}}
    record = json.dumps({"v": 1, "of": owner, "lines": lines})
    stateful["metadata"]["annotations"] = {"rescheduler.dev/failed-attempts": record}
    hidden = anonymize(objects)
    found = {each["kind"]: each for each in reversed(hidden)}
    name, node = found["Pod"]["metadata"]["name"], found["Pod"]["spec"]["nodeName"]
    marks = found["StatefulSet"]["metadata"]["annotations"]
    read = json.loads(marks["rescheduler.dev/failed-attempts"])
    assert read["of"] == found["StatefulSet"]["metadata"]["uid"]
    assert read["lines"][name]["tries"] == [
        {"t": "2026-03-02T11:00:00Z", "node": node, "pod": found["Pod"]["metadata"]["uid"]}
    ]
    assert "node" not in read["lines"]
    assert "7d4b9" not in json.dumps(hidden)


@pytest.mark.parametrize("strategy", sorted(BUILT_IN_TRAITS))
def test_strategies_stay_because_their_traits_decide(strategy):
    migration = {
        "apiVersion": "rescheduler.dev/v1alpha1",
        "kind": "PodMigration",
        "metadata": {"name": "web-1", "namespace": "shop", "labels": {MIGRATION_REASON_LABEL: strategy}},
        "spec": {"strategy": strategy},
    }
    (hidden,) = anonymize([migration])
    assert hidden["spec"]["strategy"] == strategy
    assert hidden["metadata"]["labels"][MIGRATION_REASON_LABEL] == strategy


def test_steps_stay():
    assert {each.value for each in MigrationStep} <= pseudonyms.WORDS


def test_names_that_are_to_stay_do():
    objects = [trim_object(each["kind"], each) for each in rich_objects()]
    found = anonymize(objects, keep=["shop", "important", "disk.example.com/kind"])
    pod = next(each for each in found if each["kind"] == "Pod")
    assert pod["metadata"]["namespace"] == "shop"
    assert pod["spec"]["priorityClassName"] == "important"
    assert pod["spec"]["nodeSelector"] == {"disk.example.com/kind": "fast"}


def test_namespaces_keep_their_order_in_keys_also_among_those_that_stay():
    spaces = ["default", "a", "a-b", "kube-system", "kube", "zoo", "defaults", "ab", "kube-r"]
    pods = [
        {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "namespace": space}, "spec": {}}
        for space in sorted(spaces, key="{}/".format)
    ]
    keys = [f"{each['metadata']['namespace']}/p" for each in anonymize(pods)]
    assert keys == sorted(keys)
    assert {"default/p", "kube-system/p"} <= set(keys)
    assert len(set(keys)) == len(keys)


def test_it_can_be_read_again_and_again_the_same():
    objects = [trim_object(each["kind"], each) for each in rich_objects()]
    assert msgspec.json.encode(anonymize(objects)) == msgspec.json.encode(anonymize(objects))


@pytest.mark.parametrize(
    ("annotation", "value", "stays"),
    [
        ("rescheduler.dev/max-moves-per-hour", "10%", True),
        ("rescheduler.dev/max-moves-per-hour", "secret", False),
        ("rescheduler.dev/windows", "Mon-Fri 22:00-06:00", True),
        ("rescheduler.dev/windows", "22:00-06:00 Europe/Berlin", False),
    ],
)
def test_limits_of_moves_stay_unless_they_tell_the_place(annotation, value, stays):
    about = {"name": "web", "namespace": "shop", "annotations": {annotation: value}}
    (found,) = anonymize([{"apiVersion": "apps/v1", "kind": "Deployment", "metadata": about, "spec": {}}])
    assert (found["metadata"]["annotations"][annotation] == value) is stays
