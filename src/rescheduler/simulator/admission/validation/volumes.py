"""Rules for the volumes of a pod."""

from collections.abc import Iterator

from rescheduler.model.quantity import parse_quantity
from rescheduler.simulator.admission import causes, names
from rescheduler.simulator.exchange import Object
from rescheduler.simulator.failures import Cause

__all__ = ["check_volumes", "usable_names"]

_SINGLE_NAME = {
    "persistentVolumeClaim": "claimName",
    "secret": "secretName",
    "configMap": "name",
    "csi": "driver",
    "hostPath": "path",
}
"""Source → its one field that can't be left out."""


def check_volumes(volumes: list[Object], path: str) -> Iterator[Cause]:
    seen: set[str] = set()
    for index, volume in enumerate(volumes):
        here = f"{path}[{index}]"
        complaints = [*_check_source(volume, here), *_check_name(volume, seen, here)]
        yield from complaints
        if not complaints:
            seen.add(volume["name"])


def usable_names(volumes: list[Object], path: str) -> set[str]:
    """What containers can mount: a volume with a fault is none."""
    seen: set[str] = set()
    for volume in volumes:
        if not any(_check_source(volume, path)) and not any(_check_name(volume, seen, path)):
            seen.add(volume["name"])
    return seen


def _check_name(volume: Object, seen: set[str], path: str) -> Iterator[Cause]:
    name = volume.get("name", "")
    if not name:
        yield causes.required(f"{path}.name")
        return
    for complaint in names.dns_label(name):
        yield causes.invalid(f"{path}.name", name, complaint)
    if name in seen:
        yield causes.duplicate(f"{path}.name", name)


def _check_source(volume: Object, path: str) -> Iterator[Cause]:
    sources = [field for field in volume if field != "name"]
    if not sources:
        yield causes.required(path, "must specify a volume type")
        return
    for source in sources[1:]:
        yield causes.forbidden(f"{path}.{source}", "may not specify more than 1 volume type")
    chosen = sources[0]
    field = _SINGLE_NAME.get(chosen)
    if field and not volume[chosen].get(field):
        yield causes.required(f"{path}.{chosen}.{field}")
    size = volume[chosen].get("sizeLimit") if chosen == "emptyDir" else None
    if size is not None and parse_quantity(size).nanos < 0:
        detail = "SizeLimit field must be a valid resource quantity"
        yield causes.forbidden(f"{path}.emptyDir.sizeLimit", detail)
