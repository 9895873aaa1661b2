"""What a kube-scheduler is told so that it asks our extender.

Extenders belong to a scheduler's process, not to one of its profiles: every pod that the process places is
asked about, whatever its `schedulerName`. To have only some pods steered, give them a scheduler of their own.
"""

from enum import StrEnum
from typing import Any, Final

from rescheduler.install.object_metadata import EXTENDER_PORT, NAMESPACE, WEBHOOK

__all__ = ["EXTENDER_PROFILE", "SchedulerProfiles", "scheduler_configuration"]

EXTENDER_PROFILE: Final = "rescheduler-scheduler"
"""The `schedulerName` of pods that are to be placed by this profile."""

_DEFAULT_PROFILE: Final = "default-scheduler"
_FOLDER: Final = "/etc/kubernetes/rescheduler"
_SCORE_WEIGHT: Final = 2
"""Of our ten points, times ten: as much as a preferred node affinity of weight 100 counts, by which the
webhook says the same."""


class SchedulerProfiles(StrEnum):
    BESIDE = "beside"
    """For the scheduler of the cluster: the default profile stays, ours stands beside it."""
    INSTEAD = "instead"
    """For another scheduler, which places only pods that ask for it by name."""


def scheduler_configuration(
    profiles: SchedulerProfiles = SchedulerProfiles.BESIDE,
    *,
    namespace: str = NAMESPACE,
    service: str = WEBHOOK,
    folder: str = _FOLDER,
) -> dict[str, Any]:
    """`folder` is where the scheduler finds the certificates that it is given."""
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
                # Without us, or when we take too long, pods are placed as usual.
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
        # Two schedulers must not take turns at one Lease.
        configuration["leaderElection"] = {"leaderElect": True, "resourceName": EXTENDER_PROFILE}
    return configuration
