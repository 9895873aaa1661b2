"""Failing pods on a real control plane without any webhook: its kube-scheduler asks our extender."""

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from tests.e2e.extender.conftest import HOME, Address
from tests.e2e.recovery.playing import Connect, Playing, Story, connecting, playing, story_of
from tests.e2e.recovery.stories import deployments, workloads
from tests.e2e.steering.steered import Serving
from tests.testbed import ControlPlane

pytestmark = pytest.mark.full

STORIES = [
    story
    for play in (
        deployments.test_a_failing_pod_is_given_another_node_and_forgotten_when_it_runs_well,
        workloads.test_a_stateful_set_s_pod_is_made_anew_away_from_where_it_failed,
        workloads.test_a_pod_that_its_kubelet_gives_up_is_kept_off_from_the_next_one_on,
    )
    for story in story_of(play)
]
pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def connect(
    control_plane: ControlPlane, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[Connect]:
    async with connecting(control_plane, HOME.namespace, tmp_path_factory.mktemp("accounts")) as made:
        yield made


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def played(
    request: pytest.FixtureRequest, connect: Connect, serving: Serving, address: Address
) -> AsyncIterator[Playing]:
    async with serving():
        await address.until_ready()
        async with playing(request, connect, HOME.namespace, by_extender=True) as begun:
            yield begun


@pytest.mark.parametrize("story", [pytest.param(story, id=story.name) for story in STORIES])
async def test_story(played: Playing, story: Story) -> None:
    await played.ends(story)
