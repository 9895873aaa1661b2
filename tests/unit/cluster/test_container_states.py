"""Which reasons of a waiting container fail a pod, and which of them end a copy."""

import pytest

from rescheduler.cluster.pod_record import (
    ContainerStateRunning,
    ContainerStateWaiting,
    ContainerStatus,
    cant_run_reason,
    waiting_error,
)


@pytest.mark.parametrize(
    ("reason", "fails_pod", "ends_copy"),
    [
        ("", False, False),
        ("ContainerCreating", False, False),
        ("PodInitializing", False, False),
        ("ErrImagePull", True, False),
        ("RegistryUnavailable", True, False),
        ("SignatureValidationFailed", True, False),
        ("ImagePullBackOff", True, True),
        ("ErrImageNeverPull", True, True),
        ("ImageInspectError", True, True),
        ("InvalidImageName", True, True),
        ("CrashLoopBackOff", True, True),
        ("CreateContainerConfigError", True, True),
        ("CreateContainerError", True, True),
        ("PreCreateHookError", True, True),
        ("PreStartHookError", True, True),
        ("PostStartHookError", True, True),
        ("RunContainerError", True, True),
        ("SomethingNew", True, True),
    ],
)
def test_a_reason_means_the_same_for_pods_and_copies(reason, fails_pod, ends_copy):
    status = ContainerStatus("main", state=ContainerStateWaiting(reason))
    assert waiting_error(status) == (reason if fails_pod else "")
    assert cant_run_reason(status) == (reason if ends_copy else "")


@pytest.mark.parametrize("state", [None, ContainerStateRunning()], ids=["unknown", "running"])
def test_only_waiting_containers_have_a_reason(state):
    status = ContainerStatus("main", state=state)
    assert waiting_error(status) == cant_run_reason(status) == ""
