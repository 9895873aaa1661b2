"""No text that is added anywhere in an object is left after the object was anonymized.

Every field of every kind that is saved is filled with words of an owner's, in the shapes that come closest to
what stays: domains under kubernetes.io, keys of JSON in annotations, fields that have one of a few words.
"""

import gzip
import json
import re
from collections.abc import Iterator
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rescheduler.cluster.sources import pseudonyms
from rescheduler.cluster.sources.cluster_export import (
    STORAGE_ANNOTATIONS,
    ClusterExport,
    encode_export,
    export_of_file,
    trim_object,
)
from rescheduler.cluster.sources.object_fields import FIELDS, FieldKind, FieldSpec
from tests.battery.scenarios import random_cluster
from tests.unit.cluster.sources.rich_cluster import complete, saved
from tests.unit.cluster.sources.test_anonymizer import assert_same_plan

SHAPES = (
    "{}", "{}-0", "a-{}", "{}.kubernetes.io/a", "{}.k8s.io/a", "k8s.io/{}", "kubernetes.io/{}", "{}/v1",
    "node-role.kubernetes.io/{}", "rescheduler.dev/{}", "karpenter.sh/{}", "apps/{}", "v1{}", "Node{}",
    "kubernetes.io/csi/{}^a", "kubernetes.io/csi/ebs.csi.aws.com^{}", "default-{}", "kube-system{}", "5{}",
    "2026-03-02T12:00:00{}", "10{}", "hugepages-{}", "attachable-volumes-{}", "requests.{}", "requests.{}/a",
    "true{}", "{}:1.7", "cpu{}", "Ready{}", "[{}", '{{"{}', '["{}"]', '{{"{}": 1}}', '{{"node": "{}"}}',
    '{{"node": {{"{}": ["a"]}}}}', '[{{"uid": "{}"}}]', "{}=a,b", "kubernetes.io/aws-ebs,{}", "Évian {}",
)  # fmt: skip
WORD = re.compile(r"zq\d+x", re.IGNORECASE)


class Planting:
    def __init__(self, random: Random) -> None:
        self._random = random
        self._planted = 0

    def text(self, shapes: tuple[str, ...] = SHAPES) -> str:
        self._planted += 1
        word = f"zq{self._planted}x"
        shape = self._random.choice(shapes)
        return shape.format(word if self._random.random() < 0.8 else word.upper())

    def object(self, kind: str) -> dict[str, Any]:
        return {"apiVersion": self.text(), "kind": kind, **self.fill(FIELDS[kind])}

    def fill(self, fields: FieldSpec) -> Any:
        if isinstance(fields, FieldKind):
            return self._leaf(fields)
        return {name: self._either(part) for name, part in fields.items()} | {self.text(): self.text()}

    def _either(self, fields: FieldSpec) -> Any:
        """What may be one may be several, too."""
        is_tree = not isinstance(fields, FieldKind)
        if is_tree and self._random.random() < 0.05:
            return [self.fill(fields), self.fill(fields)]
        return self.fill(fields)

    def _leaf(self, what: FieldKind) -> Any:
        match what:
            case FieldKind.LABELS:
                return {key: self.text() for key in self._keys(pseudonyms.KEYS)}
            case FieldKind.ANNOTATIONS:
                return {key: self.text() for key in self._keys(pseudonyms.KEYS | STORAGE_ANNOTATIONS)}
            case FieldKind.AMOUNTS | FieldKind.TIMES:
                return {key: self.text() for key in self._keys(pseudonyms.RESOURCES)}
            case FieldKind.REQUIREMENT | FieldKind.FIELD_REQUIREMENT | FieldKind.TAINT:
                names = ("operator", "value", "effect", "timeAdded", self.text())
                whole = {name: self.text() for name in names}
                return [{**whole, "key": key, "values": [self.text()]} for key in self._keys(pseudonyms.KEYS)]
            case FieldKind.PLAIN | FieldKind.ANYTHING:
                return self._random.choice([self.text(), [self.text()], {self.text(): self.text()}])
            case _:
                return self._random.choice([self.text(), [self.text(), self.text()]])

    def _keys(self, known: frozenset[str]) -> Iterator[str]:
        yield from self._random.sample(sorted(known), 2)
        yield from (self.text() for _ in range(2))


