"""One process that acts as the kubelets of many nodes: a client of the API like any other.

    async with FakeKubelet(client, behaviour).running() as kubelet:
        await kubelet.register(node_shapes(20))

How nodes and pods behave is given in the vocabulary of `kubesim.behaviour`, and may be changed
while it runs. For contributors: `python -m tests.testbed.fake_kubelet --help`.
"""

from tests.testbed.fake_kubelet.kubelet import FakeKubelet
from tests.testbed.fake_kubelet.nodes import NodeShape, node_shapes

__all__ = ["FakeKubelet", "NodeShape", "node_shapes"]
