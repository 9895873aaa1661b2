"""The facts have simpler custom resources than the product, so that they hold whatever the product does."""

import pytest

from rescheduler.kube.api_resources import Object
from tests.stories.facts.podmigrations import definitions
from tests.stories.real_cluster import install_definitions
from tests.testbed import ControlPlane


@pytest.fixture(scope="session")
def custom_resource_definitions() -> list[Object]:
    return definitions()


@pytest.fixture(scope="package")
def control_plane(
    shared_control_plane: ControlPlane, custom_resource_definitions: list[Object]
) -> ControlPlane:
    install_definitions(shared_control_plane, custom_resource_definitions)
    return shared_control_plane
