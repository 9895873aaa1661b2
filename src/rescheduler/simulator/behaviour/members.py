"""The containers of a pod, each with its part in it, its behaviour and its status so far."""

from enum import Enum
from typing import NamedTuple

from rescheduler.simulator.behaviour.choice import ContainerBehaviour, of_container
from rescheduler.simulator.behaviour.vocabulary import Behaviour
from rescheduler.simulator.exchange import Object

__all__ = ["Member", "Role", "members"]


class Role(Enum):
    INIT = "runs to its end before the next one starts"
    SIDECAR = "an init container that goes on beside the others"
    MAIN = "an ordinary container"


class Member(NamedTuple):
    spec: Object
    role: Role
    how: ContainerBehaviour
    status: Object | None
    """As the API holds it, whole; None before anybody wrote one."""

    @property
    def status_or_blank(self) -> Object:
        return self.status or _blank(self.spec)


def _blank(container: Object) -> Object:
    return {
        "name": container["name"],
        "image": container.get("image", ""),
        "imageID": "",
        "state": {"waiting": {"reason": "ContainerCreating"}},
        "lastState": {},
        "ready": False,
        "started": False,
        "restartCount": 0,
    }


def members(pod: Object, behaviour: Behaviour) -> list[Member]:
    """In the order of starting."""
    spec, status = pod["spec"], pod.get("status") or {}
    known = {
        each["name"]: {name: value for name, value in each.items() if value}
        for part in ("initContainerStatuses", "containerStatuses")
        for each in status.get(part) or ()
    }
    found = [(each, _init_role(each)) for each in spec.get("initContainers") or ()]
    found += [(each, Role.MAIN) for each in spec["containers"]]
    return [
        Member(each, role, of_container(behaviour, pod, each), _whole(each, known.get(each["name"])))
        for each, role in found
    ]


def _whole(container: Object, status: Object | None) -> Object | None:
    """Saved clusters leave out what is empty."""
    return None if status is None else _blank(container) | status


def _init_role(container: Object) -> Role:
    return Role.SIDECAR if container.get("restartPolicy") == "Always" else Role.INIT
