"""Validation of containers: names, images, ports, environment, mounts, probes, hooks and resources."""

from collections.abc import Collection, Iterator

from kubesim.admission import field_errors, name_syntax
from kubesim.admission.validation.metadata_validation import NOT_NEGATIVE, check_not_negative
from kubesim.apiserver.api_messages import Object
from kubesim.apiserver.status_errors import FieldError
from kubevalues.quantity import parse_quantity

__all__ = [
    "PROBES",
    "check_amount",
    "check_amounts",
    "check_containers",
    "check_init_containers",
    "check_port",
    "check_probes",
    "check_requirements",
]

PROBES = ("livenessProbe", "readinessProbe", "startupProbe")
_NUMBERS = ("initialDelaySeconds", "timeoutSeconds", "periodSeconds", "successThreshold", "failureThreshold")
_HANDLERS = ("exec", "httpGet", "tcpSocket", "grpc", "sleep")


def check_probes(container: Object, path: str) -> Iterator[FieldError]:
    for hook in ("postStart", "preStop"):
        if hook in container.get("lifecycle", {}):
            yield from _check_handler(container["lifecycle"][hook], f"{path}.lifecycle.{hook}")
    for name in PROBES:
        if name in container:
            yield from _check_probe(container[name], f"{path}.{name}")
            if name != "readinessProbe" and container[name].get("successThreshold", 1) != 1:
                here = f"{path}.{name}.successThreshold"
                yield field_errors.invalid(here, container[name]["successThreshold"], "must be 1")


def _check_probe(probe: Object, path: str) -> Iterator[FieldError]:
    yield from _check_handler(probe, path)
    yield from check_not_negative(probe, _NUMBERS, path)
    if probe.get("terminationGracePeriodSeconds", 1) <= 0:
        here = f"{path}.terminationGracePeriodSeconds"
        yield field_errors.invalid(here, probe["terminationGracePeriodSeconds"], "must be greater than 0")


def _check_handler(handler: Object, path: str) -> Iterator[FieldError]:
    given = [name for name in _HANDLERS if name in handler]
    if not given:
        yield field_errors.required(path, "must specify a handler type")
        return
    yield from _check_action(given[0], handler[given[0]], f"{path}.{given[0]}")
    for name in given[1:]:
        yield field_errors.forbidden(f"{path}.{name}", "may not specify more than 1 handler type")


def _check_action(name: str, action: Object, path: str) -> Iterator[FieldError]:
    if name == "exec" and not action.get("command"):
        yield field_errors.required(f"{path}.command")
    if name in ("httpGet", "tcpSocket", "grpc"):
        yield from check_port(action.get("port", 0), f"{path}.port")
    if name == "httpGet" and action.get("scheme") not in ("HTTP", "HTTPS"):
        yield field_errors.not_supported(f"{path}.scheme", action.get("scheme", ""), ("HTTP", "HTTPS"))


def check_port(port: int | str, path: str) -> Iterator[FieldError]:
    """Check a port number or the name of a container port."""
    for complaint in name_syntax.port_name(port) if isinstance(port, str) else name_syntax.port_number(port):
        yield field_errors.invalid(path, port, complaint)


_OF_CONTAINERS = ("cpu", "memory", "ephemeral-storage")
_HUGE_PAGES = "hugepages-"
_COUNTED = (
    "pods", "resourcequotas", "services", "replicationcontrollers", "secrets", "configmaps",
    "persistentvolumeclaims", "services.nodeports", "services.loadbalancers",
)  # fmt: skip
_STANDARD = {
    *_OF_CONTAINERS, *_COUNTED, "storage", "requests.storage",
    *(f"requests.{name}" for name in _OF_CONTAINERS),
    *(f"limits.{name}" for name in _OF_CONTAINERS),
}  # fmt: skip


def _is_native(name: str) -> bool:
    return "/" not in name or "kubernetes.io/" in name


def _is_extended(name: str) -> bool:
    """Return whether this is an extended resource, counted in whole units: `example.com/gpu`."""
    return not (
        _is_native(name) or name.startswith("requests.") or name_syntax.qualified_name(f"requests.{name}")
    )


def _may_overcommit(name: str) -> bool:
    return _is_native(name) and not name.startswith(_HUGE_PAGES)


def check_requirements(resources: Object, path: str) -> Iterator[FieldError]:
    limits, requests = resources.get("limits", {}), resources.get("requests", {})
    for name, quantity in limits.items():
        yield from _check_resource(name, quantity, f"{path}.limits[{name}]")
    for name, quantity in requests.items():
        yield from _check_resource(name, quantity, f"{path}.requests[{name}]")
        yield from _check_within_limit(name, quantity, limits, path)
    asked = {*limits, *requests}
    if any(name.startswith(_HUGE_PAGES) for name in asked) and not asked & {"cpu", "memory"}:
        yield field_errors.forbidden(path, "HugePages require cpu or memory")


