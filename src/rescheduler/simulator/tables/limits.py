"""What bounds workloads: budgets, quotas, priorities and autoscalers."""

from datetime import datetime

from rescheduler.simulator.exchange import Object
from rescheduler.simulator.tables.ages import UNKNOWN, age
from rescheduler.simulator.tables.layout import AGE, NAME, Cell, Column, Layout, each
from rescheduler.simulator.tables.phrases import NONE, UNSET, first_few, name, spec, status

__all__ = ["HORIZONTAL_POD_AUTOSCALER", "POD_DISRUPTION_BUDGET", "PRIORITY_CLASS", "RESOURCE_QUOTA"]


def _budget_cells(budget: Object, now: datetime) -> list[Cell]:
    wanted = spec(budget)
    return [
        name(budget),
        str(wanted.get("minAvailable", "N/A")),
        str(wanted.get("maxUnavailable", "N/A")),
        status(budget).get("disruptionsAllowed", 0),
        age(budget, now),
    ]


POD_DISRUPTION_BUDGET = Layout(
    (
        NAME,
        Column("Min Available", description="Pods that must stay available."),
        Column("Max Unavailable", description="Pods that may be unavailable."),
        Column("Allowed Disruptions", "integer", "Pods that may be evicted now."),
        AGE,
    ),
    each(_budget_cells),
)


def _quota_cells(quota: Object, now: datetime) -> list[Cell]:
    hard, used = status(quota).get("hard") or {}, status(quota).get("used") or {}
    shown = {resource: f"{resource}: {used.get(resource, '0')}/{hard[resource]}" for resource in sorted(hard)}
    requests = [text for resource, text in shown.items() if not resource.startswith("limits.")]
    limits = [text for resource, text in shown.items() if resource.startswith("limits.")]
    return [name(quota), ", ".join(requests), ", ".join(limits), age(quota, now)]


RESOURCE_QUOTA = Layout(
    (
        NAME,
        Column("Request", description="Used and allowed requests and object counts."),
        Column("Limit", description="Used and allowed limits."),
        AGE,
    ),
    each(_quota_cells),
)


def _priority_class_cells(priority_class: Object, now: datetime) -> list[Cell]:
    return [
        name(priority_class),
        priority_class.get("value", 0),
        bool(priority_class.get("globalDefault")),
        age(priority_class, now),
        priority_class.get("preemptionPolicy", ""),
    ]


PRIORITY_CLASS = Layout(
    (
        NAME,
        Column("Value", "integer", "The higher, the more important."),
        Column("Global-Default", "boolean", "Whether pods without a class get it."),
        AGE,
        Column("PreemptionPolicy", description="Whether its pods push out others."),
    ),
    each(_priority_class_cells),
)


def _autoscaler_cells(autoscaler: Object, now: datetime) -> list[Cell]:
    wanted, told = spec(autoscaler), status(autoscaler)
    target = wanted.get("scaleTargetRef") or {}
    return [
        name(autoscaler),
        f"{target.get('kind', '')}/{target.get('name', '')}",
        _metrics(wanted.get("metrics") or [], told.get("currentMetrics") or []),
        str(wanted.get("minReplicas", UNSET)),
        wanted.get("maxReplicas", 0),
        told.get("currentReplicas", 0),
        age(autoscaler, now),
    ]


def _metrics(wanted: list[Object], told: list[Object]) -> str:
    if not wanted:
        return NONE
    shown = [
        _metric(metric, told[position] if position < len(told) else {})
        for position, metric in enumerate(wanted)
    ]
    return first_few(shown, 2, separator=", ")


_METRIC_FIELDS = {
    "External": "external",
    "Pods": "pods",
    "Object": "object",
    "Resource": "resource",
    "ContainerResource": "containerResource",
}


def _metric(metric: Object, told: Object) -> str:
    field = _METRIC_FIELDS.get(metric.get("type", ""))
    if field is None:
        return "<unknown type>"
    target = metric[field].get("target") or {}
    current = (told.get(field) or {}).get("current") or {}
    if field in {"resource", "containerResource"}:
        return f"{metric[field].get('name', '')}: {_resource_use(target, current)}"
    if "averageValue" in target:
        suffix = "" if field == "pods" else " (avg)"
        return f"{current.get('averageValue', UNKNOWN)}/{target['averageValue']}{suffix}"
    return f"{current.get('value', UNKNOWN)}/{target.get('value', '0')}"


def _resource_use(target: Object, current: Object) -> str:
    if "averageValue" in target:
        return f"{current.get('averageValue', UNKNOWN)}/{target['averageValue']}"
    percent = current.get("averageUtilization")
    wanted = target.get("averageUtilization")
    shown = UNKNOWN if percent is None else f"{percent}%"
    return f"{shown}/{'<auto>' if wanted is None else f'{wanted}%'}"


HORIZONTAL_POD_AUTOSCALER = Layout(
    (
        NAME,
        Column("Reference", description="What it scales."),
        Column("Targets", description="Present and wanted values of its metrics."),
        Column("MinPods", description="Lower bound."),
        Column("MaxPods", description="Upper bound."),
        Column("Replicas", description="Present number."),
        AGE,
    ),
    each(_autoscaler_cells),
)
