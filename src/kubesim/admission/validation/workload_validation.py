"""Validation of Deployments, ReplicaSets, StatefulSets and DaemonSets, and of the statuses of workloads."""

from collections.abc import Callable, Iterator

from kubesim.admission import field_errors, name_syntax
from kubesim.admission.validation.metadata_validation import (
    as_number,
    check_at_most_all,
    check_count_or_percent,
    check_not_negative,
    check_selector,
    selector_of,
)
from kubesim.admission.validation.pod_validation import check_template
from kubesim.admission.validation.storage_validation import check_claim_spec
from kubesim.apiserver.api_messages import Object
from kubesim.apiserver.status_errors import FieldError

__all__ = [
    "STATUS_RULES",
    "check_daemon_set",
    "check_deployment",
    "check_replica_set",
    "check_replication_controller",
    "check_selected_template",
    "check_stateful_set",
]


def check_deployment(new: Object, old: Object | None) -> Iterator[FieldError]:
    spec = new["spec"]
    yield from check_not_negative(spec, ["replicas"], "spec")
    yield from _check_replicated(spec, "deployment")
    yield from _check_deployment_strategy(spec.get("strategy", {}), "spec.strategy")
    yield from check_not_negative(
        spec, ["minReadySeconds", "revisionHistoryLimit", "progressDeadlineSeconds"], "spec"
    )
    deadline = spec.get("progressDeadlineSeconds", 600)
    if deadline <= spec.get("minReadySeconds", 0):
        yield field_errors.invalid(
            "spec.progressDeadlineSeconds", deadline, "must be greater than minReadySeconds"
        )
    yield from _check_unchanged(new, old, ["selector"])


def check_replica_set(new: Object, old: Object | None) -> Iterator[FieldError]:
    yield from check_not_negative(new["spec"], ["replicas", "minReadySeconds"], "spec")
    yield from _check_replicated(new["spec"], "deployment")  # the real message says so, too
    yield from _check_unchanged(new, old, ["selector"])


def check_replication_controller(new: Object, _: Object | None) -> Iterator[FieldError]:
    spec = new["spec"]
    yield from check_not_negative(spec, ["minReadySeconds", "replicas"], "spec")
    labels = spec["template"].get("metadata", {}).get("labels", {})
    if not spec.get("selector"):
        yield field_errors.required("spec.selector")
    elif not spec["selector"].items() <= labels.items():
        yield field_errors.invalid("spec.template.metadata.labels", labels, _MISMATCH)
    yield from check_template(spec["template"], "spec.template")
    yield from _check_runs_forever(spec["template"], "ReplicationController")


def check_stateful_set(new: Object, old: Object | None) -> Iterator[FieldError]:
    spec = new["spec"]
    policy = spec.get("podManagementPolicy", "")
    if policy not in ("OrderedReady", "Parallel"):
        yield field_errors.invalid("spec.podManagementPolicy", policy, "must be 'OrderedReady' or 'Parallel'")
    yield from _check_stateful_strategy(spec.get("updateStrategy", {}), "spec.updateStrategy")
    for index, claim in enumerate(spec.get("volumeClaimTemplates", ())):
        yield from check_claim_spec(claim.get("spec", {}), f"spec.volumeClaimTemplates[{index}].spec")
    yield from check_not_negative(spec, ["replicas", "minReadySeconds"], "spec")
    for complaint in name_syntax.dns_label(spec["serviceName"]) if spec.get("serviceName") else ():
        yield field_errors.invalid("spec.serviceName", spec["serviceName"], complaint)
    yield from _check_selector_given(spec, "statefulset")
    yield from check_selected_template(_with_claimed_volumes(spec), "spec")
    yield from _check_runs_forever(spec["template"], "StatefulSet")
    yield from _check_unchanged(
        new, old, ["selector", "volumeClaimTemplates", "serviceName", "podManagementPolicy"]
    )


