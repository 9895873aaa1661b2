"""Clusters in every state that a strategy may meet. Each call builds a new one."""

import random
from collections.abc import Callable
from datetime import UTC, datetime

from rescheduler.api.well_known_names import (
    CORDONED_BY_ANNOTATION,
    FAILED_ATTEMPTS_ANNOTATION,
    MAINTENANCE_LABEL,
)
from rescheduler.recovery.attempt_ledger import AttemptLedger, FailedAttempt, ReplicaLineage
from tests.battery.pod_constraints import HOSTNAME, ZONE, apart, spread
from tests.building import LONG_AGO, NOW, ClusterBuilder, cluster
from tests.failing_pods import crashing

__all__ = ["CALM", "SCENARIOS", "Scenario", "excluded_pods", "random_cluster"]

OLD = "2026-02-01T12:00:00Z"
"""Older than `maxPodLifeTime`."""

Scenario = Callable[[], ClusterBuilder]

SCENARIOS: dict[str, Scenario] = {}
"""By what they are, in words."""
CALM = ("an empty cluster", "a single node", "a balanced cluster", "a full cluster that is balanced")
"""Those in which no strategy has anything to do (but cost, which may always find a node too many)."""


def scenario(words: str) -> Callable[[Scenario], Scenario]:
    def keep(build: Scenario) -> Scenario:
        assert words not in SCENARIOS
        SCENARIOS[words] = build
        return build

    return keep


def zones(count: int = 6, **parts: object) -> ClusterBuilder:
    """Nodes n0, n1, … in the zones a, b and c in turn."""
    made = cluster()
    for number in range(count):
        made.node(f"n{number}", labels={ZONE: "abc"[number % 3]}, **parts)
    return made


@scenario("an empty cluster")
def _() -> ClusterBuilder:
    return cluster()


@scenario("nodes without pods")
def _() -> ClusterBuilder:
    return zones()


@scenario("a single node")
def _() -> ClusterBuilder:
    return cluster().node("n0").deployment("shop/web", replicas=4, on=["n0"], cpu="1900m", memory="1Gi")


@scenario("a balanced cluster")
def _() -> ClusterBuilder:
    made = zones(6)
    for app in ("web", "cart"):
        constraints = spread(app) | apart(app)
        made.deployment(f"shop/{app}", replicas=6, on=_names(6), cpu="3", memory="10Gi", pod_spec=constraints)
    return made


@scenario("a full cluster that is balanced")
def _() -> ClusterBuilder:
    return zones(4).deployment("shop/web", replicas=16, on=_names(4), cpu="1990m", memory="7Gi")


@scenario("one hot node")
def _() -> ClusterBuilder:
    made = zones(6).deployment("shop/web", replicas=7, on=["n0"], cpu="1", memory="4Gi")
    return made.deployment("shop/cart", replicas=6, on=_names(6), cpu="500m", memory="1Gi")


@scenario("a node that is hot by usage only")
def _() -> ClusterBuilder:
    made = zones(4).deployment("shop/web", replicas=8, on=_names(4), cpu="1", memory="2Gi")
    for number in range(8):
        cpu = 3800 if number % 4 == 0 else 300
        made.usage(f"shop/web-1-{number}", cpu_millis=cpu, memory_bytes=2**30)
    return made


@scenario("a full cluster")
def _() -> ClusterBuilder:
    made = zones(4)
    for node, count in zip(_names(4), (8, 7, 8, 8), strict=True):
        made.deployment(f"shop/{node}", replicas=count, on=[node], cpu="1", memory="4Gi")
    return made


@scenario("two full nodes that must exchange pods")
def _() -> ClusterBuilder:
    # One has all the cpu in use, the other all the memory; a third has room for one pod to stop on.
    made = cluster().node("left", cpu="4", labels={ZONE: "a"}).node("right", cpu="4", labels={ZONE: "b"})
    made.node("third", cpu="1", memory="8Gi", labels={ZONE: "c"})
    made.deployment("shop/busy", replicas=4, on=["left"], cpu="1", memory="1Gi")
    return made.deployment("shop/large", replicas=4, on=["right"], cpu="100m", memory="8Gi")


@scenario("workloads with a single replica")
def _() -> ClusterBuilder:
    made = zones(4)
    for number in range(7):
        made.deployment(f"shop/web-{number}", replicas=1, on=["n0"], cpu="1", memory="2Gi")
    return made.pod("shop/bare", on="n0", cpu="500m").stateful_set("shop/db", replicas=1, on=["n0"])


@scenario("spread violated by drift")
def _() -> ClusterBuilder:
    nodes = ["n0", "n0", "n3", "n3", "n1", "n0"]
    return zones(6).deployment("shop/web", replicas=6, on=nodes, cpu="500m", pod_spec=spread("web"))


