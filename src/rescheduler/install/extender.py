"""What a kube-scheduler is told so that it asks our extender.

Extenders belong to a scheduler's process, not to one of its profiles: every pod that the process places is
asked about, whatever its `schedulerName`. To have only some pods steered, give them a scheduler of their own.
"""

from enum import StrEnum
from typing import Any, Final

__all__ = ["PROFILE", "Profiles", "scheduler_configuration"]

PROFILE: Final = "rescheduler-scheduler"
"""The `schedulerName` of pods that are to be placed by this profile."""

_DEFAULT_PROFILE: Final = "default-scheduler"
_CA_FILE: Final = "/etc/kubernetes/rescheduler/ca.crt"
_SCORE_WEIGHT: Final = 2
"""Of our ten points, times ten: as much as a preferred node affinity of weight 100 counts, by which the
webhook says the same."""


class Profiles(StrEnum):
    BESIDE = "beside"
    """For the scheduler of the cluster: the default profile stays, ours stands beside it."""
    INSTEAD = "instead"
    """For another scheduler, which places only pods that ask for it by name."""


def scheduler_configuration(
    profiles: Profiles = Profiles.BESIDE,
    *,
    namespace: str = "rescheduler",
    service: str = "rescheduler-webhook",
    ca_file: str = _CA_FILE,
) -> dict[str, Any]:
    names = [PROFILE] if profiles is Profiles.INSTEAD else [_DEFAULT_PROFILE, PROFILE]
    host = f"{service}.{namespace}.svc"
    configuration: dict[str, Any] = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "profiles": [{"schedulerName": name} for name in names],
        "extenders": [
            {
                "urlPrefix": f"https://{host}/extender",
                "filterVerb": "filter",
                "prioritizeVerb": "prioritize",
                "weight": _SCORE_WEIGHT,
                # Without us, or when we take too long, pods are placed as usual.
                "ignorable": True,
                "httpTimeout": "1s",
                "nodeCacheCapable": True,
                "enableHTTPS": True,
                "tlsConfig": {"serverName": host, "caFile": ca_file},
            }
        ],
    }
    if profiles is Profiles.INSTEAD:
        # Two schedulers must not take turns at one Lease.
        configuration["leaderElection"] = {"leaderElect": True, "resourceName": PROFILE}
    return configuration
