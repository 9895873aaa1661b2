"""The stories on a real control plane: the webhook is called by its API server."""

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from tests.e2e.recovery.conftest import HOME
from tests.e2e.recovery.playing import Connect, Playing, Story, playing, stories_in
from tests.e2e.recovery.stories import circumstances, deployments, workloads

STORIES = list(stories_in(deployments, workloads, circumstances))
pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def played(
    request: pytest.FixtureRequest, shared_connect: Connect, shared_webhook: None
) -> AsyncIterator[Playing]:
    async with playing(request, shared_connect, HOME) as begun:
        yield begun


@pytest.mark.parametrize("story", [pytest.param(story, id=story.name) for story in STORIES])
async def test_story(played: Playing, story: Story) -> None:
    await played.ends(story)
