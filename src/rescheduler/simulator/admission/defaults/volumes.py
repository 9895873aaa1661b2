"""Defaults inside the volumes of a pod."""

from rescheduler.simulator.admission.defaults.filling import fill, inner
from rescheduler.simulator.exchange import Object

__all__ = ["fill_volume"]

_READABLE_BY_ALL = 0o644
_WITH_MODE = ("secret", "configMap", "downwardAPI", "projected")
_TOKEN_LIFE_S = 3600


def fill_volume(volume: Object) -> None:
    if volume.keys() <= {"name"}:
        volume["emptyDir"] = {}
    for source in (volume[name] for name in _WITH_MODE if name in volume):
        fill(source, defaultMode=_READABLE_BY_ALL)
    if "hostPath" in volume:
        volume["hostPath"].setdefault("type", "")
    if "ephemeral" in volume:
        _fill_claim_template(volume["ephemeral"])
    for item in volume.get("downwardAPI", {}).get("items", ()):
        _fill_item(item)
    for projection in volume.get("projected", {}).get("sources", ()):
        _fill_projection(projection)


def _fill_claim_template(source: Object) -> None:
    if "volumeClaimTemplate" in source:
        template = source["volumeClaimTemplate"]
        fill(template, metadata={})
        fill(inner(template, "spec"), volumeMode="Filesystem")


def _fill_item(item: Object) -> None:
    if "fieldRef" in item:
        fill(item["fieldRef"], apiVersion="v1")
    if "resourceFieldRef" in item:
        fill(item["resourceFieldRef"], divisor="0")


def _fill_projection(projection: Object) -> None:
    if "serviceAccountToken" in projection:
        fill(projection["serviceAccountToken"], expirationSeconds=_TOKEN_LIFE_S)
    for item in projection.get("downwardAPI", {}).get("items", ()):
        _fill_item(item)