@scenario("spread over zones and nodes violated by drift")
def _() -> ClusterBuilder:
    constraints = spread("web")
    constraints["topologySpreadConstraints"] += spread("web", HOSTNAME)["topologySpreadConstraints"]
    return zones(6).deployment(
        "shop/web", replicas=5, on=["n0", "n0", "n0", "n3", "n1"], pod_spec=constraints
    )


@scenario("spread that can't be restored, because a zone is full")
def _() -> ClusterBuilder:
    made = zones(3).deployment("shop/web", replicas=4, on=["n0", "n0", "n0", "n1"], pod_spec=spread("web"))
    label = {"scheduler.alpha.kubernetes.io/rescheduling": "disabled"}
    return made.deployment("shop/wall", replicas=1, on=["n2"], cpu="7950m", labels=label)


@scenario("an anti-affinity collision")
def _() -> ClusterBuilder:
    made = zones(4).deployment("shop/web", replicas=3, on=["n0", "n0", "n1"], pod_spec=apart("web"))
    return made.deployment("shop/cart", replicas=3, on=["n1"], pod_spec=apart("web"))


@scenario("volumes that can't leave their zone")
def _() -> ClusterBuilder:
    made = zones(6).storage_class("standard")
    for number in range(4):
        made.claim(f"shop/data-db-{number}", volume=f"disk-{number}")
        made.volume(f"disk-{number}", claim=f"shop/data-db-{number}", zones=["a"])
    return made.stateful_set("shop/db", replicas=4, on=["n0"], claim="data", cpu="1900m", memory="7Gi")


@scenario("pods of all ages")
def _() -> ClusterBuilder:
    made = zones(4).deployment("shop/new", replicas=4, on=_names(4), cpu="500m")
    made.deployment("shop/old", replicas=4, on=_names(4), cpu="500m", created=OLD)
    return made.stateful_set("shop/db", replicas=2, on=_names(2), cpu="500m", created=OLD)


@scenario("old pods, of which some can't move")
def _() -> ClusterBuilder:
    made = zones(6).deployment("shop/web", replicas=3, on=_names(3), pod_spec=spread("web"), created=OLD)
    made.deployment("shop/kept", replicas=2, on=_names(2), created=OLD)
    made.budget("shop/kept", selector={"app": "kept"}, allowed=0)
    ring = {"scheduling.x-k8s.io/pod-group": "ring"}
    made.deployment("shop/ring", replicas=2, on=["n0", "n1"], labels=ring, created=OLD)
    return made.deployment(
        "shop/pair", replicas=3, on=["n3", "n4", "n5"], pod_spec=apart("pair"), created=OLD
    )


@scenario("StatefulSets")
def _() -> ClusterBuilder:
    made = zones(4).stateful_set("shop/db", replicas=3, on=["n0"], cpu="2", pod_spec=apart("db"))
    return made.stateful_set("shop/queue", replicas=4, on=["n0", "n1"], cpu="500m")


@scenario("taints that few tolerate")
def _() -> ClusterBuilder:
    made = zones(4).nodes("g0", "g1", labels={ZONE: "a"}, taints=["dedicated=batch:NoSchedule"])
    tolerant = {"tolerations": [{"key": "dedicated", "operator": "Exists"}]}
    made.deployment("shop/web", replicas=7, on=["n0"], cpu="1", memory="4Gi")
    return made.deployment("shop/batch", replicas=4, on=["g0"], cpu="1900m", pod_spec=tolerant)


@scenario("labels and taints that changed")
def _() -> ClusterBuilder:
    made = zones(4).nodes("g0", "g1", labels={ZONE: "a", "disk": "ssd"})
    made.node("old", labels={ZONE: "b"}, taints=["pool=old:NoSchedule"])
    selecting = {"nodeSelector": {"disk": "ssd"}}
    made.deployment("shop/data", replicas=4, on=["n0", "n1", "g0", "n0"], cpu="1", pod_spec=selecting)
    made.stateful_set("shop/db", replicas=2, on=["old", "n2"], cpu="500m")
    made.deployment("shop/web", replicas=3, on=["old", "old", "n3"], cpu="1", pod_spec=spread("web"))
    return made.daemon_set("kube-system/proxy", on=["old"])


@scenario("nodes of different sizes")
def _() -> ClusterBuilder:
    made = cluster()
    for number, (cpu, memory) in enumerate((("4", "8Gi"), ("8", "32Gi"), ("16", "64Gi"), ("32", "64Gi"))):
        made.node(f"n{number}", cpu=cpu, memory=memory, labels={ZONE: "abca"[number]})
    made.deployment("shop/web", replicas=7, on=["n0", "n1"], cpu="900m", memory="1700Mi")
    return made.deployment("shop/cart", replicas=8, on=["n2"], cpu="1800m", memory="2Gi")


