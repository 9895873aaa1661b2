"""A snapshot's tables: what is in which column."""

from dataclasses import is_dataclass
from typing import Any

import numpy as np
import pytest

from rescheduler.cluster.snapshot import CPU, EPHEMERAL, MEMORY, NO_ROW, PODS
from rescheduler.cluster.usage_readings import UsageReading
from tests.building import NOW, cluster

MIB = 2**20
GIB = 2**30


def test_rows_are_sorted_by_name_and_key():
    snapshot = cluster().nodes("b", "a").pod("x/b").pod("x/a").pod("w/z").snapshot()
    assert [node.name for node in snapshot.nodes.records] == ["a", "b"]
    assert [pod.key for pod in snapshot.pods.records] == ["w/z", "x/a", "x/b"]
    assert dict(snapshot.nodes.row) == {"a": 0, "b": 1}
    assert dict(snapshot.pods.row) == {"w/z": 0, "x/a": 1, "x/b": 2}


def test_a_key_that_is_not_there_has_no_row():
    row = cluster().pod("x/b").snapshot().pods.row
    assert "x/b" in row
    assert row.get("x/a") is None
    assert row.get("x/c") is None
    with pytest.raises(KeyError):
        row["x/c"]


def test_resources_are_whole_numbers_in_columns_that_begin_alike_everywhere():
    made = cluster().node("a", cpu="3900m", memory="1Gi", pods=7, more={"nvidia.com/gpu": "4"})
    snapshot = made.pod("x/p", on="a", cpu="100m", memory="1Mi", more={"nvidia.com/gpu": "1"}).snapshot()
    assert snapshot.resources == ("cpu", "memory", "ephemeral-storage", "pods", "nvidia.com/gpu")
    assert snapshot.nodes.allocatable.tolist() == [[3900, GIB, 100 * GIB, 7, 4]]
    assert snapshot.pods.requests.tolist() == [[100, MIB, 0, 1, 1]]
    assert (CPU, MEMORY, EPHEMERAL, PODS) == (0, 1, 2, 3)


def test_extended_resources_are_sorted_and_mentioned_by_a_node_or_a_pod():
    made = cluster().node("a", more={"z.example.com/x": "1"})
    snapshot = made.pod("x/p", on="a", more={"a.example.com/x": "2", "hugepages-2Mi": "4Mi"}).snapshot()
    assert snapshot.resources[4:] == ("a.example.com/x", "hugepages-2Mi", "z.example.com/x")
    assert snapshot.nodes.requested[0, 4:].tolist() == [2, 4 * MIB, 0]


def test_a_column_comes_and_goes_with_those_who_mention_it():
    made = cluster().node("a").pod("x/p", on="a").pod("x/q", on="a")
    narrow = made.snapshot()
    wide = made.pod("x/p", on="a", more={"example.com/x": "2"}).snapshot()
    assert wide.resources[4:] == ("example.com/x",)
    assert wide.pods.requests[:, 4].tolist() == [2, 0]
    assert [each.asks[4] for each in wide.classes] == [2, 0]
    assert narrow.pods.requests.shape == (2, 4)
    assert made.pod("x/p", on="a").snapshot().resources[4:] == ()


@pytest.mark.parametrize(
    ("phase", "deleted", "counted"),
    [
        pytest.param("Running", "", True, id="running"),
        pytest.param("Pending", "", True, id="on its node, not started yet"),
        pytest.param("Running", "2026-03-02T12:00:30Z", True, id="terminating: it still holds what it has"),
        pytest.param("Succeeded", "", False, id="succeeded"),
        pytest.param("Failed", "", False, id="failed"),
        pytest.param("Unknown", "", True, id="unknown"),
    ],
)
def test_which_pods_count_on_their_node(phase: str, deleted: str, counted: bool):
    snapshot = cluster().node("a").pod("x/p", on="a", cpu="1", phase=phase, deleted=deleted).snapshot()
    assert snapshot.pods.node.tolist() == [0 if counted else NO_ROW]
    assert snapshot.nodes.requested[0, CPU] == (1000 if counted else 0)
    assert snapshot.nodes.requested[0, PODS] == counted
    assert snapshot.pods.on(0).tolist() == ([0] if counted else [])


