"""Nodes, and what storage drivers tell of them."""

from datetime import datetime

from rescheduler.simulator.exchange import Object
from rescheduler.simulator.tables.ages import UNKNOWN, age
from rescheduler.simulator.tables.layout import AGE, NAME, Cell, Column, Layout, each, wide
from rescheduler.simulator.tables.phrases import NONE, condition_status, name, spec, status

__all__ = ["CSI_NODE", "NODE"]

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


NODE = Layout(
    (
        NAME,
        Column("Status", description="Ready or not, and whether new pods may come."),
        Column("Roles", description="From the labels node-role.kubernetes.io/ROLE."),
        AGE,
        Column("Version", description="Version of the kubelet."),
        wide("Internal-IP", "First internal address."),
        wide("External-IP", "First external address."),
        wide("OS-Image", "Operating system."),
        wide("Kernel-Version", "Kernel and processor architecture."),
        wide("Container-Runtime", "Container runtime and its version."),
    ),
    each(_node_cells),
)


def _csi_node_cells(node: Object, now: datetime) -> list[Cell]:
    return [name(node), len(spec(node).get("drivers") or ()), age(node, now)]


CSI_NODE = Layout(
    (NAME, Column("Drivers", "integer", "How many storage drivers the node has."), AGE),
    each(_csi_node_cells),
)
