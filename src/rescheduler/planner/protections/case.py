"""A pod, and what else the questions about it look at."""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from rescheduler.config.policy import Policy
from rescheduler.model.metadata import Owner
from rescheduler.model.plan import Handover
from rescheduler.model.pods import PodRecord
from rescheduler.model.volumes import CLAIM
from rescheduler.model.workloads import WorkloadRecord, controller_of
from rescheduler.planner.budgets import Budgets
from rescheduler.planner.handover import Choice, Handovers, Impossible
from rescheduler.planner.preemption import Preemption
from rescheduler.planner.protections.crews import Crew, Crews
from rescheduler.planner.reasons import Reason
from rescheduler.planner.stateful_sets import revision_of_successor
from rescheduler.snapshot.snapshot import NOWHERE, PodClass, Snapshot

__all__ = ["Because", "Case", "Circumstances", "Question", "Template"]

Flags = npt.NDArray[np.bool_]

Template = tuple[int, int, tuple[Owner, ...] | str]
"""What pods must have in common for the questions about templates to have the same answers."""


class Because(NamedTuple):
    """Why a question is answered with no."""

    detail: str
    by: str = ""


class Circumstances:
    """What is the same for all pods of a snapshot, and what is found out about their workloads."""

    def __init__(
        self,
        snapshot: Snapshot,
        policy: Policy,
        *,
        urgent: bool,
        steered: bool,
        guarded: bool,
        cordoned: Flags,
    ) -> None:
        self.snapshot = snapshot
        self.policy = policy
        self.urgent = urgent
        """Whether the pods have to go: maintenance."""
        self.steered = steered
        """Whether a webhook puts the replacements of evicted pods where they should go."""
        self.guarded = guarded
        """Whether a webhook keeps ReplicaSets from creating a pod while they adopt a copy."""
        self.recovering = False
        """Whether the pods keep failing where they are, and their owners allow them to go elsewhere."""
        self.cordoned = cordoned
        """[node]: where no replacement comes back to; more may be added while a plan is made."""
        self.budgets = Budgets(snapshot)
        self.preemption = Preemption(snapshot)
        self._crews = Crews(snapshot)
        self._handovers = Handovers(snapshot, policy)
        self._choices: dict[Template, Choice | Impossible] = {}

    def case(self, row: int) -> "Case":
        pods = self.snapshot.pods
        pod, shared = pods.records[row], self.snapshot.classes[pods.pod_class[row]]
        choice = self.choice(row)
        return Case(row, pod, pod.owner, shared, choice, self.snapshot, self.policy, self.urgent, self)

    def template(self, row: int) -> Template:
        pods = self.snapshot.pods
        pod = pods.records[row]
        # A bare pod is its own workload: its annotations count like a template's.
        return int(pods.pod_class[row]), id(pod.shape), pod.owners if pod.owner is not None else pod.key

    def choice(self, row: int) -> Choice | Impossible:
        """How it would be moved, and why like that."""
        template = self.template(row)
        found = self._choices.get(template)
        if found is None:
            pods = self.snapshot.pods
            pod, shared = pods.records[row], self.snapshot.classes[pods.pod_class[row]]
            found = self._choices[template] = self._handovers.choose(pod, shared)
        is_rolling_out = isinstance(found, Impossible) and found.reason is Reason.ROLLING_OUT
        if self.recovering and is_rolling_out and self._is_seen(row):
            # Which may well be stuck because of this very pod. It serves nobody where it is.
            assert isinstance(found, Impossible)
            return Choice(Handover.EVICT, f"{found.detail}, and this pod fails")
        if self.urgent and isinstance(found, Choice) and (revision := self.other_revision(row)):
            return _with_other_revision(found, self.snapshot.pods.records[row], revision)
        return found

    def _is_seen(self, row: int) -> bool:
        """Whether its controller has seen the newest state of its workload. Of a Deployment, also our own
        record is a change that it looks at, and a moment later it is no rollout any more."""
        record = self.record(row)
        return record is None or record.observed_generation >= record.generation

    def other_revision(self, row: int) -> str:
        """The revision that its successor would have, if that is another than its own."""
        pod = self.snapshot.pods.records[row]
        owner = pod.owner
        if owner is None or owner.kind != "StatefulSet":
            return ""
        return revision_of_successor(pod, controller_of(self.snapshot.controllers, pod.namespace, owner))

    def record(self, row: int) -> WorkloadRecord | None:
        """Of its workload, as far as it is known."""
        index = int(self.snapshot.pods.workload[row])
        return None if index == NOWHERE else self.snapshot.workloads[index].record

    def crew(self, row: int) -> Crew | None:
        """It and the other pods of its workload, wherever they are; None of a pod that has none."""
        index = int(self.snapshot.pods.workload[row])
        return None if index == NOWHERE else self._crews.of(index)

    def replicas(self, row: int) -> int:
        """How many pods its workload is asked to have; if that is not known, how many there are."""
        index = int(self.snapshot.pods.workload[row])
        if index == NOWHERE:
            return 1
        record = self.snapshot.workloads[index].record
        return record.replicas if record is not None else int(self._pods_of_workloads[index])

    def users_of_claim(self, claim: str) -> int:
        """How many pods on nodes mount it."""
        return self._users_of_claims[claim]

    @cached_property
    def _users_of_claims(self) -> Counter[str]:
        pods, classes = self.snapshot.pods, self.snapshot.classes
        sizes = np.bincount(pods.pod_class[pods.node != NOWHERE], minlength=len(classes)).tolist()
        found: Counter[str] = Counter()
        for shared, size in zip(classes, sizes, strict=True):
            for claim in {volume.name for volume in shared.volumes if volume.kind == CLAIM}:
                found[f"{shared.namespace}/{claim}"] += size
        return found

    @cached_property
    def _pods_of_workloads(self) -> npt.NDArray[np.int64]:
        """Those on nodes: what has finished serves nobody."""
        pods = self.snapshot.pods
        known = pods.workload[(pods.workload != NOWHERE) & (pods.node != NOWHERE)]
        return np.bincount(known, minlength=len(self.snapshot.workloads))


@dataclass(slots=True)
class Case:
    """Plain fields, because each is looked at by many questions about many pods."""

    row: int
    pod: PodRecord
    owner: Owner | None
    shared: PodClass
    choice: Choice | Impossible
    """How it would be moved, if it can be."""
    snapshot: Snapshot
    policy: Policy
    urgent: bool
    around: Circumstances

    @property
    def owner_name(self) -> str:
        return f"{self.owner.kind}/{self.owner.name}" if self.owner is not None else ""

    def is_owned_by(self, kind: str) -> bool:
        return self.owner is not None and self.owner.kind == kind

    @property
    def handover(self) -> Handover | None:
        """None if there is no way to move it."""
        return self.choice.handover if isinstance(self.choice, Choice) else None

    def impossible(self, reason: Reason) -> Because | None:
        """Whether that is why there is none."""
        choice = self.choice
        if isinstance(choice, Impossible) and choice.reason is reason:
            return Because(choice.detail, choice.by)
        return None


def _with_other_revision(choice: Choice, pod: PodRecord, revision: str) -> Choice:
    assert pod.owner is not None
    name = f"StatefulSet {pod.namespace}/{pod.owner.name}"
    return replace(
        choice,
        why=f"{choice.why}, and that will be of revision {revision}",
        assumed=f"pods of {name} may come back with its revision {revision}, as whenever they are deleted",
    )


Question = Callable[[Case], Because | None]
"""Answered with None if the pod may be moved, as far as that is concerned."""
