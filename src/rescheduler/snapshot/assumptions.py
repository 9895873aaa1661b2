"""What a snapshot takes for granted, in words."""

from collections.abc import Iterator

import numpy as np

from rescheduler.snapshot.pod_rows import counts
from rescheduler.snapshot.snapshot import NOWHERE, PodTable

__all__ = ["pods_on_unknown_nodes"]

_NAMED = 3


def pods_on_unknown_nodes(pods: PodTable) -> Iterator[str]:
    nowhere = np.flatnonzero(pods.node == NOWHERE).tolist()
    lost = [pod for row in nowhere if counts(pod := pods.records[row])]
    if lost:
        named = ", ".join(f"{pod.key} on {pod.node}" for pod in lost[:_NAMED])
        more = ", …" if len(lost) > _NAMED else ""
        subject = "1 pod is" if len(lost) == 1 else f"{len(lost)} pods are"
        yield f"{subject} left out, being on nodes that are not in the cluster: {named}{more}"
