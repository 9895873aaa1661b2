"""Build failing pods, as their kubelets report them.

    cluster().pod("shop/x", **crashing(restarts=5))
    cluster().pod("shop/y", **status_of(container(waiting="ErrImagePull"), began_ago_s=600))

Times are given as how long ago they were at `NOW`.
"""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from rescheduler.api.well_known_names import FAILED_ATTEMPTS_ANNOTATION
from rescheduler.recovery.attempt_ledger import AttemptLedger, FailedAttempt, ReplicaLineage
from tests.building import NOW, ClusterBuilder, Json

__all__ = ["ago", "container", "crashing", "failed", "lost", "status_of", "tried_on"]


def ago(seconds: float) -> str:
    return datetime.fromtimestamp(NOW - seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def container(
    name: str = "app",
    *,
    waiting: str = "",
    exit_code: int | None = None,
    last_exit: int | None = None,
    restarts: int = 0,
    ran_s: float = 5,
    ended_ago_s: float = 20,
    reason: str = "",
    ready: bool = False,
) -> Json:
    """Waiting, ended with `exit_code`, or else running; `last_exit` is how the run before this one ended."""

    def ended(code: int) -> Json:
        return {
            "terminated": {
                "exitCode": code,
                "reason": reason or ("Error" if code else "Completed"),
                "startedAt": ago(ended_ago_s + ran_s),
                "finishedAt": ago(ended_ago_s),
            }
        }

    state: Json = {"running": {"startedAt": ago(ended_ago_s)}}
    if waiting:
        state = {"waiting": {"reason": waiting}}
    elif exit_code is not None:
        state = ended(exit_code)
    return {
        "name": name,
        "ready": ready,
        "restartCount": restarts,
        "state": state,
        "lastState": {} if last_exit is None else ended(last_exit),
    }


def status_of(
    *containers: Json,
    inits: Sequence[Json] = (),
    phase: str = "Running",
    reason: str = "",
    began_ago_s: float | None = 3600,
    unready_ago_s: float = 900,
    ready: bool = False,
    sandbox: bool | None = None,
) -> dict[str, Any]:
    """What `pod_object` takes. `sandbox`: whether the kubelet says that it could start containers."""
    conditions = [
        {"type": "PodScheduled", "status": "True", "lastTransitionTime": ago(3600)},
        {
            "type": "Ready",
            "status": "True" if ready else "False",
            "lastTransitionTime": ago(unready_ago_s),
        },
    ]
    if sandbox is not None:
        at = ago(began_ago_s or 0)
        status = "True" if sandbox else "False"
        conditions.append({"type": "PodReadyToStartContainers", "status": status, "lastTransitionTime": at})
    status = {
        "phase": phase,
        "conditions": conditions,
        "containerStatuses": list(containers),
        "initContainerStatuses": list(inits),
        **({"reason": reason} if reason else {}),
        **({} if began_ago_s is None else {"startTime": ago(began_ago_s)}),
    }
    return {"ready": ready, "phase": phase, "pod_status": status}


def crashing(*, restarts: int = 5, **parts: Any) -> dict[str, Any]:
    return status_of(container(waiting="CrashLoopBackOff", last_exit=1, restarts=restarts), **parts)


def failed(*, reason: str = "", ago_s: float = 60, exit_code: int = 1) -> dict[str, Any]:
    """It has ended, and is not started again."""
    ended = container(exit_code=exit_code, ended_ago_s=ago_s)
    return status_of(ended, phase="Failed", reason=reason, unready_ago_s=ago_s)


def lost(*, ago_s: float = 3600, status: str = "Unknown") -> dict[str, Any]:
    """What `node_object` takes for a node that does not answer."""
    ready = {"type": "Ready", "status": status, "lastTransitionTime": ago(ago_s)}
    return {"ready": False, "status": {"conditions": [ready]}}


def tried_on(
    made: ClusterBuilder,
    key: str,
    node: str,
    *,
    on: str,
    ago_s: float = 60,
    is_moved: bool = True,
    **more: Any,
) -> None:
    """A workload that has failed there, by its record and, if it was moved, by its migration."""
    name, uid = key.partition("/")[2], f"{key}-{node}"
    line = ReplicaLineage((FailedAttempt(int(NOW - ago_s), node, uid),), revision="1")
    record = AttemptLedger({name: line}).written(f"uid-of-deployment-{key.replace('/', '-')}")
    made.deployment(
        key, on=[on], annotations={"scheduling-retries": "3", FAILED_ATTEMPTS_ANNOTATION: record}, **more
    )
    if is_moved:
        _moved_away(made, key, node, uid, ago_s)


def _moved_away(made: ClusterBuilder, key: str, node: str, uid: str, ago_s: float) -> None:
    """The migration that moved a failing pod of that workload off the node."""
    (namespace, name), moment = key.split("/"), ago(ago_s)
    made.apply(
        {
            "apiVersion": "rescheduler.dev/v1alpha1",
            "kind": "PodMigration",
            "metadata": {"namespace": namespace, "name": name, "creationTimestamp": moment},
            "spec": {"pod": {"name": name, "uid": uid}, "sourceNode": node, "strategy": "FailedPods"},
            "status": {"phase": "Completed", "startedAt": moment, "finishedAt": moment},
        }
    )
