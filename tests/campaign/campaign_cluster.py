"""The cluster of one seed: nodes, workloads of every kind, load, and the configuration of rescheduler.

Everything is drawn from the seed. The label `app` names the workload of a pod, and is used once in a
namespace, as the observer expects it.
"""

import random
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from kubesim.behaviour import Behaviour, load_behaviour
from kubesim.scenario import Scenario
from kubesim.scenario.scenario_file import load_scenario
from kubevalues import parse_selector
from rescheduler.config.policy import (
    Configuration,
    FailedPodsPolicy,
    LeaderElection,
    Policy,
    SafeEvictionMode,
    SafeEvictions,
    UsageSource,
    ZeroBudget,
)
from rescheduler.install.component_manifests import objects_that_the_webhook_writes
from tests.battery.pod_constraints import HOSTNAME, ZONE, apart, spread
from tests.e2e.chaos.chaos_workloads import HOME

__all__ = ["EXCLUDED_APP", "EXCLUDED_NAMESPACE", "CampaignCluster", "campaign_cluster"]

EXCLUDED_NAMESPACE = "kube-system"
EXCLUDED_APP = "untouchable"
"""Pods with this label `app` match `excludedPodSelector`."""
NAMESPACES = ("shop", "bank")
OPTED_OUT = {"scheduler.alpha.kubernetes.io/rescheduling": "disabled"}
GROUP = "scheduling.x-k8s.io/pod-group"
_NODE_CPU = 8000
_FILLED = 0.55
"""At most this share of all cpu is requested: there is room for copies and for what others add."""


@dataclass(frozen=True)
class CampaignCluster:
    scenario: Scenario
    configuration: Configuration
    rest: Behaviour
    """How pods behave when the faults are over: their load does not change any more."""
    has_webhook: bool
    daemons: int

    @property
    def nodes(self) -> list[str]:
        return [machine.name for machine in self.scenario.machines()]

    @property
    def policy(self) -> Policy:
        return self.configuration.policy

    def __str__(self) -> str:
        policy = self.policy
        words = [
            f"{len(self.nodes)} nodes, {len(self.scenario.workloads)} workloads",
            f"{self.daemons} daemons"
            + ("" if self.configuration.leader_election.leader_elect else " that all lead"),
            "webhook" if self.has_webhook else "no webhook",
            f"strategies {', '.join(policy.enabled_strategies)}",
            f"load by {policy.usage_source}",
        ]
        return "; ".join(words)


def campaign_cluster(seed: int) -> CampaignCluster:
    rng = random.Random(f"cluster {seed}")
    has_webhook = rng.random() < 0.8
    content = {
        "name": f"campaign {seed}",
        "seed": seed,
        "settle": "10m",
        "nodes": list(_nodes(rng)),
        "objects": [
            _priority("high", 1000),
            _priority("low", -10),
            _namespace(HOME),
            *objects_that_the_webhook_writes(HOME),
        ],
    }
    content["workloads"] = list(_workloads(rng, [node["name"] for node in content["nodes"]]))
    steady = _steady_behaviour(rng)
    patterns = [_load_pattern(rng, each["name"]) for each in content["workloads"] if rng.random() < 0.4]
    content["behaviour"] = {"pods": [*patterns, steady]}
    leads = LeaderElection(
        leader_elect=rng.random() < 0.85,
        lease_duration=timedelta(seconds=30),
        renew_deadline=timedelta(seconds=20),
        retry_period=timedelta(seconds=6),
    )
    configuration = Configuration(policy=_policy(rng), leader_election=leads)
    rest = load_behaviour({"pods": [steady], "seed": seed})
    return CampaignCluster(load_scenario(content), configuration, rest, has_webhook, rng.choice((1, 2, 2)))


# -- what is in it


def _nodes(rng: random.Random) -> Iterator[dict[str, Any]]:
    for number in range(rng.randint(5, 8)):
        yield {"name": f"node-{number}", "cpu": "8", "memory": "32Gi", "zone": f"zone-{'abc'[number % 3]}"}


