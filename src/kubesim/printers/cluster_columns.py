"""Table columns of nodes, disruption budgets, quotas, priority classes, autoscalers and events."""

from datetime import datetime

from kubesim.apiserver.api_messages import Object
from kubesim.printers.table_columns import (
    AGE,
    NAME,
    NONE,
    UNKNOWN,
    UNSET,
    Cell,
    TableColumn,
    TableLayout,
    age,
    condition_status,
    each,
    first_few,
    name,
    since,
    spec,
    status,
    wide,
)

__all__ = [
    "EVENT",
    "HORIZONTAL_POD_AUTOSCALER",
    "NODE",
    "POD_DISRUPTION_BUDGET",
    "PRIORITY_CLASS",
    "RESOURCE_QUOTA",
]

_ROLE_PREFIX = "node-role.kubernetes.io/"


def _node_cells(node: Object, now: datetime) -> list[Cell]:
    info = status(node).get("nodeInfo") or {}
    kernel = info.get("kernelVersion") or UNKNOWN
    if info.get("architecture"):
        kernel += f" ({info['architecture']})"
    return [
        name(node),
        _status(node),
        ",".join(_roles(node)) or NONE,
        age(node, now),
        info.get("kubeletVersion", ""),
        _address(node, "InternalIP"),
        _address(node, "ExternalIP"),
        info.get("osImage") or UNKNOWN,
        kernel,
        info.get("containerRuntimeVersion") or UNKNOWN,
    ]


def _status(node: Object) -> str:
    ready = condition_status(status(node).get("conditions"), "Ready")
    word = "Unknown" if ready is None else "Ready" if ready == "True" else "NotReady"
    return f"{word},SchedulingDisabled" if spec(node).get("unschedulable") else word


def _roles(node: Object) -> list[str]:
    found = node["metadata"].get("labels") or {}
    roles = {key.removeprefix(_ROLE_PREFIX) for key in found if key.startswith(_ROLE_PREFIX)}
    roles.add(found.get("kubernetes.io/role", ""))
    return sorted(roles - {""})


def _address(node: Object, address_type: str) -> str:
    addresses = status(node).get("addresses") or ()
    return next((a["address"] for a in addresses if a["type"] == address_type), NONE)


NODE = TableLayout(
    (
        NAME,
        TableColumn("Status", description="Whether it is ready, and whether it is cordoned."),
        TableColumn("Roles", description="From the labels node-role.kubernetes.io/ROLE."),
        AGE,
        TableColumn("Version", description="Version of the kubelet."),
        wide("Internal-IP", "First internal address."),
        wide("External-IP", "First external address."),
        wide("OS-Image", "Operating system."),
        wide("Kernel-Version", "Kernel and processor architecture."),
        wide("Container-Runtime", "Container runtime and its version."),
    ),
    each(_node_cells),
)


def _budget_cells(budget: Object, now: datetime) -> list[Cell]:
    wanted = spec(budget)
    return [
        name(budget),
        str(wanted.get("minAvailable", "N/A")),
        str(wanted.get("maxUnavailable", "N/A")),
        status(budget).get("disruptionsAllowed", 0),
        age(budget, now),
    ]


POD_DISRUPTION_BUDGET = TableLayout(
    (
        NAME,
        TableColumn("Min Available", description="Pods that must stay available."),
        TableColumn("Max Unavailable", description="Pods that may be unavailable."),
        TableColumn("Allowed Disruptions", "integer", "Pods that may be evicted now."),
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


RESOURCE_QUOTA = TableLayout(
    (
        NAME,
        TableColumn("Request", description="Used and allowed requests and object counts."),
        TableColumn("Limit", description="Used and allowed limits."),
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


PRIORITY_CLASS = TableLayout(
    (
        NAME,
        TableColumn("Value", "integer", "The higher, the more important."),
        TableColumn("Global-Default", "boolean", "Whether pods without a class get it."),
        AGE,
        TableColumn("PreemptionPolicy", description="Whether its pods preempt other pods."),
    ),
    each(_priority_class_cells),
)


def _autoscaler_cells(autoscaler: Object, now: datetime) -> list[Cell]:
    wanted, reported = spec(autoscaler), status(autoscaler)
    target = wanted.get("scaleTargetRef") or {}
    return [
        name(autoscaler),
        f"{target.get('kind', '')}/{target.get('name', '')}",
        _metrics(wanted.get("metrics") or [], reported.get("currentMetrics") or []),
        str(wanted.get("minReplicas", UNSET)),
        wanted.get("maxReplicas", 0),
        reported.get("currentReplicas", 0),
        age(autoscaler, now),
    ]


def _metrics(wanted: list[Object], reported: list[Object]) -> str:
    if not wanted:
        return NONE
    shown = [
        _metric(metric, reported[position] if position < len(reported) else {})
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


def _metric(metric: Object, reported: Object) -> str:
    field = _METRIC_FIELDS.get(metric.get("type", ""))
    if field is None:
        return "<unknown type>"
    target = metric[field].get("target") or {}
    current = (reported.get(field) or {}).get("current") or {}
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


HORIZONTAL_POD_AUTOSCALER = TableLayout(
    (
        NAME,
        TableColumn("Reference", description="Workload that it scales."),
        TableColumn("Targets", description="Current and target values of its metrics."),
        TableColumn("MinPods", description="Lower bound."),
        TableColumn("MaxPods", description="Upper bound."),
        TableColumn("Replicas", description="Current number of replicas."),
        AGE,
    ),
    each(_autoscaler_cells),
)


def _cells(event: Object, now: datetime) -> list[Cell]:
    about = event.get("involvedObject") or event.get("regarding") or {}
    first, last, count = _times(event, now)
    return [
        last,
        event.get("type", ""),
        event.get("reason", ""),
        "/".join(part for part in (about.get("kind", "").lower(), about.get("name", "")) if part),
        about.get("fieldPath", ""),
        _source(event),
        (event.get("message") or event.get("note") or "").strip(),
        first,
        count,
        name(event),
    ]


def _times(event: Object, now: datetime) -> tuple[str, str, int]:
    """Return first and last time and the count, which old and new recorders write to different fields."""
    first = since(
        event.get("firstTimestamp") or event.get("deprecatedFirstTimestamp") or event.get("eventTime"), now
    )
    if series := event.get("series"):
        return first, since(series.get("lastObservedTime"), now), series.get("count", 0)
    last = event.get("lastTimestamp") or event.get("deprecatedLastTimestamp")
    count = event.get("count") or event.get("deprecatedCount") or 1
    return first, since(last, now) if last else first, count


def _source(event: Object) -> str:
    source = event.get("source") or event.get("deprecatedSource") or {}
    component = source.get("component") or event.get("reportingComponent") or event.get("reportingController")
    instance = source.get("host") or event.get("reportingInstance")
    return f"{component or ''}, {instance}" if instance else component or ""


EVENT = TableLayout(
    (
        TableColumn("Last Seen", description="How long ago it last happened."),
        TableColumn("Type", description="Normal or Warning."),
        TableColumn("Reason", description="Reason in one word."),
        TableColumn("Object", description="Object that it is about."),
        wide("Subobject", "Part of that object."),
        wide("Source", "Component that reported it."),
        TableColumn("Message", description="Description in a sentence."),
        wide("First Seen", "How long ago it first happened."),
        wide("Count", "How often it happened."),
        NAME._replace(priority=1),
    ),
    each(_cells),
)
