"""Whether objects that somebody saved can be worked with: each of its kind's shape, pods with containers."""

from collections.abc import Iterable

from rescheduler.simulator.admission.decoding import read
from rescheduler.simulator.exchange import Object
from rescheduler.simulator.failures import Failure
from rescheduler.simulator.kinds import Kinds

__all__ = ["definitions_first", "faults_of"]


def faults_of(objects: Iterable[Object]) -> list[str]:
    """A line for each object that is not what it says it is; only built-in kinds are looked at."""
    kinds = Kinds()
    faults = []
    for content in objects:
        kind = kinds.named(content["apiVersion"], content["kind"])
        if kind is None:
            continue
        try:
            read(kind, content)
        except Failure as failure:
            faults.append(f"{_named(content)}: {failure.status['message']}")
            continue
        if kind.name == "Pod" and not (content.get("spec") or {}).get("containers"):
            faults.append(f"{_named(content)}: spec.containers: a pod needs at least one")
    return faults


def definitions_first(objects: Iterable[Object]) -> list[Object]:
    """So that what they define is known when it comes."""
    return sorted(objects, key=lambda content: content["kind"] != "CustomResourceDefinition")


def _named(content: Object) -> str:
    metadata = content["metadata"]
    namespace = f"{metadata['namespace']}/" if metadata.get("namespace") else ""
    return f"{content['kind']} {namespace}{metadata['name']}"
