"""The resource requests of a pod, before and while it runs."""

from typing import Any

import pytest

from kubesim.scheduler.pod_resource_requests import held_by, wanted_by

Object = dict[str, Any]


def container(cpu: str = "", **more: Any) -> Object:
    return {"name": "c", "resources": {"requests": {"cpu": cpu} if cpu else {}}, **more}


def sidecar(cpu: str) -> Object:
    return container(cpu, restartPolicy="Always")


def pod(containers: list[Object], init: list[Object] | None = None, **spec: Any) -> Object:
    for number, each in enumerate((*containers, *(init or ()))):
        each["name"] = f"c{number}"
    return {
        "metadata": {"name": "p"},
        "spec": {"containers": containers, "initContainers": init or [], **spec},
    }


@pytest.mark.parametrize(
    ("asked", "cpu"),
    [
        pytest.param(pod([container("1"), container("500m")]), 1500, id="containers run together"),
        pytest.param(pod([container("1")], [container("3"), container("2")]), 3000,
                     id="init containers run one after the other"),
        pytest.param(pod([container("1")], [container("100m")]), 1000, id="and need not be the peak"),
        pytest.param(pod([container("1")], [sidecar("1"), container("3")]), 4000,
                     id="init containers run beside sidecars that began before"),
        pytest.param(pod([container("1")], [container("3"), sidecar("1")]), 3000,
                     id="but not beside those that come after"),
        pytest.param(pod([container("2")], [sidecar("1"), sidecar("1")]), 4000, id="sidecars stay"),
        pytest.param(pod([container("1")], overhead={"cpu": "250m"}), 1250, id="overhead is on top"),
        pytest.param(pod([container("1")], resources={"requests": {"cpu": "3"}}), 3000,
                     id="what the pod asks for as a whole counts instead"),
        pytest.param(pod([container("1")], resources={"requests": {"cpu": "3"}}, overhead={"cpu": "1"}), 4000,
                     id="with the overhead still on top"),
        pytest.param(pod([container("0.0001")]), 1, id="a part of a thousandth is one"),
    ],
)  # fmt: skip
def test_what_a_pod_wants(asked: Object, cpu: int) -> None:
    assert wanted_by(asked)["cpu"] == cpu
    assert held_by(asked)["cpu"] == cpu, "and so it is while it runs, unless it is resized"


def resized(*, allocated: str = "", actual: str = "", reason: str = "") -> Object:
    running = pod([container("1")])
    status: Object = {"name": "c0"}
    if allocated:
        status["allocatedResources"] = {"cpu": allocated}
    if actual:
        status["resources"] = {"requests": {"cpu": actual}}
    running["status"] = {"containerStatuses": [status]}
    if reason:
        running["status"]["conditions"] = [{"type": "PodResizePending", "reason": reason}]
    return running


@pytest.mark.parametrize(
    ("running", "cpu"),
    [
        pytest.param(resized(allocated="2"), 2000, id="a smaller size is not free before it is given up"),
        pytest.param(resized(allocated="500m", actual="500m"), 1000, id="a larger size is taken at once"),
        pytest.param(resized(allocated="500m", actual="3"), 3000, id="what is in use counts"),
        pytest.param(resized(allocated="500m", actual="500m", reason="Deferred"), 1000,
                     id="a resize that waits is still meant"),
        pytest.param(resized(allocated="500m", actual="700m", reason="Infeasible"), 700,
                     id="one that can't be is not"),
        pytest.param(resized(reason="Infeasible"), 0, id="not even if nothing else is known"),
    ],
)  # fmt: skip
def test_what_a_pod_holds_while_it_is_resized(running: Object, cpu: int) -> None:
    assert held_by(running).get("cpu", 0) == cpu


def test_only_what_a_scheduler_counts_is_counted() -> None:
    asked = {
        "cpu": "1",
        "storage": "1Gi",
        "hugepages-2Mi": "4Mi",
        "example.com/gpu": "2",
        "requests.x/y": "1",
    }
    listed = pod([{"resources": {"requests": asked}}])
    assert dict(wanted_by(listed)) == {"cpu": 1000, "hugepages-2Mi": 4 << 20, "example.com/gpu": 2}
