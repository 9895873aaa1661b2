"""Failing pods on a real control plane without any webhook: its kube-scheduler asks our extender."""

import contextlib
from collections.abc import AsyncIterator, Iterator

import pytest

from tests.stories.recovery import test_deployments as deployments
from tests.stories.recovery import test_workloads as workloads
from tests.stories.recovery.concurrent_stories import ConcurrentStories, connecting, one_daemon
from tests.stories.recovery.ward import SetWard
from tests.stories.steering.extender_on_control_plane import HOME, Address
from tests.stories.steering.steered import Serving
from tests.testbed import ControlPlane

pytestmark = pytest.mark.control_plane(reason="the same stories run on both kinds in tests/stories/recovery")

STORIES = {
    story.__name__.removeprefix("test_"): story
    for story in (
        deployments.test_a_failing_pod_is_given_another_node_and_forgotten_when_it_runs_well,
        workloads.test_a_stateful_set_s_pod_is_made_anew_away_from_where_it_failed,
        workloads.test_a_pod_that_its_kubelet_gives_up_is_kept_off_from_the_next_one_on,
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
    async def program() -> AsyncIterator[SetWard]:
        async with (
            connecting(extender_control_plane, HOME.namespace, folder) as connect,
            extender_on_control_plane(),
        ):
            await address.until_ready()
            async with one_daemon(connect, HOME.namespace, by_extender=True) as set_ward:
                yield set_ward

    begun = ConcurrentStories(STORIES)
    with begun.running(program):
        yield begun


@pytest.mark.parametrize("name", STORIES)
async def test_story(concurrent_stories: ConcurrentStories, name: str) -> None:
    await concurrent_stories.ended(name)
