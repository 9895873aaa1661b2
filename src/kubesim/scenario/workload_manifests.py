"""The manifests of a scenario's workloads: the workload, its claims, Service and disruption budget."""

from collections.abc import Iterator
from typing import Any

from kubesim.apiserver.api_messages import Object
from kubesim.apiserver.kind_registry import BUILT_IN
from kubesim.patches.merge_schema import schema_of
from kubesim.patches.strategic_merge import strategic_merge
from kubesim.scenario.scenario_objects import STANDARD, ScenarioClaim, ScenarioWorkload

__all__ = ["storage_class", "workload_objects"]

_GROUPS = {"Job": "batch/v1", "CronJob": "batch/v1", "Pod": "v1"}
_MERGING = {(kind.api_version, kind.name): schema_of(kind) for kind in BUILT_IN}
_POD_SPEC = _MERGING["v1", "Pod"].at("spec")


def workload_objects(workload: ScenarioWorkload) -> Iterator[Object]:
    """Yield the objects in an order in which an API server accepts them."""
    if workload.service is not None:
        yield _service(workload)
    if workload.kind != "StatefulSet":
        for claim in workload.claims:
            yield _claim_object(workload, claim)
    if workload.budget is not None:
        yield _budget(workload)
    if workload.kind == "Pod":
        yield from _pods(workload)
    else:
        yield _controller(workload)


def _controller(workload: ScenarioWorkload) -> Object:
    api_version = _GROUPS.get(workload.kind, "apps/v1")
    spec: Object = {"template": _template(workload)}
    match workload.kind:
        case "Deployment" | "ReplicaSet" | "StatefulSet" | "DaemonSet":
            spec["selector"] = {"matchLabels": {"app": workload.name}}
        case "Job":
            spec |= {"completions": workload.size, "parallelism": workload.size}
        case "CronJob":
            spec = {"schedule": workload.schedule, "jobTemplate": {"spec": spec}}
    if workload.kind in ("Deployment", "ReplicaSet", "StatefulSet"):
        spec["replicas"] = workload.size
    if workload.kind == "StatefulSet":
        spec["serviceName"] = workload.name
        if workload.claims:
            spec["volumeClaimTemplates"] = [
                {"metadata": {"name": claim.name}, "spec": _claim_spec(claim)} for claim in workload.claims
            ]
    schema = _MERGING[api_version, workload.kind].at("spec")
    return _object(
        workload, api_version, workload.kind, spec=strategic_merge(spec, dict(workload.spec), schema)
    )


def _pods(workload: ScenarioWorkload) -> Iterator[Object]:
    places = (*workload.on, *[""] * (workload.size - len(workload.on)))
    for number, node in enumerate(places, start=1):
        template = _template(workload)
        pod = _object(workload, "v1", "Pod", spec=template["spec"])
        pod["metadata"] |= template["metadata"]
        if workload.size > 1:
            pod["metadata"]["name"] = f"{workload.name}-{number}"
        if node:
            pod["spec"]["nodeName"] = node
        yield pod


def _template(workload: ScenarioWorkload) -> Object:
    metadata: Object = {"labels": _labels(workload)}
    if workload.annotations:
        metadata["annotations"] = dict(workload.annotations)
    return {"metadata": metadata, "spec": _pod_spec(workload)}


def _pod_spec(workload: ScenarioWorkload) -> Object:
    requests = {"cpu": workload.cpu, "memory": workload.memory}
    container: Object = {
        "name": workload.name,
        "image": workload.image or f"example.com/{workload.name}:1.0",
        "resources": {"requests": {name: amount for name, amount in requests.items() if amount is not None}},
    }
    if workload.claims:
        container["volumeMounts"] = [
            {"name": claim.name, "mountPath": f"/{claim.name}"} for claim in workload.claims
        ]
    spec: Object = {"containers": [container]}
    if workload.kind in ("Job", "CronJob"):
        spec["restartPolicy"] = "OnFailure"
    if workload.claims and workload.kind != "StatefulSet":
        spec["volumes"] = [
            {"name": claim.name, "persistentVolumeClaim": {"claimName": f"{workload.name}-{claim.name}"}}
            for claim in workload.claims
        ]
    return strategic_merge(spec, dict(workload.pod), _POD_SPEC)


def _service(workload: ScenarioWorkload) -> Object:
    spec: Object = {
        "selector": {"app": workload.name},
        "ports": [{"port": workload.service, "targetPort": workload.service}],
    }
    if workload.kind == "StatefulSet":
        spec["clusterIP"] = "None"
    return _object(workload, "v1", "Service", spec=spec)


def _budget(workload: ScenarioWorkload) -> Object:
    assert workload.budget is not None
    budget = workload.budget.model_dump(by_alias=True, exclude_none=True)
    spec = {**budget, "selector": {"matchLabels": {"app": workload.name}}}
    return _object(workload, "policy/v1", "PodDisruptionBudget", spec=spec)


def _claim_object(workload: ScenarioWorkload, claim: ScenarioClaim) -> Object:
    made = _object(workload, "v1", "PersistentVolumeClaim", spec=_claim_spec(claim))
    made["metadata"]["name"] = f"{workload.name}-{claim.name}"
    return made


def _claim_spec(claim: ScenarioClaim) -> Object:
    return {
        "accessModes": [claim.access_mode],
        "resources": {"requests": {"storage": claim.size}},
        "storageClassName": claim.storage_class,
    }


def storage_class() -> Object:
    """Return the default storage class, which provisions a volume in the zone of its first pod."""
    return {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "StorageClass",
        "metadata": {
            "name": STANDARD,
            "annotations": {"storageclass.kubernetes.io/is-default-class": "true"},
        },
        "provisioner": "simulated.csi.example.com",
        "volumeBindingMode": "WaitForFirstConsumer",
    }


def _object(workload: ScenarioWorkload, api_version: str, kind: str, **parts: Any) -> Object:
    metadata = {"name": workload.name, "namespace": workload.namespace, "labels": _labels(workload)}
    return {"apiVersion": api_version, "kind": kind, "metadata": metadata, **parts}


def _labels(workload: ScenarioWorkload) -> dict[str, str]:
    return {**workload.labels, "app": workload.name}
