"""The subresources `binding`, `ephemeralcontainers`, `resize` and `log` of pods."""

from collections.abc import Callable

from kubesim.admission.pod_defaults import TOPOLOGY_LABELS
from kubesim.apiserver.api_messages import (
    Object,
    ServerRequest,
    ServerResponse,
    bytes_response,
    decode,
    object_response,
)
from kubesim.apiserver.api_verbs import body_object
from kubesim.apiserver.object_store import StoredObject
from kubesim.apiserver.request_route import RequestRoute
from kubesim.apiserver.simulated_cluster import SimulatedCluster
from kubesim.apiserver.status_errors import StatusError, bad_request
from kubesim.apiserver.write_options import Preconditions, WriteOptions, check_preconditions
from kubesim.common_fields import set_pod_condition
from kubesim.patches.patch_request import PatchRequest

__all__ = [
    "bind",
    "bound",
    "get_pod",
    "patch_ephemeral",
    "patch_resources",
    "read_log",
    "replace_ephemeral",
    "replace_resources",
]


async def bind(cluster: SimulatedCluster, request: ServerRequest, route: RequestRoute) -> ServerResponse:
    binding = body_object(request)
    metadata, target = binding.get("metadata") or {}, binding.get("target") or {}
    if metadata.get("name") != route.name:
        raise bad_request("name in URL does not match name in Binding object")
    if not target.get("name"):
        raise StatusError(500, "", "target.name: Required value", details={})
    options = WriteOptions.parse(request)
    record = cluster.expect(route.kind, route.namespace, route.name)
    check_preconditions(route.kind, record, Preconditions.parse(metadata))
    pod = bound(cluster, record, metadata, target["name"])
    if not options.dry_run:
        cluster.store.put(route.kind, pod)
    return object_response(201, success())


def success() -> Object:
    return {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201}


def bound(cluster: SimulatedCluster, record: StoredObject, metadata: Object, node: str) -> Object:
    """Return the pod with its node and the metadata of the binding."""
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


def _topology(cluster: SimulatedCluster, node: str) -> dict[str, str]:
    """Return the topology labels that a pod gets from its node."""
    record = cluster.store.find(cluster.kind("v1", "Node"), "", node)
    labels = record.labels if record is not None else {}
    return {name: labels[name] for name in TOPOLOGY_LABELS if name in labels}


def _refused(name: str, why: str) -> StatusError:
    return StatusError(
        409,
        "Conflict",
        f'Operation cannot be fulfilled on pods/binding "{name}": {why}',
        details={"name": name, "kind": "pods/binding"},
    )


Transform = Callable[[Object | None], Object]


async def get_pod(cluster: SimulatedCluster, request: ServerRequest, route: RequestRoute) -> ServerResponse:  # noqa: ARG001 - one signature for all
    return _shown(route, cluster.expect(route.kind, route.namespace, route.name).raw)


async def replace_ephemeral(
    cluster: SimulatedCluster, request: ServerRequest, route: RequestRoute
) -> ServerResponse:
    content = body_object(request)
    return await _change(cluster, request, route, lambda _: content, _take_ephemeral)


async def patch_ephemeral(
    cluster: SimulatedCluster, request: ServerRequest, route: RequestRoute
) -> ServerResponse:
    return await _change(cluster, request, route, _patch(cluster, request, route), _take_ephemeral)


async def replace_resources(
    cluster: SimulatedCluster, request: ServerRequest, route: RequestRoute
) -> ServerResponse:
    content = body_object(request)
    return await _change(cluster, request, route, lambda _: content, _take_resources)


async def patch_resources(
    cluster: SimulatedCluster, request: ServerRequest, route: RequestRoute
) -> ServerResponse:
    return await _change(cluster, request, route, _patch(cluster, request, route), _take_resources)


def _patch(cluster: SimulatedCluster, request: ServerRequest, route: RequestRoute) -> PatchRequest:
    options = WriteOptions.parse(request, kind="PatchOptions")
    return PatchRequest(route.kind, route.name, request, options, cluster.clock.now())


async def _change(
    cluster: SimulatedCluster,
    request: ServerRequest,
    route: RequestRoute,
    transform: Transform,
    take: Callable[[Object, Object], Object],
) -> ServerResponse:
    def only_that(live: Object | None) -> Object:
        assert live is not None
        wanted = transform(live)
        changed = {**live, "spec": take(live["spec"], wanted.get("spec") or {})}
        version = (wanted.get("metadata") or {}).get("resourceVersion")
        if version:
            changed["metadata"] = {**live["metadata"], "resourceVersion": version}
        return changed

    options = WriteOptions.parse(request, kind="UpdateOptions")
    raw, _ = await cluster.writer.change(
        route.kind, route.namespace, route.name, only_that, options, subresource=route.subresource
    )
    return _shown(route, raw)


def _take_ephemeral(spec: Object, wanted: Object) -> Object:
    return {**spec, "ephemeralContainers": wanted.get("ephemeralContainers") or []}


def _take_resources(spec: Object, wanted: Object) -> Object:
    asked = {
        container.get("name"): container.get("resources") for container in wanted.get("containers") or ()
    }
    containers = [
        {**container, "resources": asked[container["name"]]} if asked.get(container["name"]) else container
        for container in spec["containers"]
    ]
    return {**spec, "containers": containers}


def _shown(route: RequestRoute, raw: bytes) -> ServerResponse:
    return object_response(
        200, {"kind": route.kind.name, "apiVersion": route.kind.api_version, **decode(raw)}
    )


async def read_log(cluster: SimulatedCluster, request: ServerRequest, route: RequestRoute) -> ServerResponse:
    pod = cluster.expect(route.kind, route.namespace, route.name).object
    containers = [container["name"] for container in pod["spec"].get("containers", ())]
    wanted = request.query.get("container") or containers[0]
    if wanted not in containers:
        raise bad_request(f"container {wanted} is not valid for pod {route.name}")
    if not pod["spec"].get("nodeName"):
        return bytes_response(200, b"", "text/plain")
    text = f"{wanted} of {route.namespace}/{route.name} is simulated and has no log\n"
    return bytes_response(200, text.encode(), "text/plain")
