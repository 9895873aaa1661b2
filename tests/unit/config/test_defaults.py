"""Every setting exists with the name, the default and the type that the specification gives it."""

from datetime import timedelta
from pathlib import Path

import pytest

from kubevalues import EVERYTHING, NOTHING, parse_selector
from rescheduler.config.config_loader import load_file
from rescheduler.config.config_validation import BUILT_IN_STRATEGIES
from rescheduler.config.metric_settings import Prometheus
from rescheduler.config.move_limits import MovesPerHour
from rescheduler.config.policy import (
    ClientConnection,
    Configuration,
    FailedPodsPolicy,
    HaltWhen,
    Handover,
    LeaderElection,
    NodeAutoscaler,
    Policy,
    SafeEvictionMode,
    SafeEvictions,
    UsageSource,
    ZeroBudget,
)
from rescheduler.config.policy_blocks import (
    Cost,
    Defragment,
    MakeRoomPolicy,
    PlacementDriftPolicy,
    PodLifeTimePolicy,
    RoomWithAutoscaler,
    settings,
)

SAMPLE = Path(__file__).parents[3] / "examples" / "original-sample.yaml"

SPECIFIED = {
    "reschedulingInterval": timedelta(seconds=30),
    "enabledStrategies": ("LoadBalancing", "ResourceOptimization"),
    "cpuThreshold": 80.0,
    "memoryThreshold": 80.0,
    "imbalanceThreshold": 20.0,
    "maxReschedulePods": 10,
    "excludedNamespaces": ("kube-system", "kube-public"),
    "excludedPodSelector": NOTHING,
    "namespaceSelector": EVERYTHING,
    "nodeSelector": EVERYTHING,
    "dryRun": False,
    "balanceResources": ("cpu", "memory"),
    "customMetrics": (),
    "usageSource": UsageSource.AUTO,
    "prometheus": Prometheus(),
    "usageHalfLife": timedelta(minutes=5),
    "hotChecks": 3,
    "minGain": 0.01,
    "minPodAge": timedelta(minutes=5),
    "maxPriority": None,
    "includeJobs": False,
    "includeLocalStorage": False,
    "allowUnsteered": False,
    "schedulerExtender": False,
    "restrictedCopies": False,
    "includeBarePods": True,
    "minReplicasForEvict": 2,
    "moveUnderZeroBudget": ZeroBudget.MAINTENANCE,
    "maintenanceIncludesSystem": False,
    "knownSchedulers": ("default-scheduler",),
    "podGroupLabel": "scheduling.x-k8s.io/pod-group",
    "strategyNodeSelectors": {},
    "strategyArgs": {},
    "cost": Cost(),
    "nodeAutoscaler": NodeAutoscaler.AUTO,
    "evacuateOn": (),
    "podLifeTime": PodLifeTimePolicy(
        max_pod_life_time=timedelta(hours=168),
        namespaces=(),
        pod_selector=EVERYTHING,
        included_owner_kinds=(),
        excluded_owner_kinds=(),
    ),
    "placementDrift": PlacementDriftPolicy(
        included_taints=(), excluded_taints=(), preferences=(), min_gain=0.1
    ),
    "makeRoom": MakeRoomPolicy(
        min_pending_time=timedelta(seconds=30),
        max_moves=5,
        with_autoscaler=RoomWithAutoscaler.AFTER_TIMEOUT,
        autoscaler_timeout=timedelta(minutes=5),
        defragment=Defragment(),
    ),
    "maxConcurrentMigrations": 10,
    "maxConcurrentPerNode": 2,
    "maxConcurrentPerWorkload": 1,
    "migrationTimeout": timedelta(minutes=10),
    "maxRetries": 3,
    "settleTime": timedelta(seconds=10),
    "steerTimeout": timedelta(minutes=1),
    "podCooldown": timedelta(minutes=30),
    "migrationTTL": timedelta(hours=24),
    "gracePeriodSeconds": None,
    "temporaryBudget": True,
    "windows": (),
    "maxMovesPerHour": MovesPerHour(total=None, per_namespace=None, per_workload=None),
    "failedPods": FailedPodsPolicy(),
    "safeEvictions": SafeEvictions(mode=SafeEvictionMode.AUTO, deadline=timedelta(minutes=10)),
    "handovers": {},
    "haltWhen": HaltWhen(failure_ratio=0.5, not_ready_share=0.3),
    "notifications": (),
    "workloadMetrics": 0,
}


def test_the_args_are_those_of_the_specification_with_its_defaults():
    assert {setting.name: setting.default for setting in settings(Policy)} == SPECIFIED


