"""Failing pods on a real control plane without any webhook: its kube-scheduler asks our extender."""

import contextlib
from collections.abc import AsyncIterator, Iterator

import pytest

from tests.stories.recovery import test_deployments as deployments
from tests.stories.recovery import test_workloads as workloads
from tests.stories.recovery.concurrent_stories import ConcurrentStories, connecting, one_daemon
from tests.stories.recovery.recovery_sandbox import MakeRecovery
from tests.stories.steering.extender_on_control_plane import HOME, Address
from tests.stories.steering.steered import Serving
from tests.testbed import ControlPlane

pytestmark = pytest.mark.control_plane(reason="the same stories run on both kinds in tests/stories/recovery")

STORIES = {
    story.__name__.removeprefix("test_"): story
    for story in (
        deployments.test_failing_pod_gets_another_node,
        workloads.test_stateful_set_pod_gets_another_node,
        workloads.test_pod_evicted_by_its_kubelet,
    )
}


@pytest.fixture(scope="module")
def concurrent_stories(
    extender_control_plane: ControlPlane,
    extender_on_control_plane: Serving,
    address: Address,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[ConcurrentStories]:
    folder = tmp_path_factory.mktemp("accounts")

    @contextlib.asynccontextmanager
    async def program() -> AsyncIterator[MakeRecovery]:
        async with (
            connecting(extender_control_plane, HOME.namespace, folder) as connect,
            extender_on_control_plane(),
        ):
            await address.until_ready()
            async with one_daemon(connect, HOME.namespace, by_extender=True) as make_recovery:
                yield make_recovery

    begun = ConcurrentStories(STORIES)
    with begun.running(program):
        yield begun


@pytest.mark.parametrize("name", STORIES)
async def test_story(concurrent_stories: ConcurrentStories, name: str) -> None:
    await concurrent_stories.ended(name)
