# ruff: noqa: F811 - fixtures that are imported and asked for by name
"""Migrations on the simulator only, in virtual time; see `tests/stories` for the others."""

import pytest

from tests.stories.cluster_kinds import SimulatorLoop
from tests.stories.fixtures import custom_resource_definitions, eventually, make_moves, serve_usage  # noqa: F401
from tests.stories.simulated_cluster import connect, life, server, simulated_client, simulated_cluster  # noqa: F401


def pytest_asyncio_loop_factories(config, item):
    return {"virtual": SimulatorLoop}


@pytest.fixture
def cluster(simulated_cluster):
    return simulated_cluster


@pytest.fixture
def client(simulated_client):
    return simulated_client