def names_in(content: Any) -> None:
    """`metadata` is always there, and names in it are texts."""
    metadata = content["metadata"]
    if isinstance(metadata, list):
        metadata = content["metadata"] = metadata[0]
    for name in ("name", "namespace", "uid"):
        if isinstance(metadata.get(name), list):
            metadata[name] = metadata[name][0]
    owners = metadata.get("ownerReferences", [])
    metadata["ownerReferences"] = owners if isinstance(owners, list) else [owners]
    for owner in metadata["ownerReferences"]:
        owner["name"] = metadata["name"].rpartition("-")[0] or "a"


@pytest.mark.parametrize("kind", sorted(FIELDS))
@settings(max_examples=8, deadline=None)
@given(seed=st.integers(0, 2**32))
def test_no_word_is_left_of_any_field_of(kind, seed):
    planting = Planting(Random(seed))
    objects = [planting.object(kind) for _ in range(2)]
    for each in objects:
        names_in(each)
    saving = ClusterExport("", frozenset({kind}), [trim_object(kind, each) for each in objects])
    assert WORD.search(encode_export(saving, "c.json").decode()), "nothing was planted where it is saved"
    assert WORD.findall(encode_export(saving.without_names(), "c.json").decode()) == []


def test_neither_of_what_a_file_says_about_itself():
    objects = complete(random_cluster(0).objects)
    content = saved(objects, saved_kinds="Node,zq1x,Pod", zq2x="zq3x", saved_at="2026-03-02T12:00:00Z")
    saving = export_of_file(json.dumps(content).encode(), source="zq4x.json").without_names()
    raw = encode_export(saving, "zq5x.json.gz")
    assert b"zq5x" not in raw  # gzip can keep the name of a file
    assert WORD.findall(gzip.decompress(raw).decode()) == []
    assert '"rescheduler.dev/saved-kinds":"Node,Pod"' in gzip.decompress(raw).decode()


# --- and yet the planner decides the same


FORGERIES = (
    {"app": "zq1x.kubernetes.io/app"},
    {"app": "zq1x.k8s.io/Zq2x_app", "shop/": "zq3x/"},
    {"app": "app.kubernetes.io/zq1x", "zone": "rescheduler.dev/zq2x"},
    {"app": "requests.zq1x"},
)


@settings(max_examples=8, deadline=None)
@given(seed=st.integers(0, 1000), forgery=st.sampled_from(FORGERIES))
def test_whatever_keys_labels_have_the_plan_is_the_same_in_other_words(seed, forgery):
    text = json.dumps(random_cluster(seed).objects)
    for old, new in forgery.items():
        text = text.replace(f'"{old}"', f'"{new}"')
    assert_same_plan(json.loads(text))


RESOURCES = ("zq1x.com/gpu", "zq1x.kubernetes.io/gpu", "requests.zq1x/gpu", "hugepages-2Mi", "hugepages-zq1x",
             "requests.kubernetes.io/zq1x", "attachable-volumes-csi-zq1x", "zq1x")  # fmt: skip


@pytest.mark.parametrize("resource", RESOURCES)
def test_a_resource_counts_as_before(resource):
    made = random_cluster(2)
    objects = complete(made.objects)
    for number, each in enumerate(objects):
        if each["kind"] == "Node":
            each["status"]["allocatable"][resource] = "3"
        elif each["kind"] == "Pod" and number % 2:
            each["spec"]["containers"][0]["resources"]["requests"][resource] = "1"
    assert_same_plan(objects)
