"""Rules for services and endpoint slices."""

from collections.abc import Iterator

from rescheduler.simulator.admission import causes, names
from rescheduler.simulator.admission.validation.labels import check_labels
from rescheduler.simulator.admission.validation.probes import check_port
from rescheduler.simulator.exchange import Object
from rescheduler.simulator.failures import Cause

__all__ = ["check_endpoint_slice", "check_service"]

_TYPES = ("ClusterIP", "ExternalName", "LoadBalancer", "NodePort")
_PROTOCOLS = ("SCTP", "TCP", "UDP")
_ADDRESS_TYPES = ("FQDN", "IPv4", "IPv6")


def check_service(new: Object, old: Object | None) -> Iterator[Cause]:
    spec = new["spec"]
    kind, ports = spec.get("type", ""), spec.get("ports", [])
    headless = spec.get("clusterIP") == "None"
    if not ports and not headless and kind != "ExternalName":
        yield causes.required("spec.ports")
    if headless and kind in ("LoadBalancer", "NodePort"):
        yield causes.invalid("spec.clusterIPs[0]", "None", f"may not be set to 'None' for {kind} services")
    if kind == "ExternalName":
        yield from _check_external_name(spec)
    yield from _check_ports(ports)
    yield from check_labels(spec.get("selector", {}), "spec.selector")
    affinity = spec.get("sessionAffinity", "None")
    if affinity not in ("ClientIP", "None"):
        yield causes.not_supported("spec.sessionAffinity", affinity, ("ClientIP", "None"))
    if kind not in _TYPES:
        yield causes.not_supported("spec.type", kind, _TYPES)
    yield from _check_address_kept(spec, old)


def _check_external_name(spec: Object) -> Iterator[Cause]:
    name = spec.get("externalName", "").removesuffix(".")
    if not name:
        yield causes.required("spec.externalName")
        return
    for complaint in names.dns_subdomain(name):
        yield causes.invalid("spec.externalName", name, complaint)


def _check_ports(ports: list[Object]) -> Iterator[Cause]:
    seen: set[str] = set()
    used: set[tuple[str, int]] = set()
    for index, port in enumerate(ports):
        path = f"spec.ports[{index}]"
        name, protocol, number = port.get("name", ""), port.get("protocol", ""), port.get("port", 0)
        if not name and len(ports) > 1:
            yield causes.required(f"{path}.name")
        for complaint in names.dns_label(name) if name else ():
            yield causes.invalid(f"{path}.name", name, complaint)
        if name and name in seen:
            yield causes.duplicate(f"{path}.name", name)
        seen.add(name)
        for complaint in names.port_number(number):
            yield causes.invalid(f"{path}.port", number, complaint)
        if protocol not in _PROTOCOLS:
            yield causes.not_supported(f"{path}.protocol", protocol, _PROTOCOLS)
        yield from check_port(port.get("targetPort", 0), f"{path}.targetPort")
        if (protocol, number) in used:
            yield causes.duplicate(path, {"protocol": protocol, "port": number})
        used.add((protocol, number))


def _check_address_kept(spec: Object, old: Object | None) -> Iterator[Cause]:
    before = (old or {}).get("spec", {})
    address, address_before = spec.get("clusterIP", ""), before.get("clusterIP", "")
    if (
        address_before
        and address != address_before
        and "ExternalName" not in (spec.get("type"), before.get("type"))
    ):
        yield causes.invalid("spec.clusterIPs[0]", [address], "may not change once set")


def check_endpoint_slice(new: Object, old: Object | None) -> Iterator[Cause]:
    address_type = new.get("addressType", "")
    if not address_type:
        yield causes.required("addressType")
    elif address_type not in _ADDRESS_TYPES:
        yield causes.not_supported("addressType", address_type, _ADDRESS_TYPES)
    if old is not None and address_type != old.get("addressType"):
        yield causes.immutable("addressType", address_type)
    for index, endpoint in enumerate(new.get("endpoints") or ()):
        if not endpoint.get("addresses"):
            yield causes.required(f"endpoints[{index}].addresses", "must contain at least 1 address")
    for index, port in enumerate(new.get("ports") or ()):
        if port.get("protocol") not in _PROTOCOLS:
            yield causes.not_supported(f"ports[{index}].protocol", port.get("protocol", ""), _PROTOCOLS)
