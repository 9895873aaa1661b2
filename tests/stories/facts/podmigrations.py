"""The custom resource that owns a copy on its way, and one that lacks what budgets need."""

from typing import Any

from rescheduler.kube.api_resources import ApiResource, Object, api_resource

__all__ = ["GROUP", "PODMIGRATIONS", "UNSCALED_MIGRATIONS", "definitions", "podmigration"]

GROUP = "rescheduler.dev"
VERSION = "v1alpha1"
PODMIGRATIONS = api_resource(GROUP, VERSION, "podmigrations", "PodMigration")
UNSCALED_MIGRATIONS = api_resource(GROUP, VERSION, "unscaledmigrations", "UnscaledMigration")
"""Without the scale subresource: the disruption controller can't tell how many pods it wants."""


def definitions() -> list[Object]:
    scale = {"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas"}
    return [
        _definition(PODMIGRATIONS, {"status": {}, "scale": scale}),
        _definition(UNSCALED_MIGRATIONS, {"status": {}}),
    ]


def podmigration(
    namespace: str, name: str, source: Object, target: str, resource: ApiResource[Object] = PODMIGRATIONS
) -> Object:
    """Wants no pods of its own: budgets that count in percent must not expect one more because of it."""
    spec: dict[str, Any] = {
        "podName": source["metadata"]["name"],
        "podUID": source["metadata"]["uid"],
        "targetNode": target,
        "replicas": 0,
    }
    return {
        "apiVersion": resource.api_version,
        "kind": resource.kind,
        "metadata": {"namespace": namespace, "name": name},
        "spec": spec,
    }


def _definition(resource: ApiResource[Object], subresources: Object) -> Object:
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    properties = {"spec": schema, "status": schema}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": resource.label},
        "spec": {
            "group": GROUP,
            "scope": "Namespaced",
            "names": {"plural": resource.plural, "kind": resource.kind},
            "versions": [
                {
                    "name": VERSION,
                    "served": True,
                    "storage": True,
                    "subresources": subresources,
                    "schema": {"openAPIV3Schema": {"type": "object", "properties": properties}},
                }
            ],
        },
    }
