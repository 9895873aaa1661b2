"""Why a pod stays where it is, and what to do about it: one table for `explain`, the page and metrics."""

from enum import StrEnum
from typing import Final

__all__ = [
    "REMEDIES",
    "Reason",
    "meaning_and_remedy",
]


class Reason(StrEnum):
    """What programs compare. The words for people stand beside it in `REMEDIES`, and in each rejection."""

    # The pod by itself: it belongs to its node, or is in a state in which it can't be moved.
    MIRROR_POD = "MirrorPod"
    DAEMON_SET_POD = "DaemonSetPod"
    FINISHED = "Finished"
    TERMINATING = "Terminating"
    UNSCHEDULED = "Unscheduled"
    NODE_UNKNOWN = "NodeUnknown"
    ALREADY_MOVING = "AlreadyMoving"
    COOLING_DOWN = "CoolingDown"
    TOO_YOUNG = "TooYoung"
    NOT_SAFE_TO_EVICT = "NotSafeToEvict"
    DO_NOT_DISRUPT = "DoNotDisrupt"
    FAILING = "Failing"
    RECOVERED = "Recovered"

    # What kind of pod it is.
    OWNER_UNKNOWN = "OwnerUnknown"
    JOB_POD = "JobPod"
    BARE_POD = "BarePod"
    OWN_POD = "OwnPod"
    EXCLUDED_NAMESPACE = "ExcludedNamespace"
    SYSTEM_POD = "SystemPod"
    PRIORITY_TOO_HIGH = "PriorityTooHigh"
    OPTED_OUT = "OptedOut"
    EXCLUDED_BY_SELECTOR = "ExcludedBySelector"
    GATED = "Gated"
    RESOURCE_CLAIMS = "ResourceClaims"
    SCHEDULING_GROUP = "SchedulingGroup"
    OTHER_SCHEDULER = "OtherScheduler"
    NODE_NAME_IN_TEMPLATE = "NodeNameInTemplate"
    LOCAL_STORAGE = "LocalStorage"
    VOLUME_UNKNOWN = "VolumeUnknown"
    CLAIM_SHARED = "ClaimShared"
    MARKS_IN_TEMPLATE = "MarksInTemplate"

    # How it could be moved.
    HANDOVER_IMPOSSIBLE = "HandoverImpossible"
    ROLLING_OUT = "RollingOut"
    REVISION_PENDING = "RevisionPending"
    UNSTEERED = "Unsteered"
    TOLERATES_CORDON = "ToleratesCordon"
    SURPLUS_WOULD_PREEMPT = "SurplusWouldPreempt"
    TOO_FEW_REPLICAS = "TooFewReplicas"
    SIBLING_NOT_READY = "SiblingNotReady"
    SEVERAL_BUDGETS = "SeveralBudgets"
    BUDGET_SPENT = "BudgetSpent"

    # Whether there is a place, and an order.
    NO_TARGET = "NoTarget"
    TARGET_UNFIT = "TargetUnfit"
    NO_ORDER = "NoOrder"
    PLAN_FULL = "PlanFull"
    GROUP_INCOMPLETE = "GroupIncomplete"
    GROUP_TOO_LARGE = "GroupTooLarge"
    OUTSIDE_WINDOW = "OutsideWindow"
    NAMESPACE_HELD = "NamespaceHeld"

    # Pods that keep failing where they are.
    GAVE_UP = "GaveUp"
    NODE_LOST = "NodeLost"
    NO_MOVE_NEEDED = "NoMoveNeeded"
    RETRIES_MALFORMED = "RetriesMalformed"
    RECORD_FULL = "RecordFull"

    # Found when a plan is checked again, before it is executed.
    GONE = "Gone"
    ELSEWHERE = "Elsewhere"


