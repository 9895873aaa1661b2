"""Ordinary pods with many fields move: admission treats the copy like the source pod."""

from typing import Any

import pytest

from rescheduler.api.podmigration import MigrationPhase
from rescheduler.kube.api_resources import Object, api_resource
from tests.stories.migrations.moves import MakeMoves, Moves
from tests.stories.objects import HOSTNAME
from tests.stories.sandbox import node_of

SERVICE_ACCOUNTS = api_resource("", "v1", "serviceaccounts", "ServiceAccount")
CONFIG_MAPS = api_resource("", "v1", "configmaps", "ConfigMap")

PROBE: Object = {"httpGet": {"path": "/healthz", "port": "http"}, "periodSeconds": 5}
MAIN: Object = {
    "name": "main",
    "image": "shop/web:1",
    "args": ["--verbose"],
    "resources": {"requests": {"cpu": "100m", "memory": "64Mi"}, "limits": {"memory": "128Mi"}},
    "ports": [{"name": "http", "containerPort": 8080}, {"name": "metrics", "containerPort": 9090}],
    "env": [
        {"name": "MODE", "value": "fast"},
        {"name": "NODE", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}},
    ],
    "envFrom": [{"configMapRef": {"name": "settings", "optional": True}}],
    "livenessProbe": PROBE,
    "readinessProbe": PROBE,
    "startupProbe": PROBE,
    "lifecycle": {"preStop": {"exec": {"command": ["sleep", "1"]}}},
    "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}},
    "volumeMounts": [
        {"name": "cache", "mountPath": "/cache"},
        {"name": "cache", "mountPath": "/tmp", "subPath": "tmp"},
        {"name": "settings", "mountPath": "/settings", "readOnly": True},
    ],
}
SIDECAR: Object = {
    "name": "proxy",
    "image": "shop/proxy:1",
    "restartPolicy": "Always",
    "resources": {"requests": {"cpu": "10m"}},
}
POD: Object = {
    "serviceAccountName": "web",
    "securityContext": {"runAsNonRoot": True, "runAsUser": 1000, "fsGroup": 2000},
    "terminationGracePeriodSeconds": 5,
    "initContainers": [SIDECAR, {"name": "init", "image": "shop/init:1"}],
    "containers": [MAIN],
    "volumes": [
        {"name": "cache", "emptyDir": {"sizeLimit": "1Gi"}},
        {"name": "settings", "configMap": {"name": "settings", "optional": True}},
        {
            "name": "info",
            "downwardAPI": {"items": [{"path": "l", "fieldRef": {"fieldPath": "metadata.labels"}}]},
        },
    ],
}


def named(resource: Any, namespace: str, name: str) -> Object:
    metadata = {"namespace": namespace, "name": name}
    return {"apiVersion": resource.api_version, "kind": resource.kind, "metadata": metadata}


async def with_account(make_moves: MakeMoves) -> Moves:
    moves: Moves = await make_moves(nodes=2)
    for resource, name in ((SERVICE_ACCOUNTS, "web"), (CONFIG_MAPS, "settings")):
        await moves.client.create(resource, named(resource, moves.sandbox.namespace, name))
    return moves


async def moved(moves: Moves, source: Object) -> None:
    target = await moves.sandbox.free_node()
    migration = await moves.move(source, target)
    assert migration.status.phase is MigrationPhase.COMPLETED, migration.status
    (copy,) = await moves.sandbox.until_ready(1)
    assert node_of(copy) == target


async def test_a_deployment_with_all_that_pods_usually_have(make_moves: MakeMoves) -> None:
    moves = await with_account(make_moves)
    await moves.sandbox.deployment(1, pod=POD)
    (source,) = await moves.sandbox.pods()
    await moved(moves, source)


async def test_a_bare_pod_with_all_that_pods_usually_have(make_moves: MakeMoves) -> None:
    moves = await with_account(make_moves)
    await moved(moves, await moves.sandbox.until_pod_ready(await moves.sandbox.pod("web", **POD)))


KEYS: Object = {"matchLabelKeys": ["app"]}


@pytest.mark.parametrize(
    "spec",
    [
        pytest.param(
            {
                "topologySpreadConstraints": [
                    {
                        "maxSkew": 5,
                        "topologyKey": HOSTNAME,
                        "whenUnsatisfiable": "ScheduleAnyway",
                        "labelSelector": {"matchExpressions": [{"key": "tier", "operator": "Exists"}]},
                        **KEYS,
                    }
                ]
            },
            id="in a topology spread constraint",
        ),
        pytest.param(
            {
                "affinity": {
                    "podAntiAffinity": {
                        "requiredDuringSchedulingIgnoredDuringExecution": [
                            {
                                "labelSelector": {"matchLabels": {"tier": "db"}},
                                "topologyKey": HOSTNAME,
                                **KEYS,
                                "mismatchLabelKeys": ["version"],
                            }
                        ]
                    },
                    "podAffinity": {
                        "preferredDuringSchedulingIgnoredDuringExecution": [
                            {
                                "weight": 1,
                                "podAffinityTerm": {
                                    "labelSelector": {"matchLabels": {"tier": "db"}},
                                    "topologyKey": HOSTNAME,
                                    **KEYS,
                                },
                            }
                        ]
                    },
                }
            },
            id="in affinity and anti-affinity",
        ),
    ],
)
async def test_a_bare_pod_that_asks_for_its_own_label_values(make_moves: MakeMoves, spec: Object) -> None:
    """`matchLabelKeys`, which the server has merged into the selectors of the source."""
    moves: Moves = await make_moves(nodes=2)
    labels = {"app": "web", "version": "1"}
    source = await moves.sandbox.until_pod_ready(
        await moves.sandbox.pod("web", metadata={"labels": labels}, **spec)
    )
    assert '"values"' in str(source["spec"]).replace("'", '"'), "the server has merged them"
    await moved(moves, source)
    await moved(moves, (await moves.sandbox.pods())[0])
