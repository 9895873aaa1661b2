"""Some fields of a pod need a kubelet that declares to know them."""

from collections.abc import Iterator

from rescheduler.simulator.exchange import Object
from rescheduler.simulator.scheduler.nodes import NodeView
from rescheduler.simulator.scheduler.pods import PodView
from rescheduler.simulator.scheduler.refusals import Check, Refusal
from rescheduler.simulator.scheduler.view import ClusterView

__all__ = ["declared_features"]

_REFUSED = Refusal("NodeDeclaredFeatures", ("node(s) didn't match Pod's required features",))


def declared_features(pod: PodView, _: ClusterView) -> Check | None:
    needed = frozenset(_needed(pod.spec))
    if not needed:
        return None

    def check(node: NodeView) -> Refusal | None:
        return None if needed <= node.declared_features else _REFUSED

    return check


def _needed(spec: Object) -> Iterator[str]:
    containers = [*(spec.get("initContainers") or ()), *(spec.get("containers") or ())]
    rules = [rule for container in containers for rule in container.get("restartPolicyRules") or ()]
    if any(rule.get("action") == "RestartAllContainers" for rule in rules):
        yield "RestartAllContainersOnContainerExits"
    if spec.get("hostNetwork") and spec.get("hostUsers") is False:
        yield "UserNamespacesHostNetworkSupport"
    mounts = [
        mount
        for container in (*containers, *(spec.get("ephemeralContainers") or ()))
        for mount in container.get("volumeMounts") or ()
    ]
    if any(mount.get("bindMountOptions") for mount in mounts):
        yield "VolumeBindMountOptions"
