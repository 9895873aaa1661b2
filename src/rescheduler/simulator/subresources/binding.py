"""`pods/binding`: a scheduler's decision."""

from rescheduler.simulator.admission.defaults.pods import TOPOLOGY_LABELS
from rescheduler.simulator.cluster import Cluster
from rescheduler.simulator.conditions import set_pod_condition
from rescheduler.simulator.exchange import Answer, Object, Question, answer_object
from rescheduler.simulator.failures import Failure, bad_request
from rescheduler.simulator.objections import check_preconditions
from rescheduler.simulator.options import Preconditions, WriteOptions
from rescheduler.simulator.routing import Route
from rescheduler.simulator.store import Record
from rescheduler.simulator.verbs import body_object

__all__ = ["bind", "bound"]


async def bind(cluster: Cluster, question: Question, route: Route) -> Answer:
    binding = body_object(question)
    metadata, target = binding.get("metadata") or {}, binding.get("target") or {}
    if metadata.get("name") != route.name:
        raise bad_request("name in URL does not match name in Binding object")
    if not target.get("name"):
        raise Failure(500, "", "target.name: Required value", details={})
    options = WriteOptions.parse(question)
    record = cluster.expect(route.kind, route.namespace, route.name)
    check_preconditions(route.kind, record, Preconditions.parse(metadata))
    pod = bound(cluster, record, metadata, target["name"])
    if not options.dry_run:
        cluster.store.put(route.kind, pod)
    return answer_object(201, success())


def success() -> Object:
    return {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201}


def bound(cluster: Cluster, record: Record, metadata: Object, node: str) -> Object:
    """The pod as it is once it has its node; what the binding says of itself is merged into it."""
    pod = record.object
    spec, meta = pod["spec"], pod["metadata"]
    if record.deleting:
        raise _refused(record.name, f"pod {record.name} is being deleted, cannot be assigned to a host")
    if spec.get("nodeName"):
        raise _refused(record.name, f'pod {record.name} is already assigned to node "{spec["nodeName"]}"')
    if spec.get("schedulingGates"):
        raise _refused(record.name, f"pod {record.name} has non-empty .spec.schedulingGates")
    spec["nodeName"] = node
    status = pod.setdefault("status", {})
    status.pop("nominatedNodeName", None)
    labels = (metadata.get("labels") or {}) | _topology(cluster, node)
    for field, added in (("annotations", metadata.get("annotations")), ("labels", labels)):
        if added:
            meta[field] = {**(meta.get(field) or {}), **added}
    set_pod_condition(status, "PodScheduled", "True", now=cluster.clock.now())
    return pod


def _topology(cluster: Cluster, node: str) -> dict[str, str]:
    """A pod is told where it runs by labels of its own."""
    record = cluster.store.find(cluster.kind("v1", "Node"), "", node)
    labels = record.labels if record is not None else {}
    return {name: labels[name] for name in TOPOLOGY_LABELS if name in labels}


def _refused(name: str, why: str) -> Failure:
    return Failure(
        409,
        "Conflict",
        f'Operation cannot be fulfilled on pods/binding "{name}": {why}',
        details={"name": name, "kind": "pods/binding"},
    )
