# ruff: noqa: F811 - fixtures that are imported and asked for by name
"""Recovery on the simulator only, in virtual time; see `tests/stories` for the rest."""

import pytest

from tests.stories.recovery.simulated_wards import set_simulated_ward, steered  # noqa: F401
from tests.unit.migrations.controller.conftest import (  # noqa: F401
    client,
    cluster,
    connect,
    custom_resource_definitions,
    eventually,
    life,
    pytest_asyncio_loop_factories,
    server,
    set_moves,
    simulated_client,
    simulated_cluster,
)


@pytest.fixture
def set_ward(set_simulated_ward):
    return set_simulated_ward
