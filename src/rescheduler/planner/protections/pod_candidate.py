"""A pod that may be moved, with everything that the protection checks read."""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np

from rescheduler.api.podmigration import Handover
from rescheduler.cluster.object_meta import OwnerReference
from rescheduler.cluster.pod_record import CLAIM_VOLUME, PodRecord
from rescheduler.cluster.snapshot import NO_ROW, Flags, Ints, PodClass, Snapshot
from rescheduler.cluster.workload_record import WorkloadRecord, controller_of
from rescheduler.config.policy import Policy
from rescheduler.planner.handover_choice import HandoverChoice, HandoverChooser, ImpossibleHandover
from rescheduler.planner.move_allowance import MoveAllowance
from rescheduler.planner.reasons import Reason
from rescheduler.planner.workload_availability import (
    DisruptionBudgets,
    Preemption,
    ReplicaReadiness,
    WorkloadReadiness,
    revision_of_successor,
)

__all__ = ["PodCandidate", "Protection", "ProtectionCheck", "ProtectionContext", "TemplateKey"]

TemplateKey = tuple[int, int, tuple[OwnerReference, ...] | str]
"""Pods with equal keys get equal results from all checks of the template."""


class Protection(NamedTuple):
    """The reason why a pod must not move."""

    detail: str
    by: str = ""


class ProtectionContext:
    """The values that all pods of a snapshot share, and what is known about their workloads."""

    def __init__(
        self,
        snapshot: Snapshot,
        policy: Policy,
        *,
        urgent: bool,
        steered: bool,
        guarded: bool,
        cordoned: Flags,
        recovering: bool = False,
    ) -> None:
        self.snapshot = snapshot
        self.policy = policy
        self.urgent = urgent
        """Whether the pods must leave their nodes, as in maintenance."""
        self.steered = steered
        """Whether the webhook steers the replacements of evicted pods to their targets."""
        self.guarded = guarded
        """Whether the webhook keeps ReplicaSets from creating a pod while they adopt a copy."""
        self.recovering = recovering
        """Whether the pods keep failing where they are, and their owners allow them to go elsewhere."""
        self.cordoned = cordoned
        """[node]: is cordoned, so that no replacement returns to it; a plan may cordon more nodes."""
        self.budgets = DisruptionBudgets(snapshot)
        self.preemption = Preemption(snapshot)
        self.allowance = MoveAllowance(snapshot, policy)
        self._workload_readiness = WorkloadReadiness(snapshot)
        self._handovers = HandoverChooser(snapshot, policy)
        self._choices: dict[TemplateKey, HandoverChoice | ImpossibleHandover] = {}

    def candidate(self, row: int) -> "PodCandidate":
        pods = self.snapshot.pods
        pod, pod_class = pods.records[row], self.snapshot.classes[pods.pod_class[row]]
        choice = self.choice(row)
        return PodCandidate(
            row, pod, pod.owner, pod_class, choice, self.snapshot, self.policy, self.urgent, self
        )

    def template(self, row: int) -> TemplateKey:
        pods = self.snapshot.pods
        pod = pods.records[row]
        # A bare pod is its own workload: its annotations count like a template's.
        return int(pods.pod_class[row]), id(pod.shape), pod.owners if pod.owner is not None else pod.key

    def choice(self, row: int) -> HandoverChoice | ImpossibleHandover:
        """Return the handover of the pod and the reason for it."""
        template = self.template(row)
        found = self._choices.get(template)
        if found is None:
            pods = self.snapshot.pods
            pod, pod_class = pods.records[row], self.snapshot.classes[pods.pod_class[row]]
            found = self._choices[template] = self._handovers.choose(pod, pod_class)
        is_rolling_out = isinstance(found, ImpossibleHandover) and found.reason is Reason.ROLLING_OUT
        if self.recovering and is_rolling_out and self._is_seen(row):
            # The rollout may be stuck because of this pod, which serves no traffic on its node.
            assert isinstance(found, ImpossibleHandover)
            return HandoverChoice(Handover.EVICT, f"{found.detail}, and this pod fails")
        if self.urgent and isinstance(found, HandoverChoice) and (revision := self.other_revision(row)):
            return _with_other_revision(found, self.snapshot.pods.records[row], revision)
        return found

    def _is_seen(self, row: int) -> bool:
        """Return whether the controller has observed the newest generation of the workload.

        Writing the attempt ledger of a Deployment is a change, too: it looks like a rollout for a moment.
        """
        record = self.record(row)
        return record is None or record.observed_generation >= record.generation

    def other_revision(self, row: int) -> str:
        """Return the revision that its successor would have, if it differs from its own."""
        pod = self.snapshot.pods.records[row]
        owner = pod.owner
        if owner is None or owner.kind != "StatefulSet":
            return ""
        return revision_of_successor(pod, controller_of(self.snapshot.controllers, pod.namespace, owner))

    def record(self, row: int) -> WorkloadRecord | None:
        """Return the record of its workload, if it is known."""
        index = int(self.snapshot.pods.workload[row])
        return None if index == NO_ROW else self.snapshot.workloads[index].record

    def readiness(self, row: int) -> ReplicaReadiness | None:
        """Return the readiness of all pods of its workload; None if it has no workload."""
        index = int(self.snapshot.pods.workload[row])
        return None if index == NO_ROW else self._workload_readiness.of(index)

    def replicas(self, row: int) -> int:
        """Return how many pods its workload should have; if that is not known, how many there are."""
        index = int(self.snapshot.pods.workload[row])
        if index == NO_ROW:
            return 1
        record = self.snapshot.workloads[index].record
        return record.replicas if record is not None else int(self._pods_of_workloads[index])

    def users_of_claim(self, claim: str) -> int:
        """Return how many pods on nodes mount the claim."""
        return self._users_of_claims[claim]

    @cached_property
    def _users_of_claims(self) -> Counter[str]:
        pods, classes = self.snapshot.pods, self.snapshot.classes
        sizes = np.bincount(pods.pod_class[pods.node != NO_ROW], minlength=len(classes)).tolist()
        found: Counter[str] = Counter()
        for pod_class, size in zip(classes, sizes, strict=True):
            for claim in {volume.name for volume in pod_class.volumes if volume.kind == CLAIM_VOLUME}:
                found[f"{pod_class.namespace}/{claim}"] += size
        return found

    @cached_property
    def _pods_of_workloads(self) -> Ints:
        """Count the pods on nodes, by workload; finished pods don't count."""
        pods = self.snapshot.pods
        known = pods.workload[(pods.workload != NO_ROW) & (pods.node != NO_ROW)]
        return np.bincount(known, minlength=len(self.snapshot.workloads))


