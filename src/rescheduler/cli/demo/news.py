"""What happens, in words for people who look on: one line per thing that is worth it."""

from rescheduler.migrations.steps import Step
from rescheduler.model.migrations import Migration, Phase
from rescheduler.model.plan import Handover

__all__ = ["news_of"]


def news_of(before: Migration | None, now: Migration) -> str:
    """Empty if it is not worth a line."""
    spec, status = now.spec, now.status
    was = before.status.step if before is not None else ""
    if status.step == was:
        return ""
    way = f"{now.pod_key}  {spec.source_node} → {now.target_node or '?'}"
    match status.step:
        case Step.MARKING:
            return f"{way}  {spec.strategy}: {spec.reason}"
        case Step.ADOPTING | Step.REPLACING | Step.RELEASING if status.phase is not Phase.FAILED:
            return ""
        case Step.EVICTING if status.handover is not Handover.EVICT:
            return f"{way}  its copy is ready: the pod is evicted"
        case Step.EVICTING:
            return f"{way}  evicted within its budget; its successor is steered"
        case Step.ROLLING_BACK:
            return f"{way}  rolled back: {status.message}"
        case Step.COMPLETED:
            return f"{way}  {'moved' if status.message == 'moved' else f'moved: {status.message}'}"
        case Step.FAILED:
            return f"{way}  not moved: {status.message}"
        case _:
            return ""
