"""A separate control plane, because a plan reads the whole cluster."""

from collections.abc import Iterator

import pytest

from tests.testbed import ControlPlane
from tests.testbed.options import QUICK


@pytest.fixture(scope="package")
def control_plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    with ControlPlane(tmp_path_factory.mktemp("planning"), QUICK) as started:
        yield started
