"""A large cluster: 1,000 nodes and 30,000 pods of realistic size."""

import json
import resource
import time

import pytest

from kubesim import ApiServer

NODES, PODS = 1_000, 30_000
BYTES_PER_POD = 4_400
SECONDS = 30  # "a few" on an idle machine; this one may be busy
PEAK_BYTES = 1.5e9


def node(number):
    return {"kind": "Node", "apiVersion": "v1", "metadata": {"name": f"node-{number:04}"}}


def pod(number):
    container = {
        "name": "app", "image": f"registry.example/app:{number % 50}",
        "resources": {"requests": {"cpu": "250m", "memory": "256Mi"}},
        "env": [{"name": f"SETTING_{i}", "value": f"value-{i}-{number}"} for i in range(40)],
    }  # fmt: skip
    content = {
        "kind": "Pod",
        "apiVersion": "v1",
        "metadata": {
            "name": f"app-{number:05}",
            "namespace": f"team-{number % 40:02}",
            "labels": {"app": f"app-{number % 300}", "tier": "web"},
            "annotations": {"filler": ""},
        },
        "spec": {"nodeName": f"node-{number % NODES:04}", "containers": [container]},
        "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]},
    }
    missing = BYTES_PER_POD - len(json.dumps(content, separators=(",", ":")))
    content["metadata"]["annotations"]["filler"] = "x" * missing
    return content


def peak_bytes():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


@pytest.mark.size
async def test_a_large_cluster_loads_and_lists_in_a_few_seconds(record_property):
    server = ApiServer(history_limit=1_000)
    before_bytes, start = peak_bytes(), time.perf_counter()
    server.load(item for make, count in ((node, NODES), (pod, PODS)) for item in map(make, range(count)))
    loaded = time.perf_counter()
    answer = await server.handle("GET", "/api/v1/pods", {}, b"")
    size = sum([len(chunk) async for chunk in answer.chunks])
    listed = time.perf_counter()
    pages, token = 0, ""
    while True:
        answer = await server.handle("GET", f"/api/v1/pods?limit=500&continue={token}", {}, b"")
        page = json.loads(b"".join([chunk async for chunk in answer.chunks]))
        pages += 1
        token = page["metadata"].get("continue", "")
        if not token:
            break
    answer = await server.handle("GET", "/api/v1/pods?fieldSelector=spec.nodeName%3Dnode-0007", {}, b"")
    on_node = json.loads(b"".join([chunk async for chunk in answer.chunks]))["items"]
    used_bytes = peak_bytes() - before_bytes
    for name, value in (
        ("load_s", loaded - start),
        ("list_s", listed - loaded),
        ("list_bytes", size),
        ("peak_bytes", used_bytes),
    ):
        record_property(name, value)
        print(f"{name}: {value:,.2f}")
    assert size > PODS * BYTES_PER_POD
    assert pages == PODS // 500
    assert len(on_node) == PODS // NODES
    assert listed - start < SECONDS
    assert used_bytes < PEAK_BYTES
