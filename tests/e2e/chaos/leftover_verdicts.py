"""Find leftovers of rescheduler after all migrations have finished."""

from collections import Counter

from tests.e2e.chaos.api_observer import ApiObserver
from tests.e2e.chaos.object_versions import WorkloadState

__all__ = ["leftovers", "unrecovered"]

NOT_COUNTED = {"DaemonSet"}


def leftovers(seen: ApiObserver) -> list[str]:
    return [*_of_migrations(seen), *_on_pods(seen), *_on_others(seen), *_of_bare_pods(seen)]


def unrecovered(seen: ApiObserver) -> list[str]:
    """Workloads that have not exactly the ready pods that they ask for."""
    ready: Counter[str] = Counter()
    there: Counter[str] = Counter()
    for pod in seen.pods.last():
        ready[pod.workload] += pod.serves
        there[pod.workload] += 1
    return [
        f"{each.kind} {each.key}: {ready[each.key]} ready of {there[each.key]}, {each.replicas} wanted"
        for each in seen.workloads.last()
        if _is_counted(each) and not ready[each.key] == there[each.key] == each.replicas
    ]


def _is_counted(workload: WorkloadState) -> bool:
    return workload.kind not in NOT_COUNTED and not workload.is_leaving and not workload.parent


def _of_migrations(seen: ApiObserver) -> list[str]:
    return [
        f"PodMigration {each.key}: {each.phase} {each.step}, finalizer: {each.has_finalizer}"
        for each in seen.migrations.last()
        if not each.is_finished or each.has_finalizer
    ]


def _on_pods(seen: ApiObserver) -> list[str]:
    found = []
    for pod in seen.pods.last():
        if pod.is_migrations:
            found.append(f"pod {pod.key}: owned by a PodMigration")
        if pod.is_gated:
            found.append(f"pod {pod.key}: gated")
        if pod.mark and not pod.is_forged:
            found.append(f"pod {pod.key}: marked as moved by {pod.mark}")
    return found


def _on_others(seen: ApiObserver) -> list[str]:
    return [
        *(f"temporary budget {each.key}" for each in seen.budgets.last() if each.is_temporary),
        *(
            f"node {each.name}: cordoned: {each.is_cordoned}, mark: {each.cordoned_by!r}"
            for each in seen.nodes.last()
            if (each.is_cordoned or each.cordoned_by) and not each.is_forged and not each.in_maintenance
        ),
        *(
            f"{each.kind} {each.key}: {each.annotations}"
            for each in seen.workloads.last()
            # Deployments pass their annotations on to their ReplicaSets, which keep them.
            if each.annotations and not each.parent
        ),
    ]


def _of_bare_pods(seen: ApiObserver) -> list[str]:
    """More than one pod where there was one: a copy that was not removed."""
    bare = Counter(pod.workload for pod in seen.pods.last() if not pod.owners)
    return [f"{workload}: {count} pods instead of one" for workload, count in bare.items() if count > 1]
