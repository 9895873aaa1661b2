"""Rules for containers: names, images, ports, environment, mounts."""

from collections.abc import Collection, Iterator

from rescheduler.simulator.admission import causes, names
from rescheduler.simulator.admission.validation.probes import PROBES, check_probes
from rescheduler.simulator.admission.validation.resources import check_requirements
from rescheduler.simulator.exchange import Object
from rescheduler.simulator.failures import Cause

__all__ = ["check_containers", "check_init_containers"]

_PROTOCOLS = ("SCTP", "TCP", "UDP")
_PULL_POLICIES = ("Always", "IfNotPresent", "Never")
_RESTART_POLICIES = ("Always", "Never", "OnFailure")
_MESSAGE_POLICIES = ("File", "FallbackToLogsOnError")
_ONLY_WHILE_RUNNING = ("lifecycle", *PROBES)
_SOURCES = ("fieldRef", "resourceFieldRef", "configMapKeyRef", "secretKeyRef", "fileKeyRef")


def check_containers(containers: list[Object], volumes: Collection[str], path: str) -> Iterator[Cause]:
    if not containers:
        yield causes.required(path)
    seen: set[str] = set()
    for index, container in enumerate(containers):
        here = f"{path}[{index}]"
        yield from _check_container(container, volumes, here)
        yield from _check_unique(container, seen, here)
        yield from check_probes(container, here)
    yield from _check_host_ports(containers, path)


def check_init_containers(spec: Object, volumes: Collection[str], path: str) -> Iterator[Cause]:
    seen = {container.get("name", "") for container in spec.get("containers", ())}
    for index, container in enumerate(spec.get("initContainers", ())):
        here = f"{path}[{index}]"
        yield from _check_container(container, volumes, here)
        yield from _check_unique(container, seen, here)
        yield from _check_host_ports([container], path)
        policy = container.get("restartPolicy", "Always")
        if policy not in _RESTART_POLICIES:
            yield causes.not_supported(f"{here}.restartPolicy", policy, _RESTART_POLICIES)
        if container.get("restartPolicy") == "Always":
            yield from check_probes(container, here)
            continue
        for field in _ONLY_WHILE_RUNNING:
            if field in container:
                detail = "may not be set for init containers without restartPolicy=Always"
                yield causes.forbidden(f"{here}.{field}", detail)


def _check_unique(container: Object, seen: set[str], path: str) -> Iterator[Cause]:
    name = container.get("name", "")
    if name in seen:
        yield causes.duplicate(f"{path}.name", name)
    seen.add(name)


def _check_container(container: Object, volumes: Collection[str], path: str) -> Iterator[Cause]:
    name = container.get("name", "")
    if not name:
        yield causes.required(f"{path}.name")
    else:
        for complaint in names.dns_label(name):
            yield causes.invalid(f"{path}.name", name, complaint)
    if not container.get("image"):
        yield causes.required(f"{path}.image")
    message_policy = container.get("terminationMessagePolicy", "File")
    if message_policy not in _MESSAGE_POLICIES:
        yield causes.not_supported(f"{path}.terminationMessagePolicy", message_policy, _MESSAGE_POLICIES)
    yield from _check_ports(container.get("ports", []), f"{path}.ports")
    yield from _check_environment(container.get("env", []), f"{path}.env")
    yield from _check_mounts(container, volumes, path)
    pull_policy = container.get("imagePullPolicy", "Always")
    if pull_policy not in _PULL_POLICIES:
        yield causes.not_supported(f"{path}.imagePullPolicy", pull_policy, _PULL_POLICIES)
    if resources := container.get("resources"):
        yield from check_requirements(resources, f"{path}.resources")


def _check_ports(ports: list[Object], path: str) -> Iterator[Cause]:
    seen: set[str] = set()
    for index, port in enumerate(ports):
        here = f"{path}[{index}]"
        if name := port.get("name", ""):
            complaints = names.port_name(name)
            for complaint in complaints:
                yield causes.invalid(f"{here}.name", name, complaint)
            if not complaints and name in seen:
                yield causes.duplicate(f"{here}.name", name)
            seen.add(name)
        if not port.get("containerPort"):
            yield causes.required(f"{here}.containerPort")
        for field in ("containerPort", "hostPort"):
            for complaint in names.port_number(port[field]) if port.get(field) else ():
                yield causes.invalid(f"{here}.{field}", port[field], complaint)
        if port.get("protocol") not in _PROTOCOLS:
            yield causes.not_supported(f"{here}.protocol", port.get("protocol", ""), _PROTOCOLS)


def _check_host_ports(containers: list[Object], path: str) -> Iterator[Cause]:
    seen: set[str] = set()
    for position, container in enumerate(containers):
        for index, port in enumerate(container.get("ports", ())):
            if port.get("hostPort"):
                bound = f"{port.get('protocol', '')}/{port.get('hostIP', '')}/{port['hostPort']}"
                if bound in seen:
                    yield causes.duplicate(f"{path}[{position}].ports[{index}].hostPort", bound)
                seen.add(bound)


def _check_environment(variables: list[Object], path: str) -> Iterator[Cause]:
    for index, variable in enumerate(variables):
        here = f"{path}[{index}]"
        if not variable.get("name"):
            yield causes.required(f"{here}.name")
        else:
            for complaint in names.environment_name(variable["name"]):
                yield causes.invalid(f"{here}.name", variable["name"], complaint)
        if "valueFrom" in variable:
            yield from _check_source(variable, f"{here}.valueFrom")


def _check_source(variable: Object, path: str) -> Iterator[Cause]:
    given = [source for source in _SOURCES if source in variable["valueFrom"]]
    if not given:
        listed = ", ".join(f"`{source}`" for source in _SOURCES[:-1])
        yield causes.invalid(path, "", f"must specify one of: {listed} or `{_SOURCES[-1]}`")
    elif variable.get("value"):
        yield causes.invalid(path, "", "may not be specified when `value` is not empty")
    elif len(given) > 1:
        yield causes.invalid(path, "", "may not have more than one field specified at a time")


def _check_mounts(container: Object, volumes: Collection[str], path: str) -> Iterator[Cause]:
    places: set[str] = set()
    for index, mount in enumerate(container.get("volumeMounts", ())):
        here = f"{path}.volumeMounts[{index}]"
        name, place = mount.get("name", ""), mount.get("mountPath", "")
        if not name:
            yield causes.required(f"{here}.name")
        if name not in volumes:
            yield causes.not_found(f"{here}.name", name)
        if not place:
            yield causes.required(f"{here}.mountPath")
        if place in places:
            yield causes.invalid(f"{here}.mountPath", place, "must be unique")
        places.add(place)
    for index, device in enumerate(container.get("volumeDevices", ())):
        if device.get("name", "") not in volumes:
            here = f"{path}.volumeDevices[{index}].name"
            yield causes.not_found(here, device.get("name", ""))
