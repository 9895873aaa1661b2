"""What a pod counts for: the rules of Kubernetes, one by one."""

from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubevalues.quantity import Quantity, parse_quantity
from rescheduler.cluster.resource_amounts import (
    ContainerResourceSpec,
    GrantedResources,
    PodResourceSpec,
    Resources,
    is_scalar_resource,
    pod_requests,
    resources_of,
)


def amounts(**texts: str) -> dict[str, Quantity]:
    return {name.replace("_", "-"): parse_quantity(text) for name, text in texts.items()}


def container(cpu: str, name: str = "app") -> ContainerResourceSpec:
    return ContainerResourceSpec(name, amounts(cpu=cpu))


def sidecar(cpu: str, name: str = "sidecar") -> ContainerResourceSpec:
    return ContainerResourceSpec(name, amounts(cpu=cpu), is_sidecar=True)


def pod(
    *containers: ContainerResourceSpec,
    init: tuple[ContainerResourceSpec, ...] = (),
    **more: Mapping[str, Quantity],
):
    return PodResourceSpec(containers, init, **more)


@pytest.mark.parametrize(
    ("asking", "cpu_millis"),
    [
        pytest.param(pod(), 0, id="nothing asks for nothing"),
        pytest.param(pod(container("1"), container("500m")), 1500, id="containers add up"),
        pytest.param(
            pod(container("1"), init=(container("3"), container("2"))), 3000, id="the largest init container"
        ),
        pytest.param(
            pod(container("1"), container("3"), init=(container("2"),)),
            4000,
            id="containers if they are more",
        ),
        pytest.param(pod(container("1"), init=(sidecar("2"),)), 3000, id="a sidecar adds to the containers"),
        pytest.param(
            pod(container("1"), init=(sidecar("2"), container("5"))),
            7000,
            id="a sidecar adds to later init containers",
        ),
        pytest.param(
            pod(container("1"), init=(container("5"), sidecar("2"))), 5000, id="but not to earlier ones"
        ),
        pytest.param(
            pod(container("1"), init=(sidecar("1"), sidecar("2", "s2"), container("4"))),
            7000,
            id="sidecars add up",
        ),
        pytest.param(pod(container("1"), overhead=amounts(cpu="250m")), 1250, id="overhead comes on top"),
        pytest.param(
            pod(container("1"), init=(container("4"),), overhead=amounts(cpu="1")),
            5000,
            id="on top of init containers too",
        ),
        pytest.param(
            pod(container("1"), pod_level=amounts(cpu="3")), 3000, id="the pod's own request counts instead"
        ),
        pytest.param(pod(container("5"), pod_level=amounts(cpu="3")), 3000, id="even if it is smaller"),
        pytest.param(
            pod(container("1"), pod_level=amounts(cpu="3"), overhead=amounts(cpu="1")),
            4000,
            id="overhead on top of it",
        ),
        pytest.param(
            pod(container("100u"), container("100u")), 1, id="sums are exact, and rounded up at the end"
        ),
    ],
)
def test_a_new_pod(asking: PodResourceSpec, cpu_millis: int):
    assert pod_requests(asking).cpu_millis == cpu_millis


def test_the_pod_s_own_requests_replace_cpu_memory_and_huge_pages_only():
    asking = PodResourceSpec(
        (ContainerResourceSpec("app", amounts(cpu="1", memory="1Gi", ephemeral_storage="1Gi")),),
        pod_level=amounts(cpu="2", ephemeral_storage="5Gi") | {"hugepages-2Mi": parse_quantity("4Mi")},
    )
    assert pod_requests(asking) == Resources(
        cpu_millis=2000,
        memory_bytes=2**30,
        ephemeral_bytes=2**30,
        extended=(("hugepages-2Mi", 4 * 2**20),),
    )


def granted(allocated: str | None = None, actual: str | None = None) -> GrantedResources:
    return GrantedResources(
        None if allocated is None else amounts(cpu=allocated), None if actual is None else amounts(cpu=actual)
    )


