"""Defaults of volumes, claims, storage classes and drivers.

The protection finalizers are left out: no controller here would take them away again.
"""

from rescheduler.simulator.admission.defaults.filling import Circumstances, fill, inner, timestamp
from rescheduler.simulator.exchange import Object

__all__ = ["fill_csi_driver", "fill_storage_class", "fill_volume", "fill_volume_claim"]


def fill_volume(volume: Object, about: Circumstances) -> None:
    spec = inner(volume, "spec")
    fill(spec, persistentVolumeReclaimPolicy="Retain", volumeMode="Filesystem")
    if "hostPath" in spec:
        spec["hostPath"].setdefault("type", "")
    status = inner(volume, "status")
    if not status.get("phase"):
        status["phase"] = "Pending"
        fill(status, lastPhaseTransitionTime=timestamp(about.now))


def fill_volume_claim(claim: Object, _: Circumstances) -> None:
    fill(inner(claim, "spec"), volumeMode="Filesystem", resources={})
    fill(inner(claim, "status"), phase="Pending")


def fill_storage_class(storage_class: Object, _: Circumstances) -> None:
    fill(storage_class, reclaimPolicy="Delete", volumeBindingMode="Immediate")


def fill_csi_driver(driver: Object, _: Circumstances) -> None:
    fill(
        inner(driver, "spec"),
        attachRequired=True,
        podInfoOnMount=False,
        volumeLifecycleModes=["Persistent"],
        storageCapacity=False,
        fsGroupPolicy="ReadWriteOnceWithFSType",
        requiresRepublish=False,
        seLinuxMount=False,
        preventPodSchedulingIfMissing=False,
    )