@pytest.mark.parametrize(
    "block",
    [
        Policy,
        Cost,
        Defragment,
        FailedPodsPolicy,
        SafeEvictions,
        HaltWhen,
        MakeRoomPolicy,
        MovesPerHour,
        Prometheus,
        ClientConnection,
        LeaderElection,
    ],
)
def test_every_setting_says_what_it_means(block):
    for setting in settings(block):
        assert setting.meaning.endswith("."), setting.name


def test_failed_pods_are_cared_for_unless_switched_off():
    assert FailedPodsPolicy().enabled
    assert FailedPodsPolicy().recovery_window == timedelta(minutes=10)
    assert not FailedPodsPolicy().force_on_lost_nodes


def test_no_file_means_the_defaults():
    loaded = load_file(None, BUILT_IN_STRATEGIES)
    assert loaded.configuration == Configuration()
    assert loaded.notes == ()


def test_our_lease_is_our_own_by_default():
    election = LeaderElection()
    assert (election.leader_elect, election.resource_name, election.resource_namespace) == (
        True,
        "rescheduler",
        None,
    )
    assert (election.lease_duration, election.renew_deadline, election.retry_period) == (
        timedelta(seconds=15),
        timedelta(seconds=10),
        timedelta(seconds=2),
    )


def test_the_original_sample_loads_unchanged():
    configuration = load_file(SAMPLE, BUILT_IN_STRATEGIES).configuration
    given = Policy(enabled_strategies=("LoadBalancing", "ResourceOptimization", "NodeMaintenance"))
    assert configuration.policy == given
    assert configuration.client_connection.kubeconfig == "/path/to/your/kubeconfig"
    assert not configuration.leader_election.leader_elect


def test_every_given_value_arrives_in_its_own_type(loading):
    policy = loading.policy(
        reschedulingInterval="1m30s",
        enabledStrategies=["TopologySpread"],
        cpuThreshold=75,
        memoryThreshold=62.5,
        imbalanceThreshold=0,
        maxReschedulePods=1,
        excludedNamespaces=[],
        excludedPodSelector="app in (a,b)",
        balanceResources=["memory", "nvidia.com/gpu"],
        usageSource="metrics",
        maxPriority=-5,
        moveUnderZeroBudget="never",
        strategyNodeSelectors={"TopologySpread": "pool=a"},
        cost={"priceLabel": "example.com/price", "prices": {"m7i.large": 0.1, "m7i.xlarge": 1}},
        handovers={"Rollout.argoproj.io": "Adopt", "Pod": "Copy"},
        gracePeriodSeconds=30,
        haltWhen={"failureRatio": 1},
        failedPods={
            "enabled": False,
            "stuckAfter": "2m",
            "defaultRetries": [
                {"namespaces": ["web"], "retries": 3},
                {"podSelector": "tier=x", "retries": 0},
            ],
        },
    )
    assert policy.rescheduling_interval == timedelta(seconds=90)
    assert policy.enabled_strategies == ("TopologySpread",)
    assert (policy.cpu_threshold, policy.memory_threshold, policy.imbalance_threshold) == (75.0, 62.5, 0.0)
    assert type(policy.cpu_threshold) is float
    assert policy.excluded_namespaces == ()
    assert policy.excluded_pod_selector == parse_selector("app in (a,b)")
    assert policy.balance_resources == ("memory", "nvidia.com/gpu")
    assert policy.usage_source is UsageSource.METRICS
    assert policy.max_priority == -5
    assert policy.nodes_of("TopologySpread") == parse_selector("pool=a")
    assert policy.nodes_of("LoadBalancing") == EVERYTHING
    assert policy.cost == Cost(price_label="example.com/price", prices={"m7i.large": 0.1, "m7i.xlarge": 1.0})
    assert policy.handovers == {"Rollout.argoproj.io": Handover.ADOPT, "Pod": Handover.COPY}
    assert policy.halt_when == HaltWhen(failure_ratio=1.0, not_ready_share=0.3)
    assert [entry.retries for entry in policy.failed_pods.default_retries] == [3, 0]
    assert not policy.failed_pods.enabled


@pytest.mark.parametrize("empty", ["", "  "])
def test_an_empty_exclusion_excludes_nothing(loading, empty):
    assert not loading.policy(excludedPodSelector=empty).excluded_pod_selector.matches({"a": "b"})


def test_null_means_not_set(loading):
    nulls = dict.fromkeys(SPECIFIED) | {"haltWhen": {"failureRatio": None}}
    assert loading.policy(**nulls) == Policy()
