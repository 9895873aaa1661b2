"""Whether objects that somebody saved can be worked with: each of its kind's shape, pods with containers."""

from collections.abc import Iterable, Iterator

from rescheduler.simulator.admission.decoding import read
from rescheduler.simulator.exchange import Object
from rescheduler.simulator.failures import Failure
from rescheduler.simulator.kinds import Kinds

__all__ = ["definitions_first", "faults_of"]


def faults_of(objects: Iterable[Object]) -> list[str]:
    """A line for each fault: owners that are not fully named, and built-in kinds of another shape."""
    kinds = Kinds()
    faults = []
    for content in objects:
        faults += [f"{_named(content)}: {fault}" for fault in _owner_faults(content)]
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


def _owner_faults(content: Object) -> Iterator[str]:
    references = content["metadata"].get("ownerReferences") or []
    if not isinstance(references, list):
        yield "metadata.ownerReferences: a list is needed"
        return
    for place, reference in enumerate(references):
        given = reference if isinstance(reference, dict) else {}
        missing = [
            name for name in ("apiVersion", "kind", "name", "uid") if not isinstance(given.get(name), str)
        ]
        if missing:
            yield f"metadata.ownerReferences[{place}]: {', '.join(missing)} missing or not text"


def definitions_first(objects: Iterable[Object]) -> list[Object]:
    """So that what they define is known when it comes."""
    return sorted(objects, key=lambda content: content["kind"] != "CustomResourceDefinition")


def _named(content: Object) -> str:
    metadata = content["metadata"]
    namespace = f"{metadata['namespace']}/" if metadata.get("namespace") else ""
    return f"{content['kind']} {namespace}{metadata['name']}"
