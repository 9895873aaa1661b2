"""Which states of a container mean that it can't run: the same for a pod that fails and for a copy of one.

The kubelet's reasons are in its `pkg/kubelet/images/types.go` and `pkg/kubelet/kuberuntime`. Reasons that are
not listed here, such as CreateContainerConfigError, RunContainerError or PostStartHookError, are errors.
"""

from typing import Final

from rescheduler.cluster.pod_record import ContainerStateWaiting, ContainerStatus

__all__ = ["CRASH_LOOP", "IMAGE_ERRORS", "cant_run_reason", "is_starting", "waiting_error"]

CRASH_LOOP: Final = "CrashLoopBackOff"

_STARTING: Final = frozenset({"", "ContainerCreating", "PodInitializing"})
_SINGLE_PULL_FAILURES: Final = frozenset({"ErrImagePull", "RegistryUnavailable", "SignatureValidationFailed"})
IMAGE_ERRORS: Final = _SINGLE_PULL_FAILURES | {
    "ErrImageNeverPull",
    "ImageInspectError",
    "ImagePullBackOff",
    "InvalidImageName",
}


def is_starting(status: ContainerStatus) -> bool:
    """Return whether the container waits, and nothing is wrong with it so far."""
    return isinstance(status.state, ContainerStateWaiting) and status.state.reason in _STARTING


def waiting_error(status: ContainerStatus) -> str:
    """Return the reason why the container waits, if that is an error; otherwise an empty string."""
    state = status.state
    return state.reason if isinstance(state, ContainerStateWaiting) and not is_starting(status) else ""


def cant_run_reason(status: ContainerStatus) -> str:
    """Return the error because of which the container won't run soon; otherwise an empty string."""
    error = waiting_error(status)
    # If a failed pull is not the last one, ImagePullBackOff follows within seconds.
    return "" if error in _SINGLE_PULL_FAILURES else error
