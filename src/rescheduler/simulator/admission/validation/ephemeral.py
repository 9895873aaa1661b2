"""Rules for ephemeral containers: they can be added to a pod that runs, and then stay as they are."""

from collections.abc import Iterator

from rescheduler.simulator.admission import causes
from rescheduler.simulator.admission.validation.pod_updates import without_empty
from rescheduler.simulator.exchange import Object
from rescheduler.simulator.failures import Cause

__all__ = ["check_ephemeral_containers"]

_PATH = "spec.ephemeralContainers"


def check_ephemeral_containers(new: Object, old: Object) -> Iterator[Cause]:
    spec = new["spec"]
    wanted = spec.get("ephemeralContainers", [])
    taken = {each.get("name") for group in ("containers", "initContainers") for each in spec.get(group, ())}
    for index, container in enumerate(wanted):
        if container.get("name") in taken:
            yield causes.duplicate(f"{_PATH}[{index}].name", container.get("name"))
        taken.add(container.get("name"))
    by_name = {container.get("name"): without_empty(container) for container in wanted}
    for before in old["spec"].get("ephemeralContainers", ()):
        name = before["name"]
        if name not in by_name:
            yield causes.forbidden(_PATH, f'existing ephemeral containers "{name}" may not be removed\n')
        elif by_name[name] != without_empty(before):
            yield causes.forbidden(_PATH, f'existing ephemeral containers "{name}" may not be changed\n')
