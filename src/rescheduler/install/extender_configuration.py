"""The configuration of a kube-scheduler that uses our extender.

Extenders belong to a scheduler's process, not to one of its profiles: the extender is called for every pod
that the process schedules, whatever its `schedulerName`. To steer only some pods, run a separate scheduler
for them.
"""

from enum import StrEnum
from typing import Any, Final

from rescheduler.install.object_metadata import EXTENDER_PORT, NAMESPACE, WEBHOOK

__all__ = ["EXTENDER_PROFILE", "SchedulerProfiles", "scheduler_configuration"]

EXTENDER_PROFILE: Final = "rescheduler-scheduler"
"""The `schedulerName` of pods that use this profile."""

_DEFAULT_PROFILE: Final = "default-scheduler"
_FOLDER: Final = "/etc/kubernetes/rescheduler"
_SCORE_WEIGHT: Final = 2
"""Makes our ten points count as much as the preferred node affinity of weight 100 that the webhook adds."""


class SchedulerProfiles(StrEnum):
    BESIDE = "beside"
    """For the scheduler of the cluster: the default profile stays, and ours is added."""
    INSTEAD = "instead"
    """For a second scheduler, which schedules only pods that name it."""


def scheduler_configuration(
    profiles: SchedulerProfiles = SchedulerProfiles.BESIDE,
    *,
    namespace: str = NAMESPACE,
    service: str = WEBHOOK,
    folder: str = _FOLDER,
) -> dict[str, Any]:
    """Return the configuration; `folder` is where the scheduler finds its certificates."""
    names = (
        [EXTENDER_PROFILE] if profiles is SchedulerProfiles.INSTEAD else [_DEFAULT_PROFILE, EXTENDER_PROFILE]
    )
    host = f"{service}.{namespace}.svc"
    configuration: dict[str, Any] = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "profiles": [{"schedulerName": name} for name in names],
        "extenders": [
            {
                "urlPrefix": f"https://{host}:{EXTENDER_PORT}/extender",
                "filterVerb": "filter",
                "prioritizeVerb": "prioritize",
                "weight": _SCORE_WEIGHT,
                # If the extender fails or is slow, pods are scheduled as usual.
                "ignorable": True,
                "httpTimeout": "1s",
                "nodeCacheCapable": True,
                "enableHTTPS": True,
                "tlsConfig": {
                    "serverName": host,
                    "caFile": f"{folder}/ca.crt",
                    "certFile": f"{folder}/client.crt",
                    "keyFile": f"{folder}/client.key",
                },
            }
        ],
    }
    if profiles is SchedulerProfiles.INSTEAD:
        # Two schedulers must not compete for one Lease.
        configuration["leaderElection"] = {"leaderElect": True, "resourceName": EXTENDER_PROFILE}
    return configuration
