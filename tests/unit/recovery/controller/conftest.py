# ruff: noqa: F811 - fixtures that are imported and asked for by name
"""Recovery on the simulator only, in virtual time; see `tests/stories` for the rest."""

import pytest

from tests.stories.recovery.simulated_recovery import make_simulated_recovery, steered  # noqa: F401
from tests.unit.migrations.controller.conftest import (  # noqa: F401
    client,
    cluster,
    connect,
    custom_resource_definitions,
    eventually,
    life,
    make_moves,
    pytest_asyncio_loop_factories,
    server,
    simulated_client,
    simulated_cluster,
)


@pytest.fixture
def make_recovery(make_simulated_recovery):
    return make_simulated_recovery
