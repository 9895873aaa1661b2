"""Table columns of namespaces, config data, accounts, leases, webhooks, services and endpoints."""

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
    each,
    first_few,
    labels,
    name,
    spec,
    status,
    wide,
)

__all__ = [
    "CONFIG_MAP",
    "ENDPOINT_SLICE",
    "LEASE",
    "NAMESPACE",
    "SECRET",
    "SERVICE",
    "SERVICE_ACCOUNT",
    "WEBHOOK_CONFIGURATION",
]


def _namespace_cells(namespace: Object, now: datetime) -> list[Cell]:
    return [name(namespace), status(namespace).get("phase", ""), age(namespace, now)]


NAMESPACE = TableLayout(
    (NAME, TableColumn("Status", description="Active or Terminating."), AGE), each(_namespace_cells)
)


def _config_map_cells(config_map: Object, now: datetime) -> list[Cell]:
    entries = len(config_map.get("data") or ()) + len(config_map.get("binaryData") or ())
    return [name(config_map), entries, age(config_map, now)]


CONFIG_MAP = TableLayout(
    (NAME, TableColumn("Data", description="Number of entries."), AGE), each(_config_map_cells)
)


def _secret_cells(secret: Object, now: datetime) -> list[Cell]:
    return [name(secret), secret.get("type", ""), len(secret.get("data") or ()), age(secret, now)]


SECRET = TableLayout(
    (
        NAME,
        TableColumn("Type", description="Type of its data."),
        TableColumn("Data", description="Number of entries."),
        AGE,
    ),
    each(_secret_cells),
)


def _service_account_cells(account: Object, now: datetime) -> list[Cell]:
    return [name(account), age(account, now)]


SERVICE_ACCOUNT = TableLayout((NAME, AGE), each(_service_account_cells))


def _lease_cells(lease: Object, now: datetime) -> list[Cell]:
    return [name(lease), spec(lease).get("holderIdentity") or "", age(lease, now)]


LEASE = TableLayout(
    (NAME, TableColumn("Holder", description="Identity of its holder."), AGE), each(_lease_cells)
)


def _webhook_cells(configuration: Object, now: datetime) -> list[Cell]:
    return [name(configuration), len(configuration.get("webhooks") or ()), age(configuration, now)]


WEBHOOK_CONFIGURATION = TableLayout(
    (NAME, TableColumn("Webhooks", "integer", "Number of webhooks."), AGE), each(_webhook_cells)
)


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


SERVICE = TableLayout(
    (
        NAME,
        TableColumn("Type", description="How it is exposed."),
        TableColumn("Cluster-IP", description="Its address inside the cluster."),
        TableColumn("External-IP", description="Its addresses outside the cluster."),
        TableColumn("Port(s)", description="Its ports, with node ports where it has them."),
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


ENDPOINT_SLICE = TableLayout(
    (
        NAME,
        TableColumn("AddressType", description="Type of its addresses."),
        TableColumn("Ports", description="Ports of every endpoint."),
        TableColumn("Endpoints", description="Their addresses."),
        AGE,
    ),
    each(_endpoint_slice_cells),
)
