"""Which workload a pod belongs to: the Deployment, not its ReplicaSet; the CronJob, not its Job."""

from collections.abc import Mapping

import numpy as np

from rescheduler.cluster.object_meta import OwnerReference
from rescheduler.cluster.snapshot import NO_ROW, Rows, Workload
from rescheduler.cluster.snapshot_columns import InternedValues, renumber_by_first_use
from rescheduler.cluster.workload_record import WORKLOAD_KINDS, WorkloadRecord, controller_of

__all__ = ["PodOwners", "WorkloadResolver", "top_workload"]


PodOwners = InternedValues[tuple[str, OwnerReference]]
"""Of pods: the namespace, and the controller."""


class WorkloadResolver:
    """Resolves each owner once, as long as neither owners nor controllers change."""

    def __init__(self) -> None:
        self._known: tuple[int, int] | None = None
        self._workload = np.zeros(0, dtype=np.int32)
        """By the number of an owner; the last is for pods without."""
        self._workloads: list[Workload] = []

    def of(
        self, owners: PodOwners, numbers: Rows, controllers: Mapping[str, WorkloadRecord], version: int
    ) -> tuple[Rows, tuple[Workload, ...]]:
        """For rows with those numbers of owners: the index of each row's workload, and the workloads.

        `version` tells one state of the controllers from another.
        """
        if self._known != (owners.version, version):
            self._resolve(owners, controllers)
            self._known = (owners.version, version)
        anew, used = renumber_by_first_use(self._workload.take(numbers), len(self._workloads))
        return anew, tuple(self._workloads[number] for number in used.tolist())

    def _resolve(self, owners: PodOwners, controllers: Mapping[str, WorkloadRecord]) -> None:
        found: dict[tuple[str, str, str], int] = {}
        self._workload = np.full(len(owners) + 1, NO_ROW, dtype=np.int32)
        self._workloads = []
        for number, owner in enumerate(owners.values()):
            if owner is not None:
                workload = top_workload(*owner, controllers)
                identity = (workload.kind, workload.key, workload.uid)
                self._workload[number] = found.setdefault(identity, len(self._workloads))
                if len(found) > len(self._workloads):
                    self._workloads.append(workload)


def top_workload(
    namespace: str, owner: OwnerReference, controllers: Mapping[str, WorkloadRecord]
) -> Workload:
    """The topmost of the kinds that we read, from the pod's own controller upwards.

    What stands above them (an operator's own kind above its StatefulSet) says nothing about pods. Where the
    chain leads to something that was not read, its name is all that is known.
    """
    seen: set[str] = set()
    while True:
        record = controller_of(controllers, namespace, owner)
        above = None if record is None else record.owner
        if above is None or not _is_read(above) or above.uid in seen:
            return Workload(owner.kind, f"{namespace}/{owner.name}", owner.uid, record)
        seen.add(owner.uid)
        owner = above


def _is_read(owner: OwnerReference) -> bool:
    return WORKLOAD_KINDS.get(owner.kind) == owner.api_version
