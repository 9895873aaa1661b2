"""Real nodes for the real control plane: kubelet, containerd, runc, CNI and kube-proxy."""

from tests.testbed.nodes.real_node import NodeError, NodeShape, RealNode
from tests.testbed.nodes.real_nodes import CONTROL_PLANE_ADDRESS, Nodes, with_nodes

__all__ = ["CONTROL_PLANE_ADDRESS", "NodeError", "NodeShape", "Nodes", "RealNode", "with_nodes"]