def check_daemon_set(new: Object, old: Object | None) -> Iterator[FieldError]:
    spec = new["spec"]
    yield from check_selector(spec.get("selector", {}), "spec.selector")
    yield from _check_labels_match(spec, "spec.template")
    if "selector" in spec and not any(spec["selector"].values()):
        yield field_errors.invalid(
            "spec.selector", spec["selector"], "empty selector is invalid for daemonset"
        )
    yield from check_template(spec["template"], "spec.template")
    yield from _check_runs_forever(spec["template"], "DaemonSet")
    yield from check_not_negative(spec, ["minReadySeconds"], "spec")
    yield from _check_daemon_strategy(spec.get("updateStrategy", {}), "spec.updateStrategy")
    yield from check_not_negative(spec, ["revisionHistoryLimit"], "spec")
    yield from _check_unchanged(new, old, ["selector"])


_MISMATCH = "`selector` does not match template `labels`"


def _check_replicated(spec: Object, owner: str) -> Iterator[FieldError]:
    yield from _check_selector_given(spec, owner)
    yield from check_selected_template(spec, "spec")
    yield from _check_runs_forever(spec["template"], "ReplicaSet")


def _check_selector_given(spec: Object, owner: str) -> Iterator[FieldError]:
    if "selector" not in spec:
        yield field_errors.required("spec.selector")
        return
    yield from check_selector(spec["selector"], "spec.selector")
    if not any(spec["selector"].values()):
        yield field_errors.invalid(
            "spec.selector", spec["selector"], f"empty selector is invalid for {owner}"
        )


def check_selected_template(spec: Object, path: str) -> Iterator[FieldError]:
    """Check that a workload selects its own pods; otherwise it would create more and more of them."""
    if "selector" in spec and selector_of(spec["selector"]) is None:
        yield field_errors.invalid(f"{path}.selector", spec["selector"], "invalid label selector")
        return
    if "selector" not in spec or any(spec["selector"].values()):
        yield from _check_labels_match(spec, f"{path}.template")
    yield from check_template(spec["template"], f"{path}.template")


def _check_labels_match(spec: Object, path: str) -> Iterator[FieldError]:
    labels = spec["template"].get("metadata", {}).get("labels")
    selector = selector_of(spec["selector"]) if "selector" in spec else None
    if "selector" not in spec or (selector is not None and not selector.matches(labels or {})):
        yield field_errors.invalid(f"{path}.metadata.labels", labels, _MISMATCH)


def _check_runs_forever(template: Object, owner: str) -> Iterator[FieldError]:
    spec = template.get("spec", {})
    if spec.get("restartPolicy") != "Always":
        yield field_errors.not_supported(
            "spec.template.spec.restartPolicy", spec.get("restartPolicy", ""), ["Always"]
        )
    if "activeDeadlineSeconds" in spec:
        detail = f"activeDeadlineSeconds in {owner} is not Supported"
        yield field_errors.forbidden("spec.template.spec.activeDeadlineSeconds", detail)


def _check_deployment_strategy(strategy: Object, path: str) -> Iterator[FieldError]:
    if strategy.get("type") == "Recreate":
        if "rollingUpdate" in strategy:
            detail = "may not be specified when strategy `type` is 'Recreate'"
            yield field_errors.forbidden(f"{path}.rollingUpdate", detail)
        return
    if strategy.get("type") != "RollingUpdate":
        yield field_errors.not_supported(path, strategy, ("Recreate", "RollingUpdate"))
        return
    rolling, here = strategy.get("rollingUpdate", {}), f"{path}.rollingUpdate"
    unavailable, surge = rolling.get("maxUnavailable", 0), rolling.get("maxSurge", 0)
    yield from check_count_or_percent(unavailable, f"{here}.maxUnavailable")
    yield from check_count_or_percent(surge, f"{here}.maxSurge")
    if as_number(unavailable) == 0 and as_number(surge) == 0:
        yield field_errors.invalid(f"{here}.maxUnavailable", unavailable, "may not be 0 when `maxSurge` is 0")
    yield from check_at_most_all(unavailable, f"{here}.maxUnavailable")


def _check_daemon_strategy(strategy: Object, path: str) -> Iterator[FieldError]:
    if strategy.get("type") == "OnDelete":
        return
    if strategy.get("type") != "RollingUpdate":
        yield field_errors.not_supported(path, strategy, ("RollingUpdate", "OnDelete"))
        return
    rolling, here = strategy.get("rollingUpdate", {}), f"{path}.rollingUpdate"
    unavailable, surge = rolling.get("maxUnavailable", 0), rolling.get("maxSurge", 0)
    for check in (check_count_or_percent, check_at_most_all):
        yield from check(unavailable, f"{here}.maxUnavailable")
        yield from check(surge, f"{here}.maxSurge")
    if as_number(unavailable) and as_number(surge):
        yield field_errors.invalid(
            f"{here}.maxSurge", surge, "may not be set when maxUnavailable is non-zero"
        )
    elif not as_number(unavailable) and not as_number(surge):
        yield field_errors.required(f"{here}.maxUnavailable", "cannot be 0 when maxSurge is 0")


