"""Reported usage is served as a metrics server serves it."""

from datetime import UTC, datetime

from kubesim.apiserver.metrics_server import MeasuredUsage, UsageStore

NOW = datetime(2026, 1, 1, 12, 0, 30, tzinfo=UTC)
NODE = {"metadata": {"name": "n-1", "labels": {"zone": "a"}}}
POD = {"metadata": {"name": "web-0", "namespace": "shop", "labels": {"app": "web"}}}


def test_a_node():
    book = UsageStore()
    book.set_node("n-1", MeasuredUsage(cpu_cores=0.25, memory_bytes=3 * 1024 * 1024 + 1), now=NOW)
    assert book.node_metrics(NODE) == {
        "kind": "NodeMetrics",
        "apiVersion": "metrics.k8s.io/v1beta1",
        "metadata": {"name": "n-1", "creationTimestamp": "2026-01-01T12:00:30Z", "labels": {"zone": "a"}},
        "timestamp": "2026-01-01T12:00:30Z",
        "window": "15s",
        "usage": {"cpu": "250000000n", "memory": "3073Ki"},
    }


def test_a_pod_by_its_containers():
    book = UsageStore()
    book.set_pod("shop", "web-0", {"app": MeasuredUsage(1, 1024), "log": MeasuredUsage(0, 0)}, now=NOW)
    metrics = book.pod_metrics(POD)
    assert metrics["metadata"]["namespace"] == "shop"
    assert metrics["containers"] == [
        {"name": "app", "usage": {"cpu": "1000000000n", "memory": "1Ki"}},
        {"name": "log", "usage": {"cpu": "0n", "memory": "0Ki"}},
    ]


def test_nothing_is_known_of_what_was_not_reported():
    book = UsageStore()
    book.set_node("n-1", MeasuredUsage(1, 1), now=NOW)
    book.set_pod("shop", "web-0", {}, now=NOW)
    book.forget_node("n-1")
    book.forget_pod("shop", "web-0")
    assert book.node_metrics(NODE) is None
    assert book.pod_metrics(POD) is None