def _workloads(rng: random.Random, nodes: list[str]) -> Iterator[dict[str, Any]]:
    left = _FILLED * _NODE_CPU * len(nodes)
    yield _excluded(EXCLUDED_NAMESPACE, "dns", nodes, rng)
    yield _excluded(NAMESPACES[0], EXCLUDED_APP, nodes, rng)
    yield _excluded(NAMESPACES[1], "opted-out", nodes, rng) | {"labels": OPTED_OUT}
    yield {"kind": "DaemonSet", "namespace": EXCLUDED_NAMESPACE, "name": "agent", "cpu": "50m"}
    for number in range(rng.randint(7, 13)):
        workload = _workload(rng, number, nodes)
        left -= int(workload["cpu"][:-1]) * workload.get("replicas", 1)
        if left < 0:
            return
        yield workload


def _excluded(namespace: str, name: str, nodes: list[str], rng: random.Random) -> dict[str, Any]:
    return {"namespace": namespace, "name": name, "cpu": "300m", "replicas": 2, "on": rng.sample(nodes, 2)}


def _workload(rng: random.Random, number: int, nodes: list[str]) -> dict[str, Any]:
    kinds = ("Deployment",) * 6 + ("StatefulSet",) * 2 + ("ReplicaSet", "Pod", "Job")
    kind = rng.choice(kinds)
    app = f"{kind.lower()}-{number}"
    replicas = 1 if kind == "Pod" else rng.choice((1, 2, 3, 4))
    # Crowded on few nodes, so that there is something to balance.
    crowded = rng.sample(nodes, min(len(nodes), rng.randint(1, 2)))
    workload: dict[str, Any] = {
        "kind": kind,
        "namespace": rng.choice(NAMESPACES),
        "name": app,
        "replicas": replicas,
        "cpu": rng.choice(("200m", "500m", "800m", "1200m")),
        "memory": rng.choice(("256Mi", "1Gi", "2Gi")),
        "on": [rng.choice(crowded) for _ in range(replicas)] if rng.random() < 0.7 else [],
        "pod": _pod(rng, app, kind, replicas),
        "service": 80,
    }
    if kind != "Job" and rng.random() < 0.6:
        workload["budget"] = _budget(rng, replicas)
    if kind == "Deployment":
        workload["spec"] = _deployment_spec(rng)
    if kind == "StatefulSet" and rng.random() < 0.5:
        # Volumes stay in the zone of their first pod, where there may be no room for what pods require.
        workload["claims"] = [{"name": "data"}]
        for constraint in ("topologySpreadConstraints", "affinity"):
            workload["pod"].pop(constraint, None)
    if kind == "Deployment" and replicas in (2, 3) and rng.random() < 0.15:
        workload["labels"] = {GROUP: app}
    return workload


def _pod(rng: random.Random, app: str, kind: str, replicas: int) -> dict[str, Any]:
    probe = {"httpGet": {"path": "/", "port": 80}, "periodSeconds": 5}
    spec: dict[str, Any] = {"terminationGracePeriodSeconds": rng.choice((3, 10, 30))}
    if rng.random() < 0.5:
        spec["containers"] = [{"name": app, "readinessProbe": probe, "livenessProbe": probe}]
    if rng.random() < 0.3:
        spec |= spread(app, rng.choice((ZONE, HOSTNAME)), rng.randint(1, 2))
    if rng.random() < 0.2 and replicas <= 3:
        spec |= apart(app, HOSTNAME)
    if rng.random() < 0.2:
        spec["priorityClassName"] = rng.choice(("high", "low"))
    return spec


def _budget(rng: random.Random, replicas: int) -> dict[str, Any]:
    budgets: list[dict[str, Any]] = [
        {"maxUnavailable": 1},
        {"maxUnavailable": 0},
        {"minAvailable": replicas},
        {"minAvailable": "100%"},
        {"minAvailable": max(0, replicas - 1)},
    ]
    budget = rng.choice(budgets)
    return budget | ({"unhealthyPodEvictionPolicy": "AlwaysAllow"} if rng.random() < 0.3 else {})


