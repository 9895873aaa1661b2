"""`…/scale`: the number of replicas, the same for every kind that has one."""

from typing import Any

from rescheduler.model.selectors import SelectorError, selector_from_labels, selector_from_object
from rescheduler.simulator.cluster import Cluster
from rescheduler.simulator.custom.schema import ScalePaths
from rescheduler.simulator.exchange import Answer, Object, Question, answer_object, decode
from rescheduler.simulator.failures import Cause, Failure, bad_request, internal_error, invalid
from rescheduler.simulator.kinds import Kind
from rescheduler.simulator.objections import check_preconditions
from rescheduler.simulator.options import Preconditions, WriteOptions
from rescheduler.simulator.patching import Patch
from rescheduler.simulator.routing import Route
from rescheduler.simulator.verbs import body_object

__all__ = ["get", "patch", "replace"]

_SCALE = Kind(group="autoscaling", version="v1", name="Scale", plural="scales", must_name_version=False)


async def get(cluster: Cluster, question: Question, route: Route) -> Answer:  # noqa: ARG001 - one signature for all
    record = cluster.expect(route.kind, route.namespace, route.name)
    return answer_object(200, _scale_of(route.kind, record.object, _paths(cluster, route.kind)))


async def replace(cluster: Cluster, question: Question, route: Route) -> Answer:
    wanted = body_object(question)
    return await _change(cluster, question, route, lambda _: wanted)


async def patch(cluster: Cluster, question: Question, route: Route) -> Answer:
    options = WriteOptions.parse(question, kind="PatchOptions")
    change = Patch(_SCALE, route.name, question, options, cluster.clock.now())
    return await _change(cluster, question, route, change)


async def _change(cluster: Cluster, question: Question, route: Route, change: Any) -> Answer:
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
            raise invalid(_SCALE, route.name, [Cause("spec.replicas", "FieldValueInvalid", message)])
        metadata = wanted.get("metadata") or {}
        record = cluster.expect(route.kind, route.namespace, route.name)
        check_preconditions(route.kind, record, Preconditions(uid=metadata.get("uid") or None))
        changed = _with(live, paths.replicas, replicas)
        changed["metadata"] = {**live["metadata"]}
        changed["metadata"]["resourceVersion"] = (
            metadata.get("resourceVersion") or live["metadata"]["resourceVersion"]
        )
        return changed

    options = WriteOptions.parse(question, kind="UpdateOptions")
    raw, _ = await cluster.writer.change(route.kind, route.namespace, route.name, scaled, options)
    return answer_object(200, _scale_of(route.kind, decode(raw), paths))


def _paths(cluster: Cluster, kind: Kind) -> ScalePaths:
    return cluster.admission.scale_paths(kind)


def _scale_of(kind: Kind, content: Object, paths: ScalePaths) -> Object:
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


def _without_replicas(path: str) -> Failure:
    why = f'the spec replicas field "{path}" does not exist'
    failure = internal_error(why)
    failure.details = {"causes": [{"message": why}]}
    return failure


def _selector(kind: Kind, content: Object, paths: ScalePaths) -> str:
    if kind.custom:
        return str(_at(content, paths.selector) or "") if paths.selector else ""
    selector = content.get("spec", {}).get("selector")
    try:
        if kind.name == "ReplicationController":
            return str(selector_from_labels(selector))
        return str(selector_from_object(selector))
    except SelectorError as error:
        raise Failure(400, "BadRequest", str(error)) from error


def _at(content: Any, path: str) -> Any:
    for step in filter(None, path.split(".")):
        content = content.get(step) if isinstance(content, dict) else None
    return content


def _with(content: Object, path: str, value: Any) -> Object:
    first, _, rest = path.lstrip(".").partition(".")
    return {**content, first: _with(content.get(first) or {}, rest, value) if rest else value}