@scenario("extended resources")
def _() -> ClusterBuilder:
    made = zones(2).nodes("g0", "g1", "g2", labels={ZONE: "a"}, more={"example.com/gpu": "4"})
    made.deployment("shop/train", replicas=4, on=["g0"], cpu="1900m", more={"example.com/gpu": "1"})
    return made.deployment("shop/web", replicas=4, on=["g0", "g1"], cpu="100m")


@scenario("pod groups")
def _() -> ClusterBuilder:
    label = {"scheduling.x-k8s.io/pod-group": "ring"}
    made = zones(4).deployment("shop/ring", replicas=3, on=["n0", "n0", "n1"], cpu="2", labels=label)
    return made.deployment("shop/web", replicas=3, on=["n0"], cpu="1")


@scenario("pods that wait for a node")
def _() -> ClusterBuilder:
    made = zones(4).deployment("shop/web", replicas=9, on=["n0", "n0", "n0", "n1"], cpu="1", memory="2Gi")
    lacking = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}
    message = "0/4 nodes are available: 4 Insufficient cpu."
    return made.pod("shop/large", cpu="7", status={"conditions": [lacking | {"message": message}]})


@scenario("cordoned and NotReady nodes")
def _() -> ClusterBuilder:
    made = (
        zones(3).node("away", labels={ZONE: "a"}, cordoned=True).node("lost", labels={ZONE: "b"}, ready=False)
    )
    made.deployment("shop/web", replicas=7, on=["n0"], cpu="1", memory="4Gi")
    return made.deployment("shop/cart", replicas=4, on=["away", "lost"], cpu="1")


@scenario("maintenance of one node")
def _() -> ClusterBuilder:
    made = zones(5).node("leaving", labels={ZONE: "a", MAINTENANCE_LABEL: "true"})
    constraints = spread("web") | apart("web")
    made.deployment("shop/web", replicas=4, on=["leaving", "n1", "n2", "n0"], cpu="1", pod_spec=constraints)
    made.deployment("shop/cart", replicas=3, on=["leaving"], cpu="500m")
    made.deployment(
        "rescheduler/rescheduler", on=["leaving"], labels={"app.kubernetes.io/name": "rescheduler"}
    )
    return made.daemon_set("kube-system/proxy", on=["leaving", "n0"])


@scenario("maintenance of a whole zone")
def _() -> ClusterBuilder:
    made = zones(4).nodes("l0", "l1", labels={ZONE: "a", MAINTENANCE_LABEL: "true"})
    made.deployment("shop/web", replicas=6, on=["l0", "l1", "n1"], cpu="1", memory="2Gi")
    return made.stateful_set("shop/db", replicas=3, on=["l0", "l1", "n2"], cpu="500m")


@scenario("maintenance of all nodes")
def _() -> ClusterBuilder:
    made = cluster().nodes("l0", "l1", "l2", labels={ZONE: "a", MAINTENANCE_LABEL: "true"})
    return made.deployment("shop/web", replicas=6, on=["l0", "l1"], cpu="1")


@scenario("maintenance that is over")
def _() -> ClusterBuilder:
    made = zones(3).node(
        "back", labels={ZONE: "a"}, cordoned=True, annotations={CORDONED_BY_ANNOTATION: "NodeMaintenance"}
    )
    return made.deployment("shop/web", replicas=3, on=["n0", "n1", "n2"], cpu="1")


@scenario("pods that keep failing")
def _() -> ClusterBuilder:
    made = zones(5).deployment("shop/cart", replicas=8, on=["n1"], cpu="500m", memory="2Gi")
    asked = {"scheduling-retries": "3"}
    for name in ("web", "api", "mail"):
        made.deployment(f"shop/{name}", on=["n0"], annotations=asked, cpu="500m", **crashing())
    tried = AttemptLedger({"queue-0": ReplicaLineage((FailedAttempt(int(NOW) - 600, "n2", "before"),))})
    marks = asked | {FAILED_ATTEMPTS_ANNOTATION: tried.written("uid-of-statefulset-shop-queue")}
    made.stateful_set("shop/queue", on=["n3"], annotations=marks, cpu="1", **crashing())
    made.deployment("shop/unasked", on=["n0"], cpu="500m", **crashing())
    return made.pod("shop/bare", on="n4", annotations=asked, cpu="500m", **crashing())


