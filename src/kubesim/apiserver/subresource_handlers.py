"""Route subresources to their handlers, and handle `scale` and `namespaces/finalize`.

`status` is handled in `api_verbs`, because it shares the verbs of the object.
"""

from collections.abc import Awaitable, Callable
from typing import Any

from kubesim.apiserver import pod_eviction, pod_subresources
from kubesim.apiserver.api_messages import Object, ServerRequest, ServerResponse, decode, object_response
from kubesim.apiserver.api_verbs import body_object
from kubesim.apiserver.kind_registry import ResourceKind
from kubesim.apiserver.request_route import RequestRoute
from kubesim.apiserver.simulated_cluster import SimulatedCluster
from kubesim.apiserver.status_errors import FieldError, StatusError, bad_request, internal_error, invalid
from kubesim.apiserver.write_options import Preconditions, WriteOptions, check_preconditions
from kubesim.custom_resources.custom_schema import ScalePaths
from kubesim.patches.patch_request import PatchRequest
from kubevalues import SelectorError, selector_from_labels, selector_from_object

__all__ = ["HANDLERS", "SubresourceHandler", "finalize", "get_scale", "patch_scale", "replace_scale"]

_SCALE = ResourceKind(
    group="autoscaling", version="v1", name="Scale", plural="scales", must_name_version=False
)


async def get_scale(cluster: SimulatedCluster, request: ServerRequest, route: RequestRoute) -> ServerResponse:  # noqa: ARG001 - one signature for all
    record = cluster.expect(route.kind, route.namespace, route.name)
    return object_response(200, _scale_of(route.kind, record.object, _paths(cluster, route.kind)))


async def replace_scale(
    cluster: SimulatedCluster, request: ServerRequest, route: RequestRoute
) -> ServerResponse:
    wanted = body_object(request)
    return await _change(cluster, request, route, lambda _: wanted)


async def patch_scale(
    cluster: SimulatedCluster, request: ServerRequest, route: RequestRoute
) -> ServerResponse:
    options = WriteOptions.parse(request, kind="PatchOptions")
    change = PatchRequest(_SCALE, route.name, request, options, cluster.clock.now())
    return await _change(cluster, request, route, change)


async def _change(
    cluster: SimulatedCluster, request: ServerRequest, route: RequestRoute, change: Any
) -> ServerResponse:
    paths = _paths(cluster, route.kind)

    def scaled(live: Object | None) -> Object:
        assert live is not None
        wanted = change(_scale_of(route.kind, live, paths))
        replicas = (wanted.get("spec") or {}).get("replicas", 0)
        if not isinstance(replicas, int) or isinstance(replicas, bool):
            raise bad_request(
                'Scale in version "v1" cannot be handled as a Scale: spec.replicas is not a number'
            )
        if replicas < 0 and not route.kind.custom:
            message = f"Invalid value: {replicas}: must be greater than or equal to 0"
            raise invalid(_SCALE, route.name, [FieldError("spec.replicas", "FieldValueInvalid", message)])
        metadata = wanted.get("metadata") or {}
        record = cluster.expect(route.kind, route.namespace, route.name)
        check_preconditions(route.kind, record, Preconditions(uid=metadata.get("uid") or None))
        changed = _with(live, paths.replicas, replicas)
        changed["metadata"] = {**live["metadata"]}
        changed["metadata"]["resourceVersion"] = (
            metadata.get("resourceVersion") or live["metadata"]["resourceVersion"]
        )
        return changed

    options = WriteOptions.parse(request, kind="UpdateOptions")
    raw, _ = await cluster.writer.change(route.kind, route.namespace, route.name, scaled, options)
    return object_response(200, _scale_of(route.kind, decode(raw), paths))


def _paths(cluster: SimulatedCluster, kind: ResourceKind) -> ScalePaths:
    return cluster.admission.scale_paths(kind)


def _scale_of(kind: ResourceKind, content: Object, paths: ScalePaths) -> Object:
    metadata = content["metadata"]
    kept = ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")
    status: Object = {"replicas": _at(content, paths.status_replicas) or 0}
    selector = _selector(kind, content, paths)
    if selector:
        status["selector"] = selector
    replicas = _at(content, paths.replicas)
    if kind.custom and replicas is None:
        raise _without_replicas(paths.replicas)
    return {
        "kind": "Scale",
        "apiVersion": "autoscaling/v1",
        "metadata": {field: metadata[field] for field in kept if field in metadata},
        "spec": {"replicas": replicas} if replicas else {},
        "status": status,
    }


def _without_replicas(path: str) -> StatusError:
    why = f'the spec replicas field "{path}" does not exist'
    failure = internal_error(why)
    failure.details = {"causes": [{"message": why}]}
    return failure


def _selector(kind: ResourceKind, content: Object, paths: ScalePaths) -> str:
    if kind.custom:
        return str(_at(content, paths.selector) or "") if paths.selector else ""
    selector = content.get("spec", {}).get("selector")
    try:
        if kind.name == "ReplicationController":
            return str(selector_from_labels(selector))
        return str(selector_from_object(selector))
    except SelectorError as error:
        raise StatusError(400, "BadRequest", str(error)) from error


def _at(content: Any, path: str) -> Any:
    for step in filter(None, path.split(".")):
        content = content.get(step) if isinstance(content, dict) else None
    return content


def _with(content: Object, path: str, value: Any) -> Object:
    first, _, rest = path.lstrip(".").partition(".")
    return {**content, first: _with(content.get(first) or {}, rest, value) if rest else value}


async def finalize(cluster: SimulatedCluster, request: ServerRequest, route: RequestRoute) -> ServerResponse:
    wanted = body_object(request)

    def with_finalizers(live: Object | None) -> Object:
        assert live is not None
        return {
            **live,
            "spec": {**live.get("spec", {}), "finalizers": wanted.get("spec", {}).get("finalizers")},
        }

    options = WriteOptions.parse(request, kind="UpdateOptions")
    raw, _ = await cluster.writer.change(
        route.kind, "", route.name, with_finalizers, options, subresource="finalize"
    )
    return object_response(
        200, {"kind": route.kind.name, "apiVersion": route.kind.api_version, **decode(raw)}
    )


SubresourceHandler = Callable[[SimulatedCluster, ServerRequest, RequestRoute], Awaitable[ServerResponse]]

HANDLERS: dict[tuple[str, str], SubresourceHandler] = {
    ("POST", "binding"): pod_subresources.bind,
    ("POST", "eviction"): pod_eviction.evict,
    ("PUT", "finalize"): finalize,
    ("GET", "log"): pod_subresources.read_log,
    ("GET", "scale"): get_scale,
    ("PUT", "scale"): replace_scale,
    ("PATCH", "scale"): patch_scale,
    ("GET", "ephemeralcontainers"): pod_subresources.get_pod,
    ("PUT", "ephemeralcontainers"): pod_subresources.replace_ephemeral,
    ("PATCH", "ephemeralcontainers"): pod_subresources.patch_ephemeral,
    ("GET", "resize"): pod_subresources.get_pod,
    ("PUT", "resize"): pod_subresources.replace_resources,
    ("PATCH", "resize"): pod_subresources.patch_resources,
}