def test_a_pod_without_node_counts_nowhere():
    snapshot = cluster().node("a").pod("x/p").snapshot()
    assert snapshot.pods.node.tolist() == [NO_ROW]
    assert snapshot.assumptions == ()


def test_pods_on_unknown_nodes_count_nowhere_and_are_reported():
    made = cluster().node("a").pod("x/p", on="gone").pod("x/done", on="gone", phase="Failed")
    snapshot = made.snapshot(assumptions=["there are no budgets"])
    assert snapshot.pods.node.tolist() == [NO_ROW, NO_ROW]
    assert snapshot.assumptions == (
        "there are no budgets",
        "1 pod is ignored because their nodes don't exist: x/p on gone",
    )
    for number in range(5):
        made.pod(f"x/p{number}", on="gone")
    (said,) = made.snapshot().assumptions
    assert said == (
        "6 pods are ignored because their nodes don't exist: x/p on gone, x/p0 on gone, x/p1 on gone, …"
    )


def test_pods_of_a_node_stand_together_in_order_of_their_keys():
    made = cluster().nodes("a", "b", "c")
    for key, node in {"x/4": "a", "x/2": "c", "x/3": "c", "x/1": "a"}.items():
        made.pod(key, on=node)
    pods = made.snapshot().pods
    keys = [[pods.records[pod].key for pod in pods.on(node)] for node in range(3)]
    assert keys == [["x/1", "x/4"], [], ["x/2", "x/3"]]


def test_requests_of_a_resized_pod():
    """They follow the status; a new copy requests what the spec says."""
    status = {
        "containerStatuses": [
            {
                "name": "app",
                "allocatedResources": {"cpu": "3"},
                "resources": {"requests": {"cpu": "2"}},
            }
        ]
    }
    snapshot = cluster().node("a").pod("x/p", on="a", cpu="1", status=status).snapshot()
    assert snapshot.pods.requests[0, CPU] == 3000
    assert snapshot.classes[0].asks[CPU] == 1000


def test_requests_of_sidecars_init_containers_and_overhead_as_documented():
    """The scheduler's formula: the larger of what runs and of the dearest start, plus overhead."""

    def container(name: str, cpu: str, **more: str):
        return {"name": name, "resources": {"requests": {"cpu": cpu}}, **more}

    spec = {
        "initContainers": [
            container("mesh", "200m", restartPolicy="Always"),
            container("migrate", "2"),
            container("logs", "100m", restartPolicy="Always"),
        ],
        "containers": [container("app", "1"), container("extra", "500m")],
        "overhead": {"cpu": "250m"},
    }
    snapshot = cluster().node("a").pod("x/p", on="a", spec=spec).snapshot()
    # Running: 1000 + 500 + 200 + 100 = 1800; starting: 200 + 2000 = 2200, which is more.
    assert snapshot.pods.requests[0, CPU] == 2200 + 250
    assert snapshot.classes[0].asks[CPU] == 2200 + 250


def test_requests_of_the_pod_as_a_whole_replace_those_of_its_containers():
    spec = {"resources": {"requests": {"cpu": "3"}}}
    snapshot = cluster().node("a").pod("x/p", on="a", cpu="1", memory="5Mi", spec=spec).snapshot()
    assert snapshot.pods.requests[0, [CPU, MEMORY]].tolist() == [3000, 5 * MIB]


def test_load_is_what_was_measured_and_requests_where_nothing_was():
    made = cluster().node("a").pod("x/p", on="a", cpu="1", memory="10Mi").pod("x/q", on="a", cpu="2")
    snapshot = made.usage("x/p", cpu_millis=77, memory_bytes=5).snapshot()
    assert snapshot.pods.measured.tolist() == [True, False]
    assert snapshot.pods.load[:, CPU].tolist() == [77, 2000]
    assert snapshot.pods.load[0].tolist() == [77, 5, 0, 1]
    assert snapshot.nodes.load[0].tolist() == [2077, 5 + 128 * MIB, 0, 2]
    assert snapshot.nodes.requested[0, CPU] == 3000


