"""A cluster with a hot spot: a fifth of its nodes has drawn a third of its pods.

Every pod asks for something else between 100m and 4 cpus and between 0.5 and 4 GiB; nodes are of one size,
such that the average load is 50 %. Where the sizes are drawn from makes a difference to what so many moves
can do: evenly from all, or from those that people usually write into their manifests.
"""

import numpy as np
import numpy.typing as npt

from rescheduler.cluster.cluster_state import ClusterState
from rescheduler.cluster.node_record import NodeCondition, NodeRecord
from rescheduler.cluster.pod_record import (
    Container,
    ContainerStateRunning,
    ContainerStatus,
    PodCondition,
    PodRecord,
    PodShape,
)
from rescheduler.cluster.resource_amounts import Resources

__all__ = ["NOW_S", "SIZES", "hot_spot"]

NOW_S = 1_780_000_000
MIB = 2**20
SIZES = ("even", "usual")
Sizes = tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]
Floats = npt.NDArray[np.float64]

_AVERAGE_LOAD = 0.5
_CPU_MILLIS = (100, 250, 500, 1000, 2000, 4000)
_MEMORY_MIB = (512, 1024, 2048, 4096)


def hot_spot(*, nodes: int = 500, pods: int = 10_000, seed: int = 1, sizes: str = "even") -> ClusterState:
    rng = np.random.default_rng(seed)
    cpu_millis, memory_mib = _drawn(rng, pods, sizes)
    state = ClusterState()
    per_node = nodes * _AVERAGE_LOAD
    allocatable = Resources(
        int(np.ceil(cpu_millis.sum() / per_node)), int(np.ceil(memory_mib.sum() / per_node)) * MIB, 0, 250, ()
    )
    for number in range(nodes):
        state.apply_node(_node(f"node-{number:04}", allocatable))
    hot = rng.permutation(nodes) < nodes // 5
    draw = np.cumsum(np.where(hot, 1 / 3 / hot.sum(), 2 / 3 / (~hot).sum()))
    draw[-1] = 1.0
    free = np.tile([allocatable.cpu_millis, allocatable.memory_bytes // MIB], (nodes, 1))
    for number, asks in enumerate(zip(cpu_millis.tolist(), memory_mib.tolist(), strict=True)):
        node = _draw(rng, draw, free, asks)
        free[node] -= asks
        asked = Resources(asks[0], asks[1] * MIB, 0, 0, ())
        state.apply_pod(_pod(number, f"node-{node:04}", asked))
    return state


def _draw(rng: np.random.Generator, draw: Floats, free: npt.NDArray[np.int64], asks: tuple[int, int]) -> int:
    """A node with room for it: none is asked for more than it has."""
    while True:
        node = int(np.searchsorted(draw, rng.random()))
        if (free[node] >= asks).all():
            return node


def _drawn(rng: np.random.Generator, pods: int, sizes: str) -> Sizes:
    if sizes == "even":
        return rng.integers(100, 4001, pods), rng.integers(512, 4097, pods)
    return rng.choice(_CPU_MILLIS, pods), rng.choice(_MEMORY_MIB, pods)


def _node(name: str, allocatable: Resources) -> NodeRecord:
    return NodeRecord(
        name=name,
        uid=f"uid-of-{name}",
        resource_version="1",
        created_s=NOW_S - 10_000_000,
        labels={"kubernetes.io/hostname": name},
        allocatable=allocatable,
        capacity=allocatable,
        conditions=(NodeCondition("Ready", "True", "KubeletReady", "kubelet is ready", 1, NOW_S - 60),),
    )


def _pod(number: int, node: str, asked: Resources) -> PodRecord:
    name = f"pod-{number:05}"
    return PodRecord(
        key=f"hot/{name}",
        namespace="hot",
        uid=f"uid-of-{name}",
        resource_version="1",
        created_s=NOW_S - 100_000,
        node=node,
        shape=PodShape(
            requests=asked,
            containers=(Container("app", "registry.example.com/app:1", asked),),
            scheduler_name="default-scheduler",
            restart_policy="Always",
            grace_period_s=30,
        ),
        requests=asked,
        phase="Running",
        conditions=(PodCondition("Ready", "True", since_s=NOW_S - 90_000),),
        container_statuses=(ContainerStatus("app", ready=True, started=True, state=ContainerStateRunning()),),
        started_s=NOW_S - 99_000,
    )
