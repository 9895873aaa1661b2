"""The priority of a new pod comes from its priority class, and only from there.

A class that does not exist is refused: the pod would otherwise get a priority that nobody chose.
"""

from collections.abc import Iterable

from rescheduler.simulator.admission.defaults.filling import Circumstances
from rescheduler.simulator.exchange import Object
from rescheduler.simulator.failures import forbidden

__all__ = ["SYSTEM_CLASSES", "default_class", "fill_priority"]

SYSTEM_CLASSES: dict[str, int] = {
    "system-cluster-critical": 2_000_000_000,
    "system-node-critical": 2_000_001_000,
}
"""The real server creates these two when it starts."""

_PREEMPTING = "PreemptLowerPriority"


def default_class(classes: Iterable[Object]) -> str:
    """The name of the class for pods that name none; empty if there is no such class."""
    defaults = [each for each in classes if each.get("globalDefault")]
    least = min(defaults, key=lambda each: each.get("value", 0), default=None)
    return least["metadata"]["name"] if least is not None else ""


def fill_priority(pod: Object, about: Circumstances) -> None:
    spec = pod["spec"]
    if not about.creating:
        stored = about.stored(pod) or {}
        for field in ("priority", "preemptionPolicy"):
            if field not in spec and field in stored.get("spec", {}):
                spec[field] = stored["spec"][field]
        return
    priority, preemption = _class_of(pod, about)
    if spec.get("priority", priority) != priority:
        raise _refused(
            pod,
            about,
            f"the integer value of priority ({spec['priority']}) must not be provided in pod spec; "
            f"priority admission controller computed {priority} from the given PriorityClass name",
        )
    if spec.get("preemptionPolicy", preemption) != preemption:
        raise _refused(
            pod,
            about,
            f"the string value of PreemptionPolicy ({spec['preemptionPolicy']}) must not be provided in "
            f"pod spec; priority admission controller computed {preemption} from the given PriorityClass "
            "name",
        )
    spec["priority"] = priority
    spec["preemptionPolicy"] = preemption


def _class_of(pod: Object, about: Circumstances) -> tuple[int, str]:
    name = pod["spec"].get("priorityClassName", "")
    if not name:
        return 0, _PREEMPTING
    found = about.lookup("scheduling.k8s.io/v1", "PriorityClass", "", name)
    if found is not None:
        return found.get("value", 0), found.get("preemptionPolicy", _PREEMPTING)
    if name in SYSTEM_CLASSES:
        return SYSTEM_CLASSES[name], _PREEMPTING
    raise _refused(pod, about, f"no PriorityClass with name {name} was found")


def _refused(pod: Object, about: Circumstances, why: str) -> Exception:
    return forbidden(about.kind, pod["metadata"].get("name", ""), why)