@pytest.mark.parametrize(
    ("status", "infeasible", "cpu_millis"),
    [
        pytest.param({}, False, 1000, id="no status: the spec"),
        pytest.param({"app": granted("1", "1")}, False, 1000, id="nothing is being resized"),
        pytest.param({"app": granted("3", "1")}, False, 3000, id="shrinking: what is allocated still counts"),
        pytest.param({"app": granted("500m", "2")}, False, 2000, id="what is really in effect counts"),
        pytest.param({"app": granted("500m", "500m")}, False, 1000, id="growing: the spec counts already"),
        pytest.param({"app": granted("500m", "400m")}, True, 500, id="unless its node can never grant it"),
        pytest.param(
            {"app": granted("500m")}, True, 500, id="what is in effect defaults to what is allocated"
        ),
        pytest.param({}, True, 0, id="never granted and nothing reported"),
        pytest.param({"other": granted("9", "9")}, False, 1000, id="of a container that isn't in the spec"),
    ],
)
def test_a_running_pod(status: dict[str, GrantedResources], infeasible: bool, cpu_millis: int):
    assert pod_requests(pod(container("1")), status, resize_infeasible=infeasible).cpu_millis == cpu_millis


def test_a_resized_sidecar_counts_as_a_sidecar():
    asking = pod(container("1"), init=(sidecar("1"), container("4", "setup")))
    assert pod_requests(asking, {"sidecar": granted("3", "3")}).cpu_millis == 7000


def test_sums_that_the_kubelet_reports_count_instead_of_those_of_the_containers():
    reported = GrantedResources(amounts(cpu="6"), amounts(cpu="5"))
    found = pod_requests(pod(container("1")), {"app": granted("9", "9")}, pod_granted=reported)
    assert found.cpu_millis == 6000


@pytest.mark.parametrize(
    ("reported", "infeasible", "cpu_millis"),
    [
        pytest.param(
            GrantedResources(amounts(cpu="3"), amounts(cpu="4")), False, 4000, id="the largest of the three"
        ),
        pytest.param(
            GrantedResources(amounts(cpu="1"), amounts(cpu="1")), False, 2000, id="the spec if it is larger"
        ),
        pytest.param(
            GrantedResources(amounts(cpu="1"), amounts(cpu="1")),
            True,
            1000,
            id="but not if it can't be granted",
        ),
        pytest.param(
            GrantedResources(amounts(cpu="3"), None), False, 2000, id="only allocated, no resources: the spec"
        ),
        pytest.param(GrantedResources(amounts(cpu="3"), {}), False, 3000, id="resources without requests"),
    ],
)
def test_requests_of_the_pod_as_a_whole_while_it_is_resized(
    reported: GrantedResources, infeasible: bool, cpu_millis: int
):
    asking = pod(container("500m"), pod_level=amounts(cpu="2"))
    assert (
        pod_requests(asking, {}, pod_granted=reported, resize_infeasible=infeasible).cpu_millis == cpu_millis
    )


def test_rounding_is_up_and_unknown_resources_are_ignored():
    found = resources_of(
        amounts(cpu="0.0001", memory="0.5", pods="110")
        | {"storage": Quantity(1), "example.com/gpu": Quantity(10**9)}
    )
    assert found == Resources(1, 1, 0, 110, (("example.com/gpu", 1),))


@pytest.mark.parametrize(
    ("name", "counted"),
    [
        ("example.com/gpu", True),
        ("hugepages-1Gi", True),
        ("attachable-volumes-csi-x", True),
        ("kubernetes.io/batch-cpu", True),
        ("requests.example.com/gpu", False),
        ("storage", False),
        ("cpu", False),
    ],
)
def test_resources_that_the_scheduler_counts_by_name(name: str, counted: bool):
    assert is_scalar_resource(name) is counted


cpus = st.integers(0, 10_000).map(lambda millis: Quantity(millis * 10**6))
containers = st.builds(
    ContainerResourceSpec, st.sampled_from("abcd"), st.fixed_dictionaries({"cpu": cpus}), st.booleans()
)
asking_pods = st.builds(
    PodResourceSpec, st.lists(containers, max_size=4).map(tuple), st.lists(containers, max_size=4).map(tuple)
)


@given(asking_pods)
def test_it_never_counts_for_less_than_it_uses_at_any_moment(asking: PodResourceSpec):
    """Init containers run one after the other, then all containers together."""
    found = pod_requests(asking).cpu_millis
    staying = 0
    for each in asking.init_containers:
        assert found >= staying + each.requests["cpu"].millis
        staying += each.requests["cpu"].millis if each.is_sidecar else 0
    assert found >= staying + sum(each.requests["cpu"].millis for each in asking.containers)


@given(asking_pods)
def test_a_status_that_says_nothing_changes_nothing(asking: PodResourceSpec):
    assert pod_requests(asking, {}) == pod_requests(asking)
