"""What every object carries: who owns it, and the annotations that say something to us."""

import msgspec

__all__ = ["MARK_NAMES", "MARK_PREFIXES", "Owner", "is_mark"]

MARK_PREFIXES = (
    "scheduler.alpha.kubernetes.io/",
    "rescheduler.dev/",
    "cluster-autoscaler.kubernetes.io/",
    "karpenter.sh/",
    "kse.com/",
)
MARK_NAMES = frozenset(
    {
        "scheduling-retries",
        "kubernetes.io/config.mirror",
        "controller.kubernetes.io/pod-deletion-cost",
    }
)


def is_mark(annotation: str) -> bool:
    """Records keep these annotations only: the others are for other programs, and can be large."""
    return annotation.startswith(MARK_PREFIXES) or annotation in MARK_NAMES


class Owner(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """An entry of `ownerReferences`."""

    kind: str = ""
    name: str = ""
    uid: str = ""
    api_version: str = ""
    controller: bool = False
