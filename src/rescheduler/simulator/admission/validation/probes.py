"""Rules for probes and lifecycle hooks."""

from collections.abc import Iterator

from rescheduler.simulator.admission import causes, names
from rescheduler.simulator.admission.validation.numbers import check_not_negative
from rescheduler.simulator.exchange import Object
from rescheduler.simulator.failures import Cause

__all__ = ["PROBES", "check_port", "check_probes"]

PROBES = ("livenessProbe", "readinessProbe", "startupProbe")
_NUMBERS = ("initialDelaySeconds", "timeoutSeconds", "periodSeconds", "successThreshold", "failureThreshold")
_HANDLERS = ("exec", "httpGet", "tcpSocket", "grpc", "sleep")


def check_probes(container: Object, path: str) -> Iterator[Cause]:
    for hook in ("postStart", "preStop"):
        if hook in container.get("lifecycle", {}):
            yield from _check_handler(container["lifecycle"][hook], f"{path}.lifecycle.{hook}")
    for name in PROBES:
        if name in container:
            yield from _check_probe(container[name], f"{path}.{name}")
            if name != "readinessProbe" and container[name].get("successThreshold", 1) != 1:
                here = f"{path}.{name}.successThreshold"
                yield causes.invalid(here, container[name]["successThreshold"], "must be 1")


def _check_probe(probe: Object, path: str) -> Iterator[Cause]:
    yield from _check_handler(probe, path)
    yield from check_not_negative(probe, _NUMBERS, path)
    if probe.get("terminationGracePeriodSeconds", 1) <= 0:
        here = f"{path}.terminationGracePeriodSeconds"
        yield causes.invalid(here, probe["terminationGracePeriodSeconds"], "must be greater than 0")


def _check_handler(handler: Object, path: str) -> Iterator[Cause]:
    given = [name for name in _HANDLERS if name in handler]
    if not given:
        yield causes.required(path, "must specify a handler type")
        return
    yield from _check_action(given[0], handler[given[0]], f"{path}.{given[0]}")
    for name in given[1:]:
        yield causes.forbidden(f"{path}.{name}", "may not specify more than 1 handler type")


def _check_action(name: str, action: Object, path: str) -> Iterator[Cause]:
    if name == "exec" and not action.get("command"):
        yield causes.required(f"{path}.command")
    if name in ("httpGet", "tcpSocket", "grpc"):
        yield from check_port(action.get("port", 0), f"{path}.port")
    if name == "httpGet" and action.get("scheme") not in ("HTTP", "HTTPS"):
        yield causes.not_supported(f"{path}.scheme", action.get("scheme", ""), ("HTTP", "HTTPS"))


def check_port(port: int | str, path: str) -> Iterator[Cause]:
    """A number, or the name of a container's port."""
    for complaint in names.port_name(port) if isinstance(port, str) else names.port_number(port):
        yield causes.invalid(path, port, complaint)