def _check_within_limit(name: str, quantity: str, limits: dict[str, str], path: str) -> Iterator[FieldError]:
    if name not in limits:
        if not _may_overcommit(name):
            yield field_errors.required(
                f"{path}.limits", "Limit must be set for non overcommitable resources"
            )
        return
    request, limit = parse_quantity(quantity), parse_quantity(limits[name])
    if request != limit and not _may_overcommit(name):
        yield field_errors.invalid(
            f"{path}.requests", quantity, f"must be equal to {name} limit of {limits[name]}"
        )
    elif request > limit:
        detail = f"must be less than or equal to {name} limit of {limits[name]}"
        yield field_errors.invalid(f"{path}.requests", quantity, detail)


def _check_resource(name: str, quantity: str, path: str) -> Iterator[FieldError]:
    yield from _check_name(name, path)
    yield from check_amount(name, quantity, path)


def _check_name(name: str, path: str) -> Iterator[FieldError]:
    complaints = name_syntax.qualified_name(name)
    for complaint in complaints:
        yield field_errors.invalid(path, name, complaint)
    if "/" not in name:
        if not complaints and name not in _STANDARD and not name.startswith(_HUGE_PAGES):
            yield field_errors.invalid(path, name, "must be a standard resource type or fully qualified")
        if name not in _OF_CONTAINERS and not name.startswith(_HUGE_PAGES):
            yield field_errors.invalid(path, name, "must be a standard resource for containers")
    elif not _is_native(name) and not _is_extended(name):
        yield field_errors.invalid(path, name, "doesn't follow extended resource name standard")


def check_amounts(amounts: dict[str, str], path: str) -> Iterator[FieldError]:
    """Check the resource amounts of a node, whose keys are part of the path without brackets."""
    for name, quantity in amounts.items():
        yield from check_amount(name, quantity, f"{path}.{name}")


def check_amount(name: str, quantity: str, path: str) -> Iterator[FieldError]:
    amount = parse_quantity(quantity)
    if amount.nanos < 0:
        yield field_errors.invalid(path, quantity, NOT_NEGATIVE)
    if amount.millis % 1000 and (name in _COUNTED or _is_extended(name)):
        yield field_errors.invalid(path, quantity, "must be an integer")


_PROTOCOLS = ("SCTP", "TCP", "UDP")
_PULL_POLICIES = ("Always", "IfNotPresent", "Never")
_RESTART_POLICIES = ("Always", "Never", "OnFailure")
_MESSAGE_POLICIES = ("File", "FallbackToLogsOnError")
_ONLY_WHILE_RUNNING = ("lifecycle", *PROBES)
_SOURCES = ("fieldRef", "resourceFieldRef", "configMapKeyRef", "secretKeyRef", "fileKeyRef")


def check_containers(containers: list[Object], volumes: Collection[str], path: str) -> Iterator[FieldError]:
    if not containers:
        yield field_errors.required(path)
    seen: set[str] = set()
    for index, container in enumerate(containers):
        here = f"{path}[{index}]"
        yield from _check_container(container, volumes, here)
        yield from _check_unique(container, seen, here)
        yield from check_probes(container, here)
    yield from _check_host_ports(containers, path)


def check_init_containers(spec: Object, volumes: Collection[str], path: str) -> Iterator[FieldError]:
    seen = {container.get("name", "") for container in spec.get("containers", ())}
    for index, container in enumerate(spec.get("initContainers", ())):
        here = f"{path}[{index}]"
        yield from _check_container(container, volumes, here)
        yield from _check_unique(container, seen, here)
        yield from _check_host_ports([container], path)
        policy = container.get("restartPolicy", "Always")
        if policy not in _RESTART_POLICIES:
            yield field_errors.not_supported(f"{here}.restartPolicy", policy, _RESTART_POLICIES)
        if container.get("restartPolicy") == "Always":
            yield from check_probes(container, here)
            continue
        for field in _ONLY_WHILE_RUNNING:
            if field in container:
                detail = "may not be set for init containers without restartPolicy=Always"
                yield field_errors.forbidden(f"{here}.{field}", detail)


def _check_unique(container: Object, seen: set[str], path: str) -> Iterator[FieldError]:
    name = container.get("name", "")
    if name in seen:
        yield field_errors.duplicate(f"{path}.name", name)
    seen.add(name)