def _deployment_spec(rng: random.Random) -> dict[str, Any]:
    spec: dict[str, Any] = {}
    if rng.random() < 0.2:
        spec["minReadySeconds"] = rng.choice((3, 15))
    if rng.random() < 0.15:
        spec["strategy"] = {"type": "Recreate"}
    elif rng.random() < 0.15:
        spec["strategy"] = {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 0, "maxUnavailable": 1}}
    return spec


def _steady_behaviour(rng: random.Random) -> dict[str, Any]:
    return {
        "startup": rng.choice(("1s", "4s", "12s")),
        "readiness": rng.choice(("0s", "3s", "10s")),
        "termination": rng.choice(("1s", "2s", "8s")),
        "usage": {"cpu": rng.choice(("40%", "60%", "90%")), "memory": "50%"},
    }


def _load_pattern(rng: random.Random, app: str) -> dict[str, Any]:
    """Waves, ramps and noise."""
    cpu: dict[str, Any] = rng.choice(
        (
            {"mean": "70%", "swing": "60%", "every": rng.choice(("10m", "1h", "6h")), "noise": 0.1},
            {"start": "10%", "end": "150%", "over": "20m", "noise": 0.1},
            {"level": "80%", "noise": 0.3},
        )
    )
    return {"match": {"labels": {"app": app}}, "usage": {"cpu": cpu}}


def _priority(name: str, value: int) -> dict[str, Any]:
    return {
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "PriorityClass",
        "metadata": {"name": name},
        "value": value,
    }


def _namespace(name: str) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}


# -- the configuration


def _policy(rng: random.Random) -> Policy:
    balance = rng.choice(("LoadBalancing", "LoadBalancing", "LoadBalancing", "CostOptimization"))
    others = [
        name
        for name in ("TopologySpread", "ResourceOptimization", "PlacementDrift", "MakeRoom")
        if rng.random() < 0.4
    ]
    cooldown = timedelta(minutes=rng.choice((1, 3, 10)))
    return Policy(
        rescheduling_interval=timedelta(seconds=rng.choice((15, 60, 60, 300, 300))),
        enabled_strategies=("NodeMaintenance", *others, balance),
        imbalance_threshold=rng.choice((10.0, 20.0)),
        excluded_pod_selector=parse_selector(f"app={EXCLUDED_APP}"),
        usage_source=rng.choice((UsageSource.REQUESTS, UsageSource.REQUESTS, UsageSource.METRICS)),
        hot_checks=rng.choice((1, 3)),
        min_pod_age=timedelta(seconds=rng.choice((0, 60, 300))),
        pod_cooldown=cooldown,
        migration_timeout=timedelta(minutes=rng.choice((1, 3, 10))),
        max_retries=rng.choice((0, 1, 3)),
        settle_time=timedelta(seconds=rng.choice((0, 1, 10))),
        steer_timeout=timedelta(seconds=rng.choice((10, 60))),
        allow_unsteered=rng.random() < 0.4,
        temporary_budget=rng.random() < 0.8,
        move_under_zero_budget=rng.choice(tuple(ZeroBudget)),
        max_concurrent_per_workload=rng.choice((1, 1, 2)),
        max_concurrent_per_node=rng.choice((2, 4)),
        include_jobs=rng.random() < 0.3,
        failed_pods=FailedPodsPolicy(recovery_window=timedelta(minutes=5), stuck_after=timedelta(minutes=2)),
        safe_evictions=SafeEvictions(
            mode=rng.choice((SafeEvictionMode.AUTO, SafeEvictionMode.ALL, SafeEvictionMode.OFF)),
            deadline=timedelta(minutes=rng.choice((1, 10))),
        ),
    )
