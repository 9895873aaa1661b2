"""The files that the programs of a node read."""

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

__all__ = [
    "BRIDGE",
    "CLUSTER_DNS",
    "CONTROL_PLANE_ADDRESS",
    "PAUSE_IMAGE",
    "POD_NETWORK",
    "NodeSettings",
    "node_files",
]

BRIDGE = "br0"
CONTROL_PLANE_ADDRESS = "172.30.0.1"
CLUSTER_DNS = "10.96.0.10"
POD_NETWORK = "10.244.0.0/16"
PAUSE_IMAGE = "testbed.local/pause:1"


@dataclass(frozen=True)
class NodeSettings:
    """Everything the first process of a node must know; it reads this from a file."""

    name: str
    number: int
    address: str
    gateway: str
    folder: str
    disk: str
    memory_bytes: int
    reserved_cpu_millis: int
    kubeconfig: str
    proxy_kubeconfig: str
    cni_plugins: str
    runc: str
    labels: dict[str, str] = field(default_factory=dict)
    routes: dict[str, str] = field(default_factory=dict)
    environment: dict[str, str] = field(default_factory=dict)

    def write(self, path: Path) -> None:
        path.write_text(json.dumps(self.__dict__, indent=2) + "\n")

    @staticmethod
    def read(path: Path) -> "NodeSettings":
        return NodeSettings(**json.loads(path.read_text()))


def node_files(node: NodeSettings) -> dict[str, str]:
    """Each file's content by its path inside the node. Kubernetes reads JSON where it reads YAML."""
    return {
        "/etc/cni/net.d/10-testbed.conflist": _json(_network(node)),
        "/etc/containerd/config.toml": _containerd(node),
        "/etc/testbed/resolv.conf": "# pods that don't use cluster DNS have none\n",
        "/etc/testbed/kubelet.json": _json(_kubelet(node)),
        "/etc/testbed/kube-proxy.json": _json(_kube_proxy(node)),
    }


def _network(node: NodeSettings) -> dict[str, Any]:
    bridge = {
        "type": "bridge",
        "bridge": "cni0",
        "isGateway": True,
        "isDefaultGateway": True,
        "hairpinMode": True,
        "ipMasq": False,
        "ipam": {"type": "host-local", "ranges": [[{"subnet": f"10.244.{node.number}.0/24"}]]},
    }
    return {"cniVersion": "1.0.0", "name": "testbed", "plugins": [bridge]}


def _containerd(node: NodeSettings) -> str:
    # No process here may lower an OOM score (that needs CAP_SYS_RESOURCE, which sandboxes rarely have).
    return f"""\
version = 3
root = "/var/lib/containerd"
state = "/run/containerd"
[plugins.'io.containerd.cri.v1.images']
  snapshotter = "overlayfs"
  [plugins.'io.containerd.cri.v1.images'.pinned_images]
    sandbox = "{PAUSE_IMAGE}"
[plugins.'io.containerd.cri.v1.runtime']
  restrict_oom_score_adj = true
  [plugins.'io.containerd.cri.v1.runtime'.cni]
    bin_dirs = ["{node.cni_plugins}"]
    conf_dir = "/etc/cni/net.d"
  [plugins.'io.containerd.cri.v1.runtime'.containerd]
    default_runtime_name = "runc"
    [plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.runc]
      runtime_type = "io.containerd.runc.v2"
      [plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.runc.options]
        BinaryName = "{node.runc}"
        SystemdCgroup = false
"""


def _kubelet(node: NodeSettings) -> dict[str, Any]:
    return {
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "failCgroupV1": False,
        "cgroupDriver": "cgroupfs",
        "containerRuntimeEndpoint": "unix:///run/containerd/containerd.sock",
        "failSwapOn": False,
        # The API server has no client certificate here; no other machine is in the nodes' network.
        "authentication": {"anonymous": {"enabled": True}, "webhook": {"enabled": False}},
        "authorization": {"mode": "AlwaysAllow"},
        "clusterDNS": [CLUSTER_DNS],
        "clusterDomain": "cluster.local",
        "resolvConf": "/etc/testbed/resolv.conf",
        "address": node.address,
        "maxPods": 60,
        # The default is below /usr, which a node shares with the machine.
        "volumePluginDir": "/var/lib/kubelet/plugins/volume",
        # So that a lost node is noticed within the timeouts of the tests, and a short stall is not.
        "nodeStatusUpdateFrequency": "4s",
        "nodeLeaseDurationSeconds": 12,
        "imageGCHighThresholdPercent": 100,
        "evictionHard": {"memory.available": "100Mi", "nodefs.available": "10%"},
        "evictionPressureTransitionPeriod": "5s",
        "systemReserved": {"cpu": f"{node.reserved_cpu_millis}m", "memory": "256Mi"},
        # Image pulls can't succeed, so there is nothing to wait for between tries.
        "serializeImagePulls": False,
        "shutdownGracePeriod": "0s",
    }


def _kube_proxy(node: NodeSettings) -> dict[str, Any]:
    return {
        "apiVersion": "kubeproxy.config.k8s.io/v1alpha1",
        "kind": "KubeProxyConfiguration",
        "mode": "nftables",
        "hostnameOverride": node.name,
        "clusterCIDR": POD_NETWORK,
        "clientConnection": {"kubeconfig": node.proxy_kubeconfig},
        "metricsBindAddress": "127.0.0.1:10249",
        "healthzBindAddress": "127.0.0.1:10256",
        # The limits are the machine's, not the node's.
        "conntrack": {
            "maxPerCore": 0,
            "min": 0,
            "tcpEstablishedTimeout": "0s",
            "tcpCloseWaitTimeout": "0s",
        },
    }


def _json(value: Any) -> str:
    return json.dumps(value, indent=2) + "\n"
