"""`pods/eviction`: delete a pod if its disruption budgets allow it."""

from collections.abc import Iterator

from kubesim.apiserver.api_messages import Object, ServerRequest, ServerResponse, object_response
from kubesim.apiserver.api_verbs import body_object, warning_headers
from kubesim.apiserver.kind_registry import ResourceKind
from kubesim.apiserver.object_deletion import DeleteOptions
from kubesim.apiserver.object_store import StoredObject
from kubesim.apiserver.pod_subresources import success
from kubesim.apiserver.request_route import RequestRoute
from kubesim.apiserver.simulated_cluster import SimulatedCluster
from kubesim.apiserver.status_errors import StatusError, bad_request
from kubesim.apiserver.write_options import Preconditions, WriteOptions
from kubesim.common_fields import condition, format_timestamp, set_condition, set_pod_condition
from kubevalues import SelectorError, selector_from_object

__all__ = ["evict"]

_EVICTION = ResourceKind(group="policy", version="v1", name="Eviction", plural="evictions")
_MOST_UNCONFIRMED = 2000
_WOULD_VIOLATE = "Cannot evict pod as it would violate the pod's disruption budget."
_TOO_MANY_BUDGETS = (
    "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support."
)


async def evict(cluster: SimulatedCluster, request: ServerRequest, route: RequestRoute) -> ServerResponse:
    eviction = body_object(request)
    _expect_eviction(eviction, route)
    options = DeleteOptions.parse(request.query, eviction.get("deleteOptions"))
    writing = WriteOptions.parse(request, kind="CreateOptions")
    # Admission comes before the budgets, as in the real server. Only validating webhooks are called.
    metadata = {**(eviction.get("metadata") or {}), "namespace": route.namespace}
    reviewed = {**eviction, "metadata": metadata}
    await cluster.admission.webhooks.review_subresource(route.kind, "eviction", reviewed, _EVICTION, writing)
    record = cluster.expect(route.kind, route.namespace, route.name)
    pod = record.object
    if not _needs_no_budget(pod):
        _check_budgets(cluster, record, pod, dry_run=options.dry_run)
    _delete(cluster, route, options)
    return object_response(201, success(), warning_headers(writing.warnings))


def _expect_eviction(content: Object, route: RequestRoute) -> None:
    kind, version = content.get("kind", "Eviction"), str(content.get("apiVersion", "policy/v1"))
    if kind != "Eviction":
        raise bad_request(
            f'{kind} in version "{version.rpartition("/")[2]}" cannot be handled as a Eviction: '
            f"converting ({version}.{kind}) to (Eviction): unknown conversion"
        )
    metadata = content.get("metadata") or {}
    if metadata.get("name") != route.name:
        raise bad_request("name in URL does not match name in Eviction object")
    if metadata.get("namespace", route.namespace) != route.namespace:
        raise bad_request(
            "the namespace of the provided object does not match the namespace sent on the request"
        )


def _needs_no_budget(pod: Object) -> bool:
    """Return whether the pod does not serve yet or any more, so that its eviction disrupts nothing."""
    phase = pod.get("status", {}).get("phase")
    return phase in {"Succeeded", "Failed", "Pending"} or "deletionTimestamp" in pod["metadata"]


def _check_budgets(cluster: SimulatedCluster, record: StoredObject, pod: Object, *, dry_run: bool) -> None:
    budgets = list(_budgets_of(cluster, record))
    if not budgets:
        return
    if len(budgets) > 1:
        raise StatusError(500, "", _TOO_MANY_BUDGETS)
    budget = budgets[0].object
    if not _is_ready(pod) and _lets_unhealthy_go(budget):
        return
    _check(budget)
    if not dry_run:
        _use_disruption(cluster, budget, record.name)


def _budgets_of(cluster: SimulatedCluster, record: StoredObject) -> Iterator[StoredObject]:
    collection = cluster.store.collection(cluster.kind("policy/v1", "PodDisruptionBudget"))
    for budget in collection.ordered(record.namespace):
        try:
            selector = selector_from_object(budget.object.get("spec", {}).get("selector"))
        except SelectorError:  # a selector that can't be read selects nothing
            continue
        if selector.matches(record.labels):
            yield budget


