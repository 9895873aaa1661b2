"""The admission plugins LimitRanger, for new pods only, and Priority."""

from collections.abc import Iterable, Iterator, Mapping

from kubesim.admission.admission_lookup import DefaultingContext
from kubesim.apiserver.api_messages import Object
from kubesim.apiserver.status_errors import forbidden
from kubevalues.quantity import Quantity, quantity_of

__all__ = ["SYSTEM_CLASSES", "default_class", "fill_limits", "fill_priority", "objections"]

_ANNOTATION = "kubernetes.io/limit-ranger"
_LISTS = (("containers", "container"), ("initContainers", "init container"))

Amounts = Mapping[str, object]


def fill_limits(pod: Object, limit_ranges: Iterable[Object]) -> bool:
    """Set absent requests and limits of containers, and return whether any was set."""
    changed = False
    for limit_range in limit_ranges:
        changes = [
            words
            for field, called in _LISTS
            for container in pod["spec"].get(field) or ()
            for words in _fill(container, called, limit_range)
        ]
        if changes:
            annotations = pod["metadata"].setdefault("annotations", {})
            annotations[_ANNOTATION] = f"LimitRanger plugin set: {'; '.join(changes)}"
            changed = True
    return changed


def _fill(container: Object, called: str, limit_range: Object) -> Iterator[str]:
    """Set absent values of one container, and return the changes in the words of the annotation."""
    resources = container.setdefault("resources", {})
    for side, source in (("requests", "defaultRequest"), ("limits", "default")):
        wanted: Object = {}
        for limit in _limits(limit_range, "Container"):
            wanted |= limit.get(source) or {}
        missing = {name: amount for name, amount in wanted.items() if name not in resources.get(side, {})}
        if missing:
            resources[side] = {**resources.get(side, {}), **missing}
            yield f"{', '.join(sorted(missing))} {side[:-1]} for {called} {container['name']}"


def objections(pod: Object, limit_ranges: Iterable[Object]) -> str:
    """Return why the first violated LimitRange rejects the pod."""
    for limit_range in limit_ranges:
        found = [*_against_containers(pod, limit_range), *_against_pod(pod, limit_range)]
        if len(found) > 1:
            return f"[{', '.join(found)}]"
        if found:
            return found[0]
    return ""


def _against_containers(pod: Object, limit_range: Object) -> Iterator[str]:
    for limit in _limits(limit_range, "Container"):
        for field, _ in _LISTS:
            for container in pod["spec"].get(field) or ():
                resources = container.get("resources") or {}
                yield from _against(
                    "Container", limit, resources.get("requests") or {}, resources.get("limits") or {}
                )


def _against_pod(pod: Object, limit_range: Object) -> Iterator[str]:
    for limit in _limits(limit_range, "Pod"):
        yield from _against("Pod", limit, _total(pod, "requests"), _total(pod, "limits"))


def _against(type_: str, limit: Object, requests: Amounts, limits: Amounts) -> Iterator[str]:
    for name, least in sorted((limit.get("min") or {}).items()):
        bound = f"minimum {name} usage per {type_} is {least}"
        if name not in requests:
            yield f"{bound}.  No request is specified"
        elif quantity_of(requests[name]) < quantity_of(least):
            yield f"{bound}, but request is {requests[name]}"
        elif name in limits and quantity_of(limits[name]) < quantity_of(least):
            yield f"{bound}, but limit is {limits[name]}"
    for name, most in sorted((limit.get("max") or {}).items()):
        bound = f"maximum {name} usage per {type_} is {most}"
        if name not in limits:
            yield f"{bound}.  No limit is specified"
        elif quantity_of(limits[name]) > quantity_of(most):
            yield f"{bound}, but limit is {limits[name]}"
        elif name in requests and quantity_of(requests[name]) > quantity_of(most):
            yield f"{bound}, but request is {requests[name]}"
    for name, most in sorted((limit.get("maxLimitRequestRatio") or {}).items()):
        yield from _against_ratio(f"{name} max limit to request ratio per {type_} is {most}", most, *(
            quantity_of(side.get(name, "0")) for side in (requests, limits)
        ))  # fmt: skip


def _against_ratio(bound: str, most: object, request: Quantity, limit: Quantity) -> Iterator[str]:
    if not request:
        yield f"{bound}, but no request is specified or request is 0"
    elif not limit:
        yield f"{bound}, but no limit is specified or limit is 0"
    elif limit.nanos * 1000 > quantity_of(most).millis * request.nanos:
        yield f"{bound}, but provided ratio is {limit.nanos / request.nanos:f}"


def _limits(limit_range: Object, type_: str) -> list[Object]:
    return [each for each in limit_range["spec"].get("limits") or () if each.get("type") == type_]


def _total(pod: Object, side: str) -> dict[str, str]:
    """Return the sum of all containers, or the largest init container if that is more."""
    total: dict[str, Quantity] = {}
    for container in pod["spec"].get("containers") or ():
        for name, amount in ((container.get("resources") or {}).get(side) or {}).items():
            total[name] = total.get(name, quantity_of("0")) + quantity_of(amount)
    for container in pod["spec"].get("initContainers") or ():
        for name, amount in ((container.get("resources") or {}).get(side) or {}).items():
            total[name] = max(total.get(name, quantity_of("0")), quantity_of(amount))
    return {name: str(amount) for name, amount in total.items()}


SYSTEM_CLASSES: dict[str, int] = {
    "system-cluster-critical": 2_000_000_000,
    "system-node-critical": 2_000_001_000,
}
"""The real server creates these two when it starts."""

_PREEMPTING = "PreemptLowerPriority"


def default_class(classes: Iterable[Object]) -> str:
    """Return the name of the global default class, or an empty string."""
    defaults = [each for each in classes if each.get("globalDefault")]
    least = min(defaults, key=lambda each: each.get("value", 0), default=None)
    return least["metadata"]["name"] if least is not None else ""


def fill_priority(pod: Object, about: DefaultingContext) -> None:
    spec = pod["spec"]
    if not about.creating:
        stored = about.stored(pod) or {}
        for field in ("priority", "preemptionPolicy"):
            if field not in spec and field in stored.get("spec", {}):
                spec[field] = stored["spec"][field]
        return
    priority, preemption = _class_of(pod, about)
    if spec.get("priority", priority) != priority:
        raise _refused(
            pod,
            about,
            f"the integer value of priority ({spec['priority']}) must not be provided in pod spec; "
            f"priority admission controller computed {priority} from the given PriorityClass name",
        )
    if spec.get("preemptionPolicy", preemption) != preemption:
        raise _refused(
            pod,
            about,
            f"the string value of PreemptionPolicy ({spec['preemptionPolicy']}) must not be provided in "
            f"pod spec; priority admission controller computed {preemption} from the given PriorityClass "
            "name",
        )
    spec["priority"] = priority
    spec["preemptionPolicy"] = preemption


def _class_of(pod: Object, about: DefaultingContext) -> tuple[int, str]:
    name = pod["spec"].get("priorityClassName", "")
    if not name:
        return 0, _PREEMPTING
    found = about.lookup("scheduling.k8s.io/v1", "PriorityClass", "", name)
    if found is not None:
        return found.get("value", 0), found.get("preemptionPolicy", _PREEMPTING)
    if name in SYSTEM_CLASSES:
        return SYSTEM_CLASSES[name], _PREEMPTING
    raise _refused(pod, about, f"no PriorityClass with name {name} was found")


def _refused(pod: Object, about: DefaultingContext, why: str) -> Exception:
    return forbidden(about.kind, pod["metadata"].get("name", ""), why)
