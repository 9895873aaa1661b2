"""Other projects' programs that evict pods, unmodified, as processes with a service account of their own."""

import contextlib
import json
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rescheduler.kube.api_resources import Object, api_resource
from tests.testbed import ControlPlane
from tests.testbed.cache import located_peers
from tests.testbed.fake_kubelet.nodes import KUBELET_LABEL
from tests.testbed.ports import free_ports
from tests.testbed.processes import ProcessId, end, spawn

__all__ = [
    "NODE_CLAIMS",
    "NODE_POOLS",
    "Peer",
    "install_karpenter",
    "node_pool",
    "start_descheduler",
    "start_karpenter",
]

NODE_POOLS = api_resource("karpenter.sh", "v1", "nodepools", "NodePool", namespaced=False)
NODE_CLAIMS = api_resource("karpenter.sh", "v1", "nodeclaims", "NodeClaim", namespaced=False)
INSTANCE_TYPE = "c-4x-amd64-linux"
"""Of Karpenter's provider without a cloud: 4 cpu."""


@dataclass
class Peer:
    process: ProcessId
    log: Path

    def stop(self) -> None:
        end(self.process)


def _account(control_plane: ControlPlane, name: str, namespace: str, folder: Path) -> Path:
    """The kubeconfig of a service account that may do everything: what peers may do is not our subject."""
    with contextlib.suppress(subprocess.CalledProcessError):
        control_plane.kubectl("create", "serviceaccount", name, "-n", namespace)
    binding = f"{name}-{namespace}"
    control_plane.kubectl(
        "create", "clusterrolebinding", binding, "--clusterrole=cluster-admin",
        f"--serviceaccount={namespace}:{name}",
    )  # fmt: skip
    token = control_plane.kubectl("create", "token", name, "-n", namespace, "--duration=2h").strip()
    path = folder / f"{name}.kubeconfig"
    control_plane.write_kubeconfig(path, user=name, token=token)
    return path


# -- Karpenter


def install_karpenter(control_plane: ControlPlane) -> None:
    """Its CRDs, and a class of nodes that need 2 s to register."""
    # Another test may have made one of the kinds itself.
    control_plane.kubectl("apply", "--server-side", "--force-conflicts", "-f", str(located_peers().crds))
    control_plane.wait_until_served(
        "nodepools.karpenter.sh", "nodeclaims.karpenter.sh", "kwoknodeclasses.karpenter.kwok.sh"
    )
    node_class = {
        "apiVersion": "karpenter.kwok.sh/v1alpha1",
        "kind": "KWOKNodeClass",
        "metadata": {"name": "default"},
        "spec": {"nodeRegistrationDelay": "2s"},
    }
    control_plane.kubectl("apply", "-f", "-", stdin=json.dumps(node_class))


def start_karpenter(control_plane: ControlPlane, namespace: str, folder: Path) -> Peer:
    metrics, health = free_ports(2)
    environment = {
        "KUBECONFIG": str(_account(control_plane, "karpenter", namespace, folder)),
        "SYSTEM_NAMESPACE": namespace,
        "DISABLE_LEADER_ELECTION": "true",
        "METRICS_PORT": str(metrics),
        "HEALTH_PROBE_PORT": str(health),
        "LOG_LEVEL": "debug",
    }
    log = folder / "karpenter.log"
    return Peer(spawn([str(located_peers().karpenter)], log, environment, dies_with_us=True), log)


def node_pool(name: str, kubelet: str, disruption: Mapping[str, Any], **spec: Any) -> Object:
    """Nodes of one type and zone, which the fake kubelet of that name plays."""

    def only(key: str, value: str) -> Object:
        return {"key": key, "operator": "In", "values": [value]}

    requirements = [
        only("node.kubernetes.io/instance-type", INSTANCE_TYPE),
        only("topology.kubernetes.io/zone", "test-zone-a"),
        only("karpenter.sh/capacity-type", "on-demand"),
    ]
    node_class = {"group": "karpenter.kwok.sh", "kind": "KWOKNodeClass", "name": "default"}
    template = {
        "metadata": {"labels": {KUBELET_LABEL: kubelet}},
        "spec": {
            "requirements": requirements, "nodeClassRef": node_class, "expireAfter": "Never", **spec,
        },
    }  # fmt: skip
    return {
        "apiVersion": NODE_POOLS.api_version,
        "kind": NODE_POOLS.kind,
        "metadata": {"name": name},
        "spec": {"template": template, "disruption": dict(disruption)},
    }


# -- the descheduler


def start_descheduler(
    control_plane: ControlPlane, namespace: str, folder: Path, policy: Object, every_s: int
) -> Peer:
    (folder / "policy.json").write_text(json.dumps(policy))
    kubeconfig = _account(control_plane, "descheduler", namespace, folder)
    (port,) = free_ports(1)
    command = [
        str(located_peers().descheduler),
        f"--kubeconfig={kubeconfig}",
        f"--policy-config-file={folder / 'policy.json'}",
        f"--descheduling-interval={every_s}s",
        "--bind-address=127.0.0.1",
        f"--secure-port={port}",
        f"--cert-dir={folder / 'descheduler-certificates'}",
        "--v=3",
    ]
    log = folder / "descheduler.log"
    return Peer(spawn(command, log, {}, dies_with_us=True), log)