def _is_ready(pod: Object) -> bool:
    ready = condition(pod.get("status", {}), "Ready")
    return ready is not None and ready.get("status") == "True"


def _lets_unhealthy_go(budget: Object) -> bool:
    if budget["spec"].get("unhealthyPodEvictionPolicy") == "AlwaysAllow":
        return True
    status = budget.get("status", {})
    desired = status.get("desiredHealthy", 0)
    return bool(status.get("currentHealthy", 0) >= desired > 0)


def _check(budget: Object) -> None:
    name, status = budget["metadata"]["name"], budget.get("status", {})
    allowed = status.get("disruptionsAllowed", 0)
    if status.get("observedGeneration", 0) < budget["metadata"].get("generation", 0):
        message = f"The disruption budget {name} is still being processed by the server."
        raise _refused(message, retry_after_s=10)
    if allowed < 0:
        raise _forbidden(name, "pdb disruptions allowed is negative", "pdb disruptions allowed is negative")
    if len(status.get("disruptedPods") or ()) > _MOST_UNCONFIRMED:
        raise _forbidden(
            name,
            "DisruptedPods map too big - too many evictions not confirmed by PDB controller",
            "too many pending evictions not confirmed by PDB controller",
        )
    if allowed == 0:
        raise _refused(_why_none(name, status))


def _why_none(name: str, status: Object) -> str:
    allowed = condition(status, "DisruptionAllowed") or {}
    message = allowed.get("message") if allowed.get("status") == "False" else ""
    desired, current = status.get("desiredHealthy", 0), status.get("currentHealthy", 0)
    does_not_allow = f"The disruption budget {name} does not allow evicting pods currently"
    if message and allowed.get("reason") == "SyncFailed":
        return f"{does_not_allow} because it failed sync: {message}"
    if current <= desired:
        return f"The disruption budget {name} needs {desired} healthy pods and has {current} currently"
    return f"{does_not_allow} ({allowed.get('reason', '')}): {message}" if message else does_not_allow


def _use_disruption(cluster: SimulatedCluster, budget: Object, pod_name: str) -> None:
    """Use up one allowed disruption, and record the pod for the disruption controller."""
    now = cluster.clock.now()
    status = budget["status"]
    status["disruptionsAllowed"] -= 1
    status["disruptedPods"] = {**(status.get("disruptedPods") or {}), pod_name: format_timestamp(now)}
    if status["disruptionsAllowed"] == 0:
        set_condition(status, "DisruptionAllowed", "False", now=now, reason="InsufficientPods")
    cluster.store.put(cluster.kind("policy/v1", "PodDisruptionBudget"), budget)


def _delete(cluster: SimulatedCluster, route: RequestRoute, options: DeleteOptions) -> None:
    record = cluster.expect(route.kind, route.namespace, route.name)
    cluster.deletion.check(route.kind, record, options.preconditions)
    if not options.dry_run:
        pod = record.object
        set_pod_condition(
            pod.setdefault("status", {}),
            "DisruptionTarget",
            "True",
            now=cluster.clock.now(),
            reason="EvictionByEvictionAPI",
            message="Eviction API: evicting",
        )
        record = cluster.store.put(route.kind, pod)
    wanted = Preconditions(uid=options.preconditions.uid)
    without_version = DeleteOptions(options.grace_s, options.policy, wanted, options.dry_run)
    cluster.deletion.delete(route.kind, route.namespace, route.name, without_version)


def _refused(message: str, *, retry_after_s: int = 0) -> StatusError:
    details: Object = {"causes": [{"reason": "DisruptionBudget", "message": message}]}
    headers = {}
    if retry_after_s:
        details["retryAfterSeconds"] = retry_after_s
        headers["retry-after"] = str(retry_after_s)
    return StatusError(429, "TooManyRequests", _WOULD_VIOLATE, details=details, headers=headers)


def _forbidden(name: str, why: str, cause: str) -> StatusError:
    message = f"The disruption budget {name} does not allow evicting pods currently: {cause}"
    return StatusError(
        403,
        "Forbidden",
        f'poddisruptionbudget.policy "{name}" is forbidden: {why}',
        details={
            "name": name,
            "group": "policy",
            "kind": "poddisruptionbudget",
            "causes": [{"reason": "DisruptionBudget", "message": message}],
        },
    )
