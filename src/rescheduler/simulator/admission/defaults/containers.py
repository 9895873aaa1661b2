"""Defaults inside containers: pull policy, ports, probes, environment."""

from rescheduler.simulator.admission.defaults.filling import fill
from rescheduler.simulator.exchange import Object

__all__ = ["fill_container"]

_PROBES = ("livenessProbe", "readinessProbe", "startupProbe")
_PROBE_NUMBERS = {"timeoutSeconds": 1, "periodSeconds": 10, "successThreshold": 1, "failureThreshold": 3}


def fill_container(container: Object) -> None:
    fill(
        container,
        resources={},
        terminationMessagePath="/dev/termination-log",
        terminationMessagePolicy="File",
        imagePullPolicy="Always" if _is_latest(container.get("image", "")) else "IfNotPresent",
    )
    for port in container.get("ports", ()):
        fill(port, protocol="TCP")
    for probe in (container[name] for name in _PROBES if name in container):
        _fill_probe(probe)
    for hook in container.get("lifecycle", {}).values():
        if isinstance(hook, dict):  # `stopSignal` stands among the hooks, and is a text
            _fill_action(hook)
    for variable in container.get("env", ()):
        _fill_source(variable.get("valueFrom", {}))


def _is_latest(image: str) -> bool:
    """Without tag and digest, an image means its tag `latest`."""
    if "@" in image:
        return False
    _, colon, tag = image.rpartition("/")[2].partition(":")
    return not colon or tag == "latest"


def _fill_probe(probe: Object) -> None:
    for number, default in _PROBE_NUMBERS.items():
        if not probe.get(number):
            probe[number] = default
    _fill_action(probe)


def _fill_action(handler: Object) -> None:
    if "httpGet" in handler:
        fill(handler["httpGet"], path="/", scheme="HTTP")
    if "grpc" in handler:
        handler["grpc"].setdefault("service", "")


def _fill_source(source: Object) -> None:
    if "fieldRef" in source:
        fill(source["fieldRef"], apiVersion="v1")
    if "resourceFieldRef" in source:
        fill(source["resourceFieldRef"], divisor="0")