def test_nothing_is_used_by_a_pod_that_was_measured_at_nought():
    snapshot = cluster().node("a").pod("x/p", on="a", cpu="1").usage("x/p", cpu_millis=0).snapshot()
    assert snapshot.pods.measured.tolist() == [True]
    assert snapshot.nodes.load[0, CPU] == 0


def test_usage_that_was_measured_before_the_pod_was_made_was_another_s():
    made = cluster().node("a").pod("x/p", on="a", cpu="1", created="2026-03-02T12:00:00Z")
    made.state.apply_usage({"x/p": UsageReading(5, 5, NOW - 1)})
    assert made.state.freeze(NOW).pods.measured.tolist() == [False]
    made.state.apply_usage({"x/p": UsageReading(5, 5, NOW)})
    assert made.state.freeze(NOW).pods.measured.tolist() == [True]


def test_readings_come_before_or_after_their_pods_and_replace_each_other():
    made = cluster().node("a")
    made.state.apply_usage({"x/p": UsageReading(5, 5, NOW), "x/q": UsageReading(6, 6, NOW)})
    made.pod("x/p", on="a").pod("x/q", on="a")
    assert made.state.freeze(NOW).pods.load[:, CPU].tolist() == [5, 6]
    made.state.apply_usage({"x/q": UsageReading(7, 7, NOW)})
    assert made.state.freeze(NOW).pods.measured.tolist() == [False, True]


def test_nodes_are_ready_and_schedulable_or_not():
    snapshot = cluster().node("a").node("b", ready=False).node("c", cordoned=True).snapshot()
    assert snapshot.nodes.ready.tolist() == [True, False, True]
    assert snapshot.nodes.schedulable.tolist() == [True, True, False]


def test_pods_have_priority_readiness_and_age():
    made = cluster().pod("x/a", on="n", priority=-7).pod("x/b", on="n", ready=False, priority=2_000_001_000)
    pods = made.pod("x/c", priority=2**40, created="1970-01-01T00:01:00Z").snapshot().pods
    assert pods.priority.tolist() == [-7, 2_000_001_000, 2**31 - 1]
    assert pods.ready.tolist() == [True, False, False]
    assert pods.created_s[2] == 60


def test_amounts_beyond_reason_neither_break_nor_wrap_around():
    made = cluster().node("a", memory="9E").pod("x/p", on="a", cpu="9E", memory="9E")
    for number in range(100):
        made.pod(f"x/{number}", on="a", memory="9E")
    snapshot = made.snapshot()
    assert (snapshot.nodes.requested >= 0).all()
    assert snapshot.nodes.requested[0, MEMORY] > snapshot.nodes.allocatable[0, MEMORY]


def test_nothing_in_a_snapshot_can_be_written_to():
    snapshot = cluster().node("a").pod("x/p", on="a").snapshot()
    tables = (snapshot.nodes, snapshot.pods, *snapshot.classes)
    columns = [getattr(table, name) for table in tables for name in _names(table)]
    arrays = [column for column in columns if isinstance(column, np.ndarray)]
    assert len(arrays) > 15
    assert not any(array.flags.writeable for array in arrays)


def test_an_empty_cluster_has_empty_tables():
    snapshot = cluster().snapshot()
    assert len(snapshot.nodes) == len(snapshot.pods) == 0
    assert snapshot.nodes.requested.shape == snapshot.pods.requests.shape == (0, 4)
    assert (snapshot.classes, snapshot.workloads, snapshot.assumptions) == ((), (), ())
    assert cluster().node("a").snapshot().nodes.requested.tolist() == [[0, 0, 0, 0]]
    assert cluster().pod("x/p", on="a").snapshot().pods.first_on.tolist() == [0]


def _names(table: Any) -> list[str]:
    return list(table.__dataclass_fields__ if is_dataclass(table) else table.__struct_fields__)
