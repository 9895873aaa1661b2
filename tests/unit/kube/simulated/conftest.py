"""Fixtures for tests on a simulated API server in virtual time."""

from tests.unit.migrations.controller.conftest import (  # noqa: F401
    client,
    connect,
    eventually,
    life,
    pytest_asyncio_loop_factories,
    server,
    simulated_client,
)
