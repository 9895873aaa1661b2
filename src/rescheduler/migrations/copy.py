"""Copy: a pod without a controller is made anew on the target, and then the original is evicted."""

from rescheduler.migrations.copies import creating, marking, placing, settling, starting
from rescheduler.migrations.evicting import evicting_beside_copy
from rescheduler.migrations.releasing import releasing
from rescheduler.migrations.steps import Step

__all__ = ["LOOKS"]

LOOKS = {
    Step.MARKING: marking,
    Step.CREATING: creating,
    Step.PLACING: placing,
    Step.STARTING: starting,
    Step.SETTLING: settling,
    Step.EVICTING: evicting_beside_copy,
    Step.RELEASING: releasing,
}