REMEDIES: Final[dict[Reason, tuple[str, str]]] = {
    Reason.MIRROR_POD: (
        "A static pod: the kubelet runs it from a file on the node, and the API server only shows it.",
        "Nothing to do: a drain leaves it. To stop it, remove its file from the kubelet's directory.",
    ),
    Reason.DAEMON_SET_POD: (
        "Its DaemonSet runs one pod on every node that matches.",
        "Nothing to do: a drain leaves it. To keep it off a node, change the DaemonSet's selector.",
    ),
    Reason.FINISHED: ("It has run to its end.", "Nothing to do: it uses no node any more."),
    Reason.TERMINATING: (
        "It is being deleted already, or its workload is.",
        "Wait. If it never ends, look at its finalizers and at the kubelet of its node.",
    ),
    Reason.UNSCHEDULED: (
        "It has no node yet.",
        "See what the scheduler says about it: `kubectl describe pod`.",
    ),
    Reason.NODE_UNKNOWN: (
        "It is bound to a node that is not in the cluster.",
        "Wait until the pod is garbage-collected, or save the cluster with its nodes.",
    ),
    Reason.ALREADY_MOVING: ("A migration of it is under way.", "Wait for it: `rescheduler migrations`."),
    Reason.COOLING_DOWN: (
        "It was moved not long ago, or that was tried; in maintenance, only if that failed.",
        "Wait, or lower `podCooldown`.",
    ),
    Reason.TOO_YOUNG: ("It has not run for long.", "Wait, or lower `minPodAge`."),
    Reason.NOT_SAFE_TO_EVICT: (
        'It has the annotation `cluster-autoscaler.kubernetes.io/safe-to-evict: "false"`.',
        "Remove the annotation if the pod may be moved.",
    ),
    Reason.DO_NOT_DISRUPT: (
        'It has the annotation `karpenter.sh/do-not-disrupt: "true"`.',
        "Remove the annotation if the pod may be moved.",
    ),
    Reason.FAILING: (
        "It keeps failing where it is, and FailedPods sees to it.",
        "Wait until it has recovered, or see why it fails: `kubectl describe pod`.",
    ),
    Reason.RECOVERED: ("It kept failing where it is, and now runs.", "Nothing to do."),
    Reason.OWNER_UNKNOWN: (
        "Its owner is of a kind whose ways we don't know, or can't be found.",
        "Name a handover for that kind in `handovers`, if its controller replaces pods that are evicted.",
    ),
    Reason.JOB_POD: ("It belongs to a Job, and would start anew.", "Set `includeJobs` if that does no harm."),
    Reason.BARE_POD: (
        "It has no controller, and bare pods are left out or it does not restart.",
        "Set `includeBarePods`, and `restartPolicy: Always` in the pod.",
    ),
    Reason.OWN_POD: (
        "It is our own, and moves only in maintenance.",
        "Nothing to do; to move it now, delete it.",
    ),
    Reason.EXCLUDED_NAMESPACE: (
        "Its namespace is excluded.",
        "Take the namespace out of `excludedNamespaces`, or set `maintenanceIncludesSystem` for maintenance.",
    ),
    Reason.SYSTEM_POD: (
        "Its priority class says that the cluster needs it.",
        "Set `maintenanceIncludesSystem` to have maintenance move such pods.",
    ),
    Reason.PRIORITY_TOO_HIGH: ("Its priority is above `maxPriority`.", "Raise `maxPriority`."),
    Reason.OPTED_OUT: (
        'It has the label `scheduler.alpha.kubernetes.io/rescheduling: "disabled"`.',
        "Remove the label if the pod may be moved.",
    ),
    Reason.EXCLUDED_BY_SELECTOR: (
        "`excludedPodSelector` matches it.",
        "Change the selector, or the pod's labels.",
    ),
    Reason.GATED: (
        "It has scheduling gates: somebody holds it back.",
        "Remove the gates when it may run.",
    ),
    Reason.RESOURCE_CLAIMS: (
        "It holds claims to devices, which can't follow it.",
        "Delete it by hand when its devices may be given up.",
    ),
    Reason.SCHEDULING_GROUP: (
        "The scheduler places it together with others, as one.",
        "Restart the whole group by hand.",
    ),
    Reason.OTHER_SCHEDULER: (
        "A scheduler places it whose rules we don't know.",
        "Name it in `knownSchedulers`, if it follows the rules of the default scheduler.",
    ),
    Reason.NODE_NAME_IN_TEMPLATE: (
        "Its workload's pod template sets `nodeName`: no scheduler places its pods, and all run there.",
        "Remove `nodeName` from the template, or use a node selector or node affinity instead.",
    ),
    Reason.LOCAL_STORAGE: (
        "It has data on its node, which a move would lose.",
        "Set `includeLocalStorage` if that data may be lost.",
    ),
    Reason.VOLUME_UNKNOWN: (
        "A claim that it uses, or the volume behind it, can't be found.",
        "Save the cluster with its claims and volumes, or create what is missing.",
    ),
    Reason.CLAIM_SHARED: (
        "Other pods use its claim, which can be attached to one node only: it could not start on another.",
        "Move them together by hand, or use a claim that is ReadWriteMany.",
    ),
    Reason.MARKS_IN_TEMPLATE: (
        "Its workload's selector or pod template has labels that a migration sets on pods and removes again.",
        "Remove the labels `scheduler.alpha.kubernetes.io/migrat…` from the selector and the template.",
    ),
    Reason.HANDOVER_IMPOSSIBLE: (
        "The handover that is asked for can't be done with this pod.",
        "Set `Auto` in `handovers`, or in the annotation `rescheduler.dev/handover` of its workload.",
    ),
    Reason.ROLLING_OUT: (
        "Its workload is rolling out a new version, which replaces pods anyway.",
        "Wait until it is done, or undo it; or annotate the workload with `rescheduler.dev/handover: Evict`.",
    ),
    Reason.REVISION_PENDING: (
        "Its StatefulSet would make its successor from another revision: a move would update it on the side.",
        "Finish the update or undo it. Maintenance moves it all the same, as `kubectl drain` would.",
    ),
    Reason.UNSTEERED: (
        "It would have to be evicted, and nothing keeps its replacement off the same node.",
        "Install the webhook (`rescheduler manifests`), cordon the node, or set `allowUnsteered`.",
    ),
    Reason.TOLERATES_CORDON: (
        "It tolerates the cordon of its node: without the webhook, its replacement may return there.",
        "Install the webhook and see that it answers, or remove the toleration.",
    ),
    Reason.SURPLUS_WOULD_PREEMPT: (
        "For a moment its ReplicaSet creates one more pod, which finds no room and would preempt others.",
        "Install the webhook, which prevents that; or set `preemptionPolicy: Never`, or make room.",
    ),
    Reason.TOO_FEW_REPLICAS: (
        "It would have to be evicted, and its workload has too few replicas to go without it.",
        "Run more replicas, or lower `minReplicasForEvict`.",
    ),
    Reason.SIBLING_NOT_READY: (
        "It would have to be evicted while another pod of its workload is not ready.",
        "Get the others ready; a pod that is not ready itself may be moved first.",
    ),
    Reason.SEVERAL_BUDGETS: (
        "Several budgets cover it: Kubernetes evicts no such pod.",
        "Leave one PodDisruptionBudget per pod.",
    ),
    Reason.BUDGET_SPENT: (
        "Its budget allows no disruption now.",
        "Get its pods ready, loosen the budget, or set `moveUnderZeroBudget` where a pod is copied first.",
    ),
    Reason.NO_TARGET: (
        "It should move, and no other node can take it.",
        "See which rule forbids each node: `rescheduler explain pod`.",
    ),
    Reason.TARGET_UNFIT: (
        "It does not fit where it should go, with all other moves of the plan in mind.",
        "Nothing to do: the next check, or a new plan, looks for another place.",
    ),
    Reason.NO_ORDER: (
        "No order was found in which it and the moves that go with it can be made.",
        "Free some room on any node that can take one of these pods for a while.",
    ),
    Reason.PLAN_FULL: (
        "It should move, and the plan has as many moves as it may have.",
        "Wait for the next check, or raise `maxReschedulePods`.",
    ),
    Reason.GROUP_INCOMPLETE: (
        "Its group moves together or not at all, and not all of it can.",
        "See what keeps the other members: `rescheduler explain pod`.",
    ),
    Reason.GROUP_TOO_LARGE: (
        "Its group moves together, and is larger than the number of moves at once or per plan.",
        "Raise `maxConcurrentMigrations` and `maxReschedulePods` to at least the size of the group.",
    ),
    Reason.OUTSIDE_WINDOW: (
        "Moves may not start at this time.",
        "Wait for the next of the `windows`, or change them.",
    ),
    Reason.NAMESPACE_HELD: (
        "Too many migrations of its namespace failed within the last 15 minutes: its pods stay for a while.",
        "See why they failed (`rescheduler status`), fix that, and run `rescheduler resume`; or wait.",
    ),
    Reason.GAVE_UP: (
        "It keeps failing, and has had as many tries on other nodes as its owner allows.",
        "Mend what it fails of and roll that out, which gives it new tries; or raise `scheduling-retries`.",
    ),
    Reason.NODE_LOST: (
        "It is on a lost node, where nobody knows whether it still runs.",
        "Delete the node if it is gone for good, or set `failedPods.forceOnLostNodes`.",
    ),
    Reason.NO_MOVE_NEEDED: (
        "It keeps failing, and is replaced or made anew without a move.",
        "Nothing to do: see what becomes of it with `rescheduler explain pod`.",
    ),
    Reason.RETRIES_MALFORMED: (
        "Its annotation `scheduling-retries` makes no sense, and allows nothing.",
        'Write a whole number from 0 on, in quotes: `scheduling-retries: "3"`.',
    ),
    Reason.RECORD_FULL: (
        "So many replicas of its workload fail that no more tries can be put on record.",
        "Mend the workload: it is hardly the fault of its nodes.",
    ),
    Reason.GONE: (
        "The pod is no longer there, or another one has its name.",
        "Make a new plan.",
    ),
    Reason.ELSEWHERE: (
        "The pod is on another node than when the plan was made.",
        "Make a new plan.",
    ),
}
"""What each means, and its remedy, in words for operators."""


def meaning_and_remedy(reason: str) -> tuple[str, str]:
    """Return the meaning and the remedy of a reason; both are empty for a reason that is not in the table."""
    return REMEDIES[Reason(reason)] if reason in REMEDIES else ("", "")
