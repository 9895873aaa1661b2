"""Properties of pod and node records."""

import msgspec
import pytest

from kubevalues import SelectorError
from rescheduler.cluster.node_record import NodeCondition, NodeRecord
from rescheduler.cluster.object_meta import OwnerReference, is_kept_annotation
from rescheduler.cluster.pod_constraints import (
    Affinity,
    LabelSelector,
    LabelSelectorRequirement,
    SchedulingConstraints,
    Toleration,
    TopologySpreadConstraint,
)
from rescheduler.cluster.pod_record import (
    PodCondition,
    PodRecord,
    PodShape,
    keeps_transition_time,
    resize_is_infeasible,
)


def test_a_pod_is_named_by_its_key():
    assert PodRecord("shop/web-1", "shop").name == "web-1"


def test_the_owner_is_the_one_that_controls():
    migration, replica_set = (
        OwnerReference("PodMigration", "m"),
        OwnerReference("ReplicaSet", "web", controller=True),
    )
    assert PodRecord("a/b", "a", owners=(migration, replica_set)).owner == replica_set
    assert PodRecord("a/b", "a", owners=(migration,)).owner is None


@pytest.mark.parametrize(
    ("pod", "ready"),
    [
        pytest.param(PodRecord("a/b", "a"), False, id="nothing said"),
        pytest.param(PodRecord("a/b", "a", conditions=(PodCondition("Ready", "True"),)), True, id="Ready"),
        pytest.param(
            PodRecord("a/b", "a", conditions=(PodCondition("Ready", "Unknown"),)), False, id="Unknown"
        ),
        pytest.param(PodRecord("a/b", "a", conditions=(PodCondition("Other", "True"),)), False, id="other"),
    ],
)
def test_a_pod_is_ready_when_its_condition_says_so(pod: PodRecord, ready: bool):
    assert pod.is_ready is ready


def test_phases_and_marks_of_an_end():
    assert PodRecord("a/b", "a", phase="Failed").is_finished
    assert not PodRecord("a/b", "a", phase="Running").is_finished
    assert PodRecord("a/b", "a", deleted_s=0).is_terminating
    assert not PodRecord("a/b", "a").is_terminating


def test_a_pod_has_priority_and_constraints_from_its_shape():
    shape = PodShape(SchedulingConstraints(tolerations=(Toleration(operator="Exists"),)), priority=7)
    pod = PodRecord("a/b", "a", shape=shape)
    assert (pod.priority, pod.constraints) == (7, shape.constraints)


def test_records_can_not_be_changed():
    with pytest.raises(AttributeError):
        PodRecord("a/b", "a").node = "elsewhere"  # type: ignore[misc]


def test_constraints_are_hashable_so_that_equal_pods_are_evaluated_once():
    spread = TopologySpreadConstraint(label_selector=LabelSelector((("app", "web"),)))
    one, other = (PodShape(SchedulingConstraints(spread=(spread,))) for _ in range(2))
    assert len({one, other}) == 1
    assert len({Affinity(), Affinity()}) == 1


def test_a_selector_is_kept_as_written_and_means_what_it_says():
    written = LabelSelector((("app", "web"),), (LabelSelectorRequirement("tier", "NotIn", ("x",)),))
    assert written.selector().matches({"app": "web"})
    assert not written.selector().matches({"app": "web", "tier": "x"})
    assert LabelSelector().selector().selects_everything


def test_an_unreadable_selector_is_refused_only_when_it_is_used():
    with pytest.raises(SelectorError):
        LabelSelector(match_expressions=(LabelSelectorRequirement("tier", "Resembles", ("x",)),)).selector()


def test_affinity_is_spelled_as_kubernetes_spells_it():
    text = b'{"nodeAffinity":{"requiredDuringSchedulingIgnoredDuringExecution":{"nodeSelectorTerms":[{}]}}}'
    affinity = msgspec.json.decode(text, type=Affinity)
    assert affinity.node_affinity.required is not None
    assert len(affinity.node_affinity.required.node_selector_terms) == 1


@pytest.mark.parametrize(
    ("kind", "status", "kept"),
    [
        pytest.param("Ready", "True", True, id="since when it is ready"),
        pytest.param("PodScheduled", "False", True, id="since when it can't be scheduled"),
        pytest.param("PodScheduled", "True", False, id="not when it was scheduled"),
        pytest.param("DisruptionTarget", "True", True, id="since when it is to be disrupted"),
    ],
)
def test_times_are_kept_where_they_matter(kind: str, status: str, kept: bool):
    assert keeps_transition_time(kind, status) is kept


def test_a_resize_is_infeasible_when_the_pending_condition_says_so():
    assert resize_is_infeasible((PodCondition("PodResizePending", "True", "Infeasible"),))
    assert not resize_is_infeasible((PodCondition("PodResizePending", "True", "Deferred"),))
    assert not resize_is_infeasible((PodCondition("Ready", "False", "Infeasible"),))


@pytest.mark.parametrize(
    ("annotation", "kept"),
    [
        ("scheduler.alpha.kubernetes.io/migration-time", True),
        ("rescheduler.dev/handover", True),
        ("cluster-autoscaler.kubernetes.io/safe-to-evict", True),
        ("karpenter.sh/do-not-disrupt", True),
        ("kubernetes.io/config.mirror", True),
        ("scheduling-retries", True),
        ("kse.com/deploy", True),
        ("kubectl.kubernetes.io/last-applied-configuration", False),
        ("kubernetes.io/config.hash", False),
    ],
)
def test_annotations_that_are_kept(annotation: str, kept: bool):
    assert is_kept_annotation(annotation) is kept


def test_a_node_is_ready_when_its_condition_says_so():
    assert NodeRecord("n", conditions=(NodeCondition("Ready", "True"),)).is_ready
    assert not NodeRecord("n", conditions=(NodeCondition("Ready", "Unknown"),)).is_ready
    assert NodeRecord("n").key == "n"
    assert NodeRecord("n").condition("Ready") is None
