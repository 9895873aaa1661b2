"""Defaults of services and endpoint slices.

The address of a service is drawn from its namespace and name, not from a register of free ones: the
same cluster gets the same addresses in every run.
"""

from zlib import crc32

from rescheduler.simulator.admission.defaults.filling import Circumstances, fill, inner
from rescheduler.simulator.exchange import Object

__all__ = ["fill_endpoint_slice", "fill_service"]

_NODE_PORTS = range(30_000, 32_768)
_ADDRESSES = 1 << 16
_STICKY_S = 10_800


def fill_service(service: Object, about: Circumstances) -> None:
    spec = inner(service, "spec")
    fill(spec, type="ClusterIP", sessionAffinity="None")
    fill(service, status={"loadBalancer": {}})
    if spec["sessionAffinity"] == "ClientIP":
        fill(spec, sessionAffinityConfig={"clientIP": {"timeoutSeconds": _STICKY_S}})
    for port in spec.get("ports", ()):
        fill(port, protocol="TCP")
        if not port.get("targetPort"):
            port["targetPort"] = port.get("port", 0)
    if spec["type"] != "ExternalName":
        _fill_address(service, about)
    if spec["type"] in ("NodePort", "LoadBalancer"):
        _fill_node_ports(service, about)


def _fill_address(service: Object, about: Circumstances) -> None:
    spec = service["spec"]
    if not spec.get("clusterIP"):
        stored = (None if about.creating else about.stored(service)) or {}
        spec["clusterIP"] = stored.get("spec", {}).get("clusterIP") or _address(service)
    fill(
        spec,
        clusterIPs=[spec["clusterIP"]],
        ipFamilies=["IPv4"],
        ipFamilyPolicy="SingleStack",
        internalTrafficPolicy="Cluster",
    )


def _fill_node_ports(service: Object, about: Circumstances) -> None:
    spec = service["spec"]
    fill(spec, externalTrafficPolicy="Cluster")
    if spec["type"] == "LoadBalancer":
        fill(spec, allocateLoadBalancerNodePorts=True)
    stored = (None if about.creating else about.stored(service)) or {}
    before = {port.get("port"): port.get("nodePort") for port in stored.get("spec", {}).get("ports", ())}
    for port in spec.get("ports", ()):
        if not port.get("nodePort"):
            drawn = _NODE_PORTS[_draw(service, f":{port.get('port')}") % len(_NODE_PORTS)]
            port["nodePort"] = before.get(port.get("port")) or drawn


def _address(service: Object) -> str:
    # Neither the first address, which the service of the API server has, nor a network's own.
    high, low = divmod(_draw(service) % (_ADDRESSES - 300) + 256, 256)
    return f"10.96.{high}.{low}"


def _draw(service: Object, salt: str = "") -> int:
    metadata = service["metadata"]
    return crc32(f"{metadata.get('namespace', '')}/{metadata.get('name', '')}{salt}".encode())


def fill_endpoint_slice(endpoint_slice: Object, _: Circumstances) -> None:
    for field in ("endpoints", "ports"):
        endpoint_slice[field] = endpoint_slice.get(field) or None  # an empty list is stored as none at all
    for endpoint in endpoint_slice["endpoints"] or ():
        fill(endpoint, conditions={})
    for port in endpoint_slice["ports"] or ():
        port.setdefault("name", "")
        fill(port, protocol="TCP")
