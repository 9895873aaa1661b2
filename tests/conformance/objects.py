"""Small objects for scenarios: only what matters to them."""

from typing import Any

from rescheduler.kube.api_resources import Object

__all__ = ["budget", "config_map", "deployment", "node", "owner_reference", "pod", "replica_set"]


def config_map(name: str, a: str = "1", **metadata: Any) -> Object:
    return {"metadata": {"name": name, **metadata}, "data": {"a": a}}


def pod(name: str, *, node: str = "", spec: Object | None = None, **metadata: Any) -> Object:
    body: Object = {"containers": [{"name": "main", "image": "example.com/app:1"}]}
    if node:
        body["nodeName"] = node
    return {"metadata": {"name": name, **metadata}, "spec": body | (spec or {})}


def template(app: str) -> Object:
    return {"metadata": {"labels": {"app": app}}, "spec": pod(app)["spec"]}


def deployment(name: str, *, replicas: int = 0, **spec: Any) -> Object:
    """Return a Deployment, by default without replicas, so that no controller has anything to do."""
    selector = {"matchLabels": {"app": name}}
    return {
        "metadata": {"name": name},
        "spec": {"replicas": replicas, "selector": selector, "template": template(name), **spec},
    }


def replica_set(name: str, *, replicas: int = 0) -> Object:
    return deployment(name, replicas=replicas)


def node(name: str) -> Object:
    return {"metadata": {"name": name}, "spec": {}}


def budget(name: str, app: str, **spec: Any) -> Object:
    return {"metadata": {"name": name}, "spec": {"selector": {"matchLabels": {"app": app}}, **spec}}


def owner_reference(owner: Object, **more: Any) -> Object:
    return {
        "apiVersion": owner["apiVersion"],
        "kind": owner["kind"],
        "name": owner["metadata"]["name"],
        "uid": owner["metadata"]["uid"],
        **more,
    }
