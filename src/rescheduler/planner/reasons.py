"""The reasons for which a pod is not moved, with their meanings and remedies."""

from enum import StrEnum
from typing import Final

__all__ = [
    "ALWAYS_PROTECTED",
    "REMEDIES",
    "Reason",
    "meaning_and_remedy",
]


class Reason(StrEnum):
    """Name each reason for programs; `REMEDIES` and the rejections have the text for people."""

    # The pod itself: it is bound to its node, or its state does not allow a move.
    MIRROR_POD = "MirrorPod"
    DAEMON_SET_POD = "DaemonSetPod"
    FINISHED = "Finished"
    TERMINATING = "Terminating"
    UNSCHEDULED = "Unscheduled"
    NODE_UNKNOWN = "NodeUnknown"
    NODE_NOT_SELECTED = "NodeNotSelected"
    ALREADY_MOVING = "AlreadyMoving"
    COOLING_DOWN = "CoolingDown"
    TOO_YOUNG = "TooYoung"
    NOT_SAFE_TO_EVICT = "NotSafeToEvict"
    DO_NOT_DISRUPT = "DoNotDisrupt"
    PREFERS_NO_EVICTION = "PrefersNoEviction"
    EVICTION_HANDLED = "EvictionHandled"
    FAILING = "Failing"
    RECOVERED = "Recovered"

    # The kind of pod.
    OWNER_UNKNOWN = "OwnerUnknown"
    JOB_POD = "JobPod"
    BARE_POD = "BarePod"
    OWN_POD = "OwnPod"
    EXCLUDED_NAMESPACE = "ExcludedNamespace"
    NAMESPACE_NOT_SELECTED = "NamespaceNotSelected"
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

    # How it would be moved.
    HANDOVER_IMPOSSIBLE = "HandoverImpossible"
    ROLLING_OUT = "RollingOut"
    REVISION_PENDING = "RevisionPending"
    UNSTEERED = "Unsteered"
    TOLERATES_CORDON = "ToleratesCordon"
    SURPLUS_WOULD_PREEMPT = "SurplusWouldPreempt"
    COPY_RESTRICTED = "CopyRestricted"
    TOO_FEW_REPLICAS = "TooFewReplicas"
    SIBLING_NOT_READY = "SiblingNotReady"
    SEVERAL_BUDGETS = "SeveralBudgets"
    BUDGET_UNSATISFIABLE = "BudgetUnsatisfiable"
    BUDGET_SPENT = "BudgetSpent"

    # When and how often.
    LIMIT_MALFORMED = "LimitMalformed"
    OUTSIDE_WINDOW = "OutsideWindow"
    HOURLY_LIMIT = "HourlyLimit"

    # Targets and order.
    NO_TARGET = "NoTarget"
    TARGET_UNFIT = "TargetUnfit"
    NO_ORDER = "NoOrder"
    PLAN_FULL = "PlanFull"
    GROUP_INCOMPLETE = "GroupIncomplete"
    GROUP_TOO_LARGE = "GroupTooLarge"
    NAMESPACE_HELD = "NamespaceHeld"
    STRATEGY_FAILED = "StrategyFailed"
    NODE_NOT_REMOVED = "NodeNotRemoved"
    NO_ROOM_TO_MAKE = "NoRoomToMake"
    LEFT_TO_AUTOSCALER = "LeftToAutoscaler"

    # Pods that keep failing on their node.
    GAVE_UP = "GaveUp"
    NODE_LOST = "NodeLost"
    NO_MOVE_NEEDED = "NoMoveNeeded"
    RETRIES_MALFORMED = "RetriesMalformed"
    RECORD_FULL = "RecordFull"

    # Found when a move is validated again before it is executed.
    GONE = "Gone"
    ELSEWHERE = "Elsewhere"


ALWAYS_PROTECTED: Final = frozenset(
    {
        Reason.MIRROR_POD,
        Reason.NOT_SAFE_TO_EVICT,
        Reason.DO_NOT_DISRUPT,
        Reason.EXCLUDED_NAMESPACE,
        Reason.NAMESPACE_NOT_SELECTED,
        Reason.NODE_NOT_SELECTED,
        Reason.SYSTEM_POD,
        Reason.PRIORITY_TOO_HIGH,
        Reason.OPTED_OUT,
        Reason.EXCLUDED_BY_SELECTOR,
    }
)
"""Reasons that don't depend on the handover or on the target: such a pod is never evicted, restarted or
removed without a move either."""

