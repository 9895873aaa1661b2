"""Which fields of a pod, and of other mostly immutable objects, can still be changed."""

import pytest

from kubesim.apiserver.status_errors import StatusError

NODE_AFFINITY = "spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution"


def terms(*keys):
    expressions = [{"key": key, "operator": "Exists"} for key in keys]
    return {NODE_AFFINITY: {"nodeSelectorTerms": [{"matchExpressions": expressions}]}}


@pytest.mark.parametrize(
    ("given", "then"),
    [
        pytest.param({}, {"spec.containers.0.image": "nginx:2"}, id="another image"),
        pytest.param({}, {"metadata.labels": {"a": "b"}}, id="labels"),
        pytest.param({}, {"spec.activeDeadlineSeconds": 5}, id="a deadline where there was none"),
        pytest.param(
            {"spec.activeDeadlineSeconds": 9}, {"spec.activeDeadlineSeconds": 5}, id="a shorter deadline"
        ),
        pytest.param(
            {"spec.schedulingGates": [{"name": "a"}, {"name": "b"}]},
            {"spec.schedulingGates": [{"name": "b"}]},
            id="one gate less",
        ),
        pytest.param(
            {"spec.schedulingGates": [{"name": "a"}]}, {"spec.schedulingGates": None}, id="no gate any more"
        ),
        pytest.param(
            {"spec.schedulingGates": [{"name": "a"}]},
            {"spec.nodeSelector": {"disk": "fast"}},
            id="a node selector while a gate holds the pod",
        ),
        pytest.param(
            {"spec.schedulingGates": [{"name": "a"}]},
            terms("zone"),
            id="node affinity while a gate holds the pod",
        ),
        pytest.param(
            {"spec.schedulingGates": [{"name": "a"}], **terms("zone")},
            terms("zone", "disk"),
            id="narrower node affinity while a gate holds the pod",
        ),
    ],
)
def test_a_pod_may_get(given, then, admit, base):
    stored = admit(base("Pod", given))
    assert admit(base(stored, then), stored)


def test_a_pod_may_get_more_tolerations_and_other_times_for_those_it_has(admit, base):
    stored = admit(base("Pod"))
    tolerations = [t | {"tolerationSeconds": 5} for t in stored["spec"]["tolerations"]]
    wanted = base(stored, {"spec.tolerations": [*tolerations, {"key": "a", "operator": "Exists"}]})
    assert len(admit(wanted, stored)["spec"]["tolerations"]) == 3


def test_without_a_gate_the_choice_of_nodes_is_fixed(admit, base):
    stored = admit(base("Pod"))
    with pytest.raises(StatusError, match="pod updates may not change fields other than"):
        admit(base(stored, terms("zone")), stored)


def test_a_refused_change_is_shown(admit, base):
    stored = admit(base("Pod"))
    with pytest.raises(StatusError) as refused:
        admit(base(stored, {"spec.nodeName": "n-1"}), stored)
    assert '  nodeName:\n  + "n-1"' in refused.value.message


def test_an_update_that_leaves_out_the_priority_keeps_it(admit, base):
    stored = admit(base("Pod"))
    sent = base(stored, {"spec.priority": None, "spec.preemptionPolicy": None})
    assert admit(sent, stored, lookup=lambda *_: stored)["spec"]["priority"] == 0


def test_resources_change_only_through_resize(admit, base):
    stored = admit(base("Pod", {"spec.containers.0.resources": {"requests": {"cpu": "1"}}}))
    wanted = base(stored, {"spec.containers.0.resources.requests.cpu": "2"})
    with pytest.raises(StatusError, match="pod updates may not change"):
        admit(wanted, stored)
    assert admit(wanted, stored, subresource="resize")


def test_a_node_may_be_nominated_until_the_pod_has_one(admit, base):
    pending = admit(base("Pod"))
    assert admit(base(pending, {"status.nominatedNodeName": "n-1"}), pending, subresource="status")
    bound = base(pending, {"spec.nodeName": "n-2"})
    with pytest.raises(StatusError, match="may not be set on pods that are already bound to a node"):
        admit(base(bound, {"status.nominatedNodeName": "n-1"}), bound, subresource="status")


def test_the_quality_of_service_of_a_pod_stays(admit, base):
    stored = admit(base("Pod"))
    with pytest.raises(StatusError, match=r"status\.qosClass: Invalid value"):
        admit(base(stored, {"status.qosClass": "Guaranteed"}), stored, subresource="status")


def test_a_suspended_job_may_still_choose_its_nodes(admit, base):
    stored = admit(base("Job", {"spec.suspend": True}))
    assert admit(base(stored, {"spec.template.spec.nodeSelector": {"a": "b"}}), stored)
    running = admit(base("Job"))
    with pytest.raises(StatusError, match="field is immutable"):
        admit(base(running, {"spec.template.spec.nodeSelector": {"a": "b"}}), running)


def test_a_bound_claim_may_grow(admit, base):
    bound = base(
        admit(base("PersistentVolumeClaim")), {"status.phase": "Bound", "status.capacity.storage": "1Gi"}
    )
    assert admit(base(bound, {"spec.resources.requests.storage": "2Gi"}), bound)
    with pytest.raises(StatusError, match="spec is immutable after creation"):
        admit(base(bound, {"spec.accessModes": ["ReadOnlyMany"]}), bound)


def test_a_status_is_written_without_touching_the_rest_of_a_pod(admit, base):
    """Not even where a pod that was loaded as it is lacks what a new one would get."""
    loaded = base(admit(base("Pod")), {"spec.tolerations": None, "spec.priority": None})
    written = admit(base(loaded, {"status.phase": "Running"}), loaded, subresource="status")
    assert written["spec"] == loaded["spec"]
