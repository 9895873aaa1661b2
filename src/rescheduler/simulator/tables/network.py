"""How pods are reached: Services and the endpoints behind them."""

from datetime import datetime

from rescheduler.simulator.exchange import Object
from rescheduler.simulator.tables.ages import UNKNOWN, age
from rescheduler.simulator.tables.layout import AGE, NAME, Cell, Column, Layout, each, wide
from rescheduler.simulator.tables.phrases import NONE, UNSET, first_few, labels, name, spec, status

__all__ = ["ENDPOINT_SLICE", "SERVICE"]


def _service_cells(service: Object, now: datetime) -> list[Cell]:
    wanted = spec(service)
    return [
        name(service),
        wanted.get("type", ""),
        next(iter(wanted.get("clusterIPs") or ()), NONE),
        _external_ip(service),
        ",".join(_port(port) for port in wanted.get("ports") or ()) or NONE,
        age(service, now),
        labels(wanted.get("selector")),
    ]


def _external_ip(service: Object) -> str:
    wanted = spec(service)
    given = list(wanted.get("externalIPs") or ())
    match wanted.get("type"):
        case "ClusterIP" | "NodePort":
            return ",".join(given) or NONE
        case "LoadBalancer":
            return ",".join(_load_balancers(service) + given) or "<pending>"
        case "ExternalName":
            return str(wanted.get("externalName", ""))
    return UNKNOWN


def _load_balancers(service: Object) -> list[str]:
    ingress = (status(service).get("loadBalancer") or {}).get("ingress") or ()
    return sorted({entry.get("ip") or entry.get("hostname") or "" for entry in ingress} - {""})


def _port(port: Object) -> str:
    protocol = port.get("protocol", "TCP")
    node_port = port.get("nodePort")
    return f"{port['port']}:{node_port}/{protocol}" if node_port else f"{port['port']}/{protocol}"


SERVICE = Layout(
    (
        NAME,
        Column("Type", description="How it is exposed."),
        Column("Cluster-IP", description="Its address inside the cluster."),
        Column("External-IP", description="Its addresses outside the cluster."),
        Column("Port(s)", description="Its ports, with node ports where it has them."),
        AGE,
        wide("Selector", "Labels of the pods behind it."),
    ),
    each(_service_cells),
)


def _endpoint_slice_cells(endpoints: Object, now: datetime) -> list[Cell]:
    ports = [str(port.get("port") or port.get("name") or "*") for port in endpoints.get("ports") or ()]
    found = endpoints.get("endpoints") or ()
    addresses = [address for endpoint in found for address in endpoint.get("addresses") or ()]
    return [
        name(endpoints),
        endpoints.get("addressType", ""),
        first_few(ports, 3) or UNSET,
        first_few(addresses, 3) or UNSET,
        age(endpoints, now),
    ]


ENDPOINT_SLICE = Layout(
    (
        NAME,
        Column("AddressType", description="What its addresses are."),
        Column("Ports", description="Ports of every endpoint."),
        Column("Endpoints", description="Their addresses."),
        AGE,
    ),
    each(_endpoint_slice_cells),
)