@scenario("pods that wait for room")
def _() -> ClusterBuilder:
    made = zones(6, cpu="8", memory="64Gi")
    made.deployment("shop/web", replicas=6, on=_names(6), cpu="4").deployment(
        "shop/cart", replicas=6, on=_names(6), cpu="2"
    )
    unschedulable = {
        "type": "PodScheduled",
        "status": "False",
        "reason": "Unschedulable",
        "message": "0/6 nodes are available: 6 Insufficient cpu.",
        "lastTransitionTime": LONG_AGO,
    }
    for name in ("train-0", "train-1"):
        made.pod(f"batch/{name}", cpu="4", status={"conditions": [unschedulable]})
    return made


@scenario("all pods excluded")
def excluded_pods() -> ClusterBuilder:
    """Every reason of its own, each on a node that all strategies would like to empty or to relieve."""
    made = zones(3).node("n9", labels={ZONE: "a", MAINTENANCE_LABEL: "true"}, cpu="64")
    young = datetime.fromtimestamp(NOW - 60, UTC).isoformat()
    prefix = "scheduler.alpha.kubernetes.io/"
    parts: dict[str, dict[str, object]] = {
        "shop/mirror": {"annotations": {"kubernetes.io/config.mirror": "x"}},
        "shop/unknown": {"owner": "Ring/ring"},
        "kube-system/dns": {},
        "shop/critical": {"pod_spec": {"priorityClassName": "system-node-critical"}},
        "shop/going": {"deleted": LONG_AGO},
        "shop/done": {"phase": "Succeeded"},
        "shop/device": {"pod_spec": {"resourceClaims": [{"name": "card"}]}},
        "shop/other": {"pod_spec": {"schedulerName": "volcano"}},
        "shop/opted-out": {"labels": {f"{prefix}rescheduling": "disabled"}},
        "shop/unsafe": {"annotations": {"cluster-autoscaler.kubernetes.io/safe-to-evict": "false"}},
        "shop/undisturbed": {"annotations": {"karpenter.sh/do-not-disrupt": "true"}},
        "shop/young": {"created": young},
        "shop/host-path": {"volumes": [{"name": "data", "hostPath": {"path": "/data"}}]},
        "shop/scratch": {"volumes": [{"name": "data", "emptyDir": {}}]},
        "shop/once": {"pod_spec": {"restartPolicy": "Never"}},
        "shop/moving": {"uid": "moving"},
        "shop/no-claim": {"claims": ["missing"]},
    }
    for key, part in parts.items():
        made.pod(key, on="n9", cpu="1", memory="1Gi", **part)
    made.apply(
        {
            "apiVersion": "rescheduler.dev/v1alpha1",
            "kind": "PodMigration",
            "metadata": {"name": "m", "namespace": "shop", "uid": "m", "creationTimestamp": LONG_AGO},
            "spec": {"pod": {"name": "moving", "uid": "moving"}, "sourceNode": "n9"},
            "status": {"phase": "InProgress"},
        }
    )
    made.daemon_set("shop/agent", on=["n9"], cpu="1").job("shop/job", on=["n9"], cpu="1")
    made.deployment("shop/covered", replicas=1, on=["n9"], labels={"part": "x"})
    return made.budget("shop/one", selector={"app": "covered"}).budget("shop/two", selector={"part": "x"})


def _names(count: int) -> list[str]:
    return [f"n{number}" for number in range(count)]


def random_cluster(seed: int) -> ClusterBuilder:
    """A bit of everything, placed without regard to what pods ask for beside resources."""
    rng = random.Random(seed)
    made = cluster()
    names = []
    for number in range(rng.randint(2, 8)):
        name = f"n{number}"
        labels = {ZONE: rng.choice("abc")} | ({MAINTENANCE_LABEL: "true"} if rng.random() < 0.15 else {})
        cordoned, ready = rng.random() < 0.1, rng.random() < 0.95
        made.node(name, cpu=rng.choice("48"), labels=labels, cordoned=cordoned, ready=ready)
        names.append(name)
    for number in range(rng.randint(1, 7)):
        app = f"app-{number}"
        constraints = {}
        if rng.random() < 0.4:
            constraints |= spread(app, rng.choice((ZONE, HOSTNAME)), rng.randint(1, 2))
        if rng.random() < 0.3:
            constraints |= apart(app, rng.choice((ZONE, HOSTNAME, HOSTNAME)))
        parts = {"replicas": rng.randint(1, 5), "cpu": rng.choice(("250m", "500m", "1")), "memory": "1Gi"}
        make = made.stateful_set if rng.random() < 0.25 else made.deployment
        labels = {"scheduling.x-k8s.io/pod-group": app} if rng.random() < 0.1 else {}
        priority = rng.choice((0, 0, 100))
        make(
            f"shop/{app}",
            on=[rng.choice(names) for _ in range(5)],
            pod_spec=constraints,
            labels=labels,
            priority=priority,
            **parts,
        )
        if rng.random() < 0.3:
            made.budget(f"shop/{app}", selector={"app": app}, allowed=rng.randint(0, 1))
    return made