def _check_stateful_strategy(strategy: Object, path: str) -> Iterator[FieldError]:
    kind, rolling = strategy.get("type", ""), strategy.get("rollingUpdate")
    if kind == "RollingUpdate":
        rolling = rolling or {}
        yield from check_not_negative(rolling, ["partition"], f"{path}.rollingUpdate")
        unavailable = rolling.get("maxUnavailable", 1)
        here = f"{path}.rollingUpdate.maxUnavailable"
        yield from check_count_or_percent(unavailable, here)
        if as_number(unavailable) == 0:
            yield field_errors.invalid(here, unavailable, "cannot be 0")
        yield from check_at_most_all(unavailable, here)
    elif kind != "OnDelete":
        yield field_errors.invalid(path, strategy, "must be 'RollingUpdate' or 'OnDelete'")
    elif rolling is not None:
        detail = "only allowed for updateStrategy 'RollingUpdate'"
        yield field_errors.invalid(f"{path}.rollingUpdate", rolling, detail)


def _with_claimed_volumes(spec: Object) -> Object:
    """Return the template with a volume for each claim, which the controller will add."""
    claims = [claim.get("metadata", {}).get("name", "") for claim in spec.get("volumeClaimTemplates", ())]
    pod_spec = spec["template"].get("spec", {})
    own = [volume for volume in pod_spec.get("volumes", ()) if volume.get("name") not in claims]
    claimed = [{"name": name, "persistentVolumeClaim": {"claimName": name}} for name in claims if name]
    set_later = {field: value for field, value in pod_spec.items() if field not in ("hostname", "subdomain")}
    return spec | {"template": spec["template"] | {"spec": set_later | {"volumes": [*claimed, *own]}}}


def _check_unchanged(new: Object, old: Object | None, fields: list[str]) -> Iterator[FieldError]:
    for field in fields:
        if old is not None and new["spec"].get(field) != old["spec"].get(field):
            yield field_errors.immutable(f"spec.{field}", new["spec"].get(field))


_OF_BUDGETS = ("disruptionsAllowed", "currentHealthy", "desiredHealthy", "expectedPods")


def _check_budget(status: Object) -> Iterator[FieldError]:
    yield from check_not_negative(status, _OF_BUDGETS, "status")


def _check_deployment(status: Object) -> Iterator[FieldError]:
    yield from check_not_negative(status, ["observedGeneration"], "status")
    yield from _check_counts(status, "updatedReplicas", "readyReplicas", "availableReplicas")
    yield from check_not_negative(status, ["unavailableReplicas", "collisionCount"], "status")


def _check_replica_set(status: Object) -> Iterator[FieldError]:
    yield from _check_counts(status, "fullyLabeledReplicas", "readyReplicas", "availableReplicas")


def _check_stateful_set(status: Object) -> Iterator[FieldError]:
    counted = ("readyReplicas", "currentReplicas", "updatedReplicas", "availableReplicas")
    yield from _check_counts(status, *counted)


def _check_counts(status: Object, *parts: str) -> Iterator[FieldError]:
    """Check that each count is at most the number of replicas."""
    yield from check_not_negative(status, ["replicas", *parts], "status")
    for part in parts:
        if status.get(part, 0) > status.get("replicas", 0):
            yield field_errors.invalid(
                f"status.{part}", status.get(part, 0), "cannot be greater than status.replicas"
            )
    available = status.get("availableReplicas", 0)
    if available > status.get("readyReplicas", 0):
        yield field_errors.invalid(
            "status.availableReplicas", available, "cannot be greater than readyReplicas"
        )


STATUS_RULES: dict[str, Callable[[Object], Iterator[FieldError]]] = {
    "Deployment.apps": _check_deployment,
    "PodDisruptionBudget.policy": _check_budget,
    "ReplicaSet.apps": _check_replica_set,
    "StatefulSet.apps": _check_stateful_set,
}
