"""Whether a Job is over, and why. Pure."""

from datetime import datetime

from rescheduler.simulator.clock import timestamp
from rescheduler.simulator.conditions import condition
from rescheduler.simulator.controllers.jobs.tally import Tally
from rescheduler.simulator.controllers.moments import seconds_since
from rescheduler.simulator.exchange import Object

__all__ = ["is_finished", "judge", "put_condition", "seconds_to_deadline"]


def is_finished(job: Object) -> bool:
    return any(
        (found := condition(job.get("status", {}), type_)) is not None and found["status"] == "True"
        for type_ in ("Complete", "Failed")
    )


def judge(job: Object, tally: Tally, now: datetime) -> tuple[str, str, str] | None:
    """What it comes to (`Complete` or `Failed`), the reason and the message; none while it goes on."""
    spec = job["spec"]
    for target, result in (("FailureTarget", "Failed"), ("SuccessCriteriaMet", "Complete")):
        told = condition(job.get("status", {}), target)
        if told is not None and told["status"] == "True":
            return result, told["reason"], told["message"]
    if tally.all_failed > spec.get("backoffLimit", 6) or _restarted_too_often(job, tally):
        return "Failed", "BackoffLimitExceeded", "Job has reached the specified backoff limit"
    if (left_s := seconds_to_deadline(job, now)) is not None and left_s <= 0:
        return "Failed", "DeadlineExceeded", "Job was active longer than specified deadline"
    return (
        ("Complete", "CompletionsReached", "Reached expected number of succeeded pods")
        if (_is_enough(spec, tally))
        else None
    )


def _is_enough(spec: Object, tally: Tally) -> bool:
    wanted = spec.get("completions")
    if wanted is None:  # a queue of work: when one is done and the others have ended, all is done
        return tally.all_succeeded > 0 and not tally.active
    indexed = spec.get("completionMode") == "Indexed"
    return bool((len(tally.completed) if indexed else tally.all_succeeded) >= wanted)


def _restarted_too_often(job: Object, tally: Tally) -> bool:
    spec = job["spec"]
    if spec["template"]["spec"].get("restartPolicy") != "OnFailure":
        return False
    restarts = sum(
        status.restart_count for pod in tally.active for status in pod.status.container_statuses or ()
    )
    limit = spec.get("backoffLimit", 6)
    return bool(restarts > 0 if limit == 0 else restarts >= limit)


def seconds_to_deadline(job: Object, now: datetime) -> float | None:
    deadline_s, since = job["spec"].get("activeDeadlineSeconds"), job.get("status", {}).get("startTime")
    return None if deadline_s is None or not since else deadline_s - seconds_since(since, now)


def put_condition(status: Object, type_: str, value: str, reason: str, message: str, now: datetime) -> None:
    """Writes into `status`; what is said already is not said again."""
    told = condition(status, type_)
    if told is not None and told["status"] == value:
        return
    new = {
        "type": type_,
        "status": value,
        "lastProbeTime": timestamp(now),
        "lastTransitionTime": timestamp(now),
        "reason": reason,
        "message": message,
    }
    others = [item for item in status.get("conditions") or () if item["type"] != type_]
    status["conditions"] = [*others, new]