@dataclass(slots=True)
class PodCandidate:
    """A pod that may be moved. The fields are plain, because many checks read them for many pods."""

    row: int
    pod: PodRecord
    owner: OwnerReference | None
    pod_class: PodClass
    choice: HandoverChoice | ImpossibleHandover
    """The handover of the pod, or why the pod can't be moved."""
    snapshot: Snapshot
    policy: Policy
    urgent: bool
    context: ProtectionContext

    @property
    def owner_name(self) -> str:
        return f"{self.owner.kind}/{self.owner.name}" if self.owner is not None else ""

    def is_owned_by(self, kind: str) -> bool:
        return self.owner is not None and self.owner.kind == kind

    @property
    def handover(self) -> Handover | None:
        """Return the handover; None if there is no way to move the pod."""
        return self.choice.handover if isinstance(self.choice, HandoverChoice) else None

    def impossible(self, reason: Reason) -> Protection | None:
        """Return the protection if this reason is why there is no handover."""
        choice = self.choice
        if isinstance(choice, ImpossibleHandover) and choice.reason is reason:
            return Protection(choice.detail, choice.by)
        return None


def _with_other_revision(choice: HandoverChoice, pod: PodRecord, revision: str) -> HandoverChoice:
    assert pod.owner is not None
    name = f"StatefulSet {pod.namespace}/{pod.owner.name}"
    return replace(
        choice,
        why=f"{choice.why}, with revision {revision}",
        assumed=f"pods of {name} may come back with revision {revision}, as after any deletion",
    )


ProtectionCheck = Callable[[PodCandidate], Protection | None]
"""Returns None if this check does not protect the pod."""