REMEDIES: Final[dict[Reason, tuple[str, str]]] = {
    Reason.MIRROR_POD: (
        "It is a static pod: the kubelet runs it from a file on the node.",
        "Nothing to do: a drain ignores it. To stop it, remove its manifest from the node.",
    ),
    Reason.DAEMON_SET_POD: (
        "Its DaemonSet runs one pod on every matching node.",
        "Nothing to do: a drain ignores it. To keep it off a node, change the DaemonSet's node selector.",
    ),
    Reason.FINISHED: ("It has finished.", "Nothing to do: it no longer uses its node."),
    Reason.TERMINATING: (
        "It, or its workload, is being deleted.",
        "Wait. If the deletion hangs, check the pod's finalizers and the kubelet of its node.",
    ),
    Reason.UNSCHEDULED: (
        "It has no node yet.",
        "See why the scheduler has not placed it: `kubectl describe pod`.",
    ),
    Reason.NODE_UNKNOWN: (
        "It is bound to a node that does not exist.",
        "Wait until the pod is garbage-collected. In a saved cluster, include the nodes.",
    ),
    Reason.NODE_NOT_SELECTED: (
        "`nodeSelector` does not match the labels of its node.",
        "Label the node or change `nodeSelector`; with several profiles, that of one of them.",
    ),
    Reason.ALREADY_MOVING: ("It is being migrated.", "Wait for the migration: `rescheduler migrations`."),
    Reason.COOLING_DOWN: (
        "It was moved recently, or a migration failed recently. In maintenance, only a failure counts.",
        "Wait, or lower `podCooldown`.",
    ),
    Reason.TOO_YOUNG: (
        "It is younger than `minPodAge`, or its readiness changed within that time.",
        "Wait, or lower `minPodAge`.",
    ),
    Reason.NOT_SAFE_TO_EVICT: (
        'It has the annotation `cluster-autoscaler.kubernetes.io/safe-to-evict: "false"`.',
        "Remove the annotation if the pod may be moved.",
    ),
    Reason.DO_NOT_DISRUPT: (
        'It has the annotation `karpenter.sh/do-not-disrupt`: `"true"`, or a time since its start.',
        "Remove the annotation if the pod may be moved, or wait until that time has passed.",
    ),
    Reason.PREFERS_NO_EVICTION: (
        "It has the annotation `descheduler.alpha.kubernetes.io/prefer-no-eviction`.",
        "Nothing to do: maintenance moves it anyway. Remove the annotation if it may move for balance, too.",
    ),
    Reason.EVICTION_HANDLED: (
        "Another component moves it when it is evicted; KubeVirt live-migrates virtual machines like that.",
        "Nothing to do: in maintenance it is evicted. Set `evictionStrategy: LiveMigrate` in the VM.",
    ),
    Reason.FAILING: (
        "It keeps failing on its node; FailedPods handles it.",
        "Wait until it recovers, or see why it fails: `kubectl describe pod`.",
    ),
    Reason.RECOVERED: ("It kept failing on its node and now runs.", "Nothing to do."),
    Reason.OWNER_UNKNOWN: (
        "Its owner does not exist, or is of a kind that the rescheduler does not know.",
        "If the owner replaces evicted pods, set a handover for its kind in `handovers`.",
    ),
    Reason.JOB_POD: (
        "It belongs to a Job; a move would restart its work.",
        "Set `includeJobs` if a restart is acceptable.",
    ),
    Reason.BARE_POD: (
        "It has no controller, and `includeBarePods` is off or its `restartPolicy` is not `Always`.",
        "Set `includeBarePods`, and `restartPolicy: Always` in the pod.",
    ),
    Reason.OWN_POD: (
        "It belongs to the rescheduler, which moves its own pods only in maintenance.",
        "Nothing to do. To move it now, delete it.",
    ),
    Reason.EXCLUDED_NAMESPACE: (
        "Its namespace is excluded.",
        "Remove the namespace from `excludedNamespaces`, or set `maintenanceIncludesSystem` for maintenance.",
    ),
    Reason.NAMESPACE_NOT_SELECTED: (
        "`namespaceSelector` does not match the labels of its namespace, or they are not known.",
        "Label the namespace or change `namespaceSelector`. In a saved cluster, include namespaces.",
    ),
    Reason.SYSTEM_POD: (
        "Its priority class is critical for the cluster.",
        "To move such pods in maintenance, set `maintenanceIncludesSystem`.",
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
    Reason.GATED: ("It has scheduling gates.", "Remove the gates when the pod may run."),
    Reason.RESOURCE_CLAIMS: (
        "It holds device claims, which can't move with it.",
        "Delete the pod yourself when it may release its devices.",
    ),
    Reason.SCHEDULING_GROUP: (
        "The scheduler places it together with a group of pods.",
        "Restart the whole group yourself.",
    ),
    Reason.OTHER_SCHEDULER: (
        "It uses a scheduler that the rescheduler does not know.",
        "If that scheduler follows the default scheduler's rules, add it to `knownSchedulers`.",
    ),
    Reason.NODE_NAME_IN_TEMPLATE: (
        "Its workload's pod template sets `nodeName`, so all of its pods run on that node.",
        "Remove `nodeName` from the template, or use a node selector or node affinity instead.",
    ),
    Reason.LOCAL_STORAGE: (
        "It has data on its node that a move would lose.",
        "Set `includeLocalStorage` if losing that data is acceptable.",
    ),
    Reason.VOLUME_UNKNOWN: (
        "A claim that it uses, or the claim's volume, does not exist.",
        "Create what is missing. In a saved cluster, include claims and volumes.",
    ),
    Reason.CLAIM_SHARED: (
        "Other pods use its claim, which can be attached to one node only.",
        "Move these pods together yourself, or use a ReadWriteMany claim.",
    ),
    Reason.MARKS_IN_TEMPLATE: (
        "Its workload's selector or pod template has labels that migrations set and remove.",
        "Remove the labels `scheduler.alpha.kubernetes.io/migrat…` from the selector and the template.",
    ),
    Reason.HANDOVER_IMPOSSIBLE: (
        "The configured handover is not possible for this pod.",
        "Set `Auto` in `handovers`, or in the annotation `rescheduler.dev/handover` of its workload.",
    ),
    Reason.ROLLING_OUT: (
        "Its workload is rolling out a new version.",
        "Wait for the rollout or undo it, or annotate the workload with `rescheduler.dev/handover: Evict`.",
    ),
    Reason.REVISION_PENDING: (
        "Its StatefulSet would create its successor from another revision, so a move would also update it.",
        "Finish or undo the update. Maintenance moves the pod anyway, as `kubectl drain` does.",
    ),
    Reason.UNSTEERED: (
        "It would be evicted, and nothing keeps its replacement off the same node.",
        "Install the webhook (`rescheduler manifests`), cordon the node, or set `allowUnsteered`.",
    ),
    Reason.TOLERATES_CORDON: (
        "It tolerates the cordon of its node. Without the webhook, its replacement may return there.",
        "Install the webhook and check that it responds, or remove the toleration.",
    ),
    Reason.COPY_RESTRICTED: (
        (
            "It has access to its host, and the admission policies don't let the daemon create such a pod "
            "(`restrictedCopies`)."
        ),
        (
            "Allow it: `kubectl label namespace NAME rescheduler.dev/privileged-copies=true`, "
            "or set `rescheduler.dev/handover: Evict` on the workload."
        ),
    ),
    Reason.SURPLUS_WOULD_PREEMPT: (
        "During the move its ReplicaSet creates an extra pod, which does not fit and would preempt others.",
        "Install the webhook, which prevents that; or set `preemptionPolicy: Never`, or free some room.",
    ),
    Reason.TOO_FEW_REPLICAS: (
        "It would be evicted, and its workload has fewer than `minReplicasForEvict` replicas.",
        "Run more replicas, or lower `minReplicasForEvict`.",
    ),
    Reason.SIBLING_NOT_READY: (
        "It would be evicted while another pod of its workload is not ready.",
        "Fix the pods that are not ready. A pod that is itself not ready can be moved first.",
    ),
    Reason.SEVERAL_BUDGETS: (
        "Several PodDisruptionBudgets cover it; Kubernetes does not evict such pods.",
        "Keep one PodDisruptionBudget per pod.",
    ),
    Reason.BUDGET_UNSATISFIABLE: (
        "Its PodDisruptionBudget requires more healthy pods than there are replicas, even with the copy.",
        "Lower `minAvailable` of the budget, or run more replicas.",
    ),
    Reason.BUDGET_SPENT: (
        "Its PodDisruptionBudget allows no disruption now.",
        "Get its pods ready, relax the budget, or set `moveUnderZeroBudget` for pods that are copied first.",
    ),
    Reason.LIMIT_MALFORMED: (
        "An annotation that limits its moves is malformed, so it is not moved for a better placement.",
        "Correct `rescheduler.dev/windows` or `rescheduler.dev/max-moves-per-hour`, or remove it.",
    ),
    Reason.OUTSIDE_WINDOW: (
        "No window for moves is open now, or none of its workload or namespace.",
        "Wait for the next of the `windows`, or change them or the annotation `rescheduler.dev/windows`.",
    ),
    Reason.HOURLY_LIMIT: (
        "As many moves as allowed have started in the last hour.",
        "Wait, or raise `maxMovesPerHour` or the annotation `rescheduler.dev/max-moves-per-hour`.",
    ),
    Reason.NO_TARGET: (
        "It should move, but no other node can take it.",
        "See which rule excludes each node: `rescheduler explain pod`.",
    ),
    Reason.TARGET_UNFIT: (
        "It does not fit on its target together with the other moves of the plan.",
        "Nothing to do: the next check, or a new plan, looks for another target.",
    ),
    Reason.NO_ORDER: (
        "Its move and the moves that depend on it can't be executed in any order that was found.",
        "Free some room on a node that can take one of these pods temporarily.",
    ),
    Reason.PLAN_FULL: (
        "It should move, but the plan has reached its maximum number of moves.",
        "Wait for the next check, or raise `maxReschedulePods`.",
    ),
    Reason.GROUP_INCOMPLETE: (
        "Its group moves together or not at all, and some members can't move.",
        "See what keeps the other members: `rescheduler explain pod`.",
    ),
    Reason.GROUP_TOO_LARGE: (
        "Its group moves together and is larger than the limit on concurrent moves or on moves per plan.",
        "Raise `maxConcurrentMigrations` and `maxReschedulePods` to at least the size of the group.",
    ),
    Reason.STRATEGY_FAILED: (
        "A strategy of a plugin has raised an exception, or took too long. The other strategies were used.",
        "Report it to the author of the plugin, update it, or remove it from `enabledStrategies`.",
    ),
    Reason.NAMESPACE_HELD: (
        "Too many migrations in its namespace failed in the last 15 minutes, so moves there are paused.",
        "See why they failed (`rescheduler status`), fix the cause and run `rescheduler resume`; or wait.",
    ),
    Reason.NODE_NOT_REMOVED: (
        "No component would remove the node once it is empty, so CostOptimization does not empty it.",
        "Install a node autoscaler, remove what excludes the node, or set `nodeAutoscaler`.",
    ),
    Reason.NO_ROOM_TO_MAKE: (
        "No node gets enough room for it, or for the block of `makeRoom.defragment`, with the allowed moves.",
        "Add a node, raise `makeRoom.maxMoves`, or see what keeps pods in place: `rescheduler plan --for`.",
    ),
    Reason.LEFT_TO_AUTOSCALER: (
        "It can't be scheduled, and a node autoscaler may add a node for it.",
        "Wait, or set `makeRoom.withAutoscaler`.",
    ),
    Reason.GAVE_UP: (
        "It keeps failing and has used all attempts on other nodes that its owner allows.",
        "Fix the cause and roll out the fix, which grants new attempts; or raise `scheduling-retries`.",
    ),
    Reason.NODE_LOST: (
        "It is on a lost node; whether it still runs is unknown.",
        "Delete the node if it will not return, or set `failedPods.forceOnLostNodes`.",
    ),
    Reason.NO_MOVE_NEEDED: (
        "It keeps failing, and is replaced or recreated without a move.",
        "Nothing to do. Follow it with `rescheduler explain pod`.",
    ),
    Reason.RETRIES_MALFORMED: (
        "Its annotation `scheduling-retries` is invalid, so it gets no attempts.",
        'Set a whole number of at least 0, in quotes: `scheduling-retries: "3"`.',
    ),
    Reason.RECORD_FULL: (
        "So many replicas of its workload fail that no more attempts can be recorded.",
        "Fix the workload: its nodes are probably not the cause.",
    ),
    Reason.GONE: ("The pod no longer exists, or another pod has its name.", "Make a new plan."),
    Reason.ELSEWHERE: ("The pod is on a different node than when the plan was made.", "Make a new plan."),
}
"""The meaning of each reason, and the action that the operator can take."""


def meaning_and_remedy(reason: str) -> tuple[str, str]:
    """Return the meaning and the remedy of a reason; both are empty for a reason that is not in the table."""
    return REMEDIES[Reason(reason)] if reason in REMEDIES else ("", "")