def _check_container(container: Object, volumes: Collection[str], path: str) -> Iterator[FieldError]:
    name = container.get("name", "")
    if not name:
        yield field_errors.required(f"{path}.name")
    else:
        for complaint in name_syntax.dns_label(name):
            yield field_errors.invalid(f"{path}.name", name, complaint)
    if not container.get("image"):
        yield field_errors.required(f"{path}.image")
    message_policy = container.get("terminationMessagePolicy", "File")
    if message_policy not in _MESSAGE_POLICIES:
        yield field_errors.not_supported(
            f"{path}.terminationMessagePolicy", message_policy, _MESSAGE_POLICIES
        )
    yield from _check_ports(container.get("ports", []), f"{path}.ports")
    yield from _check_environment(container.get("env", []), f"{path}.env")
    yield from _check_mounts(container, volumes, path)
    pull_policy = container.get("imagePullPolicy", "Always")
    if pull_policy not in _PULL_POLICIES:
        yield field_errors.not_supported(f"{path}.imagePullPolicy", pull_policy, _PULL_POLICIES)
    if resources := container.get("resources"):
        yield from check_requirements(resources, f"{path}.resources")


def _check_ports(ports: list[Object], path: str) -> Iterator[FieldError]:
    seen: set[str] = set()
    for index, port in enumerate(ports):
        here = f"{path}[{index}]"
        if name := port.get("name", ""):
            complaints = name_syntax.port_name(name)
            for complaint in complaints:
                yield field_errors.invalid(f"{here}.name", name, complaint)
            if not complaints and name in seen:
                yield field_errors.duplicate(f"{here}.name", name)
            seen.add(name)
        if not port.get("containerPort"):
            yield field_errors.required(f"{here}.containerPort")
        for field in ("containerPort", "hostPort"):
            for complaint in name_syntax.port_number(port[field]) if port.get(field) else ():
                yield field_errors.invalid(f"{here}.{field}", port[field], complaint)
        if port.get("protocol") not in _PROTOCOLS:
            yield field_errors.not_supported(f"{here}.protocol", port.get("protocol", ""), _PROTOCOLS)


def _check_host_ports(containers: list[Object], path: str) -> Iterator[FieldError]:
    seen: set[str] = set()
    for position, container in enumerate(containers):
        for index, port in enumerate(container.get("ports", ())):
            if port.get("hostPort"):
                bound = f"{port.get('protocol', '')}/{port.get('hostIP', '')}/{port['hostPort']}"
                if bound in seen:
                    yield field_errors.duplicate(f"{path}[{position}].ports[{index}].hostPort", bound)
                seen.add(bound)


def _check_environment(variables: list[Object], path: str) -> Iterator[FieldError]:
    for index, variable in enumerate(variables):
        here = f"{path}[{index}]"
        if not variable.get("name"):
            yield field_errors.required(f"{here}.name")
        else:
            for complaint in name_syntax.environment_name(variable["name"]):
                yield field_errors.invalid(f"{here}.name", variable["name"], complaint)
        if "valueFrom" in variable:
            yield from _check_source(variable, f"{here}.valueFrom")


def _check_source(variable: Object, path: str) -> Iterator[FieldError]:
    given = [source for source in _SOURCES if source in variable["valueFrom"]]
    if not given:
        listed = ", ".join(f"`{source}`" for source in _SOURCES[:-1])
        yield field_errors.invalid(path, "", f"must specify one of: {listed} or `{_SOURCES[-1]}`")
    elif variable.get("value"):
        yield field_errors.invalid(path, "", "may not be specified when `value` is not empty")
    elif len(given) > 1:
        yield field_errors.invalid(path, "", "may not have more than one field specified at a time")


def _check_mounts(container: Object, volumes: Collection[str], path: str) -> Iterator[FieldError]:
    places: set[str] = set()
    for index, mount in enumerate(container.get("volumeMounts", ())):
        here = f"{path}.volumeMounts[{index}]"
        name, place = mount.get("name", ""), mount.get("mountPath", "")
        if not name:
            yield field_errors.required(f"{here}.name")
        if name not in volumes:
            yield field_errors.not_found(f"{here}.name", name)
        if not place:
            yield field_errors.required(f"{here}.mountPath")
        if place in places:
            yield field_errors.invalid(f"{here}.mountPath", place, "must be unique")
        places.add(place)
    for index, device in enumerate(container.get("volumeDevices", ())):
        if device.get("name", "") not in volumes:
            here = f"{path}.volumeDevices[{index}].name"
            yield field_errors.not_found(here, device.get("name", ""))
