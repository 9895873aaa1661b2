"""What is asked of etcd itself, through the JSON gateway on its client port.

Kubernetes serves streaming lists only on an etcd that can report watch progress. On an older one it fails
every watch that starts without a version, because those count as streaming lists too; so there the feature
is turned off, and such watches work as they do on any cluster.
"""

import json

from tests.testbed.readiness import get, post

__all__ = ["compact", "healthy", "reports_watch_progress", "version"]

_PROGRESS_SINCE_3_4, _PROGRESS_SINCE_3_5 = (3, 4, 31), (3, 5, 13)


def healthy(url: str) -> bool:
    answer = get(f"{url}/health")
    return answer is not None and json.loads(answer)["health"] == "true"


def version(url: str) -> tuple[int, ...]:
    answer = get(f"{url}/version")
    if answer is None:
        raise OSError(f"etcd at {url} does not tell its version")
    release = json.loads(answer)["etcdserver"].partition("-")[0]
    return tuple(int(number) for number in release.split("."))


def reports_watch_progress(release: tuple[int, ...]) -> bool:
    if release < (3, 5):
        return release >= _PROGRESS_SINCE_3_4
    return release >= _PROGRESS_SINCE_3_5


def compact(url: str) -> int:
    """Drops all history before now; the revision up to which it is gone."""
    header = post(f"{url}/v3/kv/range", {"key": "AA==", "limit": 1})["header"]
    assert isinstance(header, dict)
    revision = int(header["revision"])
    post(f"{url}/v3/kv/compaction", {"revision": revision, "physical": True})
    return revision
