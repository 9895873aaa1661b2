"""Requests to etcd itself, through the JSON gateway on its client port.

Kubernetes serves streaming lists only on an etcd that can report watch progress. On an older one it fails
every watch that starts without a version, because those count as streaming lists too; so there the feature
is turned off, and such watches work as they do on any cluster.
"""

import json
from base64 import b64decode, b64encode
from collections.abc import Mapping

from tests.testbed.readiness import get, post

__all__ = ["add", "compact", "healthy", "reports_watch_progress", "stored", "version"]

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


def stored(url: str, key: str) -> bytes:
    """The value of a key; raises KeyError if there is none."""
    found = post(f"{url}/v3/kv/range", {"key": _base64(key.encode())}).get("kvs")
    if not isinstance(found, list):
        raise KeyError(f"etcd at {url} has no {key}")
    return b64decode(found[0]["value"])


def add(url: str, values: Mapping[str, bytes]) -> None:
    """Puts those whose keys are not there yet, all in one step: at most 128, as etcd is set up."""
    post(f"{url}/v3/kv/txn", {"success": [_put_if_new(key, value) for key, value in values.items()]})


def _put_if_new(key: str, value: bytes) -> dict[str, object]:
    encoded = _base64(key.encode())
    absent = {"key": encoded, "target": "VERSION", "version": "0"}
    put = {"request_put": {"key": encoded, "value": _base64(value)}}
    return {"request_txn": {"compare": [absent], "success": [put]}}


def _base64(value: bytes) -> str:
    return b64encode(value).decode()
