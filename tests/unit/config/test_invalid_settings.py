"""Invalid settings are refused all at once, each with its path, its value and what is allowed."""

import json

import pytest

from rescheduler.config.config_validation import ConfigurationError
from rescheduler.config.policy import Policy
from rescheduler.config.policy_blocks import settings

DURATION = "a duration of at least 1s, such as 90s, 1h30m or 500ms (units h, m, s, ms, us, ns)"
STRATEGIES = (
    "one of CostOptimization, LoadBalancing, MakeRoom, NodeMaintenance, PlacementDrift, PodLifeTime, "
    "ResourceOptimization, TopologySpread"
)


@pytest.mark.parametrize(
    ("args", "fault"),
    [
        ({"cpuThreshold": 180}, "cpuThreshold: 180 is not allowed: a number from 0 to 100"),
        ({"cpuThreshold": -0.1}, "cpuThreshold: -0.1 is not allowed: a number from 0 to 100"),
        ({"cpuThreshold": "80"}, 'cpuThreshold: "80" is not allowed: a number from 0 to 100'),
        ({"cpuThreshold": True}, "cpuThreshold: true is not allowed: a number from 0 to 100"),
        (
            {"cpuThreshold": 10**400},
            "cpuThreshold: a number of more than 398 digits is not allowed: a number from 0",
        ),
        ({"reschedulingInterval": "5d"}, f'reschedulingInterval: "5d" is not allowed: {DURATION}'),
        ({"reschedulingInterval": 30}, f"reschedulingInterval: 30 is not allowed: {DURATION}"),
        ({"reschedulingInterval": "-30s"}, f'reschedulingInterval: "-30s" is not allowed: {DURATION}'),
        ({"reschedulingInterval": "999ms"}, f'reschedulingInterval: "999ms" is not allowed: {DURATION}'),
        ({"settleTime": "-1ns"}, 'settleTime: "-1ns" is not allowed: a duration of 0s or more'),
        (
            {"maxReschedulePods": True},
            "maxReschedulePods: true is not allowed: an integer from 1 (dryRun",
        ),
        ({"maxReschedulePods": 0}, "maxReschedulePods: 0 is not allowed: an integer from 1"),
        ({"maxReschedulePods": 2.0}, "maxReschedulePods: 2.0 is not allowed: an integer from 1"),
        ({"maxReschedulePods": 2**31}, "maxReschedulePods: 2147483648 is not allowed"),
        (
            {"evacuateOn": [{"urgency": "high"}]},
            'evacuateOn[0]: {"urgency": "high"} is not allowed: an entry with either taint or condition',
        ),
        (
            {"evacuateOn": [{"taint": "a", "condition": "B"}]},
            "is not allowed: an entry with either taint or condition",
        ),
        (
            {"evacuateOn": [{"condition": "Ready"}]},
            "is not allowed: a taint or condition that only nodes have that must be emptied",
        ),
        ({"evacuateOn": [{"taint": "not a key"}]}, 'evacuateOn[0].taint: "not a key" is not allowed'),
        ({"evacuateOn": [{"taint": "a", "deadline": "0s"}]}, 'evacuateOn[0].deadline: "0s" is not allowed'),
        ({"evacuateOn": [{"taint": "a", "urgency": "now"}]}, "one of high, normal"),
        (
            {"makeRoom": {"withAutoscaler": "sometimes"}},
            'makeRoom.withAutoscaler: "sometimes" is not allowed: one of never, afterTimeout, always',
        ),
        (
            {"placementDrift": {"preferences": ["Spot"]}},
            'placementDrift.preferences[0]: "Spot" is not allowed: one of TaintToleration, NodeAffinity',
        ),
        (
            {"podLifeTime": {"maxPodLifeTime": "59s"}},
            'podLifeTime.maxPodLifeTime: "59s" is not allowed: a duration of at least 1m',
        ),
        (
            {"podLifeTime": {"excludedOwnerKinds": ["replicaset"]}},
            'podLifeTime.excludedOwnerKinds[0]: "replicaset" is not allowed: the kind of an owner such as',
        ),
        (
            {"placementDrift": {"minGain": 0}},
            "placementDrift.minGain: 0 is not allowed: a number above 0 and up to 1",
        ),
        (
            {"placementDrift": {"excludedTaints": ["a b"]}},
            'placementDrift.excludedTaints[0]: "a b" is not allowed: the key of a taint such as',
        ),
        ({"makeRoom": {"maxMoves": 0}}, "makeRoom.maxMoves: 0 is not allowed: an integer from 1 to 100"),
        (
            {"makeRoom": {"defragment": {"resource": "gpu", "keepFree": 8}}},
            'makeRoom.defragment.resource: "gpu" is not allowed',
        ),
        (
            {"makeRoom": {"defragment": {"resource": "nvidia.com/gpu", "keepFree": 0}}},
            "makeRoom.defragment.keepFree: 0 is not allowed: an integer from 1",
        ),
        ({"nodeAutoscaler": "Karpenter"}, "one of auto, karpenter, clusterAutoscaler, other, none"),
        ({"dryRun": "yes"}, 'dryRun: "yes" is not allowed: true or false'),
        ({"dryRun": 1}, "dryRun: 1 is not allowed: true or false"),
        ({"enabledStrategies": ["Foo"]}, f'enabledStrategies[0]: "Foo" is not allowed: {STRATEGIES}'),
        (
            {"enabledStrategies": [["LoadBalancing"]]},
            'enabledStrategies[0]: ["LoadBalancing"] is not allowed',
        ),
        ({"enabledStrategies": [None]}, "enabledStrategies[0]: null is not allowed"),
        (
            {"enabledStrategies": "LoadBalancing"},
            'enabledStrategies: "LoadBalancing" is not allowed: a list; each',
        ),
        ({"enabledStrategies": {"a": 1}}, 'enabledStrategies: {"a": 1} is not allowed: a list'),
        (
            {"enabledStrategies": ["LoadBalancing"] * 2},
            'enabledStrategies[1]: "LoadBalancing" is not allowed: each',
        ),
        (
            {"excludedNamespaces": ["Kube"]},
            'excludedNamespaces[0]: "Kube" is not allowed: the name of a namespace',
        ),
        (
            {"excludedNamespaces": ["a"] * 2},
            'excludedNamespaces[1]: "a" is not allowed: each entry only once',
        ),
        (
            {"namespaceSelector": "team in"},
            'namespaceSelector: "team in" is not allowed: a label selector for namespaces',
        ),
        (
            {"namespaceSelector": "team=a,team=b"},
            'namespaceSelector: "team=a,team=b" is not allowed: a selector that some namespace can match',
        ),
        (
            {"maxMovesPerHour": {"total": "101%"}},
            'maxMovesPerHour.total: "101%" is not allowed: an integer from 0, or a percentage such as 10%',
        ),
        ({"maxMovesPerHour": {"perNamespace": "5"}}, 'maxMovesPerHour.perNamespace: "5" is not allowed'),
        ({"maxMovesPerHour": {"perWorkload": -1}}, "maxMovesPerHour.perWorkload: -1 is not allowed"),
        ({"maxMovesPerHour": {"total": True}}, "maxMovesPerHour.total: true is not allowed"),
        ({"maxMovesPerHour": 5}, "maxMovesPerHour: 5 is not allowed: a block with total, perNamespace, "),
        (
            {"maxMovesPerHour": {"total": 5}, "migrationTTL": "30m"},
            "maxMovesPerHour: migrationTTL (30m) is too short: at least 1h is required, because limits per",
        ),
        ({"excludedPodSelector": "a=b,c in"}, "at character 9: found the end where '(' is expected"),
        (
            {"excludedPodSelector": {"a": "b"}},
            'excludedPodSelector: {"a": "b"} is not allowed: a label selector',
        ),
        (
            {"usageSource": "Metrics"},
            'usageSource: "Metrics" is not allowed: one of auto, requests, metrics, pr',
        ),
        ({"balanceResources": ["mem"]}, 'balanceResources[0]: "mem" is not allowed: cpu, memory'),
        ({"balanceResources": []}, "balanceResources: [] is not allowed: at least one entry"),
        ({"knownSchedulers": [""]}, 'knownSchedulers[0]: "" is not allowed: the name of a scheduler'),
        (
            {"cost": {"priceLabel": "a b"}},
            'cost.priceLabel: "a b" is not allowed: the key of a label such as example.com/price',
        ),
        (
            {"cost": {"prices": {"m7i.large": -1}}},
            'cost.prices["m7i.large"]: -1 is not allowed: a number from 0 to 1e+06',
        ),
        ({"minGain": 1.5}, "minGain: 1.5 is not allowed: a number from 0 to 1"),
        (
            {"gracePeriodSeconds": 0},
            "gracePeriodSeconds: 0 is not allowed: an integer from 1 to 86400 (0 would",
        ),
        (
            {"haltWhen": {"failureRatio": 0}},
            "haltWhen.failureRatio: 0 is not allowed: a number above 0 and up to 1",
        ),
        ({"haltWhen": 0.5}, "haltWhen: 0.5 is not allowed: a block with failureRatio, notReadyShare"),
        (
            {"haltWhen": {"failureRate": 1}},
            "haltWhen.failureRate: 1 is not allowed: there is no such setting; did you m",
        ),
        (
            {"cpuTreshold": 80},
            "cpuTreshold: 80 is not allowed: there is no such setting; did you mean cpuThreshold?",
        ),
        (
            {"CPUThreshold": 80},
            "CPUThreshold: 80 is not allowed: there is no such setting; did you mean cpuThresh",
        ),
        (
            {"cpu_threshold": 80},
            "cpu_threshold: 80 is not allowed: there is no such setting; did you mean cpuThresh",
        ),
        ({"[key]": 1}, '["[key]"]: 1 is not allowed: there is no such setting'),
        ({"zzz": 1}, "zzz: 1 is not allowed: there is no such setting"),
        (
            {"loadBalanceBonus": 10},
            "loadBalanceBonus: 10 is not allowed: there is no such setting here (the original",
        ),
        (
            {"strategyNodeSelectors": {"Foo": "a"}},
            f'strategyNodeSelectors.Foo: "Foo" is not allowed: {STRATEGIES}',
        ),
        ({"strategyNodeSelectors": {"LoadBalancing": "a=,="}}, "strategyNodeSelectors.LoadBalancing: "),
        ({"strategyNodeSelectors": ["a"]}, 'strategyNodeSelectors: ["a"] is not allowed: a map; each key is'),
        (
            {"handovers": {"statefulset": "Evict"}},
            'handovers.statefulset: "statefulset" is not allowed: the kind of',
        ),
        (
            {"handovers": {"ReplicaSet": "adopt"}},
            'handovers.ReplicaSet: "adopt" is not allowed: one of Auto, Adopt',
        ),
        (
            {"failedPods": {"recoveryWindow": "soon"}},
            f'failedPods.recoveryWindow: "soon" is not allowed: {DURATION}',
        ),
        (
            {"failedPods": {"defaultRetries": [{"namespaces": ["a"]}]}},
            "failedPods.defaultRetries[0].retries: missing: an integer",
        ),
        ({"windows": [{"from": "22:00"}]}, 'windows[0].to: missing: a time of day from "00:00" to "24:00"'),
        (
            {"windows": [{"from": "25:00", "to": "1:00"}]},
            'windows[0].from: "25:00" is not allowed: a time of day',
        ),
        (
            {"windows": [{"from": "24:01", "to": "1:00"}]},
            'windows[0].from: "24:01" is not allowed: a time of day',
        ),
        (
            {"windows": [{"from": "1:00", "to": "2:00", "zone": "Mars"}]},
            'windows[0].zone: "Mars" is not allowed: the',
        ),
        (
            {"windows": [{"from": "1:00", "to": "2:00", "zone": "Europe"}]},
            'windows[0].zone: "Europe" is not allowed',
        ),
        (
            {"windows": [{"from": "1:00", "to": "2:00", "zone": "../x"}]},
            'windows[0].zone: "../x" is not allowed',
        ),
        (
            {"windows": [{"from": "1:00", "to": "2:00", "days": ["Monday"]}]},
            'windows[0].days[0]: "Monday" is not allow',
        ),
        (
            {"windows": {}},
            "windows: {} is not allowed: a list; each entry is a block with days, from, to, zone",
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_value_that_is_not_allowed(loading, args, fault):
    found = loading.arg_faults(**args)
    assert len(found) == 1, found
    assert fault in found[0]


@pytest.mark.parametrize("text", [".nan", ".inf", "-.inf", "1e999", "010", "0x10", "1_0", "2024-01-01", "~x"])
def test_numbers_that_are_none_are_refused(loading, text):
    content = (
        "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
        f"profiles: [{{pluginConfig: [{{name: Rescheduler, args: {{cpuThreshold: {text}}}}}]}}]"
    )
    (fault,) = loading.faults(loading.text, content)
    assert "cpuThreshold: " in fault
    assert "is not allowed: a number from 0 to 100" in fault


def test_all_mistakes_are_reported_at_once_with_full_paths_in_the_order_of_the_file(loading):
    content = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
leaderElection: {leaseDuration: soon}
clientConnection: {qps: fast}
profiles:
- schedulerName: default-scheduler
- pluginConfig:
  - name: NodeResourcesFit
  - name: Rescheduler
    args:
      cpuThreshold: 180
      windows:
      - {from: "1:00", to: "1:00"}
      - {from: never, to: "1:00"}
      enabledStrategies: [LoadBalancing, CostOptimization, Nonsense]
      migrationTTL: 1s
"""
    args = "profiles[1].pluginConfig[1].args"
    assert [fault.split(": ")[0] for fault in loading.faults(loading.text, content)] == [
        "leaderElection.leaseDuration",
        "clientConnection.qps",
        f"{args}.strategyNodeSelectors",
        f"{args}.cpuThreshold",
        f"{args}.windows[0]",
        f"{args}.windows[1].from",
        f"{args}.enabledStrategies[2]",
        f"{args}.migrationTTL",
    ]


def test_the_message_as_a_whole_names_the_file_the_lines_and_the_number_of_mistakes(loading):
    content = (
        "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\nprofiles:\n"
        "- pluginConfig:\n  - name: Rescheduler\n    args:\n      hotChecks: 0\n      dryRun: 2\n"
    )
    with pytest.raises(ConfigurationError) as refused:
        loading.text(content)
    assert str(refused.value).splitlines() == [
        "test.yaml: 2 errors",
        "  line 7: profiles[0].pluginConfig[0].args.hotChecks: 0 is not allowed: an integer from 1",
        "  line 8: profiles[0].pluginConfig[0].args.dryRun: 2 is not allowed: true or false",
    ]


@pytest.mark.parametrize("setting", [setting.name for setting in settings(Policy)])
def test_every_setting_refuses_what_is_invalid_for_it(loading, setting):
    faults = loading.arg_faults(**{setting: [{"nonsense": -1}]})
    assert faults
    assert all(fault.startswith(setting) for fault in faults)


def test_strategies_of_plugins_can_be_named_when_they_are_installed(loading):
    content = (
        '{"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration", "profiles": '
        '[{"pluginConfig": [{"name": "Rescheduler", "args": {"enabledStrategies": ["Mine"]}}]}]}'
    )
    policy = loading.text(content, strategies={"Mine"}).configuration.policy
    assert policy.enabled_strategies == ("Mine",)
    (fault,) = loading.faults(loading.text, content, strategies={"Yours"})
    assert fault.endswith('enabledStrategies[0]: "Mine" is not allowed: one of Yours')


@pytest.mark.parametrize("value", ["\x1b[31mred", "a\u202eb", "\ud800", "x" * 10_000])
def test_messages_never_carry_what_a_terminal_would_act_upon(loading, value):
    (fault,) = loading.faults(loading.text, _as_json_text(value))
    assert fault.isprintable()
    assert len(fault) < 300


def _as_json_text(value):
    head = (
        '{"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration", "profiles": '
    )
    return (
        head
        + '[{"pluginConfig": [{"name": "Rescheduler", "args": {"usageSource": '
        + json.dumps(value)
        + "}}]}]}"
    )
